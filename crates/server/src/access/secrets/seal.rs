//! What lies in the database is sealed: AES-256-GCM under a key that only the servers have, bound to the secret's name.
//!
//! ```text
//! sealed = format (1) | key id (8 bytes) | nonce (12) | ciphertext and tag
//! ```
//!
//! The key is `secrets.key` in the data folder, or `BOWLINE_SECRETS_KEY`: 64 hexadecimal digits. There may be several, one on a line
//! or separated by commas: the first seals, and each opens what it has sealed. So a key is changed by putting a new one
//! first, and setting the secrets anew.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::private::{self, PrivateError};

const VARIABLE: &str = "BOWLINE_SECRETS_KEY";
const FILE: &str = "secrets.key";
const FORMAT: u8 = 1;
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;
const HEAD_BYTES: usize = 1 + ID_BYTES + NONCE_LEN;
/// Nothing else is ever sealed with a name for context.
const CONTEXT: &[u8] = b"bowline secret";

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the key in {place} is not 64 hexadecimal digits")]
    BadKey { place: String },
    #[error("{} can be read by others, so it is not used; chmod 600 it", .0.display())]
    KeyReadByOthers(PathBuf),
    #[error("{} cannot be used: {source}", .file.display())]
    KeyUnreadable { file: PathBuf, source: io::Error },
    #[error(
        "it was sealed with the key {id}, which this server does not have; give it the one of the server that set it"
    )]
    OtherKey { id: String },
    #[error("it was sealed by a newer version")]
    Newer,
    #[error("what is stored is damaged, or belongs to another name")]
    Damaged,
    #[error("the system gave no random bytes: {0}")]
    NoChance(#[from] getrandom::Error),
}

/// The keys of this installation, as they are now. They are read with each use: a new one holds at once.
#[derive(Debug)]
pub(super) struct Keys {
    file: PathBuf,
}

struct Key {
    id: [u8; ID_BYTES],
    cipher: LessSafeKey,
}

impl Keys {
    pub(super) fn new(data: &Path) -> Keys {
        Keys { file: data.join(FILE) }
    }

    /// Whether there is one to seal with.
    pub(super) fn any(&self) -> Result<bool, SealError> {
        Ok(!self.load()?.is_empty())
    }

    /// Makes one, on disk before anything is sealed with it.
    pub(super) fn create(&self) -> Result<(), SealError> {
        let unusable = |source| SealError::KeyUnreadable { file: self.file.clone(), source };
        let text = private::random_key().map_err(unusable)?;
        private::create(&self.file, &format!("{text}\n")).map_err(unusable)
    }

