//! Histories written by hand, each wrong in one place: the checker whose promise it breaks must say so, and no other.

use std::time::Duration;

use engine::why::{NextCheck, StepWhy, Why};
use engine::{AttemptId, Epoch, Fence, JobId, StateName, StepIx, Time, WorkerId};
use protocol::attempt::Ticket;
use server::ledger::Census;
use store::rows::{AttemptRow, DefinitionRow, EventRow, JobRow, LoadedJob, LoadedStep, OutboxRow, StepRow, StoredJob};
use store::{Batch, Committed, JobWrite};
use uuid::Uuid;

mod asked;
mod calls;
mod departed;
mod files;
mod groups;
mod heard;
mod hooks;
mod kin;
mod leases;
mod notices;
mod outputs;
mod priority;
mod queue;
mod restored;
mod turns;
mod waits;

use super::{Checks, HostCensus};
use crate::database::Witness;
use crate::setup::Setup;
use crate::workload::{Behaviour, GatePlan, JobPlan, Kind, RetryPlan, StepPlan};

const JOB: JobId = JobId(Uuid::from_u128(1));
const STEP: StepIx = StepIx(0);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// One job of one step, and the checkers that watch it.
struct Scene {
    checks: Checks,
    now: Duration,
    version: u64,
    job: &'static str,
    step: &'static str,
}

impl Scene {
    fn new(change: impl FnOnce(&mut StepPlan)) -> Scene {
        Scene::first(change, "queued")
    }

    /// Whose step was first seen in this state.
    fn first(change: impl FnOnce(&mut StepPlan), state: &'static str) -> Scene {
        let mut step = plan();
        change(&mut step);
        let job = JobPlan { at: SECOND, ..JobPlan::plain("job-0", vec![step]) };
        let checks = Checks::new(&Setup::of(1), &[job]);
        let mut scene = Scene { checks, now: SECOND, version: 0, job: "pending", step: "pending" };
        scene.turn(state, |_| {});
        scene
    }

    fn after(&mut self, time: Duration) -> &mut Scene {
        self.now += time;
        self.checks.moment(self.now);
        self
    }

    /// Commits the step in this state, told in its history, with what else the batch is to hold.
    fn turn(&mut self, to: &'static str, more: impl FnOnce(&mut Batch)) -> &mut Scene {
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        if self.step != to {
            batch.events.push(event(Some(STEP), "step", self.step, to));
        }
        self.step = to;
        let job = if is_final(to) || to == "held" { to } else { "running" };
        if is_final(job) && self.job != job {
            batch.events.push(event(None, "job", self.job, job));
        }
        self.job = job;
        self.version += 1;
        batch.jobs.push(JobWrite { row: self.job_row(), expected: Some(self.version - 1) });
        batch.steps.push(self.step_row());
        more(&mut batch);
        self.commit(&batch)
    }

    fn commit(&mut self, batch: &Batch) -> &mut Scene {
        self.checks.moment(self.now);
        self.checks.committed(0, batch, &Committed::default());
        self
    }

    fn granted(&mut self, number: u32) -> &mut Scene {
        self.turn("running", |batch| {
            batch.steps[0].attempt = Some(attempt(number));
            batch.steps[0].fence = Some(Fence(number.into()));
            batch.attempts.push(attempt_row(number, "running"));
        })
    }

    /// The attempt is over, for this reason, and the step goes back into the queue.
    fn over(&mut self, number: u32, state: &'static str, code: &'static str) -> &mut Scene {
        self.turn("queued", |batch| {
            batch.attempts.push(AttemptRow { error_code: Some(code), ..over_row(number, state) });
        })
    }

    fn runs(&mut self, number: u32) -> &mut Scene {
        self.checks.child_started(self.now, 0, ticket(number));
        self
    }

    fn is_gone(&mut self, number: u32) -> &mut Scene {
        self.checks.child_ended(self.now, ticket(number));
        self
    }

    fn cut(&mut self) -> &mut Scene {
        let at = self.time();
        self.turn("recovering", |batch| batch.steps[0].disconnected_at = Some(at))
    }

    fn time(&self) -> Time {
        Time(1_000_000_000_000) + self.now
    }

    fn check_at(&self, state: &str) -> Option<Time> {
        (!is_final(state)).then(|| self.time() + MINUTE)
    }

