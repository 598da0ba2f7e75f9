//! The checkers. They see every commit and every child's life, decide nothing, and share nothing with the engine but types.
//!
//! [`Checks`] is their one door: the database shows it every batch (a [`Witness`]), the world tells it what really happened.
//! Each checker is a file of its own that opens with what it promises. All of them work on what a batch or an event brings;
//! what has to look at everything does so at a few moments, or at the end.

mod accepted;
mod calls;
mod doubts;
mod dwell;
mod ears;
mod ends;
mod files;
mod finals;
mod gates;
mod groups;
mod identities;
mod kin;
mod leaks;
mod leases;
mod liveness;
mod lives;
mod logs;
mod notices;
mod orphans;
mod outputs;
mod past;
mod plans;
mod post;
mod priority;
mod proof;
mod pulse;
mod queue;
mod reasons;
mod restored;
mod retention;
mod rows;
mod schedules;
mod secrets;
mod silence;
mod submits;
mod supply;
mod times;
mod turns;
mod voices;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use engine::why::Why;
use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use protocol::attempt::{AttemptSpec, Ticket};
use protocol::link::RefusedCode;
use server::ledger::Census;
use store::rows::StoredJob;
use store::{Batch, Committed, Reader, StoreError, Tenure};
use uuid::Uuid;

use crate::database::Witness;
use crate::faults::Fault;
use crate::model::{End, ProgramEnd};
use crate::setup::Setup;
use crate::workload::{GroupPlan, JobPlan};
pub(crate) use accepted::Accepted;
use calls::Calls;
use doubts::Doubts;
use dwell::Dwell;
use ears::Ears;
use ends::Ends;
use files::Files;
use finals::Finals;
use gates::Gates;
use groups::Groups;
use identities::Identities;
use kin::Kin;
use leaks::Cast;
pub(crate) use leaks::HostCensus;
use leases::Leases;
use liveness::Liveness;
use lives::Lives;
use logs::Logs;
use notices::Notices;
use orphans::Orphans;
use outputs::Outputs;
use past::{Before, Past};
use plans::Plans;
use post::Post;
use priority::Priority;
use queue::Queue;
use reasons::Asked;
use restored::Restored;
use retention::Retention;
pub(crate) use rows::Place;
use rows::{JobSeen, Rows};
use schedules::Schedules;
use silence::Silence;
use supply::Supply;
use times::Times;
use voices::Voices;
use waits::Waits;

/// A server's clock that was set ahead is followed so much faster than time goes: windows by it are that much shorter.
const FASTEST_CLOCK: f64 = 1.1;

/// Something that must never happen did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The checker's name.
    pub checker: &'static str,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// What is wrong, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, checker: &'static str, what: String) {
        self.0.push(Finding { checker, what });
    }
}

/// What the checkers know.
pub(crate) struct Checks {
    /// True time, which no party can read.
    now: Duration,
    found: Findings,
    plans: Plans,
    rows: Rows,
    times: Times,
    finals: Finals,
    voices: Voices,
    lives: Lives,
    ears: Ears,
    silence: Silence,
    doubts: Doubts,
    dwell: Dwell,
    supply: Supply,
    identities: Identities,
    kin: Kin,
    orphans: Orphans,
    outputs: Outputs,
    logs: Logs,
    ends: Ends,
    gates: Gates,
    groups: Groups,
    schedules: Schedules,
    calls: Calls,
    leases: Leases,
    liveness: Liveness,
    post: Post,
    restored: Restored,
    retention: Retention,
    notices: Notices,
    files: Files,
    waits: Waits,
    priority: Priority,
    queue: Queue,
    past: Past,
    /// Whether some server was up when the last commits were lost.
    remembers: bool,
    /// Servers that were up when commits were last lost, while none of them has written anything since: whoever does sees it.
    witnesses: BTreeSet<usize>,
    forgot_at: Duration,
    /// How many there are.
    servers: usize,
    triggers: usize,
}

