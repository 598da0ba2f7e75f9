//! What the database holds, as the checkers have seen it being written: the newest row of every job, step and attempt, with
//! the true time at which each turn was taken. Every checker reads it; only [`Rows::take`] changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, Fence, JobId, StepIx, Time, WorkerId};
use store::Batch;
use store::rows::{AttemptRow, EventRow, JobRow, ServerId, StepRow};

use super::Accepted;
use crate::model::Reason;
use crate::workload::PEOPLE;

/// A step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub job: JobId,
    pub step: StepIx,
}

#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub jobs: BTreeMap<JobId, JobSeen>,
    pub attempts: BTreeMap<AttemptId, AttemptSeen>,
    /// The job that each continuation began with.
    roots: BTreeMap<JobId, JobId>,
    /// The first job that each step began, wherever its line of continuations has got to: those after it do the same.
    firsts: BTreeMap<Place, JobId>,
    open: usize,
    /// Which server has, or had last, a worker's link.
    homes: BTreeMap<WorkerId, ServerId>,
    /// When a server said last that it is there.
    marks: BTreeMap<ServerId, Duration>,
    /// The workers' names. One whose folder was copied says now this one, now that one, and not all servers know at once.
    names: BTreeMap<WorkerId, BTreeSet<String>>,
}

/// What the record says of a step whose worker is cut off because its server is.
const WITH_ITS_SERVER: &str = "gone with its server";

/// A person wants a step to run again.
const RERUN_BY_HAND: &str = "resolved as rerun by";

