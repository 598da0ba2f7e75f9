//! Leases: who does what only one server should do.

use store::{Batch, LeaseRow, StoreError, Tenure};

use crate::tables::{Tables, countable};

/// Whether all of these are still held.
pub(crate) fn compare(tables: &Tables, under: impl IntoIterator<Item = Tenure>) -> Result<(), StoreError> {
    under.into_iter().try_for_each(|tenure| tenure.compare(tables.leases.get(&tenure.lease).copied()))
}

/// Takes or keeps what can be; returns what each lease came to.
pub(crate) fn claim(tables: &mut Tables, batch: &Batch) -> Result<Vec<LeaseRow>, StoreError> {
    let mut leases = Vec::with_capacity(batch.claims.len());
    for claim in &batch.claims {
        let row = tables.leases.get(&claim.lease).copied();
        if let Some(taken) = claim.decide(row) {
            countable(taken.epoch)?;
            tables.leases.put(claim.lease, taken);
        }
        leases.extend(tables.leases.get(&claim.lease));
    }
    Ok(leases)
}
