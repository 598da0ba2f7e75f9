//! Secrets of the installation, by name: `BOWLINE_SECRET_<NAME>` in the server's environment, or the file `<NAME>` in the
//! folder `secrets` of its data, which nobody but its owner may read.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const PREFIX: &str = "BOWLINE_SECRET_";
const FOLDER: &str = "secrets";

#[derive(Debug)]
pub struct Secrets {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret `{name}` is not set on the server")]
    NotSet { name: String, file: PathBuf },
    #[error("the file of the secret `{name}` can be read by others, so it is not used")]
    ReadByOthers { name: String, file: PathBuf },
    #[error("the secret `{name}` cannot be read: {source}")]
    Unreadable { name: String, file: PathBuf, source: io::Error },
}

impl SecretError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            SecretError::NotSet { name, .. } => {
                format!("set {PREFIX}{name}, or write {FOLDER}/{name} in the server's data folder")
            }
            SecretError::ReadByOthers { name, .. } => format!("chmod 600 {FOLDER}/{name} in the server's data folder"),
            SecretError::Unreadable { name, .. } => format!("see to {FOLDER}/{name} in the server's data folder"),
        }
    }
}

impl Secrets {
    pub fn new(data: &Path) -> Secrets {
        Secrets { folder: data.join(FOLDER) }
    }

    /// Read anew each time, so that a changed one holds at once. The line end of a file is not part of it.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, SecretError> {
        let (file, name) = (self.folder.join(name), name.to_owned());
        if let Some(value) = std::env::var_os(format!("{PREFIX}{name}")).filter(|value| !value.is_empty()) {
            return Ok(value.into_encoded_bytes());
        }
        let read = fs::metadata(&file).and_then(|metadata| Ok((metadata.permissions().mode(), fs::read(&file)?)));
        match read {
            Ok((mode, _)) if mode & 0o077 != 0 => Err(SecretError::ReadByOthers { name, file }),
            Ok((_, text)) if text.trim_ascii().is_empty() => Err(SecretError::NotSet { name, file }),
            Ok((_, text)) => Ok(text.trim_ascii_end().to_vec()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SecretError::NotSet { name, file }),
            Err(source) => Err(SecretError::Unreadable { name, file, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_secret_if_it_is_one() {
        let data = tempfile::tempdir().expect("a temporary folder");
        let secrets = Secrets::new(data.path());
        assert!(matches!(secrets.get("HOOK"), Err(SecretError::NotSet { .. })));
        let file = data.path().join("secrets/HOOK");
        fs::create_dir(data.path().join("secrets")).expect("a folder");
        fs::write(&file, "s3cret\n").expect("a file");
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its owner may");
        mode(0o644);
        assert!(matches!(secrets.get("HOOK"), Err(SecretError::ReadByOthers { .. })));
        mode(0o600);
        assert_eq!(secrets.get("HOOK").expect("it is one now"), b"s3cret");
    }
}
