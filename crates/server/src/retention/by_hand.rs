//! A run on a database that servers share, while none of them is there: by somebody who has no row among them.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use engine::Heard;
use store::rows::ServerId;
use store::{Batch, Claim, Lease, Store, StoreError, Tenure};
use uuid::Uuid;

/// In hearing time, which stands still until a server starts: it leaves that to whoever is at it for so long, and takes it then.
const LENGTH: Duration = Duration::from_secs(10);

/// Takes the lease that retention is done under, whoever had it. Servers that wake, or start meanwhile, are told apart by it as they are from
/// each other. None where no server has ever run: there is nothing to delete.
pub fn take_over(store: &mut dyn Store) -> Result<Option<Tenure>, StoreError> {
    let Some(heard) = heard(store)? else { return Ok(None) };
    let claim = Claim { lease: Lease::Retention, by: ServerId(somebody()), at: Claim::WHATEVER, until: heard + LENGTH };
    let taken = store.commit(&Batch { claims: vec![claim], ..Batch::default() })?;
    Ok(taken.leases.first().map(store::LeaseRow::tenure))
}

/// Whoever asks for it next has it at once.
pub fn give_back(store: &mut dyn Store, tenure: Tenure) -> Result<(), StoreError> {
    let Some(until) = heard(store)? else { return Ok(()) };
    let claim = Claim { lease: tenure.lease, by: tenure.holder, at: Heard::MIN, until };
    store.commit(&Batch { claims: vec![claim], ..Batch::default() }).map(drop)
}

/// As of the last mark.
fn heard(store: &mut dyn Store) -> Result<Option<Heard>, StoreError> {
    Ok(store.reader().hearing()?.map(|row| row.heard()))
}

/// An id that nobody else has. The standard library's hashers are made so that nobody can guess them.
fn somebody() -> Uuid {
    let half = || RandomState::new().hash_one("somebody");
    Uuid::from_u64_pair(half(), half())
}
