//! Texts that only their owner knows, and the hashes that we keep of them.

use std::fmt::Write as _;

use engine::Time;
use uuid::Uuid;

/// As many bits as the hash has: guessing one is as hard as guessing the other.
const SECRET_BYTES: usize = 32;

pub(super) struct Secret {
    pub text: String,
    pub hash: [u8; 32],
}

impl Secret {
    /// `PREFIX_` and 64 hexadecimal digits from the system's own source of chance.
    pub(super) fn new(prefix: &str) -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        let mut text = format!("{prefix}_");
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Secret { hash: hash(&text), text })
    }
}

/// Secrets are long and random, so a fast hash without salt is enough.
pub(super) fn hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// A time-ordered id.
pub(super) fn uuid(now: Time) -> Result<Uuid, getrandom::Error> {
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes)?;
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    Ok(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
}
