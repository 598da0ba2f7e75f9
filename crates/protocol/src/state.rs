//! What runners and workers leave for each other in a worker's state folder.
//!
//! ```text
//! lock          held by the worker, or the caretaker, that uses the folder
//! hand-over     a caretaker listens here: whoever connects wants the folder
//! no-caretaker  word that none is wanted (NoCaretaker)
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub const LOCK_FILE: &str = "lock";
pub const HANDOVER_SOCKET: &str = "hand-over";
pub const NO_CARETAKER_FILE: &str = "no-caretaker";
/// What a caretaker that was started by a runner has to complain about; written anew by each.
pub const CARETAKER_LOG: &str = "caretaker.log";

/// How a runner starts a caretaker: a worker that takes no new work and looks after what lives in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caretaker {
    /// The state folder.
    pub state: PathBuf,
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Left by a worker that was told to stop, or that the server turned away for good. The next worker takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoCaretaker {
    /// The word of an earlier boot means nothing: what it spoke of is gone.
    pub boot_id: String,
    /// On the clock that runs on while the machine sleeps. `None`: until a worker takes it back.
    #[serde(default)]
    pub until_ms: Option<u64>,
}

impl NoCaretaker {
    pub fn is_in_force(&self, boot_id: &str, now_ms: u64) -> bool {
        self.boot_id == boot_id && self.until_ms.is_none_or(|until_ms| now_ms < until_ms)
    }
}
