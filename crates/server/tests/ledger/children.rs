//! Jobs that steps of other jobs begin: made, called off and ended in one transaction with the step that waits for them.

use std::time::Duration;

use engine::deadline::Rules;
use engine::{Clocks, Ctx, Event, JobId, StepIx};
use protocol::attempt::{AttemptSpec, End};
use protocol::link::{HeldState, Hello, ServerMessage, VerdictKind, WorkerMessage};
use server::ledger::{Again, AgainError, Definitions, RetryOrder};
use spec::eval::Templates;
use store::{Batch, JobWrite, Store, codec};

use crate::cluster::Cluster;
use crate::desk::{Desk, Mailbox, exited, hello};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);

const PARENT: &str = "\
name: parent
steps:
  first: { run: 'true' }
  call: { needs: [first], task: child, with: { what: '{{ steps.first.state }}' } }
  last: { needs: [call], run: 'echo {{ steps.call.state }}' }
";
const BESIDE: &str = "\
name: parent
steps:
  first: { run: 'true' }
  call: { task: child }
  last: { needs: [call], run: 'true' }
";
const CALLS: &str = "name: parent\nsteps:\n  call: { task: child }\n";
const TRIES: &str = "name: parent\nsteps:\n  call: { task: child, retry: { attempts: 2, delay: 5s } }\n";
const CHILD: &str = "name: child\ninput: { what: { type: string, default: hello } }\nsteps:\n  work: { run: 'echo {{ input.what }}' }\n";
const MIDDLE: &str = "name: middle\nsteps:\n  call: { task: child }\n";
const OUTER: &str = "name: outer\nsteps:\n  call: { task: middle }\n";

/// All the way up, in one transaction: the clock of none of them goes on while a person is waited for.
#[test]
fn who_waits_for_a_job_that_waits_for_a_person_is_held_with_it() {
    const ASKS: &str =
        "name: child\nsteps:\n  gate: { approve: { message: ok? } }\n  work: { needs: [gate], run: 'true' }\n";
    let outer = format!("{OUTER}timeout: 60s\n");
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let outer = desk.submit_with(&outer, &[("middle", MIDDLE), ("child", ASKS)]);
    let middle = desk.children(outer)[0];
    let child = desk.children(middle)[0];
    for job in [outer, middle] {
        desk.check(job, "held: running");
    }
    desk.pass(SECOND * 600);
    desk.check(outer, "held: running");
    let approve = Event::Approve { step: StepIx(0), by: "ann".to_owned(), comment: String::new() };
    desk.event(child, approve).expect("approved");
    desk.check(child, "pending: success queued");
    for job in [outer, middle] {
        desk.check(job, "running: running");
    }
    let spec = start(&mut desk, &mut w);
    desk.pass(SECOND * 50);
    desk.check(outer, "running: running");
    desk.ends(&w, spec.ticket, 0);
    desk.check(outer, "success: success");
}

/// Written by a build that does not know of it, or told when the parent could not be read: the parent's own look finds out.
#[test]
fn a_parent_that_was_not_told_finds_out_that_its_child_is_held() {
    const ASKS: &str = "name: child\nsteps:\n  gate: { approve: { message: ok? } }\n";
    let mut desk = Desk::new();
    let parent = desk.submit_with(CALLS, &[("child", ASKS)]);
    let child = desk.children(parent)[0];
    let told = Event::ChildHeld { step: StepIx(0), child, held: false };
    desk.event(parent, told).expect("as if nobody had said so");
    desk.check(parent, "running: running");
    desk.pass(SECOND * 3_700);
    desk.check(parent, "held: running");
}

fn cancel() -> Event {
    Event::Cancel { by: "ann".to_owned(), force: false }
}

fn retry(job: JobId, confirm_dead: bool) -> Again {
    Again::Retry(RetryOrder { job, from_failed: true, confirm_dead, by: "ann".to_owned(), input: None })
}

/// A parent and the child that it waits for.
fn calling<S: Store>(desk: &mut Desk<S>, yaml: &str) -> (JobId, JobId) {
    let parent = desk.submit_with(yaml, &[("child", CHILD)]);
    let children = desk.children(parent);
    assert_eq!(children.len(), 1);
    (parent, children[0])
}

