//! Secrets of the installation, by name: `BOWLINE_SECRET_<NAME>` in the server's environment, or the file `<NAME>` in the
//! folder `secrets` of its data, which nobody but its owner may read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const PREFIX: &str = "BOWLINE_SECRET_";
const FOLDER: &str = "secrets";

/// Signs words to the outside that name no secret of their own.
pub const OWN_KEY: &str = "WEBHOOK_KEY";

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

    /// The key that signs what has no secret of its own; made with the first start. Servers that share a database are given one.
    pub fn ensure_own_key(&self) -> io::Result<()> {
        let file = self.folder.join(OWN_KEY);
        if std::env::var_os(format!("{PREFIX}{OWN_KEY}")).is_some() || file.exists() {
            return Ok(());
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Under another name first: half a key would be one.
        let draft = self.folder.join(format!(".{OWN_KEY}.{}", std::process::id()));
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?
            .write_all(text.as_bytes())?;
        fs::rename(draft, file)
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

    #[test]
    fn the_own_key_is_made_once() {
        let data = tempfile::tempdir().expect("a temporary folder");
        let secrets = Secrets::new(data.path());
        secrets.ensure_own_key().expect("a folder to write to");
        let key = secrets.get(OWN_KEY).expect("only its owner may read it");
        assert_eq!(key.len(), 64);
        secrets.ensure_own_key().expect("it is there");
        assert_eq!(secrets.get(OWN_KEY).expect("still"), key);
    }
}
