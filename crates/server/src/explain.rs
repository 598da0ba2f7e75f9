//! Why a job is where it is: the engine explains, over the job as it is stored and the fleet as the ledger knows it.
//!
//! `GET /api/jobs/{id}/why` answers with it, and the simulator looks at it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::job::continues_how_in_words;
use api::late_outcome_in_words;
use engine::deadline::Rules;
use engine::why::{DoubtView, HolderView, LineView, LooseEnd, MatchView, PauseView, Refusal, Roster, Why, WorkerView};
use engine::workers::Unwilling;
use engine::{Clocks, Job, JobId, JobState, Origin, StepIx, Time, WorkerId};
use planted::Bug;
use store::read::{Family, Lineage};
use store::rows::{BeatRole, WorkerRow};
use store::{Reader, StoreError};

use crate::dispatch::{self, Pause, TagSet};
use crate::ledger::{DOUBT_MAX, Definitions, slot_held_until};
use crate::origins;

/// The verb of a refused offer in a job's history.
const REFUSED: &str = "refused";

/// A place in line beyond this is told as this one.
const LINE_MAX: usize = 10_000;

/// Jobs that one job began of which it is asked whether something of them still runs.
const CHILDREN_MAX: usize = 10_000;

/// Of the jobs that do its steps so many are asked how they stand.
const CHILDREN_TOLD_MAX: usize = 100;

/// Of those that go on from each other, so many of the newest are looked at.
const KIN_MAX: usize = 100;

/// Events that are read at once.
const EVENTS_PAGE: usize = 1_000;

/// None if there is no such job.
pub fn explain(
    reader: &dyn Reader,
    definitions: &Definitions,
    clocks: &Clocks,
    id: JobId,
    live: Live,
) -> Result<Option<Why>, StoreError> {
    let Some(stored) = reader.job(id)? else { return Ok(None) };
    let (job, _) = definitions.load(&stored)?;
    let window = live.window;
    let mut fleet = Fleet::new(live, &reader.workers()?);
    if job.awaits_slot() {
        fleet.line = Some(line(reader, definitions, clocks.now, &job, window)?);
    }
    if fleet.members.values().any(|member| member.blocked) {
        fleet.hear_refusals(reader, id)?;
    }
    fleet.hear_attempts(reader, &job)?;
    fleet.hear_children(reader, &job)?;
    let lineage = reader.lineage(id)?;
    fleet.origins = origins::of_steps(reader, &job, lineage.continues.is_some())?;
    let mut why = engine::why::why(&job, &fleet, clocks);
    why.summary += &kin(&lineage, &reader.family(id, KIN_MAX)?, id);
    Ok(Some(why))
}

/// Where the job stands among those that went on from each other.
fn kin(lineage: &Lineage, family: &Family, id: JobId) -> String {
    let own = family.members.iter().find(|kin| kin.job == id);
    let how =
        own.and_then(|kin| continues_how_in_words(&kin.how)).map(|words| format!(" ({words})")).unwrap_or_default();
    let before = lineage.continues.map(|job| format!(" It continues job {job}{how}.")).unwrap_or_default();
    // The newest one is the first.
    let next = family.members.iter().find(|kin| kin.continues == id).map(|kin| kin.job).or(lineage.resolved_by);
    let after = next.map(|job| format!(" It is continued by job {job}.")).unwrap_or_default();
    before + &after
}

/// Who stands before a job in the line of its concurrency group, and who has the slots.
fn line(
    reader: &dyn Reader,
    definitions: &Definitions,
    now: Time,
    job: &Job,
    window: Duration,
) -> Result<LineView, StoreError> {
    let group = job.group.as_deref().unwrap_or_default();
    let place = reader.line(group, LINE_MAX)?.iter().take_while(|waiting| waiting.job != job.id).count();
    let mut holders = Vec::new();
    for slot in reader.slots(group, now - DOUBT_MAX)? {
        let doubt = match slot.ended_at {
            None => None,
            Some(_) => match doubt(reader, definitions, now, slot.job, window)? {
                None => continue,
                doubt => doubt,
            },
        };
        holders.push(HolderView { job: slot.job, doubt });
    }
    Ok(LineView { before: u32::try_from(place).unwrap_or(u32::MAX), holders })
}

/// What holds the slot of a job that is over: of its attempts, and of those of jobs that it began, that may still run, the one that
/// counts for longest.
pub(crate) fn doubt(
    reader: &dyn Reader,
    definitions: &Definitions,
    now: Time,
    id: JobId,
    window: Duration,
) -> Result<Option<DoubtView>, StoreError> {
    let Some(stored) = reader.job(id)? else { return Ok(None) };
    let (job, _) = definitions.load(&stored)?;
    if !job.header.strays {
        return Ok(None);
    }
    let mut longest: Option<DoubtView> = None;
    let mut add = |found: DoubtView| {
        if longest.as_ref().is_none_or(|longest| longest.until < found.until) {
            longest = Some(found);
        }
    };
    for attempt in reader.unconfirmed(id)? {
        let Some(given_up_at) = attempt.ended_at.filter(|_| attempt.ix.get() < job.steps.len()) else { continue };
        let until = slot_held_until(job.def(attempt.ix), given_up_at, window, DOUBT_MAX);
        if until > now {
            add(DoubtView {
                step: job.name(attempt.ix).into_owned(),
                number: attempt.number,
                worker: attempt.worker_name.unwrap_or_else(|| attempt.worker.to_string()),
                given_up_at: Some(given_up_at),
                until,
            });
        }
    }
    for child in reader.children(id, CHILDREN_MAX)? {
        doubt(reader, definitions, now, child, window)?.into_iter().for_each(&mut add);
    }
    Ok(longest)
}

