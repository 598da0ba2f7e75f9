//! Leases: who does what only one server should do.
//!
//! A batch locks those that it claims or was decided under before any other row, and so does whoever deletes: two servers wait for
//! each other, and never both.

use std::collections::BTreeSet;

use engine::Heard;
use store::rows::ServerId;
use store::{Batch, Lease, LeaseRow, StoreError, Tenure};
use tokio_postgres::Row;

use crate::commit::Writes;
use crate::hold::Held;
use crate::session::{Failure, Session};
use crate::sql;
use crate::values::{self, Read, column, counted, get, signed};

/// The names of those that a batch is about.
pub(crate) fn names(batch: &Batch) -> Vec<&'static str> {
    let claimed = batch.claims.iter().map(|claim| claim.lease.name());
    let names: BTreeSet<_> = claimed.chain(batch.under.iter().map(|tenure| tenure.lease.name())).collect();
    names.into_iter().collect()
}

/// Whether the lease under which something is to be deleted is still held, and stays so until that is done.
pub(crate) async fn compare(session: &mut Session, under: Option<Tenure>) -> Result<(), Failure> {
    let Some(tenure) = under else { return Ok(()) };
    let rows = session.query(sql::LOCK_LEASES, &[&vec![tenure.lease.name()]]).await?;
    let row = rows.first().map(lease_row).transpose()?;
    Ok(tenure.compare(row.flatten())?)
}

/// Takes or keeps what can be; returns what each lease comes to.
pub(crate) fn claim(writes: &mut Writes<'_>, batch: &Batch, held: &Held) -> Result<Vec<LeaseRow>, StoreError> {
    let (mut leases, mut taken) = (Vec::new(), Vec::new());
    for claim in &batch.claims {
        let row = held.leases.get(&claim.lease).copied();
        let decided = claim.decide(row);
        taken.extend(decided);
        leases.extend(decided.or(row));
    }
    taken.sort_unstable_by_key(|row| row.lease.name());
    if !taken.is_empty() {
        let params = vec![
            column(&taken, |row| row.lease.name()),
            column(&taken, |row| row.holder.0),
            counted(&taken, |row| signed(row.epoch))?,
            column(&taken, |row| row.until.0),
        ];
        let place = writes.train.add(sql::PUT_LEASE, params);
        let new = taken.iter().filter(|row| !held.leases.contains_key(&row.lease)).count();
        writes.expect(place, new, "leases");
    }
    Ok(leases)
}

/// None for one that only a later build knows.
pub(crate) fn lease_row(row: &Row) -> Read<Option<LeaseRow>> {
    let (holder, epoch, until) = (ServerId(values::uuid(row, 1)?), values::unsigned(row, 2)?, get(row, 3).map(Heard)?);
    Ok(Lease::by_name(get(row, 0)?).map(|lease| LeaseRow { lease, holder, epoch, until }))
}
