//! Secrets of steps: handed over right before `go`, by whoever has the worker's link, and written down nowhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::link::{HeldState, Hello, Loss, ServerMessage, VerdictKind, WorkerMessage};
use protocol::secret::{SecretValue, SecretValues};
use server::access::{SecretError, SecretSource};
use store::StoreError;

use crate::desk::{Desk, hello};
use crate::recovery::held;

const DEPLOY: &str = "name: deploy\nsteps:\n  a: { run: x, secrets: [KEY] }\n  b: { run: y, needs: [a] }\n";
const VALUE: &str = "hunter2-and-more";
const SECOND: Duration = Duration::from_secs(1);

/// What a server has, in the test's hand.
#[derive(Default)]
struct Purse {
    values: Mutex<BTreeMap<String, String>>,
    /// The database is away for so many looks.
    away: Mutex<u32>,
}

impl Purse {
    fn with(value: &str) -> Arc<Purse> {
        let purse = Arc::new(Purse::default());
        purse.set(value);
        purse
    }

    fn set(&self, value: &str) {
        self.values.lock().expect("one thread").insert("KEY".to_owned(), value.to_owned());
    }

    fn lose(&self) {
        self.values.lock().expect("one thread").clear();
    }
}

impl SecretSource for Purse {
    fn of_step(&self, names: &[Arc<str>]) -> Result<SecretValues, SecretError> {
        let mut away = self.away.lock().expect("one thread");
        if *away > 0 {
            *away -= 1;
            let source = StoreError::Unavailable { message: "for a test".to_owned() };
            return Err(SecretError::Store { name: names[0].to_string(), source });
        }
        let values = self.values.lock().expect("one thread");
        let find = |name: &Arc<str>| match values.get(&**name) {
            Some(value) => Ok((name.to_string(), SecretValue::new(value.clone()).expect("fit"))),
            None => Err(SecretError::NotSet { name: name.to_string() }),
        };
        names.iter().map(find).collect()
    }
}

/// The value that was handed over, right before `go`.
fn given(mail: &[ServerMessage]) -> String {
    match mail {
        [ServerMessage::Secrets { ticket, values }, ServerMessage::Go { ticket: goes, .. }] if ticket == goes => {
            values["KEY"].expose().to_owned()
        }
        other => panic!("its secrets, then go, not {other:?}"),
    }
}

fn why_failed(desk: &Desk, job: engine::JobId) -> String {
    let events = desk.events(job);
    events.iter().find(|event| event.verb.as_deref() == Some("fail")).expect("it failed").reason.clone()
}

fn failed(desk: &Desk, job: engine::JobId) -> String {
    desk.check(job, "failed: failed skipped");
    assert!(desk.stored(job).steps[0].data.contains(r#""secret""#), "the code is on the step");
    why_failed(desk, job)
}

#[test]
fn a_step_is_given_them_right_before_go_and_as_they_are_then() {
    let mut desk = Desk::new();
    let purse = Purse::with(VALUE);
    desk.entrust(purse.clone());
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(DEPLOY);
    let offer = w.offer();
    assert_eq!(offer.secrets, ["KEY"]);
    assert!(!format!("{:?}", serde_json::to_string(&offer)).contains(VALUE));
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(given(&w.take()), VALUE);
    // The answer may be lost, and the secret changed, before it asks again.
    purse.set("another-value");
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(given(&w.take()), "another-value");
    desk.ends(&w, offer.ticket, 0);
    desk.check(job, "running: success queued");
    assert_eq!(w.offer().secrets, [] as [String; 0]);
    for entry in std::fs::read_dir(desk.folder()).expect("the database's folder") {
        let bytes = std::fs::read(entry.expect("a file").path()).expect("readable");
        assert!(!bytes.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()), "the database holds it");
    }
}

#[test]
fn a_missing_one_fails_the_step_in_words() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(DEPLOY);
    let offer = w.offer();
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(w.one(), ServerMessage::Withdraw { ticket: offer.ticket });
    let message = failed(&desk, job);
    assert!(message.starts_with("Job failed: the secret `KEY` is not set on the server"), "{message}");
    assert!(message.ends_with("(server at here)"), "several may share the work, and one may lack it: {message}");
    assert_eq!(desk.attempts(job).len(), 0, "nothing was ever granted");
}