    fn job_row(&self) -> JobRow {
        let open = !is_final(self.job);
        JobRow {
            parent: None,
            hook_of: None,
            group: None,
            admitted_at: None,
            strays: false,
            id: JOB,
            version: self.version,
            state: self.job,
            task: "job-0".to_owned(),
            definition: [0; 32],
            input: String::new(),
            priority: 0,
            submitted_by: "ann".to_owned(),
            created_at: Time(0),
            started_at: None,
            ended_at: None,
            expires_at: None,
            error_code: None,
            error_message: None,
            error_step: None,
            owner: open.then_some("steps"),
            check_at: self.check_at(self.job),
            action: open.then_some("look_again"),
            data: String::new(),
        }
    }

    fn step_row(&self) -> StepRow {
        let open = !is_final(self.step);
        StepRow {
            job: JOB,
            ix: STEP,
            name: "s0".to_owned(),
            state: self.step,
            owner: open.then_some("worker"),
            check_at: self.check_at(self.step),
            action: open.then_some("look_again"),
            worker: None,
            attempt: None,
            fence: None,
            dispatch_attempts: 0,
            error_code: None,
            error_message: None,
            queued_at: None,
            disconnected_at: None,
            recovery_deadline: None,
            updated_at: self.time(),
            artifacts: None,
            data: String::new(),
        }
    }

    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.checks.findings(), []);
    }

    /// Exactly this checker has found something, and says so.
    #[track_caller]
    fn is_found(&self, checker: &str, words: &str) {
        let found = self.checks.findings();
        assert!(found.iter().all(|finding| finding.checker == checker), "{found:?}");
        assert!(found.iter().any(|finding| finding.what.contains(words)), "{found:?}");
    }
}

fn plan() -> StepPlan {
    let behaviour = Behaviour {
        takes: SECOND,
        lines: 0,
        first_code: 0,
        later_code: 0,
        first_times: 1,
        stubborn: false,
        stray: false,
        output: 0,
    };
    StepPlan { grace: SECOND, ..StepPlan::plain("s0", behaviour) }
}

fn retry(attempts: u32, on: &[&'static str]) -> Option<RetryPlan> {
    Some(RetryPlan::of(attempts, on.to_vec(), SECOND))
}

/// So that its job may take longer than it may stand still.
fn takes_an_hour(step: &mut StepPlan) {
    if let Kind::Work(behaviour) = &mut step.kind {
        behaviour.takes = 60 * MINUTE;
    }
}

fn is_final(state: &str) -> bool {
    matches!(state, "success" | "failed" | "cancelled" | "skipped")
}

fn attempt(number: u32) -> AttemptId {
    AttemptId(Uuid::from_u128(100 + u128::from(number)))
}

fn ticket(number: u32) -> Ticket {
    Ticket { attempt: attempt(number).0, fence: number.into() }
}

fn attempt_row(number: u32, state: &'static str) -> AttemptRow {
    AttemptRow {
        id: attempt(number),
        job: JOB,
        ix: STEP,
        number,
        fence: Fence(number.into()),
        worker: WorkerId(Uuid::nil()),
        epoch: Epoch(1),
        state,
        confirmed: false,
        started_at: Time(0),
        ended_at: None,
        exit_code: None,
        signal: None,
        error_code: None,
        error_message: None,
        duration_ms: None,
        cpu_ms: 0,
        memory_bytes_max: 0,
        cleanup: None,
    }
}

fn over_row(number: u32, state: &'static str) -> AttemptRow {
    AttemptRow { ended_at: Some(Time(1)), ..attempt_row(number, state) }
}

fn event(ix: Option<StepIx>, kind: &'static str, from: &'static str, to: &'static str) -> EventRow {
    let (from, to) = (Some(from), Some(to));
    EventRow { job: JOB, ix, at: Time(0), kind, verb: None, from, to, worker: None, reason: String::new() }
}

#[test]
fn a_good_history_is_no_finding() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).after(SECOND).runs(1).after(SECOND).is_gone(1);
    scene.turn("success", |batch| batch.attempts.push(over_row(1, "ended"))).is_well();
}

#[test]
fn a_row_without_an_owner_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.turn("queued", |batch| batch.steps[0].owner = None).is_found("check-time", "owner");
}

#[test]
fn a_check_time_too_far_ahead_is_found() {
    let mut scene = Scene::new(|_| {});
    let at = scene.time() + 61 * MINUTE;
    scene.turn("queued", |batch| batch.steps[0].check_at = Some(at)).is_found("check-time", "only at");
}

