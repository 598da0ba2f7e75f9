//! Concurrency groups: who of those that wait for a group is admitted next.
//!
//! A slot is nobody's to count. Who has one is asked of the rows whenever it matters: every job that was admitted and is open,
//! and every one that is over but left an attempt of which nobody knows whether it still runs (the successor rule). To the
//! rows comes what this round has changed. Jobs are admitted in the round in which room is made, by an event like any other,
//! in the order of priority and age; who stands first in line is passed by nobody. Two servers that admit at once are told
//! apart by the job that was admitted last, which each write names.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::definition::WhenFull;
use engine::{Event, Failure, FailureKind, JobId, Time};
use planted::Bug;
use store::read::{LineView, SlotView};
use store::{Admission, Committed, Store, StoreError};

use super::cache::{Cached, LoadError};
use super::command::EventError;
use super::core::{Core, LOOK_AGAIN_SOON};
use super::round::Round;

/// What was given up without proof holds a slot for so long at most, unless a test says otherwise.
pub const DOUBT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Jobs of one group that are admitted in one round; the rest follow in the next, which starts at once.
const ADMITTED_PER_ROUND: usize = 500;

/// So many more than there is room for are looked at.
const LOOK_BEHIND: usize = 16;

/// Groups that are seen to in one round.
const GROUPS_PER_ROUND: usize = 1_000;

/// Jobs in line that are looked at for the oldest.
const LINE_MAX: usize = 10_000;

/// What this server remembers of groups: only when to look again. Where they stand is in the rows.
#[derive(Default)]
pub(super) struct Groups {
    /// There may be room where there was none, or somebody new in line.
    stirred: BTreeSet<Arc<str>>,
    /// Looked at again then: somebody's doubt is over.
    later: BTreeSet<(Time, Arc<str>)>,
    /// All that have a line are to be looked at; those up to this name were.
    must_stir_all: bool,
    stirred_up_to: String,
    /// They could not be read: not before then.
    lines_from: Time,
    /// Jobs that are over with all that they left.
    pub(super) settled: BTreeSet<JobId>,
    /// Only a planted bug counts.
    leaked: Vec<(Arc<str>, JobId)>,
    /// Jobs of which it was said that they hold a slot by what may still run.
    pub(super) alarmed: BTreeSet<JobId>,
}

/// The jobs that a round admits to one group.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    expected: Option<JobId>,
    jobs: Vec<JobId>,
    after: BTreeSet<JobId>,
}

/// A group as this round has it so far.
pub(super) struct Standing {
    /// Who has a slot.
    pub holders: Vec<Holder>,
    /// Those that ended in this round, and whose slots are free by that.
    left: Vec<JobId>,
}

pub(super) struct Holder {
    pub job: JobId,
    pub created_at: Time,
    /// It is over, and holds its slot by what may still run, until then.
    pub until: Option<Time>,
    /// It was told to end, or is over.
    pub ends: bool,
}

/// A group that takes nobody now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("concurrency group `{group}` is full: {in_it}, and its limit is {limit}")]
pub struct GroupFull {
    pub group: Arc<str>,
    pub limit: u32,
    /// Who is in it, in words.
    in_it: String,
}

impl Groups {
    /// How many are to be looked at, now or later.
    pub(super) fn waiting(&self) -> usize {
        self.stirred.len() + self.later.len()
    }

    pub(super) fn stir(&mut self, group: &Arc<str>) {
        if !self.stirred.contains(group) {
            self.stirred.insert(group.clone());
        }
    }

    /// A job of the group is over.
    pub(super) fn ended(&mut self, group: &Arc<str>, job: JobId, failed: bool) {
        self.stir(group);
        if failed && planted::is(Bug::GroupSlotLeaks) {
            self.leaked.push((group.clone(), job));
        }
    }

    pub(super) fn stir_all(&mut self) {
        self.must_stir_all = true;
    }

    /// What is remembered of rows may not be so any more.
    pub(super) fn doubt(&mut self) {
        self.settled.clear();
        self.must_stir_all = true;
    }