impl Checks {
    pub(crate) fn new(setup: &Setup, plans: &[JobPlan]) -> Checks {
        Checks {
            now: Duration::ZERO,
            found: Findings::default(),
            plans: Plans::new(plans, &setup.schedules, &setup.calls),
            rows: Rows::default(),
            times: Times::default(),
            finals: Finals::default(),
            voices: Voices::default(),
            lives: Lives::new(setup),
            ears: Ears::new(setup),
            silence: Silence::new(setup),
            doubts: Doubts::default(),
            dwell: Dwell::new(setup),
            supply: Supply::new(setup),
            identities: Identities::default(),
            kin: Kin::default(),
            orphans: Orphans::default(),
            outputs: Outputs::default(),
            logs: Logs::default(),
            ends: Ends::new(setup),
            gates: Gates::default(),
            groups: Groups::new(setup),
            schedules: Schedules::new(&setup.schedules, !setup.calls.is_empty()),
            calls: Calls::new(&setup.calls),
            leases: Leases::new(setup),
            liveness: Liveness::new(setup),
            post: Post::default(),
            restored: Restored::default(),
            retention: Retention::new(setup),
            notices: Notices::new(setup),
            files: Files::default(),
            waits: Waits::default(),
            priority: Priority::default(),
            queue: Queue::default(),
            past: Past::default(),
            remembers: true,
            witnesses: BTreeSet::new(),
            forgot_at: Duration::ZERO,
            servers: setup.servers,
            triggers: setup.schedules.len() + setup.calls.len(),
        }
    }

    /// What will go wrong, as far as checkers have to prepare for it.
    pub(crate) fn expect(&mut self, faults: &[Fault]) {
        self.past.expected = faults.iter().any(|fault| fault.kind.forgets());
        self.groups.expect(faults);
        self.priority.expect(faults);
        self.queue.expect(faults);
    }

    /// The database is about to lose its last commits. These servers remember them, until they die.
    pub(crate) fn will_forget(&mut self, servers: BTreeSet<usize>) {
        self.remembers = !servers.is_empty();
        (self.witnesses, self.forgot_at) = (servers, self.now);
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.found.0
    }

    /// It is this late now.
    pub(crate) fn moment(&mut self, now: Duration) {
        self.now = now;
        self.liveness.look(now, &self.rows, &mut self.found);
    }

    pub(crate) fn submitted(&mut self, plan: usize, job: JobId, earlier: Option<JobId>) {
        // One whose commit was lost is not there any more.
        // Nor is one that is so old that it was deleted, with the key that it was submitted with.
        let is_there = |job: JobId| self.rows.job(job).is_some() && !self.retention.is_deleted(job);
        if let Some(earlier) = earlier.filter(|earlier| *earlier != job && is_there(*earlier)) {
            self.found.add("submit", format!("plan {plan} became two jobs, {earlier} and {job}"));
        }
    }

    /// Whoever called for this delivery heard of a job once more.
    pub(crate) fn called(&mut self, delivery: usize, job: JobId, earlier: JobId) {
        let is_there = self.rows.job(earlier).is_some() && !self.retention.is_deleted(earlier);
        Calls::answered(delivery, [earlier, job], is_there, &mut self.found);
    }

    /// Whoever submitted this plan heard that its group is full.
    pub(crate) fn turned_away(&mut self, plan: usize) {
        let Checks { now, found, plans, rows, retention, .. } = self;
        let Some(plan) = plans.all().nth(plan) else { return };
        let is_there =
            |(id, job): &(&JobId, &JobSeen)| job.task == plan.name && !job.continues && !retention.is_deleted(**id);
        if let Some((job, _)) = rows.jobs.iter().find(is_there) {
            found.add("group", format!("{} was refused, and is there as job {job}", plan.name));
        }
        self.groups.turned_away(*now, plan, rows, plans, found);
    }

    pub(crate) fn approve_asked(&mut self, job: JobId, step: StepIx, by: &'static str) {
        self.gates.approve_asked(Place { job, step }, by);
    }

    /// Whether more than one person's yes may be wanted for this step.
    pub(crate) fn has_gate(&self, job: JobId, step: StepIx) -> bool {
        self.plans.step(&self.rows, Place { job, step }).is_some_and(|plan| plan.gate.is_some())
    }

    pub(crate) fn is_submitted_by(&self, job: JobId, person: &str) -> bool {
        self.rows.job(job).is_some_and(|job| job.submitter == person)
    }