#[test]
fn a_check_time_that_nobody_keeps_is_found() {
    let mut scene = Scene::new(|_| {});
    for _ in 0..40 {
        let batch = Batch { now: scene.time(), ..Batch::default() };
        scene.after(2 * SECOND).commit(&batch);
    }
    scene.is_found("check-time", "nobody looked");
}

#[test]
fn time_in_which_nobody_commits_is_not_late() {
    let mut scene = Scene::new(|_| {});
    for _ in 0..10 {
        scene.after(10 * MINUTE);
        let batch = Batch { now: scene.time(), ..Batch::default() };
        scene.commit(&batch);
    }
    scene.is_well();
}

#[test]
fn a_final_step_that_changes_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.turn("cancelled", |_| {});
    scene.turn("running", |_| {}).is_found("final", "was cancelled and is written again");
}

#[test]
fn a_second_end_of_a_job_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.turn("failed", |_| {});
    let events = vec![event(None, "job", "running", "success")];
    let batch = Batch { now: scene.time(), events, ..Batch::default() };
    scene.commit(&batch).is_found("final", "and once more as success");
}

#[test]
fn a_webhook_that_is_written_twice_is_found() {
    let mut scene = Scene::new(|_| {});
    for _ in 0..2 {
        let row = OutboxRow { id: Uuid::nil(), job: JOB, kind: "webhook", body: String::new(), created_at: Time(0) };
        let batch = Batch { now: scene.time(), outbox: vec![row], ..Batch::default() };
        scene.commit(&batch);
    }
    scene.is_found("final", "delivered twice");
}

#[test]
fn an_attempt_that_comes_back_is_found() {
    let mut scene = Scene::new(|step| step.effects = "none");
    scene.granted(1).over(1, "lost", "worker_lost");
    scene.turn("running", |batch| batch.attempts.push(attempt_row(1, "running")));
    scene.is_found("stale-voice", "was lost and is now running");
}

#[test]
fn an_older_fence_is_found() {
    let mut scene = Scene::new(|_| {});
    let mut offer = |fence| {
        scene.turn("queued", |batch| batch.steps[0].fence = Some(Fence(fence)));
    };
    offer(8);
    offer(7);
    scene.is_found("stale-voice", "went back to fence 7");
}

#[test]
fn a_turn_that_is_not_told_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.turn("waiting", |batch| batch.events.clear()).is_found("stale-voice", "its history leads to queued");
}

#[test]
fn a_start_that_nobody_granted_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.runs(1).is_found("successor", "no start of it is committed");
}

#[test]
fn an_attempt_that_executes_twice_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).runs(1).is_gone(1).runs(1).is_found("successor", "for the second time");
}

#[test]
fn a_start_long_after_the_attempt_was_given_up_is_found() {
    let mut scene = Scene::new(|step| step.effects = "none");
    scene.granted(1).over(1, "lost", "worker_lost").after(30 * SECOND).runs(1).is_found("successor", "was given up");
}

/// Items stand in the order in which their lists came up, and after a loss that may be another one.
#[test]
fn an_item_has_not_run_for_the_one_that_stood_in_its_place() {
    let granted_again = |name: &'static str, ix: u32| {
        let mut scene = Scene::new(|_| {});
        scene.checks.past.expected = true;
        let item = |scene: &mut Scene, state: &'static str, name: &'static str, ix: u32, started: Option<u32>| {
            scene.version += 1;
            let before = if started.is_some() { "queued" } else { "pending" };
            let step = StepRow { ix: StepIx(ix), name: name.to_owned(), state, ..scene.step_row() };
            let batch = Batch {
                now: scene.time(),
                jobs: vec![JobWrite { row: scene.job_row(), expected: Some(scene.version - 1) }],
                steps: vec![step],
                events: vec![event(Some(StepIx(ix)), "step", before, state)],
                attempts: started
                    .map(|number| AttemptRow { ix: StepIx(ix), number: 1, ..attempt_row(number, "running") })
                    .into_iter()
                    .collect(),
                ..Batch::default()
            };
            scene.commit(&batch);
        };
        item(&mut scene, "queued", "s0[0]", 1, None);
        item(&mut scene, "running", "s0[0]", 1, Some(1));
        scene.runs(1).is_gone(1);
        scene.checks.will_forget([0].into());
        scene.checks.forgotten(2);
        item(&mut scene, "queued", name, ix, None);
        item(&mut scene, "running", name, ix, Some(2));
        scene
    };
    granted_again("s0[1]", 1).is_well();
    granted_again("s0[0]", 1).is_found("successor", "not on record has run");
    granted_again("s0[0]", 2).is_found("successor", "not on record has run");
}