    /// Takes back one that was just made, and has sealed nothing that is on record.
    pub(super) fn discard(&self) -> Result<(), SealError> {
        match std::fs::remove_file(&self.file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(SealError::KeyUnreadable { file: self.file.clone(), source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn seal(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, SealError> {
        let keys = self.load()?;
        let key = keys.first().ok_or(SealError::BadKey { place: self.file.display().to_string() })?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)?;
        let mut sealed: Vec<u8> = [&[FORMAT][..], &key.id, &nonce].concat();
        let mut body = value.to_vec();
        let aad = Aad::from(context(key.id, name));
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.cipher.seal_in_place_append_tag(nonce, aad, &mut body).map_err(|_| SealError::Damaged)?;
        sealed.extend(body);
        Ok(sealed)
    }

    pub(super) fn open(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (head, body) = sealed.split_at_checked(HEAD_BYTES).ok_or(SealError::Damaged)?;
        if head[0] != FORMAT {
            return Err(SealError::Newer);
        }
        let id: [u8; ID_BYTES] = head[1..=ID_BYTES].try_into().expect("so many bytes");
        let keys = self.load()?;
        let key = keys.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| SealError::OtherKey { id: private::hex(&id) })?;
        let nonce = Nonce::try_assume_unique_for_key(&head[1 + ID_BYTES..]).map_err(|_| SealError::Damaged)?;
        let mut body = body.to_vec();
        let aad = Aad::from(context(id, name));
        let value = key.cipher.open_in_place(nonce, aad, &mut body).map_err(|_| SealError::Damaged)?;
        Ok(value.to_vec())
    }

    /// The first is the one to seal with.
    fn load(&self) -> Result<Vec<Key>, SealError> {
        if let Ok(text) = std::env::var(VARIABLE)
            && !text.trim().is_empty()
        {
            return text.split(',').map(|word| Key::read(word, VARIABLE)).collect();
        }
        let text = match private::read(&self.file) {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(PrivateError::ReadByOthers) => return Err(SealError::KeyReadByOthers(self.file.clone())),
            Err(PrivateError::Io(source)) => return Err(SealError::KeyUnreadable { file: self.file.clone(), source }),
        };
        let words = text.lines().filter(|line| !line.trim().is_empty());
        words.map(|word| Key::read(word, &self.file.display().to_string())).collect()
    }
}

impl Key {
    fn read(text: &str, place: &str) -> Result<Key, SealError> {
        let bad = || SealError::BadKey { place: place.to_owned() };
        let text = text.trim();
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16);
        let bytes: Vec<u8> = (0..KEY_BYTES).map(byte).collect::<Result<_, _>>().map_err(|_| bad())?;
        let hash = blake3::derive_key("bowline secrets: the name of a key", &bytes);
        let id = hash[..ID_BYTES].try_into().expect("a hash is longer");
        let cipher = UnboundKey::new(&AES_256_GCM, &bytes).map(LessSafeKey::new).map_err(|_| bad())?;
        Ok(Key { id, cipher })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", private::hex(&self.id))
    }
}

/// What must be the same when it is opened.
fn context(id: [u8; ID_BYTES], name: &str) -> Vec<u8> {
    [CONTEXT, &[FORMAT], &id, name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn keys() -> (tempfile::TempDir, Keys) {
        let data = tempfile::tempdir().expect("a temporary folder");
        let keys = Keys::new(data.path());
        (data, keys)
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_name_and_key_alone() {
        let (data, keys) = keys();
        assert!(!keys.any().expect("no file is no mistake"));
        keys.create().expect("a folder to write to");
        let mode = fs::metadata(data.path().join(FILE)).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let sealed = keys.seal("KEY", b"s3cret").expect("a key");
        assert!(!sealed.windows(6).any(|part| part == b"s3cret"));
        assert_ne!(sealed, keys.seal("KEY", b"s3cret").expect("a key"), "no two are alike");
        assert_eq!(keys.open("KEY", &sealed).expect("the same name"), b"s3cret");
        assert!(matches!(keys.open("OTHER", &sealed), Err(SealError::Damaged)));
        for at in HEAD_BYTES - 1..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert!(matches!(keys.open("KEY", &bent), Err(SealError::Damaged)), "byte {at}");
        }
        let mut newer = sealed.clone();
        newer[0] = 2;
        assert!(matches!(keys.open("KEY", &newer), Err(SealError::Newer)));
        assert!(matches!(keys.open("KEY", &sealed[..5]), Err(SealError::Damaged)));
        // A second start leaves it as it is.
        keys.create().expect("there is one");
        assert_eq!(keys.open("KEY", &sealed).expect("the same key"), b"s3cret");
    }

    #[test]
    fn a_new_key_comes_first_and_the_old_one_still_opens() {
        let (data, keys) = keys();
        keys.create().expect("a folder to write to");
        let old = keys.seal("KEY", b"s3cret").expect("a key");
        let file = data.path().join(FILE);
        let text = fs::read_to_string(&file).expect("it was made");
        let new = private::random_key().expect("chance");
        fs::write(&file, format!("{new}\n{text}")).expect("its owner may");
        assert_eq!(keys.open("KEY", &old).expect("the second key"), b"s3cret");
        let sealed = keys.seal("KEY", b"s3cret").expect("a key");
        fs::write(&file, text).expect("its owner may");
        let Err(SealError::OtherKey { id }) = keys.open("KEY", &sealed) else { panic!("the new key is gone") };
        assert_eq!(id.len(), 2 * ID_BYTES);
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_not_used() {
        let (data, keys) = keys();
        keys.create().expect("a folder to write to");
        let file = data.path().join(FILE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("its owner may");
        assert!(matches!(keys.any(), Err(SealError::KeyReadByOthers(_))));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its owner may");
        fs::write(&file, "not a key\n").expect("its owner may");
        let error = keys.any().expect_err("no key").to_string();
        assert!(error.ends_with("secrets.key is not 64 hexadecimal digits"), "{error}");
    }
}
