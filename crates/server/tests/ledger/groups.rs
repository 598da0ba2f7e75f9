//! Concurrency groups: who waits, who is admitted, and what frees a slot.

use std::time::Duration;

use engine::{Event, JobId};
use protocol::link::WorkerMessage;
use server::ledger::{Again, AgainError, Command, Commit, FleetOrder, How, ResolveOrder, RetryOrder, SubmitError};
use store::Store;

use crate::children::start;
use crate::cluster::Cluster;
use crate::desk::{Desk, submit};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

const ONE_AT_A_TIME: &str = "name: release\nconcurrency: {}\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
const URGENT: &str =
    "name: hotfix\npriority: 9\nconcurrency: { group: release }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
const TWO: &str = "name: two\nconcurrency: { group: g, limit: 2 }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
const REJECTS: &str =
    "name: r\nconcurrency: { group: g, when_full: reject }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
const NEWEST: &str =
    "name: n\nconcurrency: { group: g, when_full: cancel_oldest }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
const HARMLESS: &str = "name: release\nconcurrency: {}\nsteps:\n  a: { run: 'true', unmatched: wait, effects: none }\n";

fn cancel() -> Event {
    Event::Cancel { by: "ann".to_owned(), force: false }
}

/// Who waits for the group, in order.
fn line<S: Store>(desk: &Desk<S>, group: &str) -> Vec<JobId> {
    desk.reader.line(group, 100).expect("a look").into_iter().map(|waiting| waiting.job).collect()
}

fn slots<S: Store>(desk: &Desk<S>, group: &str) -> Vec<JobId> {
    desk.reader.slots(group, engine::Time(0)).expect("a look").into_iter().map(|slot| slot.job).collect()
}

#[test]
fn one_runs_and_the_next_follows_in_the_same_round() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 4);
    let [first, second, third] = [ONE_AT_A_TIME; 3].map(|yaml| desk.submit(yaml));
    desk.check(first, "pending: queued");
    desk.check(second, "pending: pending");
    let urgent = desk.submit(URGENT);
    assert_eq!(line(&desk, "release"), [urgent, second, third], "by priority, then by age");
    let running = start(&mut desk, &mut w);
    desk.pass(SECOND * 4000);
    desk.check(second, "pending: pending");
    desk.ends(&w, running.ticket, 0);
    desk.check(urgent, "pending: queued");
    let offered = start(&mut desk, &mut w);
    assert_eq!(JobId(offered.job), urgent, "it was offered in the round in which the slot came free");
    // Called off in line, it is over at once, and in nobody's way.
    desk.event(second, cancel()).expect("it is open");
    desk.check(second, "cancelled: cancelled");
    desk.ends(&w, offered.ticket, 1);
    desk.check(third, "pending: queued");
    let events: Vec<String> = desk.events(third).into_iter().filter(|e| e.kind == "slot").map(|e| e.reason).collect();
    assert_eq!(events[1], "concurrency group `release` has room for it (0 of 1 taken)");
}

#[test]
fn a_limit_lets_so_many_in_and_several_submits_of_one_round_do_not_pass_it() {
    let mut desk = Desk::new();
    let (commands, mut answers): (Vec<Command>, Vec<_>) = (0..5).map(|_| submit(TWO, None)).unzip();
    desk.round(commands);
    let jobs: Vec<JobId> =
        answers.iter_mut().map(|answer| answer.try_recv().expect("an answer").expect("a job").job).collect();
    assert_eq!(slots(&desk, "g").len(), 2);
    let mut in_line = line(&desk, "g");
    in_line.extend(slots(&desk, "g"));
    in_line.sort_unstable();
    let mut all = jobs;
    all.sort_unstable();
    assert_eq!(in_line, all);
    // Two at once make room for two.
    let holders = slots(&desk, "g");
    desk.event(holders[0], cancel()).expect("it is open");
    desk.event(holders[1], cancel()).expect("it is open");
    assert_eq!((slots(&desk, "g").len(), line(&desk, "g").len()), (2, 1));
}

