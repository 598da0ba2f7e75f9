//! A set as one file: a head, the manifest, then the bytes of all files in its order.
//!
//! ```text
//! "BWP1" | length of the manifest u32, little-endian | manifest | bytes
//! ```

use std::io::{self, Read};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::manifest::{MANIFEST_BYTES_MAX, Manifest, ManifestError, SetId, hex};

const MAGIC: [u8; 4] = *b"BWP1";
const HEAD_BYTES: usize = 8;
const READ_BYTES: usize = 256 * 1024;

#[derive(Debug, Error)]
pub enum PackError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("it is not a pack of artifacts")]
    NotAPack,
    #[error("`{0}` is not what its hash says")]
    Differs(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The beginning of a pack: what it holds, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub manifest: Manifest,
    /// Where the first file's bytes begin.
    pub offset: u64,
}

impl Layout {
    /// Reads the beginning of the pack of this set; the reader then stands before the first file's bytes.
    pub fn read(pack: &mut impl Read, id: SetId) -> Result<Layout, PackError> {
        let mut head = [0; HEAD_BYTES];
        pack.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head[..4] != MAGIC || length > MANIFEST_BYTES_MAX {
            return Err(PackError::NotAPack);
        }
        let mut text = vec![0; length];
        pack.read_exact(&mut text)?;
        Ok(Layout { manifest: Manifest::decode(&text, id)?, offset: (HEAD_BYTES + length) as u64 })
    }

    /// What stands before the bytes.
    pub fn head(manifest: &[u8]) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES + manifest.len());
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&u32::try_from(manifest.len()).unwrap_or(u32::MAX).to_le_bytes());
        head.extend_from_slice(manifest);
        head
    }

    /// How long the whole pack is.
    pub fn bytes(&self) -> u64 {
        self.offset + self.manifest.bytes()
    }
}

/// Whether the bytes that follow are those of the manifest's files.
pub fn verify(manifest: &Manifest, bytes: &mut impl Read) -> Result<(), PackError> {
    let mut buffer = vec![0; READ_BYTES];
    for file in &manifest.files {
        let mut hasher = Sha256::new();
        let mut left = file.size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            bytes.read_exact(&mut buffer[..most])?;
            hasher.update(&buffer[..most]);
            left -= most as u64;
        }
        if hex(&hasher.finalize()) != file.sha256 {
            return Err(PackError::Differs(file.path.clone()));
        }
    }
    Ok(())
}
