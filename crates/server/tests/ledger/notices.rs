//! Notices: given with what they are about, once, and carried to whoever is to hear of them.

use std::sync::Arc;
use std::time::Duration;

use engine::definition::{ChildBody, HookWork, Mail, Outside, Webhook};
use engine::{JobId, NoticeKind, StepIx, Time};
use serde_json::json;
use server::ledger::{Command, CoreConfig, Delivered, Parcel};
use server::retention::Cutoffs;
use server::schedule::plan::{LATE_MAX, job_id, missed_id};
use store::Store;
use store_memory::MemoryDatabase;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::desk::{Desk, book_with_notices};

const MINUTE: Duration = Duration::from_secs(60);
const TASK: &str = "\
name: slow
expect: 1h
steps:
  a: { run: 'true', expect: 30m }
on_notice: [{ webhook: 'http://outside/hook' }, { mail: [ops@example.com, boss@example.com] }]
";

/// As `notices.on` of the server's configuration.
fn told(config: &mut CoreConfig) {
    let webhook = Webhook { url: "http://server/hook".to_owned(), secret: None };
    let mail = Mail { to: vec!["all@example.com".to_owned()] };
    let body = ChildBody {
        task: "page".into(),
        with: json!({ "text": "{{ notice.kind }} {{ task.name }} {{ notice.text }}" }),
        bound: None,
    };
    config.notices = Arc::new(vec![
        HookWork::Tell(Outside::Webhook(Arc::new(webhook))),
        HookWork::Tell(Outside::Mail(Arc::new(mail))),
        HookWork::Task(Arc::new(body)),
    ]);
}

const PAGE: &str = "name: page\ninput: { text: { type: string } }\nsteps:\n  a: { run: 'true' }\n";

fn post<S: Store>(desk: &mut Desk<S>) -> UnboundedReceiver<Parcel> {
    let (post, parcels) = mpsc::unbounded_channel();
    desk.employ(post);
    parcels
}

fn all(parcels: &mut UnboundedReceiver<Parcel>) -> Vec<Parcel> {
    let mut sent: Vec<Parcel> =
        std::iter::from_fn(|| parcels.try_recv().ok()).filter(|parcel| parcel.tries == 1).collect();
    // What is due together goes in no order.
    sent.sort_by_key(|parcel| parcel.letter.url.clone());
    sent
}

fn history<S: Store>(desk: &Desk<S>, job: JobId) -> Vec<String> {
    desk.events(job).into_iter().filter(|event| event.kind == "notice").map(|event| event.reason).collect()
}

#[test]
fn a_step_and_a_job_that_take_too_long_are_noticed_once_each() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    let job = desk.submit(TASK);
    let spec = desk.start(&mut w);
    desk.pass(MINUTE * 29);
    assert_eq!((history(&desk, job), all(&mut parcels).len()), (Vec::new(), 0), "it is in time");
    desk.pass(MINUTE * 2);
    assert_eq!(history(&desk, job), ["takes longer than expected: 30m"]);
    let sent = all(&mut parcels);
    let ids = [0, 1].map(|hook| job.notice(NoticeKind::StepLate, Some(StepIx(0)), hook).0);
    assert_eq!(sent.iter().map(|parcel| parcel.id).collect::<Vec<_>>(), ids);
    assert!(sent[0].letter.text.contains(r#""kind":"step_late""#), "{}", sent[0].letter.text);
    let mail = sent[1].letter.mail.as_ref().expect("a mail");
    assert_eq!(mail.subject, "[bowline] slow: step a takes longer than expected: 30m");
    assert_eq!(sent[1].letter.url, "mailto:ops@example.com,boss@example.com");
    desk.pass(MINUTE * 31);
    assert_eq!(history(&desk, job), ["takes longer than expected: 30m", "takes longer than expected: 1h"]);
    let late = job.notice(NoticeKind::JobLate, None, 0).0;
    assert!(all(&mut parcels).iter().any(|parcel| parcel.id == late));
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

/// The word that it was given is in the same rows as what it is about.
#[test]
fn a_server_that_died_after_a_notice_gives_no_other() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TASK);
    desk.start(&mut w);
    desk.pass(MINUTE * 30 - Duration::from_millis(1));
    assert_eq!(history(&desk, job), Vec::<String>::new());
    desk.pass(Duration::from_millis(1));
    desk.restart();
    desk.pass(Duration::from_secs(60));
    assert_eq!(history(&desk, job), ["takes longer than expected: 30m"]);
}

