//! An operator says that the database was restored: what may have run since is held, before anything is handed out, and once.

use std::time::Duration;

use engine::{Event, JobId, StepIx};
use protocol::attempt::AttemptSpec;
use protocol::link::{HeldAttempt, HeldState, Hello, Loss, VerdictKind, WorkerMessage};
use server::ledger::{Again, AgainError, How, ResolveOrder, Restored, say_restored};
use server::schedule::plan::{LATE_MAX, job_id};
use store::Store;

use crate::cluster::{Cluster, running};
use crate::desk::{Desk, Mailbox, ONE, hello};

const SECOND: Duration = Duration::from_secs(1);
const MIXED: &str = "\
name: mixed
steps:
  reads: { run: 'true', effects: none }
  writes: { run: 'true' }
  repeats: { run: 'true', effects: idempotent }
  later: { run: 'true', needs: [reads] }
  asks: { approve: { message: 'go on?' } }
";
const HOOKED: &str = "name: hooked\nsteps:\n  a: { run: 'true' }\non_success: [{ task: after }]\n";
const AFTER: &str = "name: after\nsteps:\n  work: { run: 'true' }\n";
const PARENT: &str = "name: after\nsteps:\n  work: { task: leaf }\n";
const LEAF: &str = "name: leaf\nsteps:\n  work: { run: 'true' }\n";
const ONCE: &str = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ cron: '*/10 * * * *', missed: once }]\n";

/// The server is stopped, an operator says it, and the server starts again.
fn restored(desk: &mut Desk) -> Restored {
    let now = desk.now + SECOND;
    let said = say_restored(desk.core().store_mut(), now).expect("written").expect("a server has run");
    desk.down(SECOND * 20);
    desk.round(Vec::new());
    said
}

fn approve<S: Store>(desk: &mut Desk<S>, job: JobId, step: u32) {
    let event = Event::Approve { step: StepIx(step), by: "ann".to_owned(), comment: String::new() };
    desk.event(job, event).expect("it waits for that");
}

fn back(desk: &mut Desk, w: &Mailbox, held: Vec<HeldAttempt>) -> Mailbox {
    let hello = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 4, held) };
    desk.knock(w.worker, hello).welcomed()
}

fn as_of(spec: &AttemptSpec, state: HeldState) -> HeldAttempt {
    HeldAttempt { state, ..running(spec) }
}

fn told(desk: &Desk<impl Store>, job: JobId) -> usize {
    desk.events(job).iter().filter(|event| event.kind == "restored").count()
}

#[test]
fn what_does_something_to_the_world_waits_for_a_person() {
    let mut desk = Desk::new();
    let job = desk.submit(MIXED);
    assert_eq!(restored(&mut desk).open_jobs, 1);
    desk.check(job, "pending: queued held held pending held");
    let mut w = desk.worker("w", "script", 4);
    let spec = desk.start(&mut w);
    assert_eq!(spec.step, "reads");
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "held: success held held held held");
    w.take();
    approve(&mut desk, job, 1);
    desk.pass(SECOND);
    assert_eq!(w.offer().step, "writes");
    // What is new is nobody's doubt.
    let later = desk.submit(ONE);
    desk.check(later, "pending: queued");
}

#[test]
fn a_worker_that_has_it_settles_it() {
    for state in [HeldState::Running, HeldState::Ended] {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        let job = desk.submit(ONE);
        let spec = desk.start(&mut w);
        restored(&mut desk);
        desk.check(job, "held: held");
        let w = back(&mut desk, &w, vec![as_of(&spec, state)]);
        let expected = if state == HeldState::Ended { VerdictKind::SendResult } else { VerdictKind::Continue };
        assert_eq!(w.welcome.verdicts[0].verdict, expected);
        desk.check(job, "running: running");
        desk.ends(&w, spec.ticket, 0);
        desk.check(job, "success: success");
        assert_eq!(desk.attempts(job).len(), 1);
    }
}

#[test]
fn one_that_never_began_it_is_told_to_let_go_of_it() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    restored(&mut desk);
    let w = back(&mut desk, &w, vec![as_of(&spec, HeldState::Waiting)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::StopKill);
    let event = Event::Approve { step: StepIx(0), by: "ann".to_owned(), comment: String::new() };
    assert!(desk.event(job, event).is_err(), "its worker has not said yet that nothing of it is left");
    let void = WorkerMessage::Lost { ticket: spec.ticket, loss: Loss::Void, detail: "taken back".to_owned() };
    desk.says(&w, vec![void]);
    desk.check(job, "held: held");
    approve(&mut desk, job, 0);
    desk.check(job, "running: queued");
}

#[test]
fn nothing_runs_beside_what_may_still_run() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    restored(&mut desk);
    let event = Event::Approve { step: StepIx(0), by: "ann".to_owned(), comment: String::new() };
    assert!(desk.event(job, event).is_err(), "nobody knows whether it runs");
    let resolve = |how, confirm_dead| {
        let (attempt, by) = (Some(engine::AttemptId(spec.ticket.attempt)), "ann".to_owned());
        Again::Resolve(ResolveOrder { job, step: StepIx(0), how, attempt, late_outcome: None, confirm_dead, by })
    };
    assert!(matches!(desk.again(resolve(How::Rerun, false)), Err(AgainError::MayStillRun(_))));
    desk.again(resolve(How::Rerun, true)).expect("a person's word");
    desk.check(job, "running: queued");
}

