//! The task folder: which files are there, which of them changed, and what they hold now.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::Time;

use crate::settings::DefinitionSettings;

use super::diagnostics::{self, to_api};
use super::index::Listing;
use super::known::{KnownTask, Reading};

/// A folder with more task files than this is the wrong folder.
const FILES_MAX: usize = 10_000;

/// Above what a task's text may be, so that its own limit is what people read about.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// A file that was touched so recently may be touched again within the same tick of its clock: it is read again.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Folder {
    path: Option<PathBuf>,
    files: BTreeMap<String, TaskFile>,
    /// So that a lasting trouble is told once.
    troubled: bool,
}

#[derive(Debug)]
struct TaskFile {
    stamp: Stamp,
    settled: bool,
    content: Result<String, String>,
    listing: Listing,
}

/// Changes when the file does, nearly always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Time,
    bytes: u64,
    inode: u64,
}

impl Folder {
    pub(super) fn new(path: Option<PathBuf>) -> Folder {
        Folder { path, ..Folder::default() }
    }

    /// Reads what changed. Returns whether anything did.
    pub(super) fn refresh(&mut self, settings: &DefinitionSettings, now: Time) -> bool {
        let Some(path) = self.path.clone() else { return false };
        let found = match walk(&path) {
            Ok(Some(found)) => {
                self.troubled = false;
                found
            }
            Ok(None) => {
                if !std::mem::replace(&mut self.troubled, true) {
                    tracing::warn!(folder = %path.display(), "there is no task folder; task files are read when it is there");
                }
                BTreeMap::new()
            }
            Err(error) => {
                if !std::mem::replace(&mut self.troubled, true) {
                    tracing::warn!(folder = %path.display(), %error, "the task folder cannot be read; its tasks stay as they are");
                }
                return false;
            }
        };
        let before = self.files.len();
        self.files.retain(|name, file| {
            let stays = found.contains_key(name);
            if !stays {
                tracing::warn!(file = name, task = file.listing.name, "a task file is gone");
            }
            stays
        });
        let mut changed = self.files.len() != before;
        for (name, stamp) in found {
            changed |= self.look_at(&path, name, stamp, settings, now);
        }
        changed
    }

    pub(super) fn listings(&self) -> impl Iterator<Item = Listing> {
        self.files.values().map(|file| file.listing.clone())
    }

    fn look_at(&mut self, folder: &Path, name: String, stamp: Stamp, settings: &DefinitionSettings, now: Time) -> bool {
        let old = self.files.get_mut(&name);
        if old.as_ref().is_some_and(|old| old.stamp == stamp && old.settled) {
            return false;
        }
        let settled = now.since(stamp.modified).max(stamp.modified.since(now)) > SETTLED_AFTER;
        let content = read(&folder.join(&name));
        if let Some(old) = old
            && old.content == content
        {
            (old.stamp, old.settled) = (stamp, settled);
            return false;
        }
        let last_good = self.files.remove(&name).and_then(|file| file.listing.good);
        let listing = listing(&name, &content, last_good, stamp.modified, settings);
        if let Some(problem) = listing.diagnostics.iter().find(|d| d.severity == api::Severity::Error) {
            tracing::warn!(file = name, line = problem.line, problem = problem.message, "a task file has errors");
        }
        self.files.insert(name, TaskFile { stamp, settled, content, listing });
        true
    }
}

/// What a file's new content makes of its task.
fn listing(
    file: &str,
    content: &Result<String, String>,
    last_good: Option<Arc<KnownTask>>,
    updated_at: Time,
    settings: &DefinitionSettings,
) -> Listing {
    let read = match content {
        Ok(source) => {
            KnownTask::read(source, file, settings, Reading::New).map_err(|found| found.iter().map(to_api).collect())
        }
        Err(problem) => {
            let hint = "the last good version, if there was one, stays in use";
            Err(vec![diagnostics::of_file(file, "unreadable", problem.clone(), hint)])
        }
    };
    let (good, diagnostics) = match read {
        Ok(task) => {
            let diagnostics = task.warnings.iter().chain(&task.task.not_supported).map(to_api).collect();
            (Some(task), diagnostics)
        }
        Err(diagnostics) => (last_good, diagnostics),
    };
    // A file that was never good is called what it seems to say, so that whoever waits for the task is told what is wrong.
    let stem = || Path::new(file).file_stem().and_then(OsStr::to_str).unwrap_or(file).to_owned();
    let guess = || content.as_deref().ok().and_then(name_in).map_or_else(stem, str::to_owned);
    let name = good.as_ref().map_or_else(guess, |task| task.name().to_owned());
    Listing { name, file: Some(file.to_owned()), updated_at, good, diagnostics }
}

/// The name in a text that cannot be read as a task.
fn name_in(source: &str) -> Option<&str> {
    let rest = source.lines().find_map(|line| line.strip_prefix("name:"))?;
    let bare = rest.split(" #").next().unwrap_or(rest).trim().trim_matches(['\'', '"']);
    spec::task::is_tag(bare).then_some(bare)
}

/// The folder's task files by name; none if it is not there.
fn walk(folder: &Path) -> io::Result<Option<BTreeMap<String, Stamp>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str).filter(|name| is_task_file(name)) else { continue };
        // Gone since the folder was listed, or a link that leads nowhere: not there.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() {
            found.insert(name.to_owned(), Stamp::of(&metadata));
        }
        if found.len() > FILES_MAX {
            return Err(io::Error::other(format!("it has more than {FILES_MAX} task files")));
        }
    }
    Ok(Some(found))
}

/// Hidden files are drafts of editors.
fn is_task_file(name: &str) -> bool {
    !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Stamp {
        let micros = metadata.mtime().saturating_mul(1_000_000).saturating_add(metadata.mtime_nsec() / 1_000);
        Stamp { modified: Time(micros), bytes: metadata.len(), inode: metadata.ino() }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("the file cannot be read: {error}")),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => Err(format!("the file has more than {FILE_BYTES_MAX} bytes")),
        Ok(_) => String::from_utf8(bytes).map_err(|error| {
            format!("the file is not UTF-8: there is a bad byte after {} good ones", error.utf8_error().valid_up_to())
        }),
    }
}
