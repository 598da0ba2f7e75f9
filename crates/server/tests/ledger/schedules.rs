//! Tasks that start by themselves: one job for each time, whoever is down, and whatever is lost.

use std::time::Duration;

use engine::{JobId, Time};
use server::ledger::{Command, Submit, SubmitError, TriggerError, TriggerOrder};
use server::schedule::plan::{LATE_MAX, job_id};
use store::{JobFilter, Store};
use store_memory::MemoryDatabase;
use tokio::sync::oneshot;

use crate::desk::{Desk, broken_book, submit};

const MINUTE: Duration = Duration::from_secs(60);

/// Every ten minutes. The desk's time begins 200 seconds before a full one.
const SKIPS: &str = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ cron: '*/10 * * * *' }]\n";
const ONCE: &str = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ cron: '*/10 * * * *', missed: once }]\n";
const ID: &str = "tidy:cron:1";

const FIRST: Time = Time(1_700_000_400_000_000);

fn jobs<S: Store>(desk: &Desk<S>) -> Vec<JobId> {
    let filter = JobFilter { limit: 1_000, ..JobFilter::default() };
    let page = desk.reader.jobs(&filter).expect("readable");
    page.items.iter().rev().map(|job| job.id).collect()
}

fn nth(n: u32) -> Time {
    FIRST + MINUTE * 10 * n
}

#[test]
fn a_time_makes_a_job_when_it_has_come_and_not_later() {
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    assert_eq!(desk.trigger(ID).next_at, Some(nth(0)));
    desk.pass(nth(0).since(desk.now) - Duration::from_millis(1));
    assert_eq!(jobs(&desk), []);
    desk.pass(Duration::from_millis(1));
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
    let stored = desk.stored(job_id(ID, nth(0))).job;
    assert_eq!((stored.created_at, stored.submitted_by.as_str()), (nth(0), "trigger:tidy:cron:1"));
    let row = desk.trigger(ID);
    assert_eq!((row.next_at, row.last_at, row.last_job), (Some(nth(1)), Some(nth(0)), Some(job_id(ID, nth(0)))));
    desk.pass(MINUTE * 25);
    assert_eq!(jobs(&desk), [0, 1, 2].map(|n| job_id(ID, nth(n))));
    assert_eq!(desk.trigger(ID).missed, 0);
}

#[test]
fn what_was_due_while_the_server_was_down_is_skipped_or_made_up_for() {
    for (task, expected, missed) in [(SKIPS, 0, 3), (ONCE, 1, 2)] {
        let mut desk = Desk::new();
        desk.tasks(&[task]);
        desk.down(nth(2).since(desk.now) + LATE_MAX + Duration::from_secs(1));
        desk.tasks(&[task]);
        desk.pass(Duration::from_secs(5));
        assert_eq!(jobs(&desk).len(), expected);
        let row = desk.trigger(ID);
        assert_eq!((row.missed, row.next_at), (missed, Some(nth(3))));
    }
}

#[test]
fn a_restart_in_the_wrong_moment_misses_nothing() {
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    desk.down(nth(0).since(desk.now) + LATE_MAX / 2);
    // The tasks are read a little after the start: what is not known yet is not taken for gone.
    desk.pass(Duration::from_millis(10));
    assert_eq!(desk.trigger(ID).next_at, Some(nth(0)));
    assert_eq!(jobs(&desk), []);
    desk.tasks(&[SKIPS]);
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
}

#[test]
fn a_reload_adds_changes_and_takes_away() {
    let mut desk = Desk::new();
    desk.tasks(&[]);
    desk.pass(MINUTE);
    desk.tasks(&[SKIPS]);
    assert_eq!(desk.trigger(ID).next_at, Some(nth(0)), "a new one needs no restart");
    let version = desk.trigger(ID).version;
    desk.tasks(&[SKIPS]);
    assert_eq!(desk.trigger(ID).version, version, "nothing is written where nothing changed");
    let hourly = SKIPS.replace("*/10", "0");
    desk.tasks(&[&hourly]);
    let row = desk.trigger(ID);
    assert!(row.next_at > Some(nth(0)) && row.definition.contains("\"0 *"), "{row:?}");
    // The task stays, and wants it no more.
    desk.tasks(&["name: tidy\nsteps:\n  a: { run: 'true' }\n"]);
    assert_eq!(desk.trigger(ID).next_at, None);
    desk.pass(MINUTE * 120);
    assert_eq!(jobs(&desk), []);
    desk.tasks(&[ONCE]);
    assert!(desk.trigger(ID).next_at > Some(desk.now), "it begins anew, and makes up for nothing");
    let row = desk.trigger(ID);
    assert_eq!((row.missed, row.notice), (0, None));
}

