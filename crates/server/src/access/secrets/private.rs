//! Files that hold what nobody but their owner may read.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// More is no secret and no key. It also keeps a mistake from filling the memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Two that are made at the same time have drafts of their own.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, thiserror::Error)]
pub(super) enum PrivateError {
    #[error("others than its owner can read it")]
    ReadByOthers,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// `None`: there is no such file.
pub(super) fn read(file: &Path) -> Result<Option<Vec<u8>>, PrivateError> {
    // What is opened may be a pipe, on which nobody is to wait.
    let opened =
        fs::OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = opened.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file").into());
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(PrivateError::ReadByOthers);
    }
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")).into());
    }
    Ok(Some(bytes))
}

/// Makes `file`, durably and whole, unless there is one; then that stays.
pub(super) fn create(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Under another name first: half a key would be one.
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = folder.join(format!(".{name}.{}.{number}", std::process::id()));
    let mut open = fs::OpenOptions::new();
    let mut opened = open.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    let linked = match fs::hard_link(&draft, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    };
    fs::remove_file(&draft)?;
    linked?;
    fs::File::open(folder)?.sync_all()
}

/// 32 random bytes as hexadecimal digits.
pub(super) fn random_key() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