/// Every worker that was not removed: those that the ledger knows as they are now, the rest as they were last.
struct Fleet {
    members: BTreeMap<WorkerId, Member>,
    pause: Option<Pause>,
    loose_ends: BTreeMap<StepIx, Vec<LooseEnd>>,
    runners: BTreeMap<StepIx, Time>,
    line: Option<LineView>,
    /// Steps whose files their workers carry at the moment.
    carried: BTreeSet<StepIx>,
    /// Steps that never ran here, where the job goes on for another.
    origins: HashMap<StepIx, Origin>,
    /// Of steps that jobs of their own do.
    children: HashMap<StepIx, JobState>,
}

/// The fleet as the ledger knows it now.
pub struct Live {
    members: BTreeMap<WorkerId, Member>,
    pause: Option<Pause>,
    /// How long the installation waits for a worker that is cut off.
    window: Duration,
}

impl Live {
    pub fn of(roster: &dispatch::Roster) -> Live {
        let members = roster.iter().map(|(id, worker)| (id, Member::of(worker))).collect();
        Live { members, pause: roster.pause().cloned(), window: Rules::default().recovery_window }
    }

    #[must_use]
    pub fn with_window(self, window: Duration) -> Live {
        Live { window, ..self }
    }
}

struct Member {
    name: String,
    host: String,
    tags: TagSet,
    connected: bool,
    /// Why it gets no new work at all, if so.
    unwilling: Option<&'static str>,
    has_room: bool,
    /// It refused an offer, and gets no other before its next heartbeat.
    blocked: bool,
    /// Why, if the offer was one of this job.
    refusal: Option<String>,
    slots: u32,
    held: u32,
    last_seen: Option<Time>,
}

impl Member {
    fn of(worker: &dispatch::Worker) -> Member {
        Member {
            name: worker.name.clone(),
            host: worker.hostname.clone(),
            tags: worker.tags.clone(),
            connected: worker.is_connected(),
            unwilling: worker.unwilling(),
            has_room: worker.has_room(),
            blocked: worker.blocked,
            refusal: None,
            slots: worker.slots,
            held: u32::try_from(worker.held.len()).unwrap_or(u32::MAX).min(worker.slots),
            last_seen: worker.last_seen,
        }
    }

    fn away(row: &WorkerRow) -> Member {
        Member {
            tags: TagSet::of_row(row),
            name: row.name.clone(),
            host: row.hostname.clone(),
            connected: false,
            unwilling: dispatch::unwilling(false, row.draining),
            has_room: false,
            blocked: false,
            refusal: None,
            slots: row.slots,
            held: 0,
            last_seen: row.last_seen_at,
        }
    }
}

impl Fleet {
    fn new(mut live: Live, rows: &[Arc<WorkerRow>]) -> Fleet {
        let here = rows.iter().filter(|row| row.removed_at.is_none());
        let members = here.map(|row| {
            let id = row.id;
            // The ledger knows some only by what they hold; without a link the row says more.
            let member = match live.members.remove(&id).filter(|member| member.connected) {
                Some(mut member) => {
                    member.last_seen = member.last_seen.max(row.last_seen_at);
                    member
                }
                None => Member::away(row),
            };
            (id, member)
        });
        let (loose_ends, runners, carried) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Fleet {
            members: members.collect(),
            pause: live.pause,
            loose_ends,
            runners,
            carried,
            line: None,
            origins: HashMap::new(),
            children: HashMap::new(),
        }
    }

    /// What is known of attempts beyond their steps' states.
    fn hear_attempts(&mut self, reader: &dyn Reader, job: &engine::Job) -> Result<(), StoreError> {
        for attempt in reader.attempts(job.id)? {
            let live = job.state(attempt.ix).live().is_some_and(|live| live.attempt == attempt.id);
            if live {
                let beats = reader.beats(attempt.id)?;
                let newest = |role| beats.iter().filter(|beat| beat.role == role).max_by_key(|beat| beat.last_at);
                let (runner, claimer) = (newest(BeatRole::Runner), newest(BeatRole::Claimer));
                self.runners.extend(runner.map(|runner| (attempt.ix, runner.last_at)));
                // Before the step's process and after it, the worker speaks in the runner's place.
                if runner.is_some() && runner.map(|beat| beat.pid) == claimer.map(|beat| beat.pid) {
                    self.carried.insert(attempt.ix);
                }
            } else if !attempt.confirmed || attempt.late_outcome.is_some() {
                let worker = attempt.worker_name.unwrap_or_else(|| attempt.worker.to_string());
                let (number, confirmed) = (attempt.number, attempt.confirmed);
                let (given_up_at, late) = (attempt.ended_at, attempt.late_outcome.as_deref().map(late_in_words));
                let end = LooseEnd { number, worker, given_up_at, confirmed, late };
                self.loose_ends.entry(attempt.ix).or_default().push(end);
            }
        }
        Ok(())
    }