/// Whether a file was deleted or lost by accident cannot be told: what does not run is told, and rests until it is back.
#[test]
fn a_schedule_without_a_task_is_missed_and_goes_on_when_the_task_is_back() {
    for (task, made, missed) in [(SKIPS, 0, 3), (ONCE, 1, 2)] {
        let mut desk = Desk::new();
        desk.tasks(&[task]);
        desk.tasks(&[]);
        assert_eq!(desk.trigger(ID).next_at, Some(nth(0)), "nothing was missed yet");
        desk.pass(nth(0).since(desk.now) + LATE_MAX);
        assert_eq!(desk.trigger(ID).notice, None, "it is not missed yet");
        desk.pass(Duration::from_secs(5));
        let row = desk.trigger(ID);
        let told = "1 time passed without a job: 2023-11-14T22:20:00Z; its job could not be made: there is no such task any more";
        assert_eq!((row.notice.as_deref(), row.next_at), (Some(told), None));
        let version = row.version;
        desk.pass(MINUTE * 20);
        assert_eq!(desk.trigger(ID).version, version, "it is told once");
        desk.tasks(&[task]);
        desk.pass(Duration::from_secs(1));
        assert_eq!(jobs(&desk).len(), made);
        let row = desk.trigger(ID);
        assert_eq!((row.missed, row.next_at, row.last_error), (missed, Some(nth(3)), None));
    }
}

#[test]
fn a_task_that_is_away_for_a_moment_misses_nothing() {
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    desk.pass(nth(0).since(desk.now) - Duration::from_secs(1));
    desk.tasks(&[]);
    desk.pass(LATE_MAX / 2);
    desk.tasks(&[SKIPS]);
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
    let row = desk.trigger(ID);
    assert_eq!((row.missed, row.notice, row.next_at), (0, None, Some(nth(1))));
}

/// No good version of it is known to the server that starts.
#[test]
fn a_schedule_whose_task_is_broken_at_the_start_says_what_is_wrong() {
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    desk.down(MINUTE);
    desk.take_book(broken_book("tidy", &SKIPS.replace("steps:", "stpes:")));
    desk.pass(nth(1).since(desk.now));
    let row = desk.trigger(ID);
    let error = row.last_error.expect("it says why");
    assert_eq!(error, "its task has errors: tidy:1: a task needs the key `steps`");
    assert!(row.notice.is_some_and(|notice| notice.contains("1 time passed") && notice.contains(&error)));
    desk.tasks(&[SKIPS]);
    desk.pass(nth(2).since(desk.now));
    assert_eq!(jobs(&desk), [job_id(ID, nth(2))]);
    assert_eq!((desk.trigger(ID).missed, desk.trigger(ID).last_error), (2, None));
}

