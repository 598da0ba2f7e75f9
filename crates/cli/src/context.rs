//! The context: server and token that hold where nothing else is said. `bowline up` writes it, every command reads it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub server: String,
    #[serde(default)]
    pub token: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("there is no config folder: neither XDG_CONFIG_HOME nor HOME is set")]
    NoFolder,
    #[error("cannot read the context {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the context {} is damaged ({source}); remove it, and `bowline up` writes it anew", .path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("cannot write the context {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Context {
    /// `$XDG_CONFIG_HOME/bowline/context.json`, or the same under `~/.config`.
    pub fn path() -> Result<PathBuf, ContextError> {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        Ok(config.ok_or(ContextError::NoFolder)?.join("bowline/context.json"))
    }

    /// None if there is no such file.
    pub fn load(path: &Path) -> Result<Option<Context>, ContextError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ContextError::Read { path: path.to_owned(), source }),
        };
        let context = serde_json::from_slice(&text);
        context.map(Some).map_err(|source| ContextError::Damaged { path: path.to_owned(), source })
    }

    /// Replaces the file as a whole. It holds a token, so only its owner may read it.
    pub fn save(&self, path: &Path) -> Result<(), ContextError> {
        self.replace(path).map_err(|source| ContextError::Write { path: path.to_owned(), source })
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Two `up`s at once must not write into one file.
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = create_private(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, path)
    }
}

fn create_private(path: &Path) -> io::Result<File> {
    // One that a crash left behind may be anyone's to read.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn written_privately_and_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/context.json");
        assert_eq!(Context::load(&path).expect("absent"), None);
        let context = Context { server: "http://127.0.0.1:7411".to_owned(), token: Some("t".to_owned()) };
        context.save(&path).expect("saved");
        context.save(&path).expect("saved again");
        assert_eq!(Context::load(&path).expect("there"), Some(context));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("listed").count(), 1);
        fs::write(&path, "{").expect("damaged");
        let error = Context::load(&path).expect_err("damaged").to_string();
        assert!(error.contains("remove it"), "{error}");
    }
}