    /// The servers' folder has all of this set.
    pub(crate) fn files_stored(&mut self, set: &str) {
        self.files.stored(set);
    }

    /// The step's process executes; these sets of files are in its folder.
    pub(crate) fn started_with_files(&mut self, spec: &AttemptSpec, there: &[String]) {
        // Where rows were lost, what a step was given may be on no record.
        if !self.past.has_lost {
            self.files.started(&self.rows, &self.plans, spec, there, &mut self.found);
            Outputs::started(&self.rows, &self.plans, spec, &mut self.found);
        }
    }

    /// A word to the outside is there.
    pub(crate) fn arrived(&mut self, id: Uuid, text: &str) {
        self.post.arrived(id, text, &mut self.found);
    }

    pub(crate) fn reject_asked(&mut self, job: JobId, step: StepIx) {
        self.ends.reject_asked(Place { job, step });
    }

    /// A person wants a job like this one, with these inputs.
    pub(crate) fn input_asked(&mut self, job: JobId, input: String) {
        self.retention.input_asked(job, input);
    }

    /// A person wants the step to end so, or to run once more.
    pub(crate) fn resolve_asked(&mut self, job: JobId, step: StepIx, how: Option<End>) {
        let place = Place { job, step };
        match how {
            Some(end) => self.ends.resolve_asked(place, end),
            None => self.lives.rerun_asked(place),
        }
    }