    /// How the jobs stand that do steps of this one.
    fn hear_children(&mut self, reader: &dyn Reader, job: &Job) -> Result<(), StoreError> {
        let steps = (0..job.steps.len()).map(StepIx::of);
        let begun = steps.filter_map(|ix| Some((ix, job.state(ix).child()?)));
        for (ix, child) in begun.take(CHILDREN_TOLD_MAX) {
            let state = reader.job(child)?.and_then(|stored| JobState::from_word(&stored.job.state));
            self.children.extend(state.map(|state| (ix, state)));
        }
        Ok(())
    }

    /// Takes from the job's history why workers refused its offers; their last word counts.
    fn hear_refusals(&mut self, reader: &dyn Reader, job: JobId) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let events = reader.events(Some(job), after, EVENTS_PAGE)?;
            let Some(last) = events.last() else { return Ok(()) };
            after = last.id;
            for event in events.iter().filter(|event| event.verb.as_deref() == Some(REFUSED)) {
                if let Some(member) = event.worker.and_then(|worker| self.members.get_mut(&worker)) {
                    member.refusal = Some(refusal(&event.reason));
                }
            }
        }
    }
}

impl Roster for Fleet {
    fn worker(&self, id: WorkerId) -> Option<WorkerView> {
        let another = || self.members.iter().find(|(other, _)| **other != id).map(|(_, member)| member);
        let wrong = planted::is(Bug::WhyNamesAnother).then(another).flatten();
        let member = wrong.or_else(|| self.members.get(&id))?;
        Some(WorkerView {
            name: member.name.clone(),
            host: member.host.clone(),
            connected: member.connected,
            last_seen: member.last_seen,
        })
    }

    fn loose_ends(&self, step: StepIx) -> Vec<LooseEnd> {
        self.loose_ends.get(&step).cloned().unwrap_or_default()
    }

    fn runner_seen(&self, step: StepIx) -> Option<Time> {
        self.runners.get(&step).copied()
    }

    fn origin(&self, step: StepIx) -> Option<Origin> {
        self.origins.get(&step).cloned()
    }

    fn child(&self, step: StepIx) -> Option<JobState> {
        self.children.get(&step).copied()
    }

    fn carries_files(&self, step: StepIx) -> bool {
        self.carried.contains(&step)
    }

    fn pause(&self) -> Option<PauseView> {
        self.pause.as_ref().map(|pause| PauseView { since: pause.since, by: pause.by.clone() })
    }

    fn line(&self) -> Option<LineView> {
        self.line.clone()
    }

    fn matching(&self, tags: &[Arc<str>]) -> MatchView {
        let wanted = TagSet::new(tags.iter().cloned());
        let mut view = MatchView::default();
        for member in self.members.values() {
            let fits = member.tags.contains_all(&wanted);
            view.connected += u32::from(member.unwilling.is_none());
            if let Some(why) = member.unwilling {
                view.away.extend(fits.then(|| Unwilling { why, name: member.name.clone() }));
            } else if fits {
                view.matching += 1;
                if member.blocked {
                    view.refusals.push(Refusal { worker: member.name.clone(), why: member.refusal.clone() });
                } else {
                    view.busy += u32::from(!member.has_room);
                }
                view.slots += member.slots;
                view.slots_taken += member.held;
            }
        }
        let known = |tag: &str| self.members.values().any(|member| member.tags.iter().any(|has| has == tag));
        view.missing = tags.iter().filter(|tag| !known(tag)).cloned().collect();
        view
    }
}

/// An end that came late, as its row keeps it.
pub(crate) fn late_in_words(outcome: &str) -> String {
    serde_json::from_str(outcome).map_or_else(|_| outcome.to_owned(), |outcome| late_outcome_in_words(&outcome))
}

/// The worker's reason as history keeps it, `DiskFull: …`, in words.
fn refusal(reason: &str) -> String {
    let (code, detail) = reason.split_once(": ").unwrap_or((reason, ""));
    let why = match code {
        "Busy" => "it is busy",
        "Draining" => "it is draining",
        "DiskFull" => "its disk is full",
        "Broken" => "it could not prepare the step",
        _ => return reason.to_owned(),
    };
    if detail.is_empty() { why.to_owned() } else { format!("{why}: {detail}") }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn refusals_are_told_in_words() {
        assert_eq!(refusal("DiskFull: no space left on device"), "its disk is full: no space left on device");
        assert_eq!(refusal("Busy: "), "it is busy");
        assert_eq!(refusal("something new: x"), "something new: x");
    }
}