    fn look_at(&mut self, group: &Arc<str>, at: Time) {
        self.later.insert((at, group.clone()));
    }
}

impl Round {
    pub(super) fn admissions(&mut self) -> Vec<Admission> {
        let made = std::mem::take(&mut self.admitted).into_iter();
        let admission = |(group, Admitted { expected, jobs, after }): (Arc<str>, Admitted)| Admission {
            group: group.to_string(),
            expected,
            jobs,
            after: after.into_iter().collect(),
        };
        made.map(admission).collect()
    }

    /// Whether what was committed may not bear this no out: somebody who was in the group has left it in the same round, or was
    /// left out. What one round made, admitted and ended was in the group for nobody else. Then it is asked anew, after the commit.
    pub(super) fn outdates(&self, full: &GroupFull, committed: &Committed) -> bool {
        let in_group = self.of_group(&full.group);
        self.left_groups.contains(&full.group) || committed.conflicts.iter().any(|job| in_group.contains(job))
    }
}

impl<S: Store> Core<S> {
    /// When a group wants to be looked at though nothing comes. Not while commits are known to be lost: that has its own time.
    pub(super) fn next_group_look(&self) -> Time {
        let later = self.groups.later.first().map_or(Time::MAX, |(at, _)| *at);
        if self.amnesia.is_some() {
            return later;
        }
        let lines = if self.groups.must_stir_all { self.groups.lines_from } else { Time::MAX };
        let stirred = if self.groups.stirred.is_empty() { Time::MAX } else { self.tick.now };
        later.min(stirred).min(lines.max(self.tick.now))
    }

    /// A new job with a group: whoever else is in it may have to make room.
    pub(super) fn join_group(&mut self, id: JobId, round: &mut Round) {
        let Some(job) = self.cache.get(id).map(|cached| &cached.job).filter(|job| job.awaits_slot()) else { return };
        let (Some(group), Some(concurrency)) = (job.group.clone(), job.definition.concurrency.clone()) else { return };
        self.groups.stir(&group);
        let outcome = match concurrency.when_full {
            WhenFull::Queue => Ok(()),
            // Whoever could be told no before there was a job was asked then.
            WhenFull::Reject if job.parent.is_none() && job.hook_of.is_none() => Ok(()),
            WhenFull::Reject => self.refuse_if_full(id, &group, concurrency.limit, round),
            WhenFull::CancelOldest => self.cancel_oldest(id, &group, concurrency.limit, round),
        };
        if let Err(error) = outcome {
            tracing::warn!(job = %id, group = &*group, %error, "a group could not be read; the job waits like any other");
        }
    }

    /// For whoever can be told no before there is a job.
    pub(super) fn has_room(
        &mut self,
        group: &Arc<str>,
        definition: &engine::definition::Definition,
        round: &Round,
    ) -> Result<Result<(), GroupFull>, StoreError> {
        let Some(concurrency) = &definition.concurrency else { return Ok(Ok(())) };
        if concurrency.when_full != WhenFull::Reject {
            return Ok(Ok(()));
        }
        self.room_for_one(group, concurrency.limit, None, round)
    }

    fn room_for_one(
        &mut self,
        group: &Arc<str>,
        limit: u32,
        but: Option<JobId>,
        round: &Round,
    ) -> Result<Result<(), GroupFull>, StoreError> {
        let holders: Vec<JobId> = self.standing(group, round)?.holders.iter().map(|holder| holder.job).collect();
        let line: Vec<JobId> = self.line(group, limit as usize + 1, round)?.iter().map(|waiting| waiting.job).collect();
        let in_it: Vec<JobId> = holders.into_iter().chain(line).filter(|job| Some(*job) != but).collect();
        if in_it.len() < limit as usize {
            return Ok(Ok(()));
        }
        let named = match in_it.as_slice() {
            [one] => format!("job {one} is in it"),
            [first, rest @ ..] => format!("job {first} and {} more are in it", rest.len()),
            [] => String::new(),
        };
        Ok(Err(GroupFull { group: group.clone(), limit, in_it: named }))
    }

