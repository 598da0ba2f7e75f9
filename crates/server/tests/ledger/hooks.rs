//! What follows on a job's end: with it, once, and delivered by whoever is there.

use std::time::Duration;

use engine::JobId;
use server::ledger::{AT_ONCE, Command, Delivered, Parcel};
use store::rows::OutboxMove;
use store::{Batch, Store};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::children::start;
use crate::desk::{Desk, Mailbox};

const CHILD: &str = "name: after\ninput: { what: { type: string, default: hello } }\nsteps:\n  work: { run: 'true' }\non_error: [{ task: after }]\n";
const TASK: &str = "\
name: first
steps:
  a: { run: 'true' }
on_success: [{ task: after, with: { what: '{{ job.state }} {{ steps.a.state }}' } }]
on_error: [{ task: after, with: { what: '{{ job.error.code }}' } }, { webhook: 'http://outside/hook' }]
";

/// A job of the task that ends with this code, and what followed.
fn ended<S: Store>(desk: &mut Desk<S>, w: &mut Mailbox, code: i32) -> (JobId, Vec<JobId>) {
    let job = desk.submit_with(TASK, &[("after", CHILD)]);
    let spec = desk.start(w);
    desk.ends(w, spec.ticket, code);
    // What follows is on record; now somebody looks what is to be sent.
    desk.round(Vec::new());
    (job, desk.reader.hooks(job, 10).expect("a look"))
}

fn post<S: Store>(desk: &mut Desk<S>) -> UnboundedReceiver<Parcel> {
    let (post, parcels) = mpsc::unbounded_channel();
    desk.employ(post);
    parcels
}

#[test]
fn a_job_follows_in_the_same_transaction_and_is_told_how_it_was() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (job, followed) = ended(&mut desk, &mut w, 0);
    assert_eq!(followed, [job.hook(0)]);
    let stored = desk.stored(followed[0]).job;
    assert_eq!((stored.input.as_str(), stored.submitted_by.as_str()), (r#"{"what":"success success"}"#, "the test"));
    desk.check(followed[0], "pending: queued");
    let history: Vec<String> = desk.events(job).into_iter().filter(|e| e.kind == "hook").map(|e| e.reason).collect();
    assert_eq!(history, [format!("on_success: job {} of task `after` follows", followed[0])]);
}

#[test]
fn nothing_follows_on_what_follows() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (_, followed) = ended(&mut desk, &mut w, 1);
    let hook = followed[0];
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 1);
    desk.check(hook, "failed: failed");
    assert_eq!(desk.reader.hooks(hook, 10).expect("a look"), []);
}

#[test]
fn a_word_is_sent_again_with_the_same_key_until_somebody_takes_it() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    let (job, _) = ended(&mut desk, &mut w, 1);
    let first = parcels.try_recv().expect("it is sent at once");
    assert_eq!((first.id, first.tries), (job.hook(2).0, 1));
    assert!(first.letter.text.contains(r#""state":"failed""#), "{}", first.letter.text);
    let failed = Delivered { id: first.id, tries: 1, outcome: Err("it answered 503".to_owned()) };
    desk.round(vec![Command::Delivered(failed)]);
    let row = desk.reader.outbox(first.id).expect("a look").expect("a row");
    assert_eq!((row.tries, row.error.as_deref()), (1, Some("it answered 503")));
    desk.pass(Duration::from_secs(4));
    assert!(parcels.try_recv().is_err(), "there is a pause");
    desk.pass(Duration::from_secs(4));
    let second = parcels.try_recv().expect("it is sent again");
    assert_eq!((second.id, second.tries, &second.letter), (first.id, 2, &first.letter));
    desk.round(vec![Command::Delivered(Delivered { id: second.id, tries: 2, outcome: Ok(()) })]);
    desk.freeze(Duration::from_secs(4000));
    desk.round(Vec::new());
    assert!(parcels.try_recv().is_err(), "it was taken");
    assert!(desk.reader.outbox(first.id).expect("a look").expect("a row").delivered_at.is_some());
}

/// Between the record that it is sent and the word of what became of it.
#[test]
fn a_server_that_died_while_it_sent_leaves_it_to_the_next() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    ended(&mut desk, &mut w, 1);
    let first = parcels.try_recv().expect("it is sent");
    desk.restart();
    let mut parcels = post(&mut desk);
    desk.pass(Duration::from_secs(10));
    assert!(parcels.try_recv().is_err(), "somebody may be about to take it");
    desk.pass(Duration::from_secs(10));
    let second = parcels.try_recv().expect("nobody said that anybody took it");
    assert_eq!((second.id, second.letter), (first.id, first.letter));
}

