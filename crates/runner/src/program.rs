//! What exactly is executed: program, arguments, environment, folder. All worked out before the fork.

use std::collections::BTreeMap;
use std::ffi::{CString, NulError};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use protocol::attempt::{Program, StopReason};
use protocol::folder::{FolderSpec, OUTPUT_FILE, WORK_FOLDER};
use protocol::secret::SecretValues;
use thiserror::Error;

/// Where programs are looked for if neither the step nor the worker says.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Tells a cleanup why its step was stopped.
const CLEANUP_REASON: &str = "BOWLINE_CLEANUP_REASON";

/// Ready for exec. Its environment holds the step's secrets: it is printed nowhere.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) folder: CString,
}

#[derive(Debug, Error)]
pub(crate) enum ImageError {
    #[error("the command is empty")]
    EmptyCommand,
    #[error("program `{name}` was not found in PATH ({path}); install it on the worker, or give its full path")]
    NotFound { name: String, path: String },
    #[error("the working folder {} does not exist on this worker; create it, or use a relative one", .0.display())]
    NoWorkdir(PathBuf),
    #[error("the working folder {} is not a folder", .0.display())]
    WorkdirIsFile(PathBuf),
    #[error(
        "the working folder {} leads out of the attempt's own folder; use one without `..`, or an absolute path",
        .0.display()
    )]
    WorkdirOutside(PathBuf),
    #[error("the working folder {} cannot be created: {source}", .path.display())]
    CannotCreate { path: PathBuf, source: io::Error },
    #[error("the script cannot be written: {0}")]
    Script(#[source] io::Error),
    #[error("`{0}` is not a possible name of an environment variable")]
    BadVariable(String),
    #[error("a NUL byte in the command, the environment or the working folder")]
    Nul(#[from] NulError),
}

impl Image {
    /// Works out everything, and writes the script, if it is one, to `file`. `root` is the attempt's folder, absolute.
    pub(crate) fn build(root: &Path, spec: &FolderSpec, program: &Program, file: &str) -> Result<Self, ImageError> {
        let folder = working_folder(root, spec.attempt.workdir.as_deref())?;
        let environment = environment(root, spec)?;
        let arguments = arguments(root, program, file)?;
        let name = arguments.first().filter(|name| !name.is_empty()).ok_or(ImageError::EmptyCommand)?;
        let program = find_program(name, &environment["PATH"], &folder)?;
        Ok(Image {
            program: CString::new(program.as_os_str().as_bytes())?,
            arguments: arguments.into_iter().map(CString::new).collect::<Result<_, _>>()?,
            environment: environment
                .into_iter()
                .map(|(key, value)| CString::new(format!("{key}={value}")))
                .collect::<Result<_, _>>()?,
            folder: CString::new(folder.as_os_str().as_bytes())?,
        })
    }

    /// The same with the word for why the step was stopped.
    pub(crate) fn for_cleanup(&self, reason: StopReason) -> Self {
        let word = if reason == StopReason::Timeout { c"timeout" } else { c"cancelled" };
        let mut image = self.clone();
        let name = [CLEANUP_REASON.as_bytes(), b"="].concat();
        image.environment.retain(|variable| !variable.as_bytes().starts_with(&name));
        let variable = [name.as_slice(), word.to_bytes()].concat();
        image.environment.extend(CString::new(variable).ok());
        image
    }

    /// They win over variables of the same name.
    pub(crate) fn add_secrets(&mut self, secrets: &SecretValues) -> Result<(), ImageError> {
        for (name, value) in secrets {
            let prefix = format!("{name}=");
            self.environment.retain(|variable| !variable.as_bytes().starts_with(prefix.as_bytes()));
            self.environment.push(CString::new(prefix + value.expose())?);
        }
        Ok(())
    }
}

fn working_folder(root: &Path, workdir: Option<&str>) -> Result<PathBuf, ImageError> {
    let wanted = Path::new(workdir.unwrap_or_default());
    if wanted.is_absolute() {
        return match fs::metadata(wanted) {
            Ok(metadata) if metadata.is_dir() => Ok(wanted.to_owned()),
            Ok(_) => Err(ImageError::WorkdirIsFile(wanted.to_owned())),
            Err(_) => Err(ImageError::NoWorkdir(wanted.to_owned())),
        };
    }
    // The server refuses it as well, but not in jobs that were stored by an older one.
    if wanted.components().any(|part| part == Component::ParentDir) {
        return Err(ImageError::WorkdirOutside(wanted.to_owned()));
    }
    let path = root.join(WORK_FOLDER).join(wanted);
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(ImageError::CannotCreate { path, source }),
    }
}

/// Small and clean: the worker's own environment never gets in. Later words win over earlier ones.
fn environment(root: &Path, spec: &FolderSpec) -> Result<BTreeMap<String, String>, ImageError> {
    let attempt = &spec.attempt;
    let mut environment = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
    environment.extend(spec.local.base_env.clone());
    environment.extend(attempt.env.clone());
    let own = [
        ("BOWLINE_JOB_ID", attempt.job.to_string()),
        ("BOWLINE_TASK", attempt.task.clone()),
        ("BOWLINE_STEP", attempt.step.clone()),
        ("BOWLINE_ATTEMPT", attempt.number.to_string()),
        ("BOWLINE_ATTEMPT_ID", attempt.ticket.attempt.to_string()),
        ("BOWLINE_ATTEMPT_DIR", root.to_string_lossy().into_owned()),
        ("BOWLINE_FENCE", attempt.ticket.fence.to_string()),
        ("BOWLINE_OUTPUT", root.join(OUTPUT_FILE).to_string_lossy().into_owned()),
    ];
    environment.extend(own.map(|(key, value)| (key.to_owned(), value)));
    match environment.keys().find(|key| key.is_empty() || key.contains('=')) {
        Some(bad) => Err(ImageError::BadVariable(bad.clone())),
        None => Ok(environment),
    }
}

fn arguments(root: &Path, program: &Program, file: &str) -> Result<Vec<String>, ImageError> {
    match program {
        Program::Command { argv } => Ok(argv.clone()),
        Program::Script { shell, text } => {
            fs::write(file, text).map_err(ImageError::Script)?;
            let mut arguments = shell.clone();
            arguments.push(root.join(file).to_string_lossy().into_owned());
            // A script without a shell would otherwise be executed itself, by whatever the system makes of it.
            if shell.is_empty() { Err(ImageError::EmptyCommand) } else { Ok(arguments) }
        }
    }
}

/// As `execvp` would, but with the step's own PATH and folder, and with an answer that can be explained.
fn find_program(name: &str, path: &str, folder: &Path) -> Result<PathBuf, ImageError> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let found = path.split(':').map(|place| folder.join(place).join(name)).find(|candidate| is_executable(candidate));
    found.ok_or_else(|| ImageError::NotFound { name: name.to_owned(), path: path.to_owned() })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