#[test]
fn one_that_waits_when_its_worker_comes_back_asks_again() {
    let mut desk = Desk::new();
    desk.entrust(Purse::with(VALUE));
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(DEPLOY);
    let offer = w.offer();
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    // What was said on this link is lost with it.
    desk.hang_up(&w);
    desk.check(job, "recovering: recovering pending");
    let brings = Hello { held: vec![held(&offer, HeldState::Waiting)], ..hello("w", "script", 1, Vec::new()) };
    let mut w = desk.knock(w.worker, Hello { last_epoch: w.welcome.epoch, ..brings }).welcomed();
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue, "a welcome has no room for secrets");
    w.none();
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(given(&w.take()), VALUE);
    desk.check(job, "running: running pending");
}

#[test]
fn one_that_is_gone_after_the_grant_is_no_jam() {
    let mut desk = Desk::new();
    let purse = Purse::with(VALUE);
    desk.entrust(purse.clone());
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(DEPLOY);
    let offer = w.offer();
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    w.take();
    purse.lose();
    // The first answer was not used; the second comes without, so its runner refuses.
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(w.go(), offer.ticket);
    let (ticket, detail) = (offer.ticket, "the secret `KEY` was not handed over".to_owned());
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::Void, detail }]);
    desk.pass(SECOND * 2);
    let again = w.take().into_iter().find_map(|mail| match mail {
        ServerMessage::Offer { spec, .. } => Some(spec),
        _ => None,
    });
    let again = again.expect("nothing has started, so it is offered anew");
    desk.says(&w, vec![WorkerMessage::Accept { ticket: again.ticket }]);
    failed(&desk, job);
}

#[test]
fn a_store_that_is_away_is_no_missing_secret() {
    let mut desk = Desk::new();
    let purse = Purse::with(VALUE);
    desk.entrust(purse.clone());
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(DEPLOY);
    let offer = w.offer();
    *purse.away.lock().expect("one thread") = 3;
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offer.ticket }]);
    assert_eq!(given(&w.take()), VALUE);
    desk.check(job, "running: running pending");
}

#[test]
fn each_attempt_and_each_child_gets_its_own() {
    let mut desk = Desk::new();
    let purse = Purse::with(VALUE);
    desk.entrust(purse.clone());
    let mut w = desk.worker("w", "script", 1);
    let retried = "name: r\nsteps:\n  a: { run: x, secrets: [KEY], retry: { attempts: 2, delay: 0s } }\n";
    desk.submit_with("name: p\nsteps:\n  c: { task: r }\n", &[("r", retried)]);
    for value in [VALUE, "another-value"] {
        purse.set(value);
        desk.pass(SECOND);
        let offer = w.take().into_iter().find_map(|mail| match mail {
            ServerMessage::Offer { spec, .. } => Some(spec),
            _ => None,
        });
        let ticket = offer.expect("an offer").ticket;
        desk.says(&w, vec![WorkerMessage::Accept { ticket }]);
        assert_eq!(given(&w.take()), value);
        desk.ends(&w, ticket, 1);
    }
}

/// A schedule makes no job that could only fail, after part of its work; and does make one that may never come to it.
#[test]
fn a_schedule_wants_the_secrets_that_its_job_certainly_needs() {
    let nightly = "name: nightly\nsteps:\n  a: { run: x }\n  b: { needs: [a], run: y, secrets: [KEY] }\n\
                   triggers: [{ cron: '*/10 * * * *' }]\n";
    let seldom = nightly.replace("nightly", "seldom").replace("run: y", "run: y, if: 'failure()'");
    let purse = Arc::new(Purse::default());
    let mut desk = Desk::new();
    desk.entrust(purse.clone());
    desk.tasks(&[nightly, &seldom]);
    desk.pass(SECOND * 600);
    let row = desk.trigger("nightly:cron:1");
    let told = row.last_error.expect("it says why");
    assert!(
        told.starts_with("step `b` of `nightly` cannot start: the secret `KEY` is not set on the server"),
        "{told}"
    );
    assert_eq!(row.notice, Some(format!("its job could not be made: {told}")));
    assert_eq!((row.last_job, desk.trigger("seldom:cron:1").last_job.is_some()), (None, true));
    // Nobody can say whether it is there: the step looks again.
    *purse.away.lock().expect("one thread") = 1;
    desk.pass(SECOND * 600);
    let row = desk.trigger("nightly:cron:1");
    assert_eq!((row.last_job.is_some(), row.last_error), (true, None));
    purse.set(VALUE);
    desk.pass(SECOND * 600);
    assert_eq!(desk.trigger("nightly:cron:1").last_error, None);
}