#[test]
fn what_nobody_takes_is_given_up_and_said() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    let (job, _) = ended(&mut desk, &mut w, 1);
    let mut tries = 0;
    while let Ok(parcel) = parcels.try_recv() {
        tries = parcel.tries;
        let outcome = Err("nobody answers".to_owned());
        desk.round(vec![Command::Delivered(Delivered { id: parcel.id, tries, outcome })]);
        desk.freeze(Duration::from_secs(5000));
        desk.round(Vec::new());
    }
    assert_eq!(tries, 20);
    let dead = desk.reader.dead_outbox(10).expect("a look");
    assert_eq!(dead.iter().map(|row| row.job).collect::<Vec<JobId>>(), [job]);
    let (id, expected) = (dead[0].id, dead[0].tries);
    let last = desk.events(job).pop().expect("a history").reason;
    assert!(last.starts_with("http://outside/hook was tried 20 times and never took it: nobody answers"), "{last}");
    // A person wants it tried again: it goes out in this round, and waits for no mark.
    let again = OutboxMove { id, expected, tries: 0, next_at: Some(desk.tick().now), delivered_at: None, error: None };
    let call = move |store: &mut dyn Store, now| {
        store.commit(&Batch { now, outbox_moves: vec![again], ..Batch::default() }).map(drop).expect("a commit");
    };
    desk.round(vec![Command::WithStore(Box::new(call))]);
    assert_eq!(parcels.try_recv().map(|parcel| (parcel.id, parcel.tries)).ok(), Some((id, 1)));
}

/// Whoever carried it is gone, and says nothing: it is tried again when its time is over, also if that was the last free hand.
#[test]
fn a_word_that_was_lost_on_its_way_holds_up_nobody() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let mut parcels = post(&mut desk);
    let task = "name: first\nsteps:\n  a: { run: 'true' }\non_error: [{ webhook: 'http://outside/hook' }]\n";
    let mut fails = |_| {
        let job = desk.submit(task);
        let spec = desk.start(&mut w);
        desk.ends(&w, spec.ticket, 1);
        w.take();
        job
    };
    let jobs: Vec<JobId> = (0..=AT_ONCE).map(&mut fails).collect();
    desk.round(Vec::new());
    let mut sent = || std::iter::from_fn(|| parcels.try_recv().ok()).map(|one| (one.id, one.tries)).collect::<Vec<_>>();
    let mut first = sent();
    assert_eq!(first.len(), AT_ONCE);
    desk.pass(Duration::from_secs(16));
    let again = sent();
    assert_eq!(again.len(), AT_ONCE, "{again:?}");
    first.extend(again);
    assert!(jobs.iter().all(|job| first.contains(&(job.hook(0).0, 1))), "each has its turn: {first:?}");
}

/// Nobody delivers here: what is due stays so for somebody who can, and is not counted as tried for ever.
#[test]
fn a_server_that_cannot_deliver_takes_nothing() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    drop(post(&mut desk));
    let (job, _) = ended(&mut desk, &mut w, 1);
    desk.pass(Duration::from_secs(600));
    let row = desk.reader.outbox(job.hook(2).0).expect("a look").expect("a row");
    assert_eq!(row.tries, 1);
    let mut parcels = post(&mut desk);
    desk.pass(Duration::from_secs(10));
    assert_eq!(parcels.try_recv().map(|one| one.tries), Ok(2));
}
