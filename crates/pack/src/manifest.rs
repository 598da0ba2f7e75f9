//! What a set of artifacts holds, and the name that follows from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The most files of one set: their list is read as a whole.
pub const FILES_MAX: usize = 20_000;
/// A manifest's text.
pub const MANIFEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// One path in it.
pub const PATH_BYTES_MAX: usize = 1024;

const FORMAT: u32 = 1;

/// The name of a set: the SHA-256 of its manifest's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// Sorted by path.
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative, with `/` between names.
    pub path: String,
    pub size: u64,
    /// As hexadecimal digits.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("it is not a manifest: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it has format {0}, this build knows {FORMAT}")]
    Format(u32),
    #[error("it is larger than {MANIFEST_BYTES_MAX} bytes")]
    Large,
    #[error("it lists {0} files, the most is {FILES_MAX}")]
    ManyFiles(usize),
    #[error("`{0}` is no path within a folder")]
    BadPath(String),
    #[error("its paths are not sorted, or one comes twice: `{0}`")]
    Unsorted(String),
    #[error("`{0}` has no SHA-256")]
    BadHash(String),
    #[error("its sizes are beyond measure")]
    Sizes,
    #[error("it is not the one that its name is made from")]
    OtherName,
}

impl Manifest {
    /// `files` in any order.
    pub fn new(mut files: Vec<FileEntry>) -> Manifest {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Manifest { format: FORMAT, files }
    }

    /// Its text and the name that follows from it.
    pub fn encode(&self) -> (Vec<u8>, SetId) {
        let text = serde_json::to_vec(self).expect("a manifest is plain data and always has a JSON form");
        let id = SetId::of(&text);
        (text, id)
    }

    /// Reads the manifest of this set. Whatever it lists may be written below a folder.
    pub fn decode(text: &[u8], id: SetId) -> Result<Manifest, ManifestError> {
        if text.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::Large);
        }
        if SetId::of(text) != id {
            return Err(ManifestError::OtherName);
        }
        let manifest: Manifest = serde_json::from_slice(text)?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.format != FORMAT {
            return Err(ManifestError::Format(self.format));
        }
        if self.files.len() > FILES_MAX {
            return Err(ManifestError::ManyFiles(self.files.len()));
        }
        let mut total = 0u64;
        for (index, file) in self.files.iter().enumerate() {
            if !is_inner_path(&file.path) {
                return Err(ManifestError::BadPath(file.path.clone()));
            }
            if index > 0 && self.files[index - 1].path >= file.path {
                return Err(ManifestError::Unsorted(file.path.clone()));
            }
            if file.sha256.parse::<SetId>().is_err() {
                return Err(ManifestError::BadHash(file.path.clone()));
            }
            total = total.checked_add(file.size).ok_or(ManifestError::Sizes)?;
        }
        Ok(())
    }

    /// The bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The file of this path, and where its bytes begin among those of all.
    pub fn find(&self, path: &str) -> Option<(&FileEntry, u64)> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        let before = self.files[..index].iter().map(|file| file.size).sum();
        Some((&self.files[index], before))
    }
}

/// Whether a path stays below any folder that it is joined to.
pub fn is_inner_path(path: &str) -> bool {
    let good = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
    path.len() <= PATH_BYTES_MAX && path.split('/').all(good)
}

impl SetId {
    pub fn of(manifest: &[u8]) -> SetId {
        SetId(Sha256::digest(manifest).into())
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetId({self})")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotASetId;

impl FromStr for SetId {
    type Err = NotASetId;

    fn from_str(text: &str) -> Result<SetId, NotASetId> {
        let digits = text.as_bytes();
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 64 || !digits.iter().all(lower) {
            return Err(NotASetId);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NotASetId)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotASetId)?;
        }
        Ok(SetId(bytes))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, size: u64) -> FileEntry {
        FileEntry { path: path.to_owned(), size, sha256: hex(&[7; 32]), executable: false }
    }

    #[test]
    fn a_manifest_comes_back_by_its_name_alone() {
        let manifest = Manifest::new(vec![entry("b", 2), entry("a/c", 1)]);
        let (text, id) = manifest.encode();
        assert_eq!(Manifest::decode(&text, id).expect("good"), manifest);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(manifest.find("b").map(|(file, at)| (file.size, at)), Some((2, 1)));
        let other = SetId::of(b"");
        assert!(matches!(Manifest::decode(&text, other), Err(ManifestError::OtherName)));
    }

    #[test]
    fn nothing_that_leaves_its_folder_is_taken() {
        for path in ["/etc/passwd", "../x", "a/../../x", "a//b", "", "a/.", "a\0b", &"x".repeat(2000)] {
            let (text, id) = Manifest::new(vec![entry(path, 1)]).encode();
            assert!(matches!(Manifest::decode(&text, id), Err(ManifestError::BadPath(_))), "{path}");
        }
        let (text, id) = Manifest::new(vec![entry("a", 1), entry("a", 2)]).encode();
        assert!(matches!(Manifest::decode(&text, id), Err(ManifestError::Unsorted(_))));
        let (text, id) = Manifest::new(vec![entry("a", u64::MAX), entry("b", 2)]).encode();
        assert!(matches!(Manifest::decode(&text, id), Err(ManifestError::Sizes)));
    }
}
