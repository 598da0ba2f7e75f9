//! The files of an attempt's folder, as worker and runner both need them. Blocking, without a runtime.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use protocol::attempt::End;
use protocol::folder::{
    CLAIM_LINK, Claim, ExitError, FOLDER_FORMAT, FOLDER_FORMAT_OLDEST, FolderSpec, OUTPUT_BYTES_MAX, Ownership,
    RECORD_BYTES, RECORD_FILE, SPEC_FILE, Tally, decode_exit,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

/// A spec holds a script and an environment; the server's own limits are far below this.
const SPEC_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// No record is larger: outputs at their limit and the rest of an end.
const RECORD_BYTES_MAX: u64 = (OUTPUT_BYTES_MAX + RECORD_BYTES) as u64;

/// Most files here are smaller: one read instead of many.
const READ_HINT: usize = 16 * 1024;

#[derive(Debug, Error)]
pub enum FolderError {
    #[error("cannot {what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("spec.json cannot be understood: {0}")]
    BadSpec(#[source] serde_json::Error),
    #[error("the folder has format {0}, this version knows {FOLDER_FORMAT_OLDEST} to {FOLDER_FORMAT}")]
    UnknownFormat(u32),
    #[error("another runner holds this folder")]
    Locked,
    #[error(transparent)]
    Exit(#[from] ExitError),
}

/// For `map_err`: what was tried when the system said no.
pub(crate) fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { what, source }
}

/// Makes a new attempt folder, readable by its owner only, with its spec inside.
pub fn create(folder: &Path, spec: &FolderSpec) -> Result<(), FolderError> {
    DirBuilder::new().mode(0o700).create(folder).map_err(cannot("create the attempt folder"))?;
    let json = serde_json::to_vec(spec).map_err(FolderError::BadSpec)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(folder.join(SPEC_FILE)).and_then(|mut file| file.write_all(&json));
    written.map_err(cannot("write spec.json"))
}

pub fn read_spec(folder: &Path) -> Result<FolderSpec, FolderError> {
    let json = File::open(folder.join(SPEC_FILE)).and_then(|file| read_at_most(&file, SPEC_BYTES_MAX));
    let json = json.map_err(cannot("read spec.json"))?;
    let spec: FolderSpec = serde_json::from_slice(&json).map_err(FolderError::BadSpec)?;
    let known = (FOLDER_FORMAT_OLDEST..=FOLDER_FORMAT).contains(&spec.format);
    if known { Ok(spec) } else { Err(FolderError::UnknownFormat(spec.format)) }
}

/// Whether a runner lives: it holds the lock of its record for life, whatever the process numbers say.
///
/// A runner that was just started may not have come to its lock yet. [`claim`] the folder `void` to be safe from it.
/// The lock is tried as a shared one, for a moment: a runner that comes to it just then tries again.
pub fn runner_lives(folder: &Path) -> Result<bool, FolderError> {
    let file = match File::open(folder.join(RECORD_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(cannot("open the record")(error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(cannot("try the lock of the record")(errno.into())),
    }
}

/// Tries to be the first to say whether the attempt starts. Returns what holds now, ours or an earlier one.
/// With `durable` ours is on disk before this returns. In a folder that was deleted nobody can claim anything.
pub fn claim(folder: &Path, wanted: Claim, durable: bool) -> Result<Claim, FolderError> {
    match try_claim(folder, wanted, durable)? {
        Claimed::Ours => Ok(wanted),
        Claimed::Earlier(claim) => Ok(claim),
    }
}

/// Who came first. The runner must know: an intent that is not its own may have run already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    Ours,
    Earlier(Claim),
}

/// A link, not a file: name and content appear in one step, so nobody ever sees a claim without its word.
pub(crate) fn try_claim(folder: &Path, wanted: Claim, durable: bool) -> Result<Claimed, FolderError> {
    match symlink(wanted.word(), folder.join(CLAIM_LINK)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Ok(Claimed::Earlier(read_claim(folder)?.unwrap_or(Claim::Intent)));
        }
        Err(error) => return Err(cannot("create the claim")(error)),
    }
    if durable {
        sync(folder).map_err(cannot("sync the claim to disk"))?;
    }
    Ok(Claimed::Ours)
}

/// Takes the claim to disk, and all that it is worth nothing without: the spec, and the folder's own name.
///
/// Syncing the spec takes the new names along on most file systems, and the rest then costs nothing.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder.join(SPEC_FILE)) {
        Ok(spec) => spec.sync_all()?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    File::open(folder)?.sync_all()?;
    File::open(folder.join(".."))?.sync_all()
}

/// `None`: nobody has decided yet.
pub fn read_claim(folder: &Path) -> Result<Option<Claim>, FolderError> {
    match fs::read_link(folder.join(CLAIM_LINK)) {
        Ok(word) => Ok(Some(Claim::from_word(word.as_os_str().as_bytes()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read the claim")(error)),
    }
}

/// What the record file says. No part is there before the runner has written it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    pub tally: Option<Tally>,
    pub ownership: Option<Ownership>,
    pub end: Option<End>,
}

/// Reads the record. A missing one says nothing; a torn exit record is [`ExitError::Torn`] if the runner is gone,
/// and merely being written if it still lives.
pub fn read_record(folder: &Path) -> Result<Recorded, FolderError> {
    match File::open(folder.join(RECORD_FILE)) {
        Ok(record) => read_open_record(&record),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Recorded::default()),
        Err(error) => Err(cannot("read the record")(error)),
    }
}

/// The same for one that is open, and is there even if the folder was deleted.
pub(crate) fn read_open_record(mut record: &File) -> Result<Recorded, FolderError> {
    let bytes = record.rewind().and_then(|()| read_at_most(record, RECORD_BYTES_MAX));
    let bytes = bytes.map_err(cannot("read the record"))?;
    Ok(Recorded { tally: Tally::decode(&bytes), ownership: Ownership::decode(&bytes), end: decode_exit(&bytes)? })
}

fn read_at_most(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(READ_HINT);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim without its spec, or in a folder without a name, is worth nothing after a power cut.
    #[test]
    fn a_claim_goes_to_disk_with_its_spec_and_the_folders_name() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("attempts/a");
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join(SPEC_FILE), "{}").expect("written");
        let calls = testkit::disk_calls(
            "folder_io::tests::a_claim_goes_to_disk_with_its_spec_and_the_folders_name",
            root.path(),
            |root| {
                let claimed = claim(&root.join("attempts/a"), Claim::Intent, true);
                assert_eq!(claimed.expect("nobody else is there"), Claim::Intent);
            },
        );
        let Some(calls) = calls else { return };
        let spec = format!("fsync attempts/a/{SPEC_FILE}");
        let made = format!("symlink attempts/a/{CLAIM_LINK}");
        assert_eq!(calls, [made.as_str(), &spec, "fsync attempts/a", "fsync attempts"]);
    }
}
