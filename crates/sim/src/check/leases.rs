//! Promise: what one server at a time does for all of them is done by one in each epoch; who was relieved writes nothing more of
//! it, however late it wakes; and when nothing goes wrong any more, each lease has a holder that lives.

use std::collections::BTreeMap;

use store::rows::ServerId;
use store::{Batch, Claim, Committed, Lease, LeaseRow, Reader, Tenure};

use super::Findings;
use crate::setup::Setup;

const CHECKER: &str = "lease";

#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Those that somebody must have in the end.
    wanted: Vec<Lease>,
    rows: BTreeMap<Lease, LeaseRow>,
    /// Who has ever acted in each epoch.
    actors: BTreeMap<(Lease, u64), ServerId>,
}

impl Leases {
    pub(crate) fn new(setup: &Setup) -> Leases {
        let is_wanted = |lease: &Lease| match lease {
            Lease::Cron => !setup.schedules.is_empty(),
            Lease::Retention => !setup.core.retention.keeps_all(),
            Lease::Sweep => true,
        };
        Leases { wanted: Lease::ALL.into_iter().filter(is_wanted).collect(), ..Leases::default() }
    }

    pub(super) fn committed(&mut self, batch: &Batch, committed: &Committed, found: &mut Findings) {
        for tenure in &batch.under {
            self.acted(*tenure, found);
        }
        for (claim, row) in batch.claims.iter().zip(&committed.leases) {
            if let Err(what) = self.follows(claim, row) {
                found.add(CHECKER, format!("`{}`: {what}", row.lease.name()));
            }
            self.rows.insert(row.lease, *row);
        }
    }

    /// Something was written under a lease.
    pub(super) fn acted(&mut self, tenure: Tenure, found: &mut Findings) {
        let Tenure { lease, holder, epoch } = tenure;
        let (name, by) = (lease.name(), holder.0);
        match self.rows.get(&lease) {
            Some(row) if row.tenure() == tenure => {}
            row => found.add(CHECKER, format!("`{name}`: server {by} acts in epoch {epoch}, and the row is {row:?}")),
        }
        let first = *self.actors.entry((lease, epoch)).or_insert(holder);
        if first != holder {
            found.add(CHECKER, format!("`{name}`: servers {} and {by} both act in epoch {epoch}", first.0));
        }
    }

    /// Whether a row may be what the claim leaves, after the one that is known.
    fn follows(&self, claim: &Claim, row: &LeaseRow) -> Result<(), String> {
        let Some(before) = self.rows.get(&row.lease) else {
            return if row.epoch == 1 { Ok(()) } else { Err(format!("it begins in epoch {}", row.epoch)) };
        };
        if row.epoch == before.epoch {
            let same = row.holder == before.holder;
            return if same { Ok(()) } else { Err(format!("it changes hands within epoch {}", row.epoch)) };
        }
        let is_over = before.until <= claim.at;
        match (row.epoch == before.epoch + 1, row.holder == claim.by, is_over) {
            (true, true, true) => Ok(()),
            (true, true, false) => Err(format!("epoch {} ends before its time is over", before.epoch)),
            _ => Err(format!("after {before:?} comes {row:?}")),
        }
    }

    pub(super) fn row(&self, lease: Lease) -> Option<LeaseRow> {
        self.rows.get(&lease).copied()
    }

    /// The commits that wrote these are gone, and all that was done in later epochs with them.
    pub(super) fn put_back(&mut self, rows: Vec<(Lease, Option<LeaseRow>)>) {
        for (lease, row) in rows {
            match row {
                Some(row) => drop(self.rows.insert(lease, row)),
                None => drop(self.rows.remove(&lease)),
            }
            let last = row.map_or(0, |row| row.epoch);
            self.actors.retain(|(of, epoch), _| *of != lease || *epoch <= last);
        }
    }

    /// All has been quiet for a while.
    pub(super) fn at_the_end(&self, reader: &dyn Reader, found: &mut Findings) {
        let (Ok(rows), Ok(Some(mark))) = (reader.leases(), reader.hearing()) else { return };
        let heard = mark.clocks(mark.mark_at).heard;
        for lease in &self.wanted {
            let row = rows.iter().find(|row| row.lease == *lease);
            if row.is_none_or(|row| row.until <= heard) {
                found.add(CHECKER, format!("nobody has `{}` in the end: {row:?}", lease.name()));
            }
        }
    }
}