#[test]
fn the_server_lets_others_follow_and_nothing_follows_on_that() {
    let mut desk = Desk::configured(told);
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    desk.take_book(book_with_notices(&[PAGE], &["page"]));
    let job = desk.submit("name: slow\nsteps:\n  a: { run: 'true', expect: 30m }\n");
    desk.start(&mut w);
    desk.pass(MINUTE * 31);
    let sent: Vec<String> = all(&mut parcels).into_iter().map(|parcel| parcel.letter.url).collect();
    assert_eq!(sent, ["http://server/hook", "mailto:all@example.com"]);
    let followed = desk.reader.hooks(job, 10).expect("a look");
    assert_eq!(followed, [job.notice(NoticeKind::StepLate, Some(StepIx(0)), 514)]);
    let stored = desk.stored(followed[0]).job;
    assert_eq!(stored.input, r#"{"text":"step_late slow takes longer than expected: 30m"}"#);
    assert_eq!(stored.hook_of, Some(job));
}

#[test]
fn a_queue_that_is_too_old_is_noticed_once() {
    let mut desk = Desk::configured(|config| {
        told(config);
        config.rules.queue_notice = Some(MINUTE * 15);
    });
    let mut parcels = post(&mut desk);
    let job = desk.submit("name: slow\nsteps:\n  a: { run: 'true', unmatched: wait }\n");
    desk.pass(MINUTE * 14);
    assert_eq!(history(&desk, job), Vec::<String>::new());
    desk.pass(MINUTE * 120);
    assert_eq!(history(&desk, job), ["has waited for a worker for longer than 15m"]);
    assert_eq!(all(&mut parcels).len(), 2);
    let mut w = desk.worker("w", "script", 1);
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

/// One mail, and not one for each item.
#[test]
fn items_that_wait_too_long_are_told_of_once() {
    let mut desk = Desk::configured(|config| {
        told(config);
        config.rules.queue_notice = Some(MINUTE * 15);
    });
    let mut parcels = post(&mut desk);
    let job = desk.submit("name: many\nsteps:\n  a: { for_each: [1, 2, 3, 4], run: 'true', unmatched: wait }\n");
    desk.pass(MINUTE * 120);
    let told = history(&desk, job);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("has items that have waited for a worker for longer than 15m: a["), "{told:?}");
    assert_eq!(all(&mut parcels).len(), 2);
    desk.restart();
    desk.pass(MINUTE * 120);
    assert_eq!((history(&desk, job).len(), all(&mut parcels).len()), (1, 0));
}

const ID: &str = "tidy:cron:1";
const FIRST: Time = Time(1_700_000_400_000_000);
const SKIPS: &str = "\
name: tidy
steps:
  a: { run: 'true' }
triggers: [{ cron: '*/10 * * * *' }]
on_notice: [{ webhook: 'http://outside/hook' }, { task: page, with: { text: '{{ notice.text }}' } }]
";

#[test]
fn times_that_passed_unheard_are_told_once_with_all_that_follows() {
    let mut desk = Desk::configured(told);
    let book = || book_with_notices(&[SKIPS, PAGE], &["page"]);
    desk.take_book(book());
    desk.down(FIRST.since(desk.now) + MINUTE * 20 + LATE_MAX + Duration::from_secs(1));
    let mut parcels = post(&mut desk);
    desk.take_book(book());
    desk.pass(Duration::from_secs(5));
    let row = desk.trigger(ID);
    let text = "3 times passed without a job, the first at 2023-11-14T22:20:00Z";
    assert_eq!((row.missed, row.notice.as_deref(), row.notice_at.is_some()), (3, Some(text), true));
    let base = missed_id(ID, FIRST);
    let sent = all(&mut parcels);
    // In the order of their addresses.
    let ids = [0, 512, 513].map(|hook| base.notice(NoticeKind::ScheduleMissed, None, hook).0);
    assert_eq!(sent.iter().map(|parcel| parcel.id).collect::<Vec<_>>(), ids);
    assert!(sent[0].letter.text.contains(r#""kind":"schedule_missed""#), "{}", sent[0].letter.text);
    let followed = desk.reader.hooks(base, 10).expect("a look");
    assert_eq!(followed.len(), 2, "the task's own, and the server's");
    for job in followed {
        let stored = desk.stored(job).job;
        assert!(stored.input.contains("3 times passed"), "{}", stored.input);
        assert_eq!(stored.submitted_by, "trigger:tidy:cron:1");
    }
    desk.pass(MINUTE * 60);
    assert_eq!((desk.trigger(ID).missed, all(&mut parcels).len()), (3, 0), "it runs again, and nobody is told more");
}

/// The last of several times is seen to, late: its job has nothing to do with the notice of those before.
#[test]
fn the_job_of_a_later_time_is_not_what_was_missed() {
    let mut desk = Desk::configured(told);
    let book = || book_with_notices(&[SKIPS, PAGE], &["page"]);
    desk.take_book(book());
    desk.down(FIRST.since(desk.now) + MINUTE * 20);
    desk.take_book(book());
    desk.pass(Duration::from_secs(5));
    let row = desk.trigger(ID);
    let made = row.last_job.expect("the last one is in time");
    assert_eq!((row.missed, made), (2, job_id(ID, FIRST)));
    assert_eq!(desk.reader.hooks(made, 10).expect("a look"), []);
    assert_eq!(desk.reader.hooks(missed_id(ID, FIRST), 10).expect("a look").len(), 2);
}

/// There is no job that it could go with.
#[test]
fn what_was_said_of_a_schedule_goes_in_its_time() {
    let mut desk = Desk::configured(told);
    let book = || book_with_notices(&[SKIPS, PAGE], &["page"]);
    desk.take_book(book());
    desk.down(FIRST.since(desk.now) + MINUTE * 5);
    let mut parcels = post(&mut desk);
    desk.take_book(book());
    desk.pass(Duration::from_secs(5));
    let sent = all(&mut parcels);
    assert_eq!(sent.len(), 3);
    for parcel in &sent[..2] {
        desk.round(vec![Command::Delivered(Delivered { id: parcel.id, tries: 1, outcome: Ok(()) })]);
    }
    assert_eq!(desk.prune(MINUTE).words, 0, "it is too young");
    desk.pass(Duration::from_secs(1));
    let estimate =
        server::retention::estimate(&*desk.reader, Cutoffs { jobs: Some(desk.now), ..Cutoffs::default() }, &|_| false);
    assert_eq!(estimate.expect("a look").words, 2);
    assert_eq!(desk.prune(Duration::ZERO).words, 2);
    let left = sent.iter().filter(|parcel| desk.reader.outbox(parcel.id).expect("a look").is_some()).count();
    assert_eq!(left, 1, "what is under way stays");
}

/// One run makes up for them, as the policy wants.
#[test]
fn what_is_made_up_for_is_no_notice() {
    let once = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ cron: '*/10 * * * *', missed: once }]\n";
    let mut desk = Desk::configured(told);
    desk.tasks(&[once]);
    desk.down(FIRST.since(desk.now) + MINUTE * 25);
    desk.tasks(&[once]);
    desk.pass(Duration::from_secs(5));
    let row = desk.trigger(ID);
    assert_eq!((row.missed, row.notice), (2, None));
}

#[test]
fn a_task_that_cannot_be_run_is_one_trouble_until_it_can() {
    let calls = "name: tidy\nsteps:\n  a: { task: other }\ntriggers: [{ cron: '*/10 * * * *' }]\non_notice: [{ mail: ops@example.com }]\n";
    let other = "name: other\nsteps:\n  a: { run: 'true' }\n";
    let mut desk = Desk::new();
    let mut parcels = post(&mut desk);
    desk.tasks(&[calls]);
    desk.pass(FIRST.since(desk.now) + MINUTE * 35);
    let sent = all(&mut parcels);
    assert_eq!(sent.len(), 1, "it is said once");
    let subject = &sent[0].letter.mail.as_ref().expect("a mail").subject;
    assert!(subject.starts_with("[bowline] tidy: its job could not be made: "), "{subject}");
    desk.tasks(&[calls, other]);
    desk.pass(MINUTE * 10);
    assert_eq!(desk.trigger(ID).last_error, None);
    desk.tasks(&[calls]);
    desk.pass(MINUTE * 10);
    assert_eq!(all(&mut parcels).len(), 1, "and again when it breaks again");
}

/// What it begins is not there; whom it tells is.
#[test]
fn a_schedule_whose_task_is_broken_still_tells_of_it() {
    let broken = SKIPS.replace("a: { run: 'true' }", "a: { task: nothere }");
    let mut desk = Desk::new();
    desk.tasks(&[&broken, PAGE]);
    desk.pass(FIRST.since(desk.now) + Duration::from_secs(5));
    let problem = "its job could not be made: the task `tidy` begins the task `nothere`, which is not there";
    assert_eq!(desk.trigger(ID).notice.as_deref(), Some(problem));
    let followed = desk.reader.hooks(missed_id(ID, FIRST), 10).expect("a look");
    let [job] = followed[..] else { panic!("one job follows: {followed:?}") };
    assert!(desk.stored(job).job.input.contains("`nothere`"), "{}", desk.stored(job).job.input);
}

/// Both find the same, and the rows of one of them are left out with the trigger that it found moved.
#[test]
fn several_servers_give_one_notice() {
    let database = MemoryDatabase::new();
    let now = Time(1_700_000_000_000_000);
    let mut servers: Vec<_> = [1, 2].map(|seed| Desk::beside(database.open(), now, seed)).into();
    let skips = SKIPS.replace("on_notice: [{ webhook: 'http://outside/hook' }, ", "on_notice: [{ mail: a@b.c }, ");
    servers.iter_mut().for_each(|server| server.take_book(book_with_notices(&[&skips, PAGE], &[])));
    let late = FIRST + MINUTE * 5;
    servers.iter_mut().for_each(|server| server.now = late);
    for _ in 0..20 {
        for server in &mut servers {
            server.pass(Duration::from_secs(1));
        }
    }
    let base = missed_id(ID, FIRST);
    assert_eq!(servers[0].trigger(ID).missed, 1);
    assert_eq!(servers[0].reader.hooks(base, 10).expect("a look").len(), 1);
    let id = base.notice(NoticeKind::ScheduleMissed, None, 0).0;
    assert!(servers[0].reader.outbox(id).expect("a look").is_some());
}