/// Whatever else is in the mail: the offer is taken through accept and go.
pub(crate) fn start<S: Store>(desk: &mut Desk<S>, w: &mut Mailbox) -> AttemptSpec {
    let offered = w.take().into_iter().find_map(|message| match message {
        ServerMessage::Offer { spec, .. } => Some(*spec),
        _ => None,
    });
    let spec = offered.expect("an offer");
    desk.says(w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    assert_eq!(w.go(), spec.ticket);
    spec
}

#[test]
fn a_job_is_begun_and_its_end_moves_its_parent_on() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let parent = desk.submit_with(PARENT, &[("child", CHILD)]);
    let first = start(&mut desk, &mut w);
    desk.ends(&w, first.ticket, 0);
    desk.check(parent, "running: success running pending");
    let child = desk.children(parent)[0];
    assert_eq!(child, parent.child(StepIx(1), 1));
    let stored = desk.stored(child).job;
    assert_eq!(stored.input, r#"{"what":"success"}"#);
    assert_eq!(stored.submitted_by, "the test");
    desk.check(child, "pending: queued");
    let work = start(&mut desk, &mut w);
    assert_eq!(work.job, child.0);
    desk.ends(&w, work.ticket, 0);
    desk.check(child, "success: success");
    desk.check(parent, "running: success success queued");
    let last = start(&mut desk, &mut w);
    desk.ends(&w, last.ticket, 0);
    desk.check(parent, "success: success success success");
    assert_eq!(desk.reader.last_job().expect("readable"), Some(parent), "a child is not what `last` means");
}

#[test]
fn a_failure_travels_up_and_its_step_tries_again() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (parent, child) = calling(&mut desk, TRIES);
    let work = start(&mut desk, &mut w);
    desk.ends(&w, work.ticket, 3);
    desk.check(child, "failed: failed");
    desk.check(parent, "running: waiting");
    desk.pass(6 * SECOND);
    let second = desk.children(parent)[1];
    assert_ne!(second, child);
    let work = start(&mut desk, &mut w);
    assert_eq!(work.job, second.0);
    desk.ends(&w, work.ticket, 3);
    desk.check(parent, "failed: failed");
    let step = &desk.stored(parent).steps[0];
    assert!(step.data.contains(&format!("Child job {second}: ")) && step.data.contains("exit_code"), "{}", step.data);
}

#[test]
fn a_cancel_travels_down_to_the_last() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let outer = desk.submit_with(OUTER, &[("middle", MIDDLE), ("child", CHILD)]);
    let middle = desk.children(outer)[0];
    let inner = desk.children(middle)[0];
    let work = start(&mut desk, &mut w);
    assert_eq!(work.job, inner.0);
    desk.event(outer, cancel()).expect("it is taken");
    for job in [outer, middle, inner] {
        desk.check(job, "cancelling: cancelling");
    }
    assert!(matches!(w.one(), ServerMessage::Stop { .. }));
    let end = End { stopped: Some(protocol::attempt::StopReason::Cancelled), ..exited(1) };
    desk.says(&w, vec![WorkerMessage::Ended { ticket: work.ticket, end }]);
    for job in [inner, middle, outer] {
        desk.check(job, "cancelled: cancelled");
    }
}

#[test]
fn what_never_started_is_called_off_at_once() {
    let mut desk = Desk::new();
    let (parent, child) = calling(&mut desk, CALLS);
    desk.event(parent, cancel()).expect("it is taken");
    desk.check(child, "cancelled: cancelled");
    desk.check(parent, "cancelled: cancelled");
}

#[test]
fn a_child_that_is_cancelled_by_hand_cancels_its_step() {
    let mut desk = Desk::new();
    let (parent, child) = calling(&mut desk, TRIES);
    desk.event(child, cancel()).expect("it is taken");
    desk.check(child, "cancelled: cancelled");
    desk.check(parent, "cancelled: cancelled");
}

/// Whoever restarts finds the parent waiting, and the child going on.
#[test]
fn a_restart_changes_nothing() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (parent, child) = calling(&mut desk, BESIDE);
    let (one, two) = (start(&mut desk, &mut w), desk.children(parent)[0]);
    assert_eq!(child, two);
    desk.ends(&w, one.ticket, 0);
    let work = start(&mut desk, &mut w);
    desk.restart();
    let w =
        desk.knock(w.worker, Hello { last_epoch: 1, ..hello("w", "script", 1, vec![held(&work, HeldState::Running)]) });
    let w = w.welcomed();
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.ends(&w, work.ticket, 0);
    desk.check(child, "success: success");
    desk.check(parent, "running: success success queued");
}

/// Two servers decide the same: there is one child, and its end is told once.
#[test]
fn two_servers_make_one_child() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let (parent, child) = calling(cluster.desk(0), TRIES);
    let work = start(cluster.desk(0), &mut w);
    cluster.desk(0).ends(&w, work.ticket, 1);
    cluster.desk(0).check(parent, "running: waiting");
    // Both look when its time has come, and neither knows what the other does.
    cluster.pass(4 * SECOND);
    cluster.now = cluster.now + 2 * SECOND;
    cluster.desk(1).round(Vec::new());
    cluster.desk(0).round(Vec::new());
    cluster.pass(5 * SECOND);
    assert_eq!(cluster.desk(0).children(parent).len(), 2);
    cluster.desk(0).check(parent, "running: running");
    // The second one is cancelled at the server that did not make it.
    let second = parent.child(StepIx(0), 2);
    assert_ne!(second, child);
    cluster.desk(1).event(second, cancel()).expect("it is taken");
    cluster.desk(1).check(parent, "cancelled: cancelled");
    assert_eq!(
        cluster.desk(0).event(parent, cancel()).expect_err("it is over").to_string(),
        "the job is already cancelled"
    );
}