    /// A job that another one began, and that nobody could be told no for.
    fn refuse_if_full(&mut self, id: JobId, group: &Arc<str>, limit: u32, round: &mut Round) -> Result<(), StoreError> {
        if let Err(full) = self.room_for_one(group, limit, Some(id), round)? {
            let failure = Failure::new(FailureKind::GroupFull, format!("Job refused: {full}"));
            self.refuse_job(id, failure, round);
        }
        Ok(())
    }

    pub(super) fn refuse_job(&mut self, id: JobId, failure: Failure, round: &mut Round) {
        if let Err(error) = self.apply(id, &Event::TurnAway(failure), round) {
            tracing::warn!(job = %id, %error, "a job could not be turned away; it waits");
        }
    }

    /// The newest counts: of those that are not about to end anyway, the oldest is told to.
    fn cancel_oldest(&mut self, id: JobId, group: &Arc<str>, limit: u32, round: &mut Round) -> Result<(), StoreError> {
        let line = self.line(group, LINE_MAX, round)?;
        let holders = self.standing(group, round)?.holders;
        let running = holders.iter().filter(|holder| !holder.ends).map(|holder| (holder.created_at, holder.job));
        let waiting = line.iter().map(|waiting| (waiting.created_at, waiting.job));
        let mut others: Vec<(Time, JobId)> = running.chain(waiting).filter(|(_, job)| *job != id).collect();
        others.sort_unstable();
        if planted::is(Bug::NewestCancelled) {
            others.reverse();
        }
        let family = self.ancestors(id);
        let too_many = (others.len() + 1).saturating_sub(limit as usize);
        for (_, oldest) in others.into_iter().filter(|(_, job)| !family.contains(job)).take(too_many) {
            round.tie(id, oldest);
            let cancel = Event::Cancel { by: format!("job {id} of the same concurrency group"), force: false };
            match self.apply(oldest, &cancel, round) {
                Ok(()) | Err(EventError::Rejected(_) | EventError::NoSuchJob) => {}
                Err(error) => tracing::warn!(job = %oldest, %error, "a job could not be cancelled for a newer one"),
            }
        }
        Ok(())
    }

    /// The jobs that wait for this one's end.
    fn ancestors(&mut self, id: JobId) -> Vec<JobId> {
        let mut found = Vec::new();
        let mut next = self.cache.get(id).and_then(|cached| cached.job.parent);
        while let Some(parent) = next {
            found.push(parent.job);
            let loaded = self.cache.load(parent.job, &mut self.store, &self.definitions);
            next = loaded.ok().and_then(|cached| cached.job.parent);
        }
        found
    }

    /// An attempt that was given up is over after all: so may be the slots that it held.
    pub(super) fn doubt_is_over(&mut self, job: JobId, round: &mut Round) {
        let mut next = Some(job);
        while let Some(job) = next {
            let Ok(cached) = self.cache.load(job, &mut self.store, &self.definitions) else { return };
            next = cached.job.parent.map(|parent| parent.job);
            if let Some(group) = cached.job.group.clone().filter(|_| cached.job.is_final()) {
                self.groups.stir(&group);
                round.left_groups.insert(group);
            }
        }
    }

    /// Admits whom there is room for. Not while commits may be lost: who was admitted may not be on record.
    pub(super) fn settle_groups(&mut self, round: &mut Round) {
        while let Some((at, group)) = self.groups.later.first().cloned()
            && at <= round.now
        {
            self.groups.later.remove(&(at, group.clone()));
            self.groups.stir(&group);
        }
        if (self.groups.stirred.is_empty() && !self.groups.must_stir_all) || self.amnesia.is_some() {
            return;
        }
        if self.has_lost_commits(round) {
            return;
        }
        self.find_lines(round);
        // What is admitted may begin and end at once, and stir others.
        for _ in 0..GROUPS_PER_ROUND {
            let Some(group) = self.groups.stirred.pop_first() else { return };
            if let Err(error) = self.admit_to(&group, round) {
                tracing::warn!(group = &*group, %error, "a concurrency group could not be read; it is tried again");
                self.groups.look_at(&group, round.now + LOOK_AGAIN_SOON);
            }
        }
    }