/// A job whose attempt was given up, since its worker was taken out of the fleet.
fn given_up(desk: &mut Desk, yaml: &str) -> (JobId, crate::desk::Mailbox, protocol::attempt::Ticket) {
    let mut w = desk.worker("lost", "script", 1);
    let job = desk.submit(yaml);
    let spec = start(desk, &mut w);
    desk.order(FleetOrder::Remove { worker: w.worker, by: "ann".to_owned() }).expect("it is there");
    desk.check(job, "failed: failed");
    (job, w, spec.ticket)
}

#[test]
fn what_may_still_run_holds_its_slot_for_a_day_at_most() {
    let mut desk = Desk::new();
    let (first, ..) = given_up(&mut desk, ONE_AT_A_TIME);
    let second = desk.submit(ONE_AT_A_TIME);
    desk.check(second, "pending: pending");
    assert_eq!(slots(&desk, "release"), [first]);
    desk.freeze(DAY - SECOND * 60);
    desk.restart();
    desk.round(Vec::new());
    desk.check(second, "pending: pending");
    desk.pass(SECOND * 120);
    desk.check(second, "pending: queued");
}

/// Its effects allow a copy beside a stray one once its window is over.
#[test]
fn what_may_be_repeated_holds_its_slot_for_a_window() {
    let mut desk = Desk::new();
    let mut w = desk.worker("lost", "script", 1);
    let first = desk.submit(HARMLESS);
    start(&mut desk, &mut w);
    desk.hang_up(&w);
    desk.event(first, cancel()).expect("it is open");
    desk.check(first, "cancelled: cancelled");
    let second = desk.submit(HARMLESS);
    desk.pass(SECOND * 110);
    desk.check(second, "pending: pending");
    desk.pass(SECOND * 15);
    desk.check(second, "pending: queued");
}

#[test]
fn a_late_report_frees_the_slot_at_once() {
    let mut desk = Desk::new();
    let (_, w, ticket) = given_up(&mut desk, ONE_AT_A_TIME);
    let second = desk.submit(ONE_AT_A_TIME);
    desk.check(second, "pending: pending");
    desk.says(&w, vec![WorkerMessage::Ended { ticket, end: crate::desk::exited(0) }]);
    desk.check(second, "pending: queued");
}

#[test]
fn a_persons_word_frees_the_slot_and_who_goes_on_stands_in_line() {
    let mut desk = Desk::new();
    let (first, _, ticket) = given_up(&mut desk, ONE_AT_A_TIME);
    let second = desk.submit(ONE_AT_A_TIME);
    let order = ResolveOrder {
        job: first,
        step: engine::StepIx(0),
        how: How::Rerun,
        attempt: Some(engine::AttemptId(ticket.attempt)),
        late_outcome: None,
        confirm_dead: true,
        by: "ann".to_owned(),
    };
    let again = desk.again(Again::Resolve(order)).expect("it is over").job;
    desk.check(second, "pending: queued");
    desk.check(again, "pending: pending");
    assert_eq!(line(&desk, "release"), [again]);
    desk.event(second, cancel()).expect("it is open");
    desk.check(again, "pending: queued");
}

#[test]
fn one_that_does_not_wait_is_refused_and_nothing_is_stored() {
    let mut desk = Desk::new();
    let first = desk.submit(REJECTS);
    let refused = desk.try_submit(REJECTS, None).expect_err("there is no room");
    let SubmitError::GroupFull(full) = &refused else { panic!("{refused:?}") };
    assert_eq!(full.to_string(), format!("concurrency group `g` is full: job {first} is in it, and its limit is 1"));
    assert_eq!(desk.reader.last_job().expect("a look"), Some(first));
    // Who waits in the group is in it as well.
    desk.submit(TWO);
    desk.submit(TWO);
    desk.event(first, cancel()).expect("it is open");
    assert!(matches!(desk.try_submit(REJECTS, None), Err(SubmitError::GroupFull(_))));
    let retry = RetryOrder { job: first, from_failed: false, input: None, confirm_dead: false, by: "ann".to_owned() };
    assert!(matches!(desk.again(Again::Retry(retry)), Err(AgainError::GroupFull(_))));
}

#[test]
fn two_refusals_are_decided_one_after_the_other() {
    let mut desk = Desk::new();
    let ((one, mut first), (other, mut second)) = (submit(REJECTS, None), submit(REJECTS, None));
    desk.round(vec![one, other]);
    first.try_recv().expect("an answer").expect("there is room");
    assert!(matches!(second.try_recv().expect("an answer"), Err(SubmitError::GroupFull(_))));
}

