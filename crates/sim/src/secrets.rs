//! Secrets that the servers of a world have, and how the world sees where they come to light.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::secret::{SecretValue, SecretValues};
use server::access::{SecretError, SecretSource};

use crate::workload::Word;

/// Every server has it, always.
pub const KEY: Word = "KEY";
/// Some do not, and the others not always.
pub(crate) const RARE: Word = "RARE";
/// Somebody removes it after the first look.
pub const BRIEF: Word = "BRIEF";
/// Nobody has it.
pub const UNKNOWN: Word = "UNKNOWN";

/// In every value, and in nothing else.
const MARK: &str = "this-is-not-to-be-seen";

/// Where one life of a server finds secrets.
pub(crate) struct Purse {
    server: usize,
    looks: AtomicU64,
}

impl Purse {
    pub(crate) fn of(server: usize) -> Purse {
        Purse { server, looks: AtomicU64::new(0) }
    }

    /// The third of three servers never has what is rare; the others lack it now and then, also between two looks for one
    /// step.
    fn has(&self, name: &str) -> bool {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        name == KEY || name == BRIEF && look == 0 || name == RARE && self.server < 2 && look % 4 != 3
    }
}

impl SecretSource for Purse {
    fn of_step(&self, names: &[Arc<str>]) -> Result<SecretValues, SecretError> {
        let find = |name: &Arc<str>| match self.has(name) {
            true => Ok((name.to_string(), value(name))),
            false => Err(SecretError::NotSet { name: name.to_string() }),
        };
        names.iter().map(find).collect()
    }
}

fn value(name: &str) -> SecretValue {
    SecretValue::new(format!("{MARK}: {name}")).expect("it is long enough")
}

/// Whether these are all that a step is to be given.
pub(crate) fn are_all(names: &[String], given: &SecretValues) -> bool {
    names.iter().all(|name| given.get(name) == Some(&value(name)))
}

/// Whether a value stands in something that is written down.
pub(crate) fn shows(row: &impl std::fmt::Debug) -> bool {
    format!("{row:?}").contains(MARK)
}