    /// Something goes wrong, or an operator acts.
    pub(crate) fn troubled(&mut self) {
        self.ends.troubled();
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn peace(&mut self, now: Duration) {
        self.ears.peace(now);
        self.liveness.peace(now, &self.rows, &self.plans, self.restored.is_said());
    }

    /// A look at everything that is open, now and then.
    pub(crate) fn look_around(&mut self) {
        let Checks { now, found, plans, rows, lives, .. } = self;
        let over_since = |place: Place| {
            let attempt = rows.step(place)?.attempts.last()?;
            lives.over_since(*attempt)
        };
        let waits = |place| restored::awaits_a_person(rows, plans, place);
        self.liveness.look_for_the_stuck(*now, (rows, plans), over_since, waits, found);
        if self.liveness.is_settled(*now) {
            self.groups.look(*now, rows, plans, found);
        }
    }

    /// Nothing starts by itself any more.
    pub(crate) fn unscheduled(&mut self) {
        self.schedules.end();
    }

    pub(crate) fn open_jobs(&self) -> Vec<JobId> {
        self.rows.open_jobs().map(|(id, _)| id).collect()
    }

    /// Jobs that are over, and there.
    pub(crate) fn final_jobs(&self) -> Vec<JobId> {
        let jobs = self.rows.jobs.iter().filter(|(id, job)| job.is_final && !self.retention.is_deleted(**id));
        jobs.map(|(id, _)| *id).collect()
    }

    pub(crate) fn has_open_jobs(&self) -> bool {
        self.rows.has_open_jobs()
    }

    pub(crate) fn failed_jobs(&self) -> Vec<JobId> {
        let failed = self.rows.jobs.iter().filter(|(_, job)| job.state == "failed").map(|(id, _)| *id);
        failed.filter(|id| !self.retention.is_deleted(*id)).collect()
    }

    /// Steps that failed in jobs that are over.
    pub(crate) fn failed_steps(&self) -> Vec<(JobId, StepIx)> {
        let mut found = Vec::new();
        let is_there = |id: JobId| !self.retention.is_deleted(id);
        for (id, job) in self.rows.jobs.iter().filter(|(id, job)| job.state == "failed" && is_there(**id)) {
            found.extend(job.steps.iter().filter(|(_, step)| step.state == "failed").map(|(ix, _)| (*id, *ix)));
        }
        found
    }

    /// Nothing of this job, or of one that it goes on for, runs anywhere. Neither is there a frozen runner, which cleans up later.
    pub(crate) fn is_dead(&self, job: JobId) -> bool {
        let rows = &self.rows;
        let frozen = self.ears.freezes().filter(|(_, freeze)| freeze.until > self.now);
        let frozen = frozen.filter_map(|(id, _)| rows.attempts.get(&id)).map(|attempt| attempt.place);
        self.lives.alive_places().chain(frozen).all(|place| rows.outermost(place.job) != rows.outermost(job))
    }

    /// Open jobs that have a slot of their concurrency group, and whether somebody waits for it.
    pub(crate) fn held_slots(&self) -> BTreeMap<JobId, bool> {
        let held = self.rows.open_jobs().filter(|(_, job)| job.admitted);
        let waits = |holder: JobId| self.rows.open_jobs().any(|(id, job)| job.in_line && self.shares_group(id, holder));
        held.map(|(id, _)| (id, waits(id))).collect()
    }

    /// Both are of the same concurrency group.
    pub(crate) fn shares_group(&self, job: JobId, other: JobId) -> bool {
        let group = |job| Some(&self.plans.job(&self.rows, job)?.group.as_ref()?.name);
        group(job).is_some_and(|name| group(other) == Some(name))
    }

    pub(crate) fn steps_in(&self, state: &str) -> Vec<(JobId, StepIx)> {
        let mut found = Vec::new();
        for (id, job) in self.rows.open_jobs() {
            found.extend(job.steps.iter().filter(|(_, step)| step.state == state).map(|(ix, _)| (id, *ix)));
        }
        found
    }

    /// A worker's process begins, with a state folder that knows this epoch.
    pub(crate) fn worker_starts(&mut self, session: Uuid, last_epoch: u64) {
        self.identities.worker_starts(session, last_epoch);
    }

    /// A worker said in its hello that it cannot know whether this attempt was more than an offer.
    pub(crate) fn cannot_know(&mut self, ticket: Ticket) {
        self.voices.cannot_know(AttemptId(ticket.attempt));
    }

    /// A worker was told that the server has all of this attempt. `log_is_whole`: as the server has it.
    pub(crate) fn told_to_forget(&mut self, worker: WorkerId, ticket: Ticket, log_is_whole: bool) {
        let id = AttemptId(ticket.attempt);
        // Where commits are lost, it may have had it when it said so.
        let Some(attempt) = self.rows.attempts.get(&id).filter(|_| !self.past.expected) else { return };
        // Nobody wants anything of a job that was deleted.
        if self.retention.is_deleted(attempt.place.job) {
            return;
        }
        // A loss is no evidence from whoever was enrolled on that folder later: the window decides.
        if attempt.worker != worker && !attempt.is_over() {
            return;
        }
        let lacks = match attempt.is_over() {
            false => "its end",
            true if self.logs.has_lines(id) && !log_is_whole => "all of its log",
            true => return,
        };
        self.found.add("forget", format!("attempt {id} of {} is put away, and nobody has {lacks}", attempt.place.job));
    }

    /// This worker says hello, or is welcomed: it can be told what to end.
    pub(crate) fn worker_comes(&mut self, now: Duration, worker: WorkerId) {
        self.orphans.comes(now, worker);
    }

    /// This worker says in its hello that it will not come back.
    pub(crate) fn will_not_come_back(&mut self, worker: WorkerId) {
        self.lives.will_not_come_back(worker);
    }

    pub(crate) fn child_started(&mut self, now: Duration, host: usize, ticket: Ticket) {
        let recorded = self.rows.attempts.get(&AttemptId(ticket.attempt)).map(|attempt| attempt.place);
        // Where commits are lost, what is admitted may not be on record.
        if let Some(place) = recorded.filter(|_| !self.past.expected) {
            let alive = self.lives.alive_places();
            self.groups.started(now, place, alive, (&self.rows, &self.plans), &mut self.found);
        }
        self.lives.started(now, host, ticket, &self.rows, &self.plans, &mut self.found);
    }

    /// The cleanup of an attempt executes. `unfit`: what forbids that, as its host knows.
    pub(crate) fn cleanup_started(&mut self, now: Duration, ticket: Ticket, unfit: Option<&str>) {
        self.lives.cleanup_started(now, ticket, unfit, (&self.rows, &self.plans), &mut self.found);
    }

    /// Whether it has all secrets that it is to be given.
    pub(crate) fn equipped(&mut self, ticket: Ticket, given: bool) {
        secrets::started(ticket, given, &mut self.found);
    }

    /// A step starts on a host whose worker is too old for it.
    pub(crate) fn started_unable(&mut self, host: usize, ticket: Ticket, lacks: &str) {
        supply::started_unable(host, ticket, lacks, &mut self.found);
    }

    /// A worker has made a folder; `told`: a secret's value is in it.
    pub(crate) fn prepared(&mut self, ticket: Ticket, told: bool) {
        secrets::prepared(ticket, told, &mut self.found);
    }

    pub(crate) fn child_ended(&mut self, now: Duration, ticket: Ticket) {
        self.lives.ended(now, ticket, &mut self.found);
    }

    /// The process of this attempt has ended, and left this as its output.
    pub(crate) fn wrote(&mut self, ticket: Ticket, number: i64) {
        self.outputs.wrote(ticket, number);
    }

    pub(crate) fn runner_freezes(&mut self, now: Duration, ticket: Ticket, time: Duration) {
        self.ears.runner_freezes(AttemptId(ticket.attempt), now, now + time);
    }

    /// Something that was started has not ended.
    pub(crate) fn has_living(&self) -> bool {
        self.lives.alive().next().is_some()
    }

    pub(crate) fn disk_fails(&mut self, host: usize) {
        self.ears.disk_fails(host);
    }

    pub(crate) fn disk_works(&mut self, now: Duration, host: usize) {
        self.ears.disk_works(now, host);
    }

    /// The step's own program ended; what it left behind may live on.
    pub(crate) fn program_ended(&mut self, ticket: Ticket, end: ProgramEnd) {
        self.lives.program_ended(ticket, end);
    }

    /// The worker has put it away: the server has said that it has all of it.
    pub(crate) fn put_away(&mut self, ticket: Ticket) {
        self.lives.put_away(ticket);
    }

    /// Whether a worker has what it put away, for a server that asks.
    pub(crate) fn keeps(&mut self, ticket: Ticket, kept: bool) {
        self.lives.keeps(ticket, kept);
    }

    pub(crate) fn server_goes_on(&mut self) {
        self.ears.server_goes_on();
    }

    /// If nobody else was there to see that commits are gone, nobody remembers them.
    pub(crate) fn server_dies(&mut self, server: usize) {
        self.ears.server_dies(server);
        if self.witnesses.remove(&server) && self.witnesses.is_empty() {
            self.lives.nobody_remembers(self.forgot_at);
        }
    }

    pub(crate) fn host_sleeps(&mut self, host: usize) {
        self.lives.host_sleeps(host);
    }

    /// It goes on, or has lost its power.
    pub(crate) fn host_wakes(&mut self, now: Duration, host: usize) {
        self.lives.host_wakes(now, host);
    }

    /// A runner gave this line its number.
    pub(crate) fn printed(&mut self, ticket: Ticket, text: String, written: bool) {
        self.logs.printed(ticket, text, written);
    }

    /// The disk with this log is what it was when the log ended with line `kept`.
    pub(crate) fn log_rolled_back(&mut self, ticket: Ticket, kept: u64) {
        self.logs.rolled_back(ticket, kept);
    }

    /// Somebody deleted this attempt's folder: who starts after that does not find it, whatever still runs.
    pub(crate) fn folder_deleted(&mut self, ticket: Ticket) {
        self.lives.folder_deleted(ticket);
        self.logs.rolled_back(ticket, 0);
    }

    /// A second worker has the identity of this host's, and may be the one that is heard.
    pub(crate) fn folder_copied(&mut self, host: usize) {
        self.lives.folder_copied(host);
    }

    /// A worker on a copy of the folder sends KILL to what belongs to this attempt.
    pub(crate) fn killed_from_copy(&mut self, ticket: Ticket) {
        let id = AttemptId(ticket.attempt);
        if self.lives.is_alive(id) {
            self.found
                .add("identity", format!("attempt {id} is killed by a worker that has only a copy of its folder"));
        }
    }

    /// A server was asked why the job is where it is.
    pub(crate) fn explained(
        &mut self,
        (server, job): (usize, JobId),
        now: Time,
        stored: Result<Option<StoredJob>, StoreError>,
        why: Result<Option<Why>, StoreError>,
    ) {
        match (stored, why) {
            (Ok(Some(stored)), Ok(Some(why))) => {
                let Checks { rows, plans, ears, found, .. } = self;
                let (latest, calm) = (self.times.latest(), self.priority.is_calm());
                let asked = Asked { server, at: now, latest, now: self.now, calm, rows, plans, ears };
                reasons::look(&stored, &why, &asked, found);
            }
            (_, why) => self.found.add("why", format!("there is no answer for {job}: {why:?}")),
        }
    }

    pub(crate) fn server_tries_to_start(&mut self) {
        self.times.pulse.server_tries_to_start();
        self.ears.pulse.server_tries_to_start();
    }

    /// A server may have committed something and could not start all the same: that was no listening.
    pub(crate) fn start_failed(&mut self) {
        self.times.pulse.start_failed();
        self.ears.pulse.start_failed();
    }

    /// `alone`: no other one is there.
    pub(crate) fn server_starts(&mut self, server: usize, alone: bool) {
        self.ears.server_starts_anew(server);
        if alone {
            self.ears.server_starts();
        }
    }

    /// All jobs of a task that are or were on record, the oldest first.
    pub(crate) fn jobs_of(&self, task: &str) -> Vec<JobId> {
        self.rows.jobs.iter().filter(|(_, job)| job.task == task).map(|(id, _)| *id).collect()
    }

    /// A server has sent this worker away for good.
    pub(crate) fn sent_away(&mut self, worker: WorkerId, code: RefusedCode) {
        self.retention.sent_away(worker, code, &mut self.found);
    }

    /// A host has a worker process at the end, of this identity.
    pub(crate) fn worker_at_the_end(&mut self, host: usize, worker: WorkerId) {
        self.retention.worker_at_the_end(self.now, host, worker, &mut self.found);
    }

    /// The server's ledger decides on what has come until now.
    pub(crate) fn turn_begins(&mut self, server: usize) {
        self.ears.turn_begins(self.now, server);
    }

    pub(crate) fn server_at_the_end(&mut self, server: usize, connected: usize, sockets: usize, census: &Census) {
        let cast = Cast {
            servers: self.servers,
            triggers: self.triggers,
            workers: self.rows.workers(),
            in_doubt: self.rows.attempts.values().filter(|attempt| attempt.in_doubt).count() + self.lives.strangers(),
        };
        leaks::of_server(server, (connected, sockets), census, cast, &mut self.found);
    }

    pub(crate) fn host_at_the_end(&mut self, host: usize, census: &HostCensus) {
        leaks::of_host(host, census, &mut self.found);
    }

    /// The world is at its end, and all is quiet.
    pub(crate) fn at_the_end(&mut self, unacknowledged: usize, reader: &dyn Reader, folders: &BTreeSet<AttemptId>) {
        let Checks { found, rows, .. } = self;
        if unacknowledged > 0 {
            found.add("liveness", format!("{unacknowledged} submits were never answered"));
        }
        if rows.has_open_jobs() {
            found.add("liveness", "the world ended before its jobs".to_owned());
        }
        let deleted = |job| self.retention.is_deleted(job);
        self.logs.at_the_end(rows, &self.lives, reader, (folders, &deleted), found);
        self.ends.at_the_end(rows, &self.plans, (&self.lives, &self.gates), found);
        self.post.at_the_end(rows, &self.plans, (reader, &deleted), found);
        post::count(rows, &self.plans, (&self.finals, &self.notices), found);
        self.retention.at_the_end(self.now, (rows, &self.doubts), reader, !self.past.has_lost, found);
        if !self.past.has_lost {
            self.doubts.at_the_end(rows, &self.lives, &deleted, found);
        }
        self.leases.at_the_end(reader, found);
        self.notices.at_the_end((rows, &self.plans), &self.post, found);
    }
}

impl Witness for Checks {
    fn committed(&mut self, server: usize, batch: &Batch, committed: &Committed) {
        // With each mark a server holds its memory against the rows, and leaves word of what it finds.
        if self.witnesses.contains(&server) && batch.server.is_some() {
            self.witnesses.clear();
        }
        secrets::written(batch, &mut self.found);
        let accepted = Accepted { batch, committed };
        if self.past.expected {
            let before = self.before(batch, &accepted);
            self.past.add(before);
        }
        let Checks { now, found, plans, rows, .. } = self;
        submits::committed(rows, (batch, &accepted), |job| self.retention.is_deleted(job), found);
        self.identities.committed(batch, found);
        self.leases.committed(batch, committed, found);
        self.doubts.committed(&accepted);
        self.retention.committed(*now, rows, (batch, &accepted), found);
        self.retention.heard_of_workers(&self.ears, batch, found);
        self.finals.committed(rows, batch, &accepted, found);
        let brought_back = |attempt| self.lives.was_unrecorded(attempt);
        self.voices.committed(rows, batch, &accepted, (brought_back, self.past.has_lost), found);
        for row in accepted.attempts().filter(|row| !rows.attempts.contains_key(&row.id)) {
            let brought = self.lives.was_unrecorded(row.id) || self.voices.is_unsure(row.id);
            self.restored.granted(&self.ears, row, (rows, plans), brought, found);
            self.lives.granted(*now, row, brought, (rows, plans), found);
        }
        self.times.committed(*now, batch, &accepted, found);
        self.ears.committed(*now, server, batch);
        proof::committed(rows, &accepted, |attempt| self.lives.is_alive(attempt), found);
        let in_sight = |attempt| self.lives.is_alive(attempt) && !self.lives.is_out_of_sight(attempt);
        self.silence.committed(*now, &self.ears, rows, &accepted, in_sight, found);
        self.supply.committed(*now, &self.ears, (rows, plans), (batch, &accepted), found);
        self.calls.committed(rows, |id| self.schedules.row(id), (batch, &accepted), found);
        let is_full = |group: &GroupPlan| {
            let joins = |task: &str| {
                plans.named(task).and_then(|plan| plan.group.as_ref()).is_some_and(|it| it.name == group.name)
            };
            let made = || batch.jobs.iter().any(|write| write.expected.is_none() && joins(&write.row.task));
            self.groups.was_full(*now, group, rows, plans) || made()
        };
        self.schedules.committed(&self.ears, rows, (batch, &accepted), is_full, found);
        let waited = kin::before(rows, &accepted);
        let stood = waits::before(rows, &accepted);
        let joined = self.groups.before(*now, rows, plans, &accepted);
        rows.take(*now, batch, &accepted);
        self.groups.committed(*now, &joined, (rows, plans), (batch, &accepted), found);
        self.restored.committed(*now, &self.ears, (rows, plans), &accepted, found);
        kin::committed(rows, plans, &waited, &accepted, found);
        self.kin.committed(&self.ears, rows, &accepted, found);
        self.dwell.committed(*now, &self.ears, (rows, plans), (batch, &accepted), found);
        self.gates.committed(rows, plans, &accepted, found);
        self.notices.committed(&self.ears, (rows, plans), (batch, &accepted), found);
        self.files.committed(rows, plans, (batch, &accepted), found);
        self.outputs.committed(rows, plans, (batch, &accepted), found);
        self.queue.committed(&self.ears, (*now, rows, plans), (&self.supply, batch, &accepted), found);
        self.priority.committed((*now, server), (rows, plans), &accepted, found);
        if !self.past.has_lost {
            self.waits.committed(&stood, (rows, plans), (batch, &accepted), found);
            turns::committed(rows, plans, &accepted, found);
        }
        self.orphans.look(*now, &self.ears, &self.lives, (rows, plans), found);
    }