#[test]
fn what_writes_is_not_repeated_after_a_loss() {
    let mut scene = Scene::new(|_| {});
    scene.granted(1).runs(1).is_gone(1).over(1, "lost", "worker_lost").granted(2);
    scene.is_found("successor", "its effects forbid a repeat");
}

#[test]
fn attempts_counts_executions() {
    let mut scene = Scene::new(|step| step.retry = retry(2, &["failure"]));
    scene.granted(1).over(1, "ended", "exit_code").granted(2).is_well();
    scene.over(2, "ended", "exit_code").granted(3).is_found("successor", "execution 3 of 2");
}

#[test]
fn a_failure_that_no_policy_names_is_not_repeated() {
    let mut scene = Scene::new(|step| step.retry = retry(3, &["timeout"]));
    scene.granted(1).over(1, "ended", "exit_code").granted(2).is_found("successor", "no policy names that");
}

#[test]
fn a_poison_step_stops_after_three_losses() {
    let mut scene = Scene::new(|step| step.effects = "idempotent");
    scene.granted(1).over(1, "lost", "runner_lost").granted(2).over(2, "lost", "runner_lost").granted(3).is_well();
    scene.over(3, "lost", "runner_lost").granted(4).is_found("successor", "lost 3 workers in a row");
}

#[test]
fn a_copy_of_what_stops_beside_a_living_one_is_found() {
    let mut scene = Scene::new(|step| (step.effects, step.stop) = ("none", true));
    scene.granted(1).runs(1).cut().after(5 * MINUTE).over(1, "lost", "worker_lost").granted(2);
    scene.is_found("successor", "still runs on host 0");
}

#[test]
fn a_copy_of_what_keeps_is_allowed_only_after_the_window() {
    let history = |waited| {
        let mut scene = Scene::new(|step| step.effects = "none");
        scene.granted(1).runs(1).cut().after(waited).over(1, "lost", "worker_lost").granted(2);
        scene
    };
    history(2 * MINUTE).is_well();
    history(MINUTE).is_found("successor", "still runs on host 0");
}

#[test]
fn a_leased_copy_on_a_machine_that_sleeps_must_end_when_it_wakes() {
    let history = |stop, lives_on| {
        let mut scene = Scene::new(|step| (step.effects, step.stop) = ("none", stop));
        scene.granted(1).runs(1).checks.host_sleeps(0);
        scene.cut().after(5 * MINUTE).over(1, "lost", "worker_lost").granted(2);
        scene.checks.child_started(scene.now, 1, ticket(2));
        scene.after(MINUTE);
        scene.checks.host_wakes(scene.now, 0);
        scene.after(lives_on).is_gone(1);
        scene
    };
    history(true, Duration::from_millis(10)).is_well();
    history(true, 5 * SECOND).is_found("successor", "in its host's sleep");
    history(false, 5 * SECOND).is_well();
}

#[test]
fn a_job_that_stays_open_in_peace_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.checks.peace(scene.now);
    scene.after(20 * MINUTE).is_found("liveness", "not over in time");
}

#[test]
fn a_step_that_runs_without_a_process_is_found() {
    let mut scene = Scene::new(|step| step.retry = retry(9, &["failure"]));
    scene.granted(1).runs(1);
    scene.checks.peace(scene.now);
    scene.after(MINUTE).is_gone(1).after(7 * MINUTE);
    scene.checks.look_around();
    scene.is_well();
    scene.after(5 * MINUTE).checks.look_around();
    scene.is_found("liveness", "nothing moves it");
}

#[test]
fn a_step_that_waits_beyond_its_time_is_found() {
    let long = |step: &mut StepPlan| {
        step.retry = retry(3, &["failure"]);
        takes_an_hour(step);
    };
    let mut scene = Scene::first(long, "waiting");
    scene.checks.peace(scene.now);
    scene.after(20 * MINUTE).checks.look_around();
    scene.is_found("liveness", "has been waiting for");
}

