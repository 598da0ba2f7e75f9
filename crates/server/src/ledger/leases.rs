//! What one of several servers does for all of them: it fires triggers, deletes what is old, and sweeps.
//!
//! Who does is a row for each ([`Lease`]). Every server claims with its marks what it could do, and the store says whose it is: a
//! holder keeps what it has, and what is over goes to whoever asks first. So a server that dies, or sleeps, is relieved
//! after as long as it takes to be dead to the others. What was decided under a lease names it, and is not written when
//! somebody else has it by then; nobody has to know in time that it was relieved.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Heard, Time};
use pause::Point;
use store::{Batch, Claim, Committed, Lease, Store, Tenure};

use super::core::Core;
use super::round::Round;

/// What this server has, as of the last word on it.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<Lease, Tenure>,
    /// Those that are claimed with the next round, and not only with the next mark.
    hurry: BTreeSet<Lease>,
}

impl Leases {
    pub(super) fn hurry(&mut self, lease: Lease) {
        if !self.held.contains_key(&lease) {
            self.hurry.insert(lease);
        }
    }
}

/// What was decided as the one who fires triggers is about to be written.
pub(super) fn about_to_write(batch: &Batch) {
    if !batch.jobs.is_empty() && batch.under.iter().any(|tenure| tenure.lease == Lease::Cron) {
        pause::at(Point::Firing);
    }
}

impl<S: Store> Core<S> {
    /// As whom this server does what the lease is for; none where that is another one's to do.
    pub(super) fn tenure(&self, lease: Lease) -> Option<Tenure> {
        self.leases.held.get(&lease).copied()
    }

    /// Puts the claims into a round, if it is time for them. Who goes gives back what it has.
    pub(super) fn claim_leases(&self, round: &mut Round) {
        let (by, heard) = (self.siblings.me.id, round.clocks.heard);
        if round.server.as_ref().is_some_and(|server| server.left_at.is_some()) {
            // Of those that are its own still.
            let given_back = |lease: &Lease| Claim { lease: *lease, by, at: Heard::MIN, until: heard };
            round.claims = self.leases.held.keys().map(given_back).collect();
            return;
        }
        let marks = round.listened.is_some();
        let wanted = Lease::ALL.into_iter().filter(|lease| marks || self.leases.hurry.contains(lease));
        let claim = |lease| {
            // Nobody else can have the database, or an operator has said who does it. Said once: the last order counts.
            let ordered = lease == Lease::Retention && self.keeper.is_ordered() && self.tenure(lease).is_none();
            let whatever = !self.siblings.is_shared() || ordered;
            let at = if whatever { Claim::WHATEVER } else { heard };
            Claim { lease, by, at, until: heard + self.hearing_rules.dead_after }
        };
        round.claims = wanted.filter(|lease| self.could_do(*lease)).map(claim).collect();
    }

    /// Whether there is anything that it would do.
    fn could_do(&self, lease: Lease) -> bool {
        match lease {
            Lease::Cron => self.schedules.book().is_some(),
            Lease::Retention => !self.config.retention.keeps_all() || self.keeper.is_ordered(),
            Lease::Sweep => true,
        }
    }

    /// Whose the leases are now.
    pub(super) fn learn_leases(&mut self, committed: &Committed, now: Time) {
        for row in &committed.leases {
            let ours = Some(row.tenure()).filter(|tenure| tenure.holder == self.siblings.me.id);
            let before = self.tenure(row.lease);
            self.leases.hurry.remove(&row.lease);
            if before == ours {
                continue;
            }
            if let Some(tenure) = before {
                self.relieved(tenure);
            }
            if let Some(tenure) = ours {
                self.takes_over(tenure, now);
            }
        }
    }

    fn takes_over(&mut self, tenure: Tenure, now: Time) {
        tracing::info!(lease = tenure.lease.name(), epoch = tenure.epoch, "this server does it for all from now on");
        self.leases.held.insert(tenure.lease, tenure);
        // Whoever had it may have been away for long.
        match tenure.lease {
            Lease::Cron => self.check_soon(now),
            Lease::Retention => self.keeper.look_soon(now),
            // It comes around on every server, and does the rest from the next time on.
            Lease::Sweep => {}
        }
    }

    /// Somebody else does it from now on, or may do.
    pub(super) fn relieved(&mut self, tenure: Tenure) {
        if self.leases.held.remove(&tenure.lease).is_none() {
            return;
        }
        tracing::info!(lease = tenure.lease.name(), epoch = tenure.epoch, "this server does it for all no more");
        if tenure.lease == Lease::Retention {
            self.drop_run();
        }
    }

    /// A batch was overtaken, and it may be for these.
    pub(super) fn doubt_leases(&mut self, batch: &Batch) {
        batch.under.iter().for_each(|tenure| self.relieved(*tenure));
    }
}
