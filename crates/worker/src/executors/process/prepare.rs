//! Making an attempt's folder and starting its runner.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use protocol::attempt::AttemptSpec;
use protocol::folder::{FolderSpec, Local, RunnerRules};
use protocol::link::RefuseReason;
use protocol::state::Caretaker;
use runner::folder_io::{self, FolderError};
use runner::nursery::Nursery;
use thiserror::Error;

use crate::options::WorkerOptions;

/// What a step's environment begins with when the worker itself has none of it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Taken over from the worker's environment where they are set.
const BASE_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// What all attempts of this worker have in common.
#[derive(Debug)]
pub(crate) struct Prepare {
    program: PathBuf,
    nursery: Nursery,
    local: Local,
}

#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot start the runner {program}: {source}")]
    Launch { program: PathBuf, source: io::Error },
}

impl Prepare {
    pub(crate) fn new(options: &WorkerOptions, caretaker: Option<Caretaker>) -> Self {
        let (runner, spool) = (&options.runner, options.spool);
        let local = Local {
            log_lines_max: spool.log_lines,
            log_bytes_max: spool.log_bytes,
            cgroup_parent: runner::cgroup::find_parent(),
            base_env: base_environment(),
            rules: RunnerRules::default(),
            caretaker,
            ends_with_worker: options.no_reconnect,
        };
        let nursery = Nursery::new(&runner.program, &runner.arguments);
        Prepare { program: runner.program.clone(), nursery, local }
    }

    /// Returns the line to a runner that has not said anything yet. Leaves nothing behind when it fails.
    pub(crate) fn prepare(
        &self,
        folder: &Path,
        spec: AttemptSpec,
        rules: RunnerRules,
    ) -> Result<UnixStream, PrepareError> {
        let made = self.make(folder, &FolderSpec::new(spec, Local { rules, ..self.local.clone() }));
        if made.is_err() && !is_taken(&made) {
            let _ = fs::remove_dir_all(folder);
        }
        made
    }

    fn make(&self, folder: &Path, spec: &FolderSpec) -> Result<UnixStream, PrepareError> {
        if let Err(error) = folder_io::create(folder, spec) {
            // Somebody tidied up too much: without the folder of attempts this worker would never run anything again.
            let parent = folder.parent().filter(|parent| !parent.exists()).ok_or(error)?;
            fs::create_dir_all(parent)
                .map_err(|source| FolderError::Io { what: "create the folder of attempts", source })?;
            folder_io::create(folder, spec)?;
        }
        let launched = self.nursery.launch(folder);
        launched.map_err(|source| PrepareError::Launch { program: self.program.clone(), source })
    }
}

impl PrepareError {
    pub(crate) fn reason(&self) -> RefuseReason {
        match self.io().map(io::Error::kind) {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => RefuseReason::DiskFull,
            _ => RefuseReason::Broken,
        }
    }

    fn io(&self) -> Option<&io::Error> {
        match self {
            PrepareError::Folder(FolderError::Io { source, .. }) | PrepareError::Launch { source, .. } => Some(source),
            PrepareError::Folder(_) => None,
        }
    }
}

/// A folder that was there before belongs to somebody else.
fn is_taken(made: &Result<UnixStream, PrepareError>) -> bool {
    let error = made.as_ref().err().and_then(PrepareError::io);
    error.is_some_and(|error| error.kind() == ErrorKind::AlreadyExists)
}

fn base_environment() -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> =
        BASE_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    environment.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
    environment
}