    fn refused(&mut self, _server: usize, batch: &Batch) {
        self.times.refused(batch);
        self.dwell.refused(&self.ears, batch);
        self.ends.refused(batch);
        self.restored.refused(batch);
        self.schedules.refused(&self.ears, batch);
        self.notices.refused(&self.ears, batch);
        self.orphans.refused(self.now, batch);
    }

    fn acted(&mut self, tenure: Tenure) {
        self.leases.acted(tenure, &mut self.found);
    }

    fn deleted(&mut self, jobs: &[JobId]) {
        self.retention.deleted(jobs, &self.rows, &self.doubts, &mut self.found);
    }

    fn departed(&mut self, worker: WorkerId, unseen_since: Time) {
        let seen = (self.now, &self.ears, unseen_since);
        let known = (&self.rows, &self.doubts, !self.past.has_lost);
        self.retention.departed(worker, seen, known, &mut self.found);
    }

    fn came_back(&mut self, is_there: &dyn Fn(JobId) -> bool) {
        self.retention.came_back(&self.rows, is_there);
        self.retention.workers_came_back();
    }

    fn forgotten(&mut self, batches: usize) {
        self.post.forgot();
        self.notices.forgot();
        self.past.has_lost |= batches > 0;
        let mut lost = Duration::ZERO;
        for before in (0..batches).map_while(|_| self.past.pop()).collect::<Vec<_>>() {
            lost = self.ears.listened() - before.listened;
            self.put_back(before);
        }
        self.ears.forgets(lost);
        self.dwell.was_deaf(&self.ears, lost);
        self.kin.was_deaf(&self.ears);
    }
}

impl Checks {
    /// What this batch is about to change.
    fn before(&self, batch: &Batch, accepted: &Accepted<'_>) -> Before {
        let (jobs, places) = past::touched(accepted);
        let (ended, deliveries) = past::brought(batch, accepted);
        let times = jobs.iter().map(|job| (*job, None)).chain(places.iter().map(|place| (place.job, Some(place.step))));
        let new = accepted.attempts().filter(|row| !self.rows.attempts.contains_key(&row.id));
        Before {
            listened: self.ears.listened(),
            latest: self.times.latest(),
            attempts: accepted.attempts().map(|row| (row.id, self.rows.attempts.get(&row.id).cloned())).collect(),
            times: times.map(|row| (row, self.times.next(row))).collect(),
            fences: places.iter().map(|place| (*place, self.voices.highest(*place))).collect(),
            budgets: places.iter().map(|place| (*place, self.lives.budget(*place))).collect(),
            cuts: places.iter().map(|place| (*place, self.silence.cut(*place))).collect(),
            offers: places.iter().map(|place| (*place, self.supply.offers(*place))).collect(),
            drained: self.supply.drained_by(batch),
            used_epochs: batch.used_epochs.iter().map(|(worker, _)| (*worker, self.identities.used(*worker))).collect(),
            triggers: accepted.triggers().map(|w| (w.row.id.clone(), self.schedules.row(&w.row.id))).collect(),
            leases: batch.claims.iter().map(|claim| (claim.lease, self.leases.row(claim.lease))).collect(),
            logs: batch.logs.iter().map(|log| log.attempt).collect(),
            granted: new.map(|row| row.fence).collect(),
            jobs: jobs.into_iter().map(|job| (job, self.rows.job(job).cloned())).collect(),
            ended,
            deliveries,
        }
    }