    /// Everybody who waits, by the rows.
    fn find_lines(&mut self, round: &Round) {
        if !self.groups.must_stir_all || round.now < self.groups.lines_from {
            return;
        }
        match self.store.reader().lines(&self.groups.stirred_up_to, GROUPS_PER_ROUND) {
            Ok(names) => {
                names.iter().for_each(|name| self.groups.stir(&Arc::from(name.as_str())));
                // The rest follows in the next round.
                self.groups.must_stir_all = names.len() == GROUPS_PER_ROUND;
                let last = names.into_iter().last().filter(|_| self.groups.must_stir_all);
                self.groups.stirred_up_to = last.unwrap_or_default();
            }
            Err(error) => {
                tracing::warn!(%error, "the lines of concurrency groups could not be read; they are tried again");
                self.groups.lines_from = round.now + LOOK_AGAIN_SOON;
            }
        }
    }

    fn admit_to(&mut self, group: &Arc<str>, round: &mut Round) -> Result<(), StoreError> {
        // Before all else: what is read after it is at least as new.
        let expected = self.store.reader().last_admitted(group)?;
        let Some(first) = self.line(group, 1, round)?.first().copied() else { return Ok(()) };
        let Standing { holders, left } = self.standing(group, round)?;
        let mut taken = holders.len();
        // As many as the first one's limit has room for, and some more: who is behind may go by a higher one, and some may be
        // past reading.
        let room = self.limit_of(first.job)?.unwrap_or(taken + 1).saturating_sub(taken);
        let most = room.saturating_add(LOOK_BEHIND).min(ADMITTED_PER_ROUND);
        let line = if room == 0 { vec![first] } else { self.line(group, most, round)? };
        let wanted = line.len();
        let (mut seen_to, before) = (0, taken);
        for LineView { job, .. } in line {
            if self.is_set_aside(job) {
                // It cannot be written now, and holds up nobody.
                self.groups.look_at(group, round.now + LOOK_AGAIN_SOON);
                seen_to += 1;
                continue;
            }
            let Some(limit) = self.limit_of(job)? else {
                // It can never be read, and holds up nobody; its own check says so.
                seen_to += 1;
                continue;
            };
            if taken >= limit {
                break;
            }
            seen_to += 1;
            let reason = format!("concurrency group `{group}` has room for it ({taken} of {limit} taken)");
            match self.apply(job, &Event::Admit { reason }, round) {
                Ok(()) => {
                    taken += 1;
                    let made = round.admitted.entry(group.clone()).or_default();
                    if made.jobs.is_empty() {
                        made.expected = expected;
                    }
                    made.jobs.push(job);
                    made.after.extend(&left);
                }
                // Its row says that it waits, and it does not: another server was faster.
                Err(EventError::Rejected(_) | EventError::NoSuchJob) => {}
                Err(EventError::Away(message)) => return Err(StoreError::Unavailable { message }),
                Err(error) => tracing::error!(%job, group = &**group, %error, "a job could not be admitted"),
            }
        }
        if seen_to < wanted {
            self.await_room(group, &holders, round);
        } else if wanted == most && taken > before {
            // There may be more behind them.
            self.groups.stir(group);
        }
        Ok(())
    }

    /// There is no room: when is there without anybody's doing?
    fn await_room(&mut self, group: &Arc<str>, holders: &[Holder], round: &mut Round) {
        if let Some(at) = holders.iter().filter_map(|holder| holder.until).min() {
            self.groups.look_at(group, at.max(round.now + LOOK_AGAIN_SOON));
        }
        self.break_deadlock(group, round);
    }