#[test]
fn a_step_that_nobody_approves_is_found() {
    let asked = |step: &mut StepPlan| {
        step.gate = Some(GatePlan { reviewers: 1, allow_submitter: true, wait: None });
        takes_an_hour(step);
    };
    let mut scene = Scene::first(asked, "held");
    scene.checks.peace(scene.now);
    scene.after(20 * MINUTE).checks.look_around();
    scene.is_found("liveness", "has been held for");
}

#[test]
fn what_is_left_at_the_end_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.checks.server_at_the_end(0, 2, 2, &Census { links: 2, beats: 3, ..Census::default() });
    scene.is_well();
    scene.checks.server_at_the_end(0, 2, 2, &Census { links: 2, expected: 1, ..Census::default() });
    scene.is_found("leak", "expected: 1");
    let left = |census: Census| {
        let mut scene = Scene::new(|_| {});
        scene.checks.server_at_the_end(0, 0, 0, &census);
        scene
    };
    left(Census { beats: 1_000, ..Census::default() }).is_found("leak", "beats: 1000");
    left(Census { places: 1, ..Census::default() }).is_found("leak", "places: 1");
    left(Census { groups: 1, ..Census::default() }).is_found("leak", "groups: 1");
    left(Census { alarmed: 1, ..Census::default() }).is_found("leak", "alarmed: 1");
    left(Census { said: 2_000, ..Census::default() }).is_found("leak", "said: 2000");
    left(Census { schedules: 1, ..Census::default() }).is_found("leak", "schedules: 1");
    left(Census { workers: 1, ..Census::default() }).is_found("leak", "workers: 1");
    let empty = HostCensus { held: 0, folders: 0, runners: 0, groups: 0, logs: 0, lines: 0 };
    for census in
        [HostCensus { folders: 1, ..empty }, HostCensus { logs: 1, ..empty }, HostCensus { lines: 1, ..empty }]
    {
        let mut scene = Scene::new(|_| {});
        scene.checks.host_at_the_end(3, &census);
        scene.is_found("leak", "s: 1");
    }
}

/// An explanation that agrees with its row, but for one change.
fn explained(change: impl FnOnce(&mut StepWhy)) -> Scene {
    let mut scene = Scene::new(|_| {});
    scene.turn("queued", |batch| batch.steps[0].owner = Some("dispatcher"));
    let next = Some(NextCheck { at: scene.time() + MINUTE, action: "look again".to_owned() });
    let (owner, reason) = ("the dispatcher".to_owned(), "waits for a worker".to_owned());
    let state = StateName::Queued;
    let mut step = StepWhy { name: "s0".into(), state, owner, last_sign_of_life: None, reason, next };
    change(&mut step);
    let row = LoadedStep {
        ix: STEP,
        state: "queued".to_owned(),
        check_at: Some(scene.time() + MINUTE),
        updated_at: scene.time(),
        data: String::new(),
    };
    let job = LoadedJob {
        hook_of: None,
        group: None,
        parent: None,
        id: JOB,
        version: 1,
        state: "running".to_owned(),
        input: String::new(),
        submitted_by: String::new(),
        created_at: scene.time(),
        check_at: None,
        data: String::new(),
    };
    let definition = DefinitionRow { hash: [0; 32], source: String::new(), settings: String::new() };
    let stored = StoredJob { job, steps: vec![row], definition };
    let why = Why { summary: "it waits".to_owned(), steps: vec![step] };
    scene.checks.explained((0, JOB), scene.time(), Ok(Some(stored)), Ok(Some(why)));
    scene
}

#[test]
fn an_explanation_that_contradicts_the_row_is_found() {
    explained(|_| {}).is_well();
    explained(|step| step.state = StateName::Running).is_found("why", "it says running");
    explained(|step| step.next = None).is_found("why", "it says None");
    explained(|step| step.reason.clear()).is_found("why", "no owner or reason");
    explained(|step| step.owner = "worker host-1".to_owned()).is_found("why", "must move it");
    let otherwise = |step: &mut StepWhy| step.next.iter_mut().for_each(|next| next.action = "queue it".to_owned());
    explained(otherwise).is_found("why", "this comes next");
    explained(|step| step.last_sign_of_life = Some(step.next.as_ref().expect("one").at))
        .is_found("why", "sign of life");
    let sooner = |step: &mut StepWhy| step.next.iter_mut().for_each(|next| next.at = Time(0));
    explained(sooner).is_found("why", "looked at at");
}