/// It is decided before the end of whoever is in its way, and answered after it.
#[test]
fn nobody_is_refused_for_a_job_that_ends_with_the_same_commit() {
    let mut desk = Desk::new();
    let first = desk.submit(REJECTS);
    let (command, mut answer) = submit(REJECTS, None);
    let (reply, _cancelled) = tokio::sync::oneshot::channel();
    desk.round(vec![command, Command::Event { job: first, event: cancel(), reply }]);
    let second = answer.try_recv().expect("an answer").expect("there is room").job;
    desk.check(second, "pending: queued");
    let retry = RetryOrder { job: first, from_failed: false, input: None, confirm_dead: false, by: "ann".to_owned() };
    let (reply, mut answer) = tokio::sync::oneshot::channel();
    let retry = Command::Again(Box::new(Again::Retry(retry)), reply);
    let (reply, _cancelled) = tokio::sync::oneshot::channel();
    desk.round(vec![retry, Command::Event { job: second, event: cancel(), reply }]);
    let third = answer.try_recv().expect("an answer").expect("there is room").job;
    assert_eq!((slots(&desk, "g"), line(&desk, "g")), (vec![third], vec![]));
}

/// What goes on has nothing left to do: it is over as soon as it is admitted, in the round that makes it.
#[test]
fn nobody_is_refused_for_a_job_that_was_never_seen_in_the_group() {
    let mut desk = Desk::new();
    let yaml = "name: f\nconcurrency: { group: g }\nsteps:\n  a: { run: 'true', unmatched: wait }\n  b: { run: 'true', needs: [a] }\n";
    let mut w = desk.worker("w", "script", 1);
    let first = desk.submit(yaml);
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 1);
    desk.check(first, "failed: failed skipped");
    let order = ResolveOrder {
        job: first,
        step: engine::StepIx(0),
        how: How::Failed { reason: "so it is".to_owned() },
        attempt: Some(engine::AttemptId(spec.ticket.attempt)),
        late_outcome: None,
        confirm_dead: false,
        by: "ann".to_owned(),
    };
    let (reply, mut settled) = tokio::sync::oneshot::channel();
    let (command, mut answer) = submit(REJECTS, None);
    desk.round(vec![Command::Again(Box::new(Again::Resolve(order)), reply), command]);
    let goes_on = settled.try_recv().expect("an answer").expect("it is over").job;
    desk.check(goes_on, "failed: failed skipped");
    let second = answer.try_recv().expect("an answer").expect("there is room").job;
    desk.check(second, "pending: queued");
}

#[test]
fn the_newest_has_the_oldest_cancelled_and_waits_for_its_end() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 4);
    let first = desk.submit(NEWEST);
    let spec = start(&mut desk, &mut w);
    let second = desk.submit(NEWEST);
    desk.check(first, "cancelling: cancelling");
    desk.check(second, "pending: pending");
    let third = desk.submit(NEWEST);
    desk.check(second, "cancelled: cancelled");
    desk.check(third, "pending: pending");
    w.take();
    desk.ends(&w, spec.ticket, 143);
    desk.check(first, "cancelled: cancelled");
    desk.check(third, "pending: queued");
    let why = desk.events(first).into_iter().find(|e| e.kind == "cancel_asked").expect("it was asked").reason;
    assert_eq!(why, format!("asked by job {second} of the same concurrency group"));
}

#[test]
fn a_child_that_does_not_wait_fails_its_step() {
    let mut desk = Desk::new();
    desk.submit(TWO);
    let parent = desk.submit_with("name: p\nsteps:\n  call: { task: r }\n", &[("r", REJECTS)]);
    desk.check(parent, "failed: failed");
    let child = desk.children(parent)[0];
    desk.check(child, "failed: failed");
    let error = desk.reader.jobs(&store::JobFilter { limit: 9, ..store::JobFilter::default() }).expect("a look");
    assert!(
        error
            .items
            .iter()
            .filter(|job| job.id != child)
            .all(|job| job.id != parent || job.error_code.as_deref() == Some("group_full"))
    );
}