    /// None where the job cannot be read now or ever: it holds up nobody.
    pub(super) fn limit_of(&mut self, job: JobId) -> Result<Option<usize>, StoreError> {
        match self.cache.load(job, &mut self.store, &self.definitions) {
            Ok(cached) => Ok(cached.job.definition.concurrency.as_ref().map(|concurrency| concurrency.limit as usize)),
            Err(LoadError::Store(error @ StoreError::Unavailable { .. })) => Err(error),
            Err(LoadError::NotFound | LoadError::Store(_)) => Ok(None),
        }
    }

    /// Who waits for the group, in the order of service: by the rows, and by what this round has changed.
    pub(super) fn line(&self, group: &Arc<str>, limit: usize, round: &Round) -> Result<Vec<LineView>, StoreError> {
        let touched = round.of_group(group);
        let rows = self.store.reader().line(group, limit.saturating_add(touched.len()))?;
        let mut line: Vec<LineView> = rows.into_iter().filter(|row| !touched.contains(&row.job)).collect();
        for job in touched.iter().filter_map(|id| self.cache.get(*id)).map(|cached| &cached.job) {
            if job.awaits_slot() {
                let (priority, created_at) = (job.definition.priority, job.created_at);
                line.push(LineView { job: job.id, priority, created_at });
            }
        }
        line.sort_unstable_by_key(|waiting| (Reverse(waiting.priority), waiting.created_at, waiting.job));
        line.truncate(limit);
        Ok(line)
    }

    /// Who has a slot, by the rows and by what this round has changed.
    pub(super) fn standing(&mut self, group: &Arc<str>, round: &Round) -> Result<Standing, StoreError> {
        let rows = self.store.reader().slots(group, round.now - self.config.doubt_max)?;
        let touched = round.of_group(group);
        let mut standing = Standing { holders: Vec::new(), left: Vec::new() };
        for SlotView { job, created_at, ended_at, cancelling } in rows {
            if touched.contains(&job) {
                let is_older = |cached: &Cached| cached.job.header.admitted_at.is_none();
                if self.cache.get(job).is_some_and(is_older) {
                    // Another server has admitted it since it was read here: what this round made of it comes to nothing.
                    standing.holders.push(Holder { job, created_at, until: None, ends: cancelling });
                }
                continue;
            }
            let until = match ended_at {
                None => None,
                Some(_) => match self.doubt_until(job, round)? {
                    None => continue,
                    until => until,
                },
            };
            standing.holders.push(Holder { job, created_at, until, ends: cancelling || until.is_some() });
        }
        for id in touched {
            let Some(job) = self.cache.get(*id).map(|cached| &cached.job) else { continue };
            if job.header.admitted_at.is_none() {
                continue;
            }
            let (created_at, is_final) = (job.created_at, job.is_final());
            let ends = is_final || job.header.cancel.is_some();
            let until = if is_final { self.doubt_until(*id, round)? } else { None };
            if is_final && until.is_none() {
                standing.left.push(*id);
            } else {
                standing.holders.push(Holder { job: *id, created_at, until, ends });
            }
        }
        if planted::is(Bug::GroupSlotLeaks) {
            let leaked = self.groups.leaked.iter().filter(|(of, _)| of == group);
            let holder = |job: JobId| Holder { job, created_at: round.now, until: None, ends: true };
            standing.holders.extend(leaked.map(|(_, job)| holder(*job)));
        }
        Ok(standing)
    }

    /// Admissions that came to nothing: somebody was faster, or what made room did not happen.
    pub(super) fn groups_overtaken(&mut self, committed: &Committed) {
        for group in &committed.groups_moved {
            self.groups.stir(&Arc::from(group.as_str()));
        }
    }

    /// A job that waits has been looked at: so is its group.
    pub(super) fn look_at_group_of(&mut self, job: JobId) {
        let Ok(cached) = self.cache.load(job, &mut self.store, &self.definitions) else { return };
        if let Some(group) = cached.job.group.clone().filter(|_| cached.job.awaits_slot()) {
            self.groups.stir(&group);
        }
    }
}
