//! Leases: who does what only one server should do. Here that is always the one that has the file; the rows are kept all the
//! same, so that the ledger has one way for all.

use engine::Heard;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use store::rows::ServerId;
use store::{Batch, Lease, LeaseRow, Tenure};

use crate::commit::Failure;
use crate::sql;
use crate::values::{self, signed};

/// Whether all of these are still held.
pub(crate) fn compare(tx: &Transaction<'_>, under: impl IntoIterator<Item = Tenure>) -> Result<(), Failure> {
    for tenure in under {
        tenure.compare(find(tx, tenure.lease)?).map_err(Failure::Store)?;
    }
    Ok(())
}

/// Takes or keeps what can be; returns what each lease came to.
pub(crate) fn claim(tx: &Transaction<'_>, batch: &Batch) -> Result<Vec<LeaseRow>, Failure> {
    let mut leases = Vec::with_capacity(batch.claims.len());
    for claim in &batch.claims {
        let row = find(tx, claim.lease)?;
        let taken = claim.decide(row);
        if let Some(LeaseRow { lease, holder, epoch, until }) = taken {
            let row = params![lease.name(), holder.0.as_bytes(), signed(epoch)?, until.0];
            tx.prepare_cached(sql::PUT_LEASE)?.execute(row)?;
        }
        leases.extend(taken.or(row));
    }
    Ok(leases)
}

fn find(tx: &Transaction<'_>, lease: Lease) -> Result<Option<LeaseRow>, Failure> {
    Ok(tx.prepare_cached(sql::LEASE)?.query_row([lease.name()], lease_row).optional()?.flatten())
}

/// None for one that only a later build knows.
pub(crate) fn lease_row(row: &Row<'_>) -> rusqlite::Result<Option<LeaseRow>> {
    let name: String = row.get(0)?;
    let (holder, epoch, until) = (ServerId(values::uuid(row, 1)?), values::unsigned(row, 2)?, row.get(3).map(Heard)?);
    Ok(Lease::by_name(&name).map(|lease| LeaseRow { lease, holder, epoch, until }))
}