#[test]
fn a_worker_that_does_not_have_it_leaves_it_to_a_person() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    restored(&mut desk);
    let mut w = back(&mut desk, &w, Vec::new());
    desk.check(job, "held: held");
    approve(&mut desk, job, 0);
    desk.pass(SECOND);
    assert_eq!(w.offer().step, "a");
}

/// Whoever died in the middle has told some of them.
#[test]
fn each_job_is_told_once_whoever_dies_meanwhile() {
    let mut desk = Desk::new();
    let jobs: Vec<JobId> = (0..450).map(|_| desk.submit(ONE)).collect();
    let now = desk.now;
    let said = say_restored(desk.core().store_mut(), now).expect("written").expect("a server has run");
    assert_eq!(said.open_jobs, 450);
    desk.event(jobs[7], Event::Restored { at: said.at }).expect("told");
    approve(&mut desk, jobs[7], 0);
    desk.down(SECOND * 20);
    desk.round(Vec::new());
    for (index, &job) in jobs.iter().enumerate() {
        assert_eq!(told(&desk, job), 1);
        desk.check(job, if index == 7 { "pending: queued" } else { "held: held" });
    }
    approve(&mut desk, jobs[8], 0);
    desk.down(SECOND * 20);
    desk.round(Vec::new());
    desk.check(jobs[8], "pending: queued");
    // A second restore is another matter.
    restored(&mut desk);
    desk.check(jobs[8], "held: held");
    assert_eq!(told(&desk, jobs[8]), 2);
}

/// Servers that run act on it too, and nobody tells a job twice.
#[test]
fn servers_that_run_hear_of_it() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    let queued = cluster.desk(1).submit(ONE);
    let now = cluster.now;
    say_restored(&mut cluster.database.open(), now).expect("written").expect("servers run");
    cluster.pass(SECOND * 10);
    cluster.desk(1).check(job, "held: held");
    cluster.desk(1).check(queued, "held: held");
    assert_eq!((told(cluster.desk(0), job), told(cluster.desk(1), queued)), (1, 1));
    w.take();
    assert!(w.closed, "it is asked for what it has");
    let hello = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, vec![running(&spec)]) };
    let w = cluster.desk(1).knock(w.worker, hello).welcomed();
    cluster.desk(1).ends(&w, spec.ticket, 0);
    cluster.desk(1).check(job, "success: success");
    cluster.pass(SECOND * 200);
    cluster.desk(0).check(queued, "held: held");
}

/// They may have followed before, in the time that is lost.
#[test]
fn what_follows_on_a_job_in_doubt_is_in_doubt() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit_with(HOOKED, &[("after", AFTER)]);
    let spec = desk.start(&mut w);
    restored(&mut desk);
    let w = back(&mut desk, &w, vec![as_of(&spec, HeldState::Running)]);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
    desk.check(job.hook(0), "held: held");
}

/// Its child could not be taken back.
#[test]
fn what_follows_on_a_job_in_doubt_begins_no_child() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit_with(HOOKED, &[("after", PARENT), ("leaf", LEAF)]);
    let spec = desk.start(&mut w);
    restored(&mut desk);
    let w = back(&mut desk, &w, vec![as_of(&spec, HeldState::Running)]);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job.hook(0), "held: held");
    approve(&mut desk, job.hook(0), 0);
    desk.check(job.hook(0), "running: running");
}

#[test]
fn what_was_planned_for_the_time_that_is_lost_is_in_doubt() {
    let mut desk = Desk::new();
    desk.tasks(&[ONCE]);
    let first = desk.trigger("tidy:cron:1").next_at.expect("a time");
    desk.now = first + LATE_MAX + SECOND * 700;
    restored(&mut desk);
    desk.tasks(&[ONCE]);
    desk.pass(SECOND * 5);
    desk.check(job_id("tidy:cron:1", first), "held: held");
    let next = desk.trigger("tidy:cron:1").next_at.expect("a time");
    desk.pass(next.since(desk.now) + SECOND);
    desk.check(job_id("tidy:cron:1", next), "pending: queued");
}

/// Nothing waits for longer than workers take to say what they have, however often it is said.
#[test]
fn what_is_new_starts_as_soon_as_workers_have_reported() {
    for servers in [1, 2] {
        let mut cluster = Cluster::new(servers);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        for _ in 0..2 {
            let now = cluster.now;
            say_restored(&mut cluster.database.open(), now).expect("written").expect("servers run");
            cluster.pass(SECOND * 10);
            w.take();
            assert!(w.closed, "it is asked for what it has");
            let hello = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
            w = cluster.desk(0).knock(w.worker, hello).welcomed();
        }
        cluster.desk(0).submit(ONE);
        cluster.pass(SECOND);
        assert_eq!(w.offer().step, "a");
    }
}

/// The word stands, and that all were told of it is lost with later commits: whoever remembers telling them tells them again.
#[test]
fn jobs_whose_telling_is_lost_are_told_again() {
    for servers in [1, 2] {
        let mut cluster = Cluster::new(servers);
        let job = cluster.desk(0).submit(ONE);
        cluster.pass(SECOND * 5);
        let now = cluster.now;
        say_restored(&mut cluster.database.open(), now).expect("written").expect("servers run");
        let said = cluster.database.commits();
        cluster.pass(SECOND * 10);
        cluster.desk(0).check(job, "held: held");
        cluster.database.forget_last(cluster.database.commits() - said);
        cluster.pass(SECOND * 10);
        cluster.desk(0).check(job, "held: held");
        assert_eq!(told(cluster.desk(0), job), 1);
    }
}
