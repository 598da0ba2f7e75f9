//! Promise: each time of a trigger makes one job, or none where its policy says so, and never two. It is seen to soon after it
//! has come, or as soon as a server is there again; and the job and the word that the time is over are one commit.
//!
//! The times are known here by themselves: they come every so many minutes of an hour. With commits that are lost a time comes
//! again, and so does its job.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Time;
use store::rows::TriggerRow;
use store::{Batch, TriggerWrite};

use super::ears::Ears;
use super::rows::Rows;
use super::{Accepted, Findings};
use crate::workload::{GroupPlan, SchedulePlan, WhenFull};

const CHECKER: &str = "schedule";

/// How the row says that a job was not made since its concurrency group takes nobody.
const GROUP_FULL: &str = "concurrency group";

/// Whatever is later than this was missed; the product's own bound.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// Of listening: what is left to another server first, a look that failed, a start, and a pause before it that is too short to count.
const SEEN_WITHIN: Duration = Duration::from_secs(18);

/// One whose job could not be written is left alone for so long.
const ASIDE_MAX: Duration = Duration::from_secs(125);

#[derive(Debug, Default)]
pub(crate) struct Schedules {
    plans: BTreeMap<String, SchedulePlan>,
    others: bool,
    /// As of the last commit that wrote them.
    rows: BTreeMap<String, TriggerRow>,
    /// Since how much listening each is overdue.
    overdue: BTreeMap<String, Duration>,
    /// Until how much listening each may be late, and its time be over without a job, for a batch that was refused.
    refused: BTreeMap<String, Duration>,
    /// Nobody wants them any more.
    over: bool,
}

impl Schedules {
    /// `others`: there are triggers that have no times.
    pub(crate) fn new(plans: &[SchedulePlan], others: bool) -> Schedules {
        let plans = plans.iter().map(|plan| (plan.trigger(), plan.clone())).collect();
        Schedules { plans, others, ..Schedules::default() }
    }

    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// `rows` are those before the batch.
    pub(super) fn committed(
        &mut self,
        ears: &Ears,
        rows: &Rows,
        (batch, accepted): (&Batch, &Accepted<'_>),
        is_full: impl Fn(&GroupPlan) -> bool,
        found: &mut Findings,
    ) {
        if self.plans.is_empty() && !self.others {
            return;
        }
        for row in accepted.jobs().filter(|row| rows.job(row.id).is_none()) {
            let trigger = row.submitted_by.strip_prefix("trigger:").filter(|id| self.plans.contains_key(*id));
            let Some(trigger) = trigger else { continue };
            let is_its = |write: &&TriggerWrite| write.row.id == trigger && write.jobs.contains(&row.id);
            if !accepted.triggers().any(|write| is_its(&write)) {
                let job = row.id;
                found.add(CHECKER, format!("{trigger} made job {job}, and its time is not over by the same commit"));
            }
        }
        for write in accepted.triggers() {
            let id = &write.row.id;
            let before = self.rows.insert(id.clone(), write.row.clone());
            if let (Some(before), Some(plan)) = (before, self.plans.get(id)) {
                let refused = self.refused.get(id).is_some_and(|until| ears.listened() <= *until);
                let made = accepted.jobs().filter(|row| write.jobs.contains(&row.id)).count() as u64;
                let full =
                    plan.job.group.as_ref().is_some_and(|group| group.when_full == WhenFull::Reject && is_full(group));
                let moved = Moved { plan, before: &before, write, made, now: batch.now, refused, full };
                if let Err(what) = moved.look() {
                    found.add(CHECKER, format!("{id}: {what}"));
                }
            }
            self.overdue.remove(id);
        }
        if !self.over {
            self.look_for_the_late(ears, batch.now, found);
        }
    }

    fn look_for_the_late(&mut self, ears: &Ears, now: Time, found: &mut Findings) {
        let listened = ears.listened();
        for (id, row) in self.rows.iter().filter(|(_, row)| row.next_at.is_some_and(|at| at < now)) {
            let since = *self.overdue.entry(id.clone()).or_insert(listened);
            let until = (since + SEEN_WITHIN).max(self.refused.get(id).copied().unwrap_or_default());
            if listened > until {
                let late = listened - since;
                found.add(CHECKER, format!("{id} was due at {:?}, and for {late:?} nobody looked", row.next_at));
                return;
            }
        }
    }

    /// Nothing of this batch was written.
    pub(super) fn refused(&mut self, ears: &Ears, batch: &Batch) {
        for write in &batch.triggers {
            self.refused.insert(write.row.id.clone(), ears.listened() + ASIDE_MAX);
        }
    }

    pub(super) fn row(&self, id: &str) -> Option<TriggerRow> {
        self.rows.get(id).cloned()
    }

    /// The commits that wrote these are gone.
    pub(super) fn put_back(&mut self, rows: Vec<(String, Option<TriggerRow>)>) {
        for (id, row) in rows {
            match row {
                Some(row) => drop(self.rows.insert(id, row)),
                None => drop(self.rows.remove(&id)),
            }
        }
        self.overdue.clear();
    }
}

/// A trigger that a commit has moved.
struct Moved<'a> {
    plan: &'a SchedulePlan,
    before: &'a TriggerRow,
    write: &'a TriggerWrite,
    /// Jobs that came with it.
    made: u64,
    now: Time,
    /// Its job could not be written not long ago.
    refused: bool,
    /// Nor is it to be made while its concurrency group is full, and that was.
    full: bool,
}

