//! Promise: whatever is not final has an owner, an action and a check time of at most an hour ahead, and the check time is
//! *kept*: once it is past, the row is looked at, which shows by its being written again with a later one.
//!
//! How late is too late? A server that is up and can commit reads what is due in the round in which it falls due, so that
//! nothing is overdue after any commit but for the pieces of a refused batch, which hold their own commands only. So a few
//! seconds of *listening* are allowed: true time in which commits followed each other as marks do. A job of a refused batch
//! may be set aside for a minute at a time.
//!
//! With commits that are lost the installation's time goes back to the last mark that is left: what was due only by a time
//! that is not on record is not overdue for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{JobId, StepIx, Time};
use store::Batch;

use super::pulse::Pulse;
use super::{Accepted, Findings};

const CHECKER: &str = "check-time";

/// Nothing is left unlooked at for longer.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(3600);

/// Marks come every two seconds; a longer pause between commits is time in which nobody could look.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// A look may fail and be tried again after a second, and another batch may be split meanwhile. Of several servers one is given a mark's time
/// to be first, and those that have just started leave a verdict to others for two.
const LATE_MAX: Duration = Duration::from_secs(8);

/// As long as a refused job is left alone, twice: it may be refused again when its time is over.
const ASIDE_MAX: Duration = Duration::from_secs(125);

/// A job, or one of its steps.
pub(super) type Row = (JobId, Option<StepIx>);

#[derive(Debug, Default)]
pub(crate) struct Times {
    next: BTreeMap<Row, Time>,
    due: BTreeSet<(Time, Row)>,
    /// Since how much listening each overdue row is overdue.
    overdue: BTreeMap<Row, Duration>,
    listened: Duration,
    /// The latest time of any commit.
    latest: Time,
    pub(super) pulse: Pulse,
    /// Jobs of refused batches, and until how much listening they may be late for it.
    aside: BTreeMap<JobId, Duration>,
}

impl Times {
    pub(crate) fn committed(&mut self, now: Duration, batch: &Batch, accepted: &Accepted<'_>, found: &mut Findings) {
        self.listened += self.pulse.beat(now, PAUSE_MAX).unwrap_or_default();
        for row in accepted.jobs() {
            let name = || format!("job {} ({})", row.id, row.state);
            whole(name, row.check_at, row.owner, row.action, batch.now, found);
            self.written((row.id, None), row.check_at);
        }
        for row in accepted.steps() {
            let name = || format!("step {} of {} ({})", row.name, row.job, row.state);
            whole(name, row.check_at, row.owner, row.action, batch.now, found);
            self.written((row.job, Some(row.ix)), row.check_at);
        }
        self.latest = self.latest.max(batch.now);
        self.look(batch.now, found);
    }

    /// Nothing of this batch was written; its jobs may be set aside for it.
    pub(crate) fn refused(&mut self, batch: &Batch) {
        for write in &batch.jobs {
            self.aside.insert(write.row.id, self.listened + ASIDE_MAX);
        }
    }

    pub(super) fn next(&self, row: Row) -> Option<Time> {
        self.next.get(&row).copied()
    }

    pub(super) fn latest(&self) -> Time {
        self.latest
    }

    /// A commit is gone: the rows that it wrote are what they were, and so is the latest time.
    pub(super) fn put_back(&mut self, latest: Time, rows: Vec<(Row, Option<Time>)>) {
        rows.into_iter().for_each(|(row, at)| self.written(row, at));
        self.latest = latest;
        self.overdue.retain(|row, _| self.next.get(row).is_some_and(|at| *at < latest));
    }

    fn written(&mut self, row: Row, check_at: Option<Time>) {
        self.overdue.remove(&row);
        if let Some(before) = self.next.remove(&row) {
            self.due.remove(&(before, row));
        }
        if let Some(at) = check_at {
            self.next.insert(row, at);
            self.due.insert((at, row));
        }
    }

    fn look(&mut self, now: Time, found: &mut Findings) {
        let listened = self.listened;
        for &(at, row) in self.due.iter().take_while(|(at, _)| *at < now) {
            let since = *self.overdue.entry(row).or_insert(listened);
            let late_max =
                LATE_MAX.max(self.aside.get(&row.0).map_or(Duration::ZERO, |until| until.saturating_sub(since)));
            if listened - since > late_max {
                let what = row.1.map_or("the job itself".to_owned(), |ix| format!("step {}", ix.0));
                let late = listened - since;
                found.add(CHECKER, format!("{what} of {} was due at {at}, and for {late:?} nobody looked", row.0));
                return;
            }
        }
    }
}

fn whole(
    name: impl Fn() -> String,
    check_at: Option<Time>,
    owner: Option<&str>,
    action: Option<&str>,
    now: Time,
    found: &mut Findings,
) {
    match (check_at, owner, action) {
        (None, None, None) => {}
        (Some(at), Some(_), Some(_)) if at <= now + AHEAD_MAX => {}
        (Some(at), Some(_), Some(_)) => {
            found.add(CHECKER, format!("{} is looked at only at {at}, and it is {now}", name()));
        }
        _ => found.add(CHECKER, format!("{} has not all of owner, check time and action", name())),
    }
}