#[test]
fn a_pause_stays_until_it_is_ended() {
    for (task, made, missed) in [(SKIPS, 0, 2), (ONCE, 1, 1)] {
        let mut desk = Desk::new();
        desk.tasks(&[task]);
        let pause = || TriggerOrder::Pause { id: ID.to_owned(), by: "ann".to_owned() };
        desk.order_trigger(pause()).expect("it is there");
        let paused_at = desk.now;
        desk.down(MINUTE);
        // Another expression is the same trigger.
        desk.tasks(&[&task.replace("*/10", "*/5")]);
        desk.tasks(&[task]);
        desk.pass(nth(1).since(desk.now) + MINUTE / 2);
        assert_eq!(jobs(&desk), []);
        let row = desk.order_trigger(pause()).expect("it is there");
        assert_eq!((row.paused_at, row.paused_by.as_deref()), (Some(paused_at), Some("ann")));
        assert_eq!(row.next_at, None);
        desk.order_trigger(TriggerOrder::Resume { id: ID.to_owned() }).expect("it is there");
        desk.pass(Duration::from_secs(1));
        assert_eq!(jobs(&desk).len(), made);
        let row = desk.trigger(ID);
        assert_eq!((row.paused_at, row.missed, row.next_at), (None, missed, Some(nth(2))));
    }
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    let unknown = desk.order_trigger(TriggerOrder::Resume { id: "tidy:cron:2".to_owned() });
    assert_eq!(unknown, Err(TriggerError::NoSuchTrigger));
}

/// The server was away, and not the trigger at rest, when these times came: people hear of them, and of no others.
#[test]
fn what_was_due_before_a_pause_did_not_pass_by_it() {
    let pause = || TriggerOrder::Pause { id: ID.to_owned(), by: "ann".to_owned() };
    let resume = || TriggerOrder::Resume { id: ID.to_owned() };
    for (task, missed, told, made) in [(SKIPS, 2, true, 0), (ONCE, 0, false, 1)] {
        let mut desk = Desk::new();
        desk.tasks(&[task]);
        desk.now = nth(1) + MINUTE * 2;
        let row = desk.order_trigger(pause()).expect("it is there");
        assert_eq!((row.missed, row.notice_at.is_some(), row.next_at), (missed, told, None));
        let told_at = row.notice_at;
        desk.pass(MINUTE * 20);
        let row = desk.order_trigger(resume()).expect("it is there");
        assert_eq!(row.notice_at, told_at, "what passes while it rests is nobody's trouble");
        desk.pass(Duration::from_secs(1));
        assert_eq!(jobs(&desk).len(), made);
        let row = desk.trigger(ID);
        assert_eq!((row.missed, row.next_at), (if made == 1 { 3 } else { 4 }, Some(nth(4))));
    }
    // Both in one round.
    let mut desk = Desk::new();
    desk.tasks(&[SKIPS]);
    desk.now = nth(1) + MINUTE * 2;
    let order = |order| Command::Trigger(order, oneshot::channel().0);
    desk.round(vec![order(pause()), order(resume())]);
    let row = desk.trigger(ID);
    assert_eq!((row.missed, row.notice_at, row.next_at), (2, Some(desk.now), Some(nth(2))));
    assert!(row.notice.is_some_and(|text| text.starts_with("2 times passed without a job")));
}

#[test]
fn several_servers_make_one_job() {
    let database = MemoryDatabase::new();
    let now = Time(1_700_000_000_000_000);
    let mut servers: Vec<_> = [1, 2, 3].map(|seed| Desk::beside(database.open(), now, seed)).into();
    servers.iter_mut().for_each(|server| server.tasks(&[SKIPS]));
    while servers[0].now < nth(3) {
        for server in &mut servers {
            server.pass(Duration::from_millis(500));
        }
    }
    let expected: Vec<JobId> = [0, 1, 2].map(|n| job_id(ID, nth(n))).into();
    assert_eq!(jobs(&servers[0])[..3], expected);
    for (n, id) in expected.iter().enumerate() {
        let late = servers[0].stored(*id).job.created_at.since(nth(u32::try_from(n).expect("small")));
        assert!(late < Duration::from_secs(5), "{late:?}");
    }
    // All of them at the same moment, and none leaves it to another.
    servers.iter_mut().for_each(|server| server.now = nth(4) + MINUTE / 2);
    servers.iter_mut().for_each(|server| server.round(Vec::new()));
    assert_eq!(jobs(&servers[0]).iter().filter(|id| **id == job_id(ID, nth(4))).count(), 1);
}