#[test]
fn jobs_that_wait_for_each_other_do_not_wait_for_ever() {
    let mut desk = Desk::new();
    let own = "name: p\nconcurrency: { group: g }\nsteps:\n  call: { task: c }\n";
    let child = "name: c\nconcurrency: { group: g }\nsteps:\n  a: { run: 'true' }\n";
    let parent = desk.submit_with(own, &[("c", child)]);
    desk.check(parent, "failed: failed");
    assert_eq!(error_of(&desk, parent), "group_deadlock");

    // Each holds what the other's child wants.
    let first = "name: x\nconcurrency: { group: x }\nsteps:\n  wait: { approve: { message: go } }\n  call: { needs: [wait], task: in-y }\n";
    let second = "name: y\nconcurrency: { group: y }\nsteps:\n  call: { task: in-x }\n";
    let in_x = "name: in-x\nconcurrency: { group: x }\nsteps:\n  a: { run: 'true' }\n";
    let in_y = "name: in-y\nconcurrency: { group: y }\nsteps:\n  a: { run: 'true' }\n";
    let x = desk.submit_with(first, &[("in-y", in_y)]);
    let y = desk.submit_with(second, &[("in-x", in_x)]);
    desk.check(y, "running: running");
    desk.pass(SECOND);
    let approve = Event::Approve { step: engine::StepIx(0), by: "ann".to_owned(), comment: String::new() };
    desk.event(x, approve).expect("it waits for that");
    desk.check(x, "failed: success failed");
    assert_eq!(error_of(&desk, x), "group_deadlock", "the youngest that waits is turned away");
    let child = desk.children(y)[0];
    desk.check(child, "pending: queued");
}

fn error_of<S: Store>(desk: &Desk<S>, job: JobId) -> String {
    let all = desk.reader.jobs(&store::JobFilter { limit: 100, ..store::JobFilter::default() }).expect("a look").items;
    all.into_iter().find(|summary| summary.id == job).and_then(|summary| summary.error_code).unwrap_or_default()
}

#[test]
fn the_timeout_counts_from_when_there_was_room() {
    let mut desk = Desk::new();
    let limited =
        "name: l\ntimeout: 1m\nconcurrency: { group: release }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
    let first = desk.submit(ONE_AT_A_TIME);
    let second = desk.submit(limited);
    desk.pass(SECOND * 200);
    desk.event(first, cancel()).expect("it is open");
    desk.pass(SECOND * 55);
    desk.check(second, "pending: queued");
    desk.pass(SECOND * 10);
    desk.check(second, "cancelled: cancelled");
}

#[test]
fn a_trigger_whose_group_is_full_makes_no_job_and_says_so() {
    let mut desk = Desk::new();
    desk.submit(TWO);
    desk.tasks(&[
        "name: n\nconcurrency: { group: g, when_full: reject }\ntriggers: [{ cron: '* * * * *' }]\nsteps: { a: { run: x } }\n",
    ]);
    desk.pass(SECOND * 70);
    let row = desk.trigger("n:cron:1");
    assert_eq!(row.last_job, None);
    assert!(row.last_error.as_deref().is_some_and(|error| error.contains("`g` is full")), "{row:?}");
}

#[test]
fn a_group_that_cannot_be_told_is_refused() {
    let mut desk = Desk::new();
    let odd = "name: t\ninput: { where: { type: list, default: [] } }\nconcurrency: { group: '{{ input.where }}' }\nsteps: { a: { run: x } }\n";
    let refused = desk.try_submit(odd, None).expect_err("a list is no name");
    assert!(matches!(&refused, SubmitError::Group(_)), "{refused}");
}

#[test]
fn a_slot_that_comes_free_at_one_server_goes_to_a_job_of_another() {
    let mut cluster = Cluster::new(2);
    let first = cluster.desk(0).submit(ONE_AT_A_TIME);
    let second = cluster.desk(1).submit(ONE_AT_A_TIME);
    cluster.desk(1).check(second, "pending: pending");
    cluster.pass(SECOND * 2);
    cluster.desk(0).event(first, cancel()).expect("it is open");
    cluster.desk(1).check(second, "pending: queued");
}