/// A server that remembers an older parent ends its child: both are decided again, together.
#[test]
fn a_child_whose_parent_has_moved_is_decided_again() {
    let mut cluster = Cluster::new(2);
    let (parent, child) = calling(cluster.desk(0), BESIDE);
    let mut w = cluster.desk(1).worker("w", "script", 2);
    cluster.pass(2 * SECOND);
    // The other server has the job in memory, and this one moves it on behind its back.
    cluster.desk(1).event(parent, Event::CheckJob).expect("a look");
    cluster.desk(0).event(parent, Event::CheckJob).expect("a look");
    cluster.desk(1).event(child, cancel()).expect("it is taken");
    cluster.desk(0).check(child, "cancelled: cancelled");
    let seen = cluster.desk(0).seen(parent);
    assert_eq!(seen.steps[1], "cancelled");
    w.take();
}

/// The commit with the child is lost, and its worker has run it: made again, it is the same one, and is not run again.
#[test]
fn a_child_that_is_not_on_record_is_made_again_and_adopted() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let parent = cluster.desk(0).submit_with(PARENT, &[("child", CHILD)]);
    let first = start(cluster.desk(0), &mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let work = start(cluster.desk(0), &mut w);
    let lost = cluster.database.commits() - before;
    assert_eq!(cluster.database.forget_last(lost), lost);
    cluster.kill(0);
    let place = cluster.start();
    cluster.pass(20 * SECOND);
    let desk = cluster.desk(place);
    assert_eq!(desk.children(parent), []);
    let brings = vec![held(&first, HeldState::Ended), held(&work, HeldState::Running)];
    let back =
        desk.knock(w.worker, Hello { last_epoch: w.welcome.epoch + 1, ..hello("w", "script", 1, brings) }).welcomed();
    desk.ends(&back, first.ticket, 0);
    let child = desk.children(parent)[0];
    assert_eq!(work.job, child.0);
    desk.check(child, "running: running");
    let attempts = desk.attempts(child);
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].id.0, work.ticket.attempt);
}

/// The same for a job that another one begins which follows on an end: both births are lost, and both are made again at once.
#[test]
fn what_a_hook_has_begun_is_adopted_when_it_is_made_again() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let task = "name: outer\nsteps:\n  first: { run: 'true' }\non_success: [{ task: middle }]\n";
    let job = cluster.desk(0).submit_with(task, &[("middle", MIDDLE), ("child", CHILD)]);
    let first = start(cluster.desk(0), &mut w);
    let before = cluster.database.commits();
    cluster.desk(0).ends(&w, first.ticket, 0);
    let work = start(cluster.desk(0), &mut w);
    let lost = cluster.database.commits() - before;
    assert_eq!(cluster.database.forget_last(lost), lost);
    cluster.kill(0);
    let place = cluster.start();
    cluster.pass(20 * SECOND);
    let desk = cluster.desk(place);
    desk.check(job, "recovering: recovering");
    let brings = vec![held(&first, HeldState::Ended), held(&work, HeldState::Running)];
    let back =
        desk.knock(w.worker, Hello { last_epoch: w.welcome.epoch + 1, ..hello("w", "script", 1, brings) }).welcomed();
    desk.ends(&back, first.ticket, 0);
    desk.check(job, "success: success");
    let child = desk.children(job.hook(0))[0];
    assert_eq!(work.job, child.0);
    let attempts: Vec<uuid::Uuid> = desk.attempts(child).iter().map(|attempt| attempt.id.0).collect();
    assert_eq!(attempts, [work.ticket.attempt]);
}

/// The word of its end is lost: the step that waits for it looks, and finds out.
#[test]
fn a_step_looks_after_its_job() {
    let mut cluster = Cluster::new(1);
    let (parent, child) = calling(cluster.desk(0), CALLS);
    end_behind_the_back(&mut cluster, child);
    cluster.kill(0);
    let place = cluster.start();
    cluster.pass(Duration::from_secs(60));
    cluster.desk(place).check(parent, "running: running");
    cluster.pass(Duration::from_secs(3_600));
    cluster.desk(place).check(parent, "cancelled: cancelled");
}

