//! What makes and ends ephemeral workers, as far as the ledger asks.

use engine::WorkerId;

/// Knows the machines that it made. No word of it is proof that an attempt is over: the machine may live on unseen.
pub trait Scaler: Send {
    /// Whether this worker's machine is gone; false as long as that is not certain.
    fn is_gone(&self, worker: WorkerId) -> bool;
}

/// For an installation without scalers: only the window decides.
#[derive(Debug, Clone, Copy)]
pub struct NoScaler;

impl Scaler for NoScaler {
    fn is_gone(&self, _worker: WorkerId) -> bool {
        false
    }
}