/// Both find the group empty; who writes second decides again.
#[test]
fn two_servers_do_not_give_one_slot_away_twice() {
    let mut cluster = Cluster::new(2);
    let (command, mut answer) = submit(ONE_AT_A_TIME, None);
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(vec![command], tick);
    let second = cluster.desk(1).submit(ONE_AT_A_TIME);
    cluster.desk(1).check(second, "pending: queued");
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    while let Some(piece) = cluster.desk(0).core().take_split() {
        cluster.desk(0).round(piece);
    }
    cluster.desk(0).round(Vec::new());
    let first = answer.try_recv().expect("an answer").expect("a job").job;
    cluster.desk(0).check(first, "pending: pending");
    assert_eq!(slots(cluster.desk(0), "release"), [second]);
    cluster.pass(SECOND * 2);
    cluster.desk(1).event(second, cancel()).expect("it is open");
    cluster.desk(0).check(first, "pending: queued");
}

#[test]
fn two_servers_do_not_take_two_where_one_more_is_refused() {
    let mut cluster = Cluster::new(2);
    let (command, mut answer) = submit(REJECTS, None);
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(vec![command], tick);
    let faster = cluster.desk(1).submit(REJECTS);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    while let Some(piece) = cluster.desk(0).core().take_split() {
        cluster.desk(0).round(piece);
    }
    cluster.desk(0).round(Vec::new());
    let refused = answer.try_recv().expect("an answer").expect_err("there is no room");
    assert_eq!(
        refused.to_string(),
        format!("concurrency group `g` is full: job {faster} is in it, and its limit is 1")
    );
    assert_eq!(slots(cluster.desk(0), "g"), [faster]);
    cluster.desk(1).event(faster, cancel()).expect("it is open");
    let next = cluster.desk(1).submit(REJECTS);
    cluster.desk(1).check(next, "pending: queued");
}

/// Whoever was in the way was left out of the commit: the answer names somebody who is there.
#[test]
fn nobody_is_refused_for_a_job_that_was_left_out() {
    let mut cluster = Cluster::new(2);
    let ((queued, mut made), (rejects, mut refused)) = (submit(NEWEST, None), submit(REJECTS, None));
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(vec![queued, rejects], tick);
    let faster = cluster.desk(1).submit(NEWEST);
    cluster.desk(1).event(faster, cancel()).expect("it is open");
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    while let Some(piece) = cluster.desk(0).core().take_split() {
        cluster.desk(0).round(piece);
    }
    let made = made.try_recv().expect("an answer").expect("a job").job;
    let refused = refused.try_recv().expect("an answer").expect_err("there is no room");
    assert_eq!(refused.to_string(), format!("concurrency group `g` is full: job {made} is in it, and its limit is 1"));
}

/// The server dies between the end of one and the admission of the next: the rows alone say who is to be admitted.
#[test]
fn a_restart_finds_who_waits() {
    let mut desk = Desk::new();
    let first = desk.submit(ONE_AT_A_TIME);
    let second = desk.submit(ONE_AT_A_TIME);
    desk.restart();
    desk.round(Vec::new());
    desk.check(second, "pending: pending");
    desk.event(first, cancel()).expect("it is open");
    desk.check(second, "pending: queued");
    desk.restart();
    desk.round(Vec::new());
    assert_eq!((slots(&desk, "release"), line(&desk, "release")), (vec![second], vec![]));
}

/// It was admitted elsewhere since this server read it: that it is called off here, as one that waits, makes no room.
#[test]
fn a_job_that_waits_only_in_memory_makes_no_room() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 4);
    let [first, second, third] = [ONE_AT_A_TIME; 3].map(|yaml| cluster.desk(0).submit(yaml));
    let running = start(cluster.desk(0), &mut w);
    assert_eq!(JobId(running.job), first);
    cluster.pass(SECOND * 2);
    cluster.desk(1).event(second, Event::CheckJob).expect("it is open");
    cluster.pass(SECOND * 2);
    cluster.desk(0).ends(&w, running.ticket, 0);
    cluster.desk(0).round(Vec::new());
    let next = start(cluster.desk(0), &mut w);
    assert_eq!(JobId(next.job), second);
    cluster.desk(1).event(second, cancel()).expect("it is open");
    cluster.desk(1).check(second, "cancelling: cancelling");
    cluster.desk(1).check(third, "pending: pending");
    assert_eq!(slots(cluster.desk(1), "release"), [second]);
}