/// Writes the end of a job without a word to anybody, as no ledger does.
fn end_behind_the_back(cluster: &mut Cluster, id: JobId) {
    let mut store = cluster.database.open();
    let stored = store.load_job(id).expect("readable").expect("there");
    let (mut job, meta) = Definitions::default().load(&stored).expect("readable");
    let rules = Rules::default();
    let Clocks { now, heard, verdicts_from } = Clocks::never_deaf(cluster.now);
    let ctx = Ctx { now, heard, verdicts_from, random: 0, rules: &rules, workers: &(), evaluator: &Templates };
    let changes = engine::apply(&job, &cancel(), &ctx).expect("it can be cancelled");
    let expected = Some(job.header.version);
    job.absorb(&changes);
    let steps = changes.steps.iter().map(|(ix, step)| codec::step_row(id, *ix, &job.name(*ix), step)).collect();
    let jobs = vec![JobWrite { row: codec::job_row(&job, &meta), expected }];
    store.commit(&Batch { now, jobs, steps, ..Batch::default() }).expect("written");
}

/// What a child left behind may still run: nobody begins another beside it without a word.
#[test]
fn nothing_goes_on_beside_what_a_child_left_behind() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (parent, child) = calling(&mut desk, TRIES);
    start(&mut desk, &mut w);
    desk.hang_up(&w);
    desk.pass(300 * SECOND);
    desk.check(child, "failed: failed");
    desk.check(parent, "failed: failed");
    let refused = desk.again(retry(parent, false)).expect_err("something may still run");
    assert!(matches!(&refused, AgainError::MayStillRun(steps) if steps == &["`call`"]), "{refused}");
    let next = desk.again(retry(parent, true)).expect("somebody is sure");
    assert_eq!(desk.children(next.job).len(), 1);
    assert!(desk.attempts(child).iter().all(|attempt| attempt.confirmed));
}

/// A child that ended well stays, and one that did not is begun anew.
#[test]
fn a_job_that_goes_on_keeps_what_its_children_did() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let parent = desk.submit_with(PARENT, &[("child", CHILD)]);
    for code in [0, 0, 1] {
        let spec = start(&mut desk, &mut w);
        desk.ends(&w, spec.ticket, code);
    }
    desk.check(parent, "failed: success success failed");
    let next = desk.again(retry(parent, false)).expect("it goes on");
    desk.check(next.job, "pending: success success queued");
    assert_eq!(desk.children(next.job), []);
}

/// It was brought to a server that does not begin the child, nor the one that the child is a child of.
#[test]
fn a_lost_child_is_adopted_by_whichever_server_begins_it_again() {
    for (tasks, waits) in [
        (
            vec![("child", CHILD)],
            "name: outer\nsteps:\n  first: { run: 'true', tags: [first] }\n  call: { needs: [first], task: child }\n",
        ),
        (
            vec![("middle", MIDDLE), ("child", CHILD)],
            "name: outer\nsteps:\n  first: { run: 'true', tags: [first] }\n  call: { needs: [first], task: middle }\n",
        ),
    ] {
        let mut cluster = Cluster::new(2);
        let mut v = cluster.desk(1).worker("v", "script first", 1);
        let parent = cluster.desk(1).submit_with(waits, &tasks);
        let first = start(cluster.desk(1), &mut v);
        let mut w = cluster.desk(0).worker("w", "script", 1);
        let before = cluster.database.commits();
        cluster.desk(1).ends(&v, first.ticket, 0);
        // Only one of them may have it.
        cluster.desk(1).hang_up(&v);
        cluster.pass(2 * SECOND);
        let work = start(cluster.desk(0), &mut w);
        let lost = cluster.database.commits() - before;
        assert_eq!(cluster.database.forget_last(lost), lost);
        cluster.pass(3 * SECOND);
        assert_eq!(cluster.desk(0).children(parent), []);
        let comes = |w: &Mailbox, name, tags, held| Hello { last_epoch: w.welcome.epoch, ..hello(name, tags, 1, held) };
        let brings = comes(&w, "w", "script", vec![held(&work, HeldState::Running)]);
        cluster.desk(0).knock(w.worker, brings).welcomed();
        let brings = comes(&v, "v", "script first", vec![held(&first, HeldState::Ended)]);
        let v = cluster.desk(1).knock(v.worker, brings).welcomed();
        cluster.desk(1).ends(&v, first.ticket, 0);
        let attempts = cluster.desk(1).attempts(JobId(work.job));
        let ids: Vec<uuid::Uuid> = attempts.iter().map(|attempt| attempt.id.0).collect();
        assert_eq!(ids, [work.ticket.attempt]);
        cluster.desk(1).check(JobId(work.job), "recovering: recovering");
    }
}