impl Moved<'_> {
    fn look(&self) -> Result<(), String> {
        let (before, row) = (self.before, &self.write.row);
        let made = self.made;
        // At rest, or begun anew after that: no time is over by it.
        let (Some(first), Some(due), Some(next)) = (before.planned_at, before.next_at, row.planned_at) else {
            return if made == 0 { Ok(()) } else { Err("a trigger that rests made a job".to_owned()) };
        };
        if row.next_at.is_none() {
            if made > 0 {
                return Err("it made its last job, and comes again".to_owned());
            }
            // What passed before the pause did not pass by it. With `once` it is made up for after it.
            let rests = row.paused_at.is_some() && before.paused_at.is_none();
            return if rests { self.is_noticed(due <= self.now && !self.plan.once) } else { Ok(()) };
        }
        // Told to rest and woken in one round.
        let rests = self.plan.rest.is_some();
        if rests && made == 0 && next == first && row.missed == before.missed {
            return Ok(());
        }
        if made > 0 && self.now < due {
            return Err(format!("its job was made at {}, and it was due at {due}", self.now));
        }
        let period = i64::try_from(self.plan.minutes * 60_000_000).map_err(|_| "it never comes".to_owned())?;
        if next.0 % period != 0 || next <= first || next.0 - period > self.now.0 {
            return Err(format!("after {first} comes {next}, and it is {}", self.now));
        }
        let passed = u64::try_from((next.0 - first.0) / period).unwrap_or(0);
        let last = Time(next.0 - period);
        self.made_for(passed, last, made)
    }

    /// So many times are over, the last of them this one.
    fn made_for(&self, passed: u64, last: Time, made: u64) -> Result<(), String> {
        let late = self.now.since(last);
        let spoiled = self.refused && self.write.row.last_error.is_some();
        match made {
            0 if spoiled => return Ok(()),
            0 if self.full && self.is_turned_away() => return Ok(()),
            0 if self.is_turned_away() => {
                return Err("its concurrency group is said to be full, and has room".to_owned());
            }
            0 if self.plan.once => return Err(format!("{passed} times are over, and nothing makes up for them")),
            // A time that passes while it rests is missed at once.
            0 if late <= MISSED_AFTER && self.plan.rest.is_none() => {
                return Err(format!("the time {last} is only {late:?} over, and has no job"));
            }
            1 if !self.plan.once && late > MISSED_AFTER + self.plan.jitter => {
                return Err(format!("the time {last} was missed by {late:?}, and has a job"));
            }
            0 | 1 => {}
            _ => return Err(format!("{made} jobs were made at once")),
        }
        let counted = self.write.row.missed - self.before.missed;
        if counted != passed - made {
            return Err(format!("{passed} times are over with {made} jobs, and {counted} count as missed"));
        }
        self.is_noticed(counted > 0 && !(made == 1 && self.plan.once))
    }

    fn is_turned_away(&self) -> bool {
        self.write.row.last_error.as_ref().is_some_and(|error| error.starts_with(GROUP_FULL))
    }

    /// What passed for good is said with it, and nothing else is.
    fn is_noticed(&self, skipped: bool) -> Result<(), String> {
        let said = self.write.row.notice_at == Some(self.now) && self.before.notice_at != Some(self.now);
        match (skipped, said, &self.write.row.last_error) {
            (true, false, None) => Err("times passed without a job, and nobody is told".to_owned()),
            (false, true, None) => Err("people are told that times passed, and none did".to_owned()),
            _ => Ok(()),
        }
    }
}