    /// The batch of which this is the time before is gone.
    fn put_back(&mut self, before: Before) {
        before.fences.iter().for_each(|(place, _)| self.dwell.forget(*place));
        self.silence.put_back(before.cuts);
        self.supply.put_back(before.offers, &before.drained, self.now);
        self.identities.put_back(before.used_epochs);
        self.schedules.put_back(before.triggers);
        self.leases.put_back(before.leases);
        self.logs.forget(&before.logs);
        for (id, _) in before.attempts.iter().filter(|(_, seen)| seen.is_none()) {
            if let Some(attempt) = self.rows.attempts.get(id) {
                let step = self.rows.step(attempt.place).map_or("", |step| step.name.as_str());
                self.lives.start_is_forgotten(self.now, *id, (attempt, step), self.remembers);
            }
        }
        // A cancel, or a step that was told to stop for its runner's silence: its report cannot tell the two apart.
        let orders = |job: Option<&JobSeen>| job.map_or(0, JobSeen::orders_to_stop);
        for (id, job) in &before.jobs {
            if orders(self.rows.job(*id)) > orders(job.as_ref()) {
                self.ends.stop_is_forgotten(*id);
            }
        }
        self.lives.put_back(before.budgets);
        self.finals.forget(&before.ended, &before.deliveries);
        self.voices.put_back(before.fences, &before.granted);
        self.times.put_back(before.latest, before.times);
        self.rows.put_back(before.jobs, before.attempts);
    }
}