#[test]
fn a_commit_that_is_lost_makes_the_same_job_again() {
    let database = MemoryDatabase::new();
    let mut desk = Desk::beside(database.open(), Time(1_700_000_000_000_000), 1);
    desk.tasks(&[SKIPS]);
    desk.pass(nth(0).since(desk.now) - Duration::from_secs(1));
    let before = database.commits();
    desk.pass(Duration::from_secs(1));
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
    database.forget_last(database.commits() - before);
    assert_eq!(jobs(&desk), []);
    desk.pass(Duration::from_secs(20));
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
    assert_eq!(desk.trigger(ID).next_at, Some(nth(1)));
}

/// The loss is not noticed yet: what this server remembers of the job is no reason to make none.
#[test]
fn a_job_that_is_only_remembered_is_made_again() {
    let database = MemoryDatabase::new();
    let mut desk = Desk::beside(database.open(), Time(1_700_000_000_000_000), 1);
    desk.tasks(&[SKIPS]);
    desk.pass(nth(0).since(desk.now) - Duration::from_secs(1));
    let before = database.commits();
    desk.pass(Duration::from_secs(1));
    database.forget_last(database.commits() - before);
    desk.round(vec![Command::Fire(ID.to_owned())]);
    assert_eq!(jobs(&desk), [job_id(ID, nth(0))]);
}

/// What the task begins is gone: its time is over without a job, and the next one comes.
#[test]
fn a_task_that_cannot_be_run_says_so_and_goes_on() {
    let calls = "name: tidy\nsteps:\n  a: { task: other }\ntriggers: [{ cron: '*/10 * * * *' }]\n";
    let other = "name: other\nsteps:\n  a: { run: 'true' }\n";
    let mut desk = Desk::new();
    desk.tasks(&[calls]);
    desk.pass(nth(0).since(desk.now));
    let row = desk.trigger(ID);
    assert!(row.last_error.as_deref().is_some_and(|error| error.contains("`other`")), "{row:?}");
    assert_eq!((row.next_at, row.last_job), (Some(nth(1)), None));
    desk.tasks(&[calls, other]);
    desk.pass(MINUTE * 10);
    let row = desk.trigger(ID);
    assert_eq!((row.last_error, row.last_job), (None, Some(job_id(ID, nth(1)))));
    assert_eq!(desk.children(job_id(ID, nth(1))).len(), 1);
}

#[test]
fn a_call_is_refused_while_its_trigger_is_paused() {
    let hooked = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ webhook: tidy, secret: KEY }]\n";
    let id = "tidy:webhook:tidy";
    let mut desk = Desk::new();
    desk.tasks(&[hooked]);
    let call = |desk: &mut Desk| {
        let (server::ledger::Command::Submit(order, _), _) = submit(hooked, None) else { panic!("a submit") };
        let order = Submit { trigger: Some(id.to_owned()), ..*order };
        let (reply, mut answer) = oneshot::channel();
        desk.round(vec![server::ledger::Command::Submit(Box::new(order), reply)]);
        answer.try_recv().expect("an answer after the commit")
    };
    let made = call(&mut desk).expect("a job").job;
    assert_eq!(desk.trigger(id).last_job, Some(made));
    desk.order_trigger(TriggerOrder::Pause { id: id.to_owned(), by: "ann".to_owned() }).expect("it is there");
    assert_eq!(call(&mut desk).err(), Some(SubmitError::Paused));
    assert_eq!(jobs(&desk), [made]);
    desk.order_trigger(TriggerOrder::Resume { id: id.to_owned() }).expect("it is there");
    call(&mut desk).expect("a job");
}

/// A task that begins no other may still be followed by one.
#[test]
fn what_follows_on_the_job_of_a_trigger_is_known_to_it() {
    let followed = format!("{}on_success: [{{ task: after }}]\n", SKIPS.replace("run:", "if: 'false', run:"));
    let mut desk = Desk::new();
    desk.tasks(&[&followed, "name: after\nsteps:\n  b: { run: 'true' }\n"]);
    desk.pass(nth(0).since(desk.now));
    let job = job_id(ID, nth(0));
    desk.check(job, "success: skipped");
    assert_eq!(desk.reader.hooks(job, 10).expect("readable"), [job.hook(0)]);
    desk.check(job.hook(0), "pending: queued");
}