#[derive(Debug, Clone)]
pub(crate) struct JobSeen {
    pub task: String,
    pub version: u64,
    pub state: &'static str,
    pub is_final: bool,
    /// It goes on for another job: steps may have been taken over.
    pub continues: bool,
    /// The step that began it.
    pub parent: Option<Place>,
    /// The job on whose end it follows.
    pub hook_of: Option<JobId>,
    /// It waits for its concurrency group; it has had a slot of that; something of it was given up and may still run.
    pub in_line: bool,
    pub admitted: bool,
    pub strays: bool,
    /// A step of its own lost touch with its worker, or lost it.
    pub recovered: bool,
    /// By its server's clock.
    pub created_at: Time,
    /// Who submitted it, if it is one of the people.
    pub submitter: &'static str,
    pub input: String,
    pub error_code: Option<&'static str>,
    pub error_step: Option<String>,
    /// When it was first seen.
    pub since: Duration,
    pub steps: BTreeMap<StepIx, StepSeen>,
    /// When somebody, or the job's timeout, first wanted it to end.
    pub cancelled_at: Option<Duration>,
    /// When it was last told that the database was restored.
    pub told_at: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) struct StepSeen {
    pub name: String,
    pub state: &'static str,
    pub is_final: bool,
    /// Who must move it, what is done at its check time, and the worker that it is with, as its row says.
    pub owner: Option<&'static str>,
    pub action: Option<&'static str>,
    pub worker: Option<WorkerId>,
    pub disconnected_at: Option<Time>,
    pub updated_at: Time,
    /// What it gave as `n`, once it is over.
    pub output: Option<i64>,
    pub error_code: Option<&'static str>,
    /// Granted ones, the oldest first.
    pub attempts: Vec<AttemptId>,
    /// Since when it is in this state.
    pub since: Duration,
    /// The last batch that wrote it has changed that.
    pub moved: bool,
    /// Since when the row says that its worker is cut off.
    pub cut_since: Option<Duration>,
    /// Its job was told that the database was restored, before this was over.
    pub was_doubted: bool,
    /// How many people have wanted it to run since then; none once it does.
    pub yeses: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct AttemptSeen {
    pub place: Place,
    pub number: u32,
    pub fence: Fence,
    pub worker: WorkerId,
    pub state: &'static str,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The reason that decided what followed.
    pub settled_as: Option<&'static str>,
    pub error_message: Option<String>,
    /// Given up without proof that nothing of it runs.
    pub in_doubt: bool,
    /// How long it had been cut off when it was given up.
    pub cut_for: Option<Duration>,
    pub over_at: Option<Duration>,
}

impl JobSeen {
    /// It failed for its concurrency group, before anything of it began; not for that of one that a step of it began.
    pub(crate) fn was_turned_away(&self) -> bool {
        self.is_final && is_turned_away(self.error_code, self.error_step.as_deref())
    }

    /// How many orders to stop stand: for the job, and for each step.
    pub(crate) fn orders_to_stop(&self) -> usize {
        let told = self.steps.values().filter(|step| step.state == "cancelling").count();
        told + usize::from(self.cancelled_at.is_some())
    }
}

impl StepSeen {
    /// The name of the step that this one is an item of.
    pub(crate) fn item_of(&self) -> Option<&str> {
        self.name.strip_suffix(']')?.rsplit_once('[').map(|(of, _)| of)
    }
}

impl StepSeen {
    /// Its place among the items of that step.
    pub(crate) fn item_number(&self) -> Option<i64> {
        self.name.strip_suffix(']')?.rsplit_once('[')?.1.parse().ok()
    }
}

impl AttemptSeen {
    pub(crate) fn is_over(&self) -> bool {
        self.over_at.is_some()
    }

    /// Why it came to nothing, as the record has it.
    pub(super) fn reason(&self) -> Reason {
        Reason::of(self.settled_as, self.error_message.as_deref(), self.code())
    }

    /// How it ended by its own word: a code, or a signal below zero.
    pub(crate) fn code(&self) -> Option<i32> {
        self.exit_code.or(self.signal.map(|signal| -signal))
    }
}

impl Rows {
    pub(crate) fn job(&self, id: JobId) -> Option<&JobSeen> {
        self.jobs.get(&id)
    }

    /// How many workers have ever said hello.
    pub(crate) fn workers(&self) -> usize {
        self.names.len()
    }

    /// What this worker is called.
    pub(crate) fn worker_names(&self, id: WorkerId) -> Option<&BTreeSet<String>> {
        self.names.get(&id)
    }

    pub(crate) fn step(&self, place: Place) -> Option<&StepSeen> {
        self.jobs.get(&place.job)?.steps.get(&place.step)
    }

    pub(crate) fn has_open_jobs(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn open_jobs(&self) -> impl Iterator<Item = (JobId, &JobSeen)> {
        self.jobs.iter().filter(|(_, job)| !job.is_final).map(|(id, job)| (*id, job))
    }

    /// The same step of the job that the first one of a line of continuations was.
    pub(crate) fn origin(&self, place: Place) -> Place {
        let root = self.root(place.job);
        let item = self.step(place).filter(|step| step.item_of().is_some());
        match (item, self.job(root)) {
            // Items stand wherever their list came up.
            (Some(item), Some(job)) => {
                let same = job.steps.iter().find(|(_, step)| step.name == item.name).map(|(ix, _)| *ix);
                same.map_or(place, |step| Place { job: root, step })
            }
            _ => Place { job: root, ..place },
        }
    }

    /// The first one of the line of continuations that this job is of, or of the jobs that the same step began.
    pub(crate) fn root(&self, job: JobId) -> JobId {
        let first = self.job(job).and_then(|seen| self.firsts.get(&self.origin(seen.parent?))).copied();
        first.or_else(|| self.roots.get(&job).copied()).unwrap_or(job)
    }

    /// The jobs that wait for this one's end, near and far.
    pub(crate) fn ancestors(&self, job: JobId) -> Vec<JobId> {
        let parent = |id: &JobId| self.job(*id)?.parent.map(|parent| parent.job);
        std::iter::successors(Some(job), parent).skip(1).collect()
    }

    /// The job that nobody began, for which this one is.
    pub(crate) fn outermost(&self, job: JobId) -> JobId {
        match self.job(job).and_then(|seen| seen.parent) {
            Some(parent) => self.outermost(parent.job),
            None => self.root(job),
        }
    }

    /// The jobs that this step has begun, the oldest first.
    pub(crate) fn children(&self, place: Place) -> Vec<(JobId, &JobSeen)> {
        let mut all: Vec<(JobId, &JobSeen)> =
            self.jobs.iter().filter(|(_, job)| job.parent == Some(place)).map(|(id, job)| (*id, job)).collect();
        all.sort_by_key(|(id, job)| (job.since, *id));
        all
    }

    pub(crate) fn has_children(&self, job: JobId) -> bool {
        self.jobs.values().any(|seen| seen.parent.is_some_and(|parent| parent.job == job))
    }

    /// Something of this job, or of those that it began, was given up and may still run.
    pub(crate) fn is_in_doubt(&self, job: JobId) -> bool {
        let of_job = |attempt: &AttemptSeen| attempt.place.job == job && attempt.in_doubt;
        let begun = || self.jobs.iter().filter(|(_, seen)| seen.parent.is_some_and(|parent| parent.job == job));
        self.attempts.values().any(of_job) || begun().any(|(id, _)| self.is_in_doubt(*id))
    }

    /// The attempt of the same step before this one, in the same job.
    pub(crate) fn before(&self, place: Place) -> Option<&AttemptSeen> {
        self.attempts.get(self.step(place)?.attempts.last()?)
    }

    /// Takes over what was committed at this true time.
    pub(crate) fn take(&mut self, now: Duration, batch: &Batch, accepted: &Accepted<'_>) {
        for row in batch.lineage.iter().filter(|row| accepted.job(row.job)) {
            let root = self.roots.get(&row.continues).copied().unwrap_or(row.continues);
            self.roots.insert(row.job, root);
        }
        self.homes.extend(batch.hellos.iter().map(|hello| (hello.id, hello.server)));
        for hello in &batch.hellos {
            self.names.entry(hello.id).or_default().insert(hello.name.clone());
        }
        self.marks.extend(batch.server.iter().map(|server| (server.id, now)));
        accepted.jobs().for_each(|row| self.take_job(now, row));
        // An item may come up and be adopted at once.
        let come_up: Vec<&StepRow> = accepted.steps().filter(|row| !self.has_step(row)).collect();
        come_up.into_iter().for_each(|row| self.take_step(now, row));
        // Attempts first: how long one was cut off is in its step's row as it was before.
        // Of several new ones of one step the oldest comes first, however a batch has them.
        let mut attempts: Vec<&AttemptRow> = accepted.attempts().collect();
        attempts.sort_by_key(|row| row.fence);
        attempts.into_iter().for_each(|row| self.take_attempt(now, row));
        accepted.steps().for_each(|row| self.take_step(now, row));
        for row in batch.events.iter().filter(|row| row.reason.contains(WITH_ITS_SERVER) && accepted.job(row.job)) {
            self.cut_with_its_server(row);
        }
        accepted.attempts().for_each(|row| self.settle(row));
        for row in batch.events.iter().filter(|row| row.kind == "cancel_asked" && accepted.job(row.job)) {
            if let Some(job) = self.jobs.get_mut(&row.job) {
                job.cancelled_at.get_or_insert(now);
            }
        }
        for row in batch.events.iter().filter(|row| accepted.job(row.job)) {
            self.take_word(now, row);
        }
    }

    /// A step lost touch with its worker, a job is told that the database was restored, or a person wants one of its steps to run.
    fn take_word(&mut self, now: Duration, row: &EventRow) {
        let Some(job) = self.jobs.get_mut(&row.job) else { return };
        job.recovered |= row.kind == "step" && row.to == Some("recovering");
        let is_yes = row.kind == "approved" || row.verb == Some("approve") || row.reason.contains(RERUN_BY_HAND);
        match row.ix.and_then(|ix| job.steps.get_mut(&ix)) {
            Some(step) if is_yes => step.yeses = step.yeses.map(|yeses| yeses + 1),
            Some(_) => {}
            None if row.kind == "restored" => {
                job.told_at = Some(now);
                for step in job.steps.values_mut().filter(|step| !step.is_final) {
                    (step.was_doubted, step.yeses) = (true, Some(0));
                }
            }
            None => {}
        }
    }

    /// These are again what they were.
    pub(crate) fn put_back(
        &mut self,
        jobs: Vec<(JobId, Option<JobSeen>)>,
        attempts: Vec<(AttemptId, Option<AttemptSeen>)>,
    ) {
        put_back(&mut self.jobs, jobs);
        put_back(&mut self.attempts, attempts);
        self.open = self.jobs.values().filter(|job| !job.is_final).count();
    }

    fn take_job(&mut self, now: Duration, row: &JobRow) {
        let is_final = row.check_at.is_none();
        let before = self.jobs.remove(&row.id);
        let was_open = before.as_ref().is_some_and(|job| !job.is_final);
        self.open = self.open + usize::from(!is_final) - usize::from(was_open);
        let since = before.as_ref().map_or(now, |job| job.since);
        let recovered = before.as_ref().is_some_and(|job| job.recovered);
        let (steps, cancelled_at, told_at) =
            before.map(|job| (job.steps, job.cancelled_at, job.told_at)).unwrap_or_default();
        let parent = row.parent.map(|parent| Place { job: parent.job, step: parent.step });
        if let Some(parent) = parent {
            let first = self.origin(parent);
            self.firsts.entry(first).or_insert(row.id);
        }
        let seen = JobSeen {
            task: row.task.clone(),
            version: row.version,
            state: row.state,
            is_final,
            continues: self.roots.contains_key(&row.id),
            parent,
            hook_of: row.hook_of,
            in_line: row.group.is_some() && row.admitted_at.is_none() && !is_final,
            admitted: row.admitted_at.is_some(),
            strays: row.strays,
            recovered,
            created_at: row.created_at,
            submitter: PEOPLE.into_iter().find(|person| *person == row.submitted_by).unwrap_or_default(),
            input: row.input.clone(),
            error_code: row.error_code,
            error_step: row.error_step.clone(),
            since,
            steps,
            cancelled_at,
            told_at,
        };
        self.jobs.insert(row.id, seen);
    }

    fn has_step(&self, row: &StepRow) -> bool {
        self.step(Place { job: row.job, step: row.ix }).is_some()
    }

    fn take_step(&mut self, now: Duration, row: &StepRow) {
        let Some(job) = self.jobs.get_mut(&row.job) else { return };
        let before = job.steps.remove(&row.ix);
        let unmoved = before.as_ref().filter(|step| step.state == row.state).map(|step| step.since);
        let cut_since = before.as_ref().and_then(|step| step.cut_since);
        let begins = row.state == "running" && before.as_ref().is_some_and(|step| step.state == "queued");
        let yeses = before.as_ref().and_then(|step| step.yeses).filter(|_| !begins && row.check_at.is_some());
        let seen = StepSeen {
            name: row.name.clone(),
            state: row.state,
            is_final: row.check_at.is_none(),
            owner: row.owner,
            action: row.action,
            worker: row.worker,
            disconnected_at: row.disconnected_at,
            updated_at: row.updated_at,
            output: row.check_at.is_none().then(|| output(&row.data)).flatten(),
            error_code: row.error_code,
            since: unmoved.unwrap_or(now),
            moved: unmoved.is_none(),
            cut_since: row.disconnected_at.map(|_| cut_since.unwrap_or(now)),
            was_doubted: before.as_ref().is_some_and(|step| step.was_doubted),
            yeses,
            attempts: before.map(|step| step.attempts).unwrap_or_default(),
        };
        job.steps.insert(row.ix, seen);
    }

    /// The worker is cut off since its server was last there, not since somebody else noticed.
    fn cut_with_its_server(&mut self, row: &EventRow) {
        let step = row.ix.and_then(|ix| self.jobs.get_mut(&row.job)?.steps.get_mut(&ix));
        let Some(step) = step else { return };
        let worker = step.attempts.last().and_then(|id| Some(self.attempts.get(id)?.worker));
        let heard = worker.and_then(|worker| self.marks.get(self.homes.get(&worker)?)).copied();
        step.cut_since = step.cut_since.map(|since| heard.map_or(since, |heard| since.min(heard)));
    }

    /// What an attempt's end was taken for. Its own word counts; where it had none, or was told to stop, its step's does:
    /// one that was lost on its way out after its timeout has timed out.
    fn settle(&mut self, row: &AttemptRow) {
        let step = self.step(Place { job: row.job, step: row.ix }).and_then(|step| step.error_code);
        let is_cancelled = self.job(row.job).is_some_and(|job| job.cancelled_at.is_some());
        let Some(attempt) = self.attempts.get_mut(&row.id).filter(|attempt| attempt.is_over()) else { return };
        attempt.settled_as = match (row.state, row.error_code, step) {
            ("ended", Some("cancelled"), None) if !is_cancelled => Some("runner_stale"),
            ("ended", Some("cancelled"), step) => step.or(Some("cancelled")),
            ("ended", code, _) => code,
            (_, code, step) => step.or(code),
        };
    }

    fn take_attempt(&mut self, now: Duration, row: &AttemptRow) {
        let place = Place { job: row.job, step: row.ix };
        let Some(job) = self.jobs.get_mut(&row.job) else { return };
        job.recovered |= row.state == "lost";
        let Some(step) = job.steps.get_mut(&row.ix) else { return };
        if !self.attempts.contains_key(&row.id) {
            step.attempts.push(row.id);
        }
        let over = row.ended_at.is_some();
        let cut_for = step.cut_since.filter(|_| over).map(|since| now - since);
        let before = self.attempts.get(&row.id);
        let over_at = before.and_then(|seen| seen.over_at).or(over.then_some(now));
        let seen = AttemptSeen {
            place,
            number: row.number,
            fence: row.fence,
            worker: row.worker,
            state: row.state,
            exit_code: row.exit_code,
            signal: row.signal,
            settled_as: row.error_code,
            error_message: row.error_message.clone(),
            in_doubt: row.state == "lost" && !row.confirmed,
            cut_for,
            over_at,
        };
        self.attempts.insert(row.id, seen);
    }
}

/// The number in the output that a step's row holds.
fn output(data: &str) -> Option<i64> {
    serde_json::from_str::<serde_json::Value>(data).ok()?.get("output")?.get("n")?.as_i64()
}

/// How a job ends that its concurrency group does not take.
pub(super) fn is_turned_away(code: Option<&str>, step: Option<&str>) -> bool {
    matches!((code, step), (Some("group_full" | "group_deadlock"), None))
}

/// Values as they were, and nothing where there was none.
pub(super) fn put_back<K: Ord, V>(map: &mut BTreeMap<K, V>, before: Vec<(K, Option<V>)>) {
    for (key, value) in before {
        match value {
            Some(value) => drop(map.insert(key, value)),
            None => drop(map.remove(&key)),
        }
    }
}
