//! `admin.token`: the first way in, for whoever can read the server's data folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api::{Role, TokenKind};

use super::{Access, AccessError, NewToken, secret};

/// In the data folder, readable by its owner only.
pub const FILE_NAME: &str = "admin.token";

/// A preset longer than this is a mistake, such as the name of a file.
const PRESET_CHARS_MAX: usize = 200;

/// A shorter preset can be guessed.
const PRESET_CHARS_GOOD: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum AdminTokenError {
    #[error(
        "BOWLINE_ADMIN_TOKEN is no token: it must be 1 to {PRESET_CHARS_MAX} visible ASCII characters without spaces"
    )]
    BadPreset,
    #[error("the token in BOWLINE_ADMIN_TOKEN was revoked, has expired or is no admin's; choose a new one")]
    PresetNotValid,
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Access(#[from] AccessError),
}

impl Access {
    /// Sees to it that the file in the data folder holds a good admin token, and returns its text.
    ///
    /// The preset wins; else what the file has, if it is still good; else a new one is made. Tokens that the file held
    /// before stay as they are: whoever lost the file lost no access, and can revoke what was in it.
    pub async fn bootstrap(&self, data: &Path, preset: Option<&str>) -> Result<String, AdminTokenError> {
        let path = data.join(FILE_NAME);
        let in_file = read(&path)?;
        if let Some(preset) = preset {
            self.ensure_preset(preset).await?;
            if in_file.as_deref() != Some(preset) {
                write(&path, preset)?;
            }
            return Ok(preset.to_owned());
        }
        if let Some(text) = in_file
            && self.is_admin(&text).await?
        {
            return Ok(text);
        }
        let created = self.create(admin()).await?;
        write(&path, &created.text)?;
        Ok(created.text)
    }

    async fn ensure_preset(&self, preset: &str) -> Result<(), AdminTokenError> {
        if preset.is_empty() || preset.len() > PRESET_CHARS_MAX || !preset.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(AdminTokenError::BadPreset);
        }
        if preset.len() < PRESET_CHARS_GOOD {
            tracing::warn!(
                "BOWLINE_ADMIN_TOKEN is short enough to be guessed; use {PRESET_CHARS_GOOD} characters or more"
            );
        }
        let hash = secret::hash(preset);
        if self.find(&hash).await?.is_none() {
            match self.put(admin(), hash).await {
                // Another server on the same database may have been quicker; then it is there now.
                Ok(_) | Err(AccessError::Store(store::StoreError::Refused { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_admin(preset).await? { Ok(()) } else { Err(AdminTokenError::PresetNotValid) }
    }

    async fn is_admin(&self, text: &str) -> Result<bool, AccessError> {
        match self.caller(text).await {
            Ok(caller) => Ok(caller.role == Role::Admin),
            Err(AccessError::Denied) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn admin() -> NewToken {
    NewToken {
        kind: TokenKind::Api,
        role: Role::Admin,
        name: "admin".to_owned(),
        uses: None,
        tags: Vec::new(),
        expires_at: None,
    }
}

fn read(path: &Path) -> Result<Option<String>, AdminTokenError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AdminTokenError::Read { path: path.to_owned(), source }),
    }
}

/// All or nothing, and never readable by others, not even for a moment.
fn write(path: &Path, text: &str) -> Result<(), AdminTokenError> {
    let write = || -> io::Result<()> {
        let draft = path.with_extension("token.new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| AdminTokenError::Write { path: path.to_owned(), source })
}
