//! Steps that are settled by hand, and jobs that go on where others ended.

use std::time::Duration;

use engine::{AttemptId, JobId, StepIx};
use protocol::attempt::AttemptSpec;
use protocol::link::{ServerMessage, WorkerMessage};
use serde_json::{Value, json};
use server::ledger::{Again, AgainError, Command, EventError, How, ResolveOrder, RetryOrder, Settled};

use crate::desk::{Desk, Mailbox, ONE, exited, submit};

const TWO: &str = "name: two\nsteps:\n  a: { run: 'true' }\n  b: { needs: [a], run: 'true' }\n";

/// Step `a` is lost with its worker, and the window is over.
fn lost(desk: &mut Desk, yaml: &str) -> (JobId, AttemptSpec, Mailbox) {
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(yaml);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    (job, spec, w)
}

fn order(job: JobId, spec: &AttemptSpec, how: How) -> ResolveOrder {
    ResolveOrder {
        job,
        step: StepIx(0),
        how,
        attempt: Some(AttemptId(spec.ticket.attempt)),
        late_outcome: None,
        confirm_dead: false,
        by: "ann".to_owned(),
    }
}

fn succeeded() -> How {
    How::Succeeded { output: json!({ "sha": "abc" }) }
}

fn retry(job: JobId, from_failed: bool) -> Again {
    Again::Retry(RetryOrder { job, from_failed, confirm_dead: false, by: "ann".to_owned(), input: None })
}

#[test]
fn a_step_that_is_cut_off_is_settled_while_its_job_is_open() {
    let mut desk = Desk::new();
    let (job, spec, w) = lost(&mut desk, TWO);
    let settled = desk.again(Again::Resolve(order(job, &spec, succeeded())));
    assert_eq!(settled, Ok(Settled { job, is_new: false }));
    desk.check(job, "running: success queued");
    assert!(!desk.attempts(job)[0].confirmed, "nobody knows whether it still runs");
    // The worker comes back and says how it really went: too late for the state, never for the record.
    let w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    desk.ends(&w, spec.ticket, 1);
    let attempt = &desk.attempts(job)[0];
    assert!(attempt.confirmed && attempt.late_outcome.is_some());
    let said = |verb: &str| desk.events(job).iter().any(|e| e.verb.as_deref() == Some(verb));
    assert!(said("unconfirmed"));
}

#[test]
fn what_may_still_run_is_not_run_beside_itself_without_a_word() {
    let mut desk = Desk::new();
    let (job, spec, _w) = lost(&mut desk, ONE);
    let refused = desk.again(Again::Resolve(order(job, &spec, How::Rerun)));
    assert_eq!(refused, Err(AgainError::MayStillRun(vec!["`a`".to_owned()])));
    desk.check(job, "recovering: recovering");
    let sure = ResolveOrder { confirm_dead: true, ..order(job, &spec, How::Rerun) };
    desk.again(Again::Resolve(sure)).expect("settled");
    desk.check(job, "running: queued");
    assert!(desk.attempts(job)[0].confirmed);
}

#[test]
fn a_job_that_is_over_stays_as_it_is_and_another_goes_on() {
    let mut desk = Desk::new();
    let (job, spec, _w) = lost(&mut desk, TWO);
    desk.pass(Duration::from_secs(120));
    desk.check(job, "failed: failed skipped");
    let before = desk.stored(job);
    let settled = desk.again(Again::Resolve(order(job, &spec, succeeded()))).expect("settled");
    assert!(settled.is_new);
    desk.check(settled.job, "pending: success queued");
    assert_eq!(desk.stored(job), before, "a final job never changes");
    let kin = |job: JobId| desk.reader.lineage(job).expect("readable");
    assert_eq!((kin(job).resolved_by, kin(settled.job).continues), (Some(settled.job), Some(job)));
    let data: Value = serde_json::from_str(&desk.stored(settled.job).steps[0].data).expect("JSON");
    assert_eq!(data["output"], json!({ "sha": "abc" }));
    // Once is enough.
    let again = desk.again(Again::Resolve(order(job, &spec, succeeded())));
    assert_eq!(again, Err(AgainError::AlreadyContinued(settled.job)));
    // The new one runs like any other, also on a new server.
    desk.restart();
    let mut w = desk.worker("other", "script", 1);
    let spec = desk.start(&mut w);
    assert_eq!(spec.step, "b");
    desk.ends(&w, spec.ticket, 0);
    desk.check(settled.job, "success: success success");
}

#[test]
fn two_words_at_once_make_one_job() {
    let mut desk = Desk::new();
    let (job, spec, _w) = lost(&mut desk, ONE);
    desk.pass(Duration::from_secs(120));
    let ask = || {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let order = Box::new(Again::Resolve(order(job, &spec, succeeded())));
        (server::ledger::Command::Again(order, reply), answer)
    };
    let ((one, mut first), (two, mut second)) = (ask(), ask());
    desk.round(vec![one, two]);
    let made = first.try_recv().expect("an answer").expect("settled");
    assert_eq!(second.try_recv().expect("an answer"), Err(AgainError::AlreadyContinued(made.job)));
}

#[test]
fn a_late_end_is_taken_and_only_the_one_that_was_seen() {
    let mut desk = Desk::new();
    let (job, spec, w) = lost(&mut desk, TWO);
    desk.pass(Duration::from_secs(120));
    let nothing = desk.again(Again::Resolve(order(job, &spec, How::AcceptLate)));
    assert_eq!(nothing, Err(AgainError::NothingLate));
    let w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end: exited(0) }]);
    // Someone who looked before that must look again, whatever they want.
    for how in [How::AcceptLate, How::Rerun, How::Failed { reason: "gone".to_owned() }] {
        let refused = desk.again(Again::Resolve(order(job, &spec, how)));
        assert!(matches!(refused, Err(AgainError::Newer(_))), "{refused:?}");
    }
    let late = desk.attempts(job)[0].late_outcome.clone().expect("a late end");
    let seen = serde_json::from_str(&late).expect("JSON");
    let order = ResolveOrder { late_outcome: Some(seen), ..order(job, &spec, How::AcceptLate) };
    let settled = desk.again(Again::Resolve(order)).expect("settled");
    desk.check(settled.job, "pending: success queued");
}

#[test]
fn a_word_on_an_older_attempt_is_a_conflict() {
    let mut desk = Desk::new();
    let idempotent = "name: one\nsteps:\n  a: { run: 'true', effects: idempotent }\n";
    let (job, first, _w) = lost(&mut desk, idempotent);
    desk.pass(Duration::from_secs(120));
    let mut other = desk.worker("other", "script", 1);
    desk.start(&mut other);
    desk.hang_up(&other);
    desk.check(job, "recovering: recovering");
    let refused = desk.again(Again::Resolve(order(job, &first, succeeded())));
    assert!(matches!(refused, Err(AgainError::Newer(_))), "{refused:?}");
}

#[test]
fn a_retry_takes_over_what_ended_well() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TWO);
    assert!(matches!(desk.again(retry(job, true)), Err(AgainError::Event(EventError::Rejected(_)))), "it is not over");
    let a = desk.start(&mut w);
    desk.ends(&w, a.ticket, 0);
    desk.event(job, engine::Event::Cancel { by: "ann".to_owned(), force: true }).expect("cancelled");
    desk.check(job, "cancelled: success cancelled");
    let from_failed = desk.again(retry(job, true)).expect("a new job");
    assert!(from_failed.is_new);
    desk.check(from_failed.job, "pending: success queued");
    desk.event(from_failed.job, engine::Event::Cancel { by: "ann".to_owned(), force: true }).expect("cancelled");
    let again = desk.again(retry(job, true));
    assert_eq!(again, Err(AgainError::AlreadyContinued(from_failed.job)), "one stands in for it, not two");
    let anew = desk.again(retry(job, false)).expect("another, as often as wanted");
    desk.check(anew.job, "pending: queued pending");
}

#[test]
fn no_two_jobs_of_a_family_go_on_at_once() {
    let mut desk = Desk::new();
    let cancel = || engine::Event::Cancel { by: "ann".to_owned(), force: true };
    let job = desk.submit(TWO);
    desk.event(job, cancel()).expect("cancelled");
    let first = desk.again(retry(job, false)).expect("a new job");
    let already = Ok(Settled { job: first.job, is_new: false });
    assert_eq!(desk.again(retry(job, false)), already, "whoever asks the same has it");
    assert_eq!(desk.again(retry(job, true)), Err(AgainError::AlreadyContinued(first.job)));
    desk.event(first.job, cancel()).expect("cancelled");
    // Its own successor counts as well, seen from any of them, and from a server that has only the rows.
    let second = desk.again(retry(first.job, true)).expect("a new job");
    desk.restart();
    assert_eq!(desk.again(retry(job, false)), Err(AgainError::AlreadyContinued(second.job)));
    desk.event(second.job, cancel()).expect("cancelled");
    let third = desk.again(retry(job, false)).expect("nothing goes on any more");
    assert!(third.is_new);
    let family = desk.reader.family(job, 10).expect("readable");
    let numbers: Vec<_> = family.members.iter().map(|kin| (kin.job, kin.number)).collect();
    assert_eq!((family.root, numbers), (job, vec![(third.job, 3), (second.job, 2), (first.job, 1)]));
}

#[test]
fn what_may_still_run_of_a_younger_job_counts_as_well() {
    let mut desk = Desk::new();
    let cancel = engine::Event::Cancel { by: "ann".to_owned(), force: true };
    let job = desk.submit(ONE);
    desk.event(job, cancel).expect("cancelled");
    let next = desk.again(retry(job, false)).expect("a new job").job;
    let mut w = desk.worker("w", "script", 1);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(120));
    desk.check(next, "failed: failed");
    assert_eq!(desk.again(retry(job, false)), Err(AgainError::MayStillRun(vec!["`a`".to_owned()])));
    let sure = RetryOrder { job, from_failed: false, confirm_dead: true, by: "ann".to_owned(), input: None };
    desk.again(Again::Retry(sure)).expect("a new job");
    assert!(desk.attempts(next)[0].confirmed);
}

#[test]
fn what_may_still_run_is_found_through_the_jobs_that_went_on() {
    let mut desk = Desk::new();
    let (job, spec, _w) = lost(&mut desk, ONE);
    desk.pass(Duration::from_secs(120));
    let failed = How::Failed { reason: "it did not".to_owned() };
    let next = desk.again(Again::Resolve(order(job, &spec, failed))).expect("settled").job;
    desk.check(next, "failed: failed");
    // The step never ran in this job, but its attempt in the one before may still.
    assert_eq!(desk.again(retry(next, true)), Err(AgainError::MayStillRun(vec!["`a`".to_owned()])));
    let sure = RetryOrder { job: next, from_failed: true, confirm_dead: true, by: "ann".to_owned(), input: None };
    let last = desk.again(Again::Retry(sure)).expect("a new job").job;
    desk.check(last, "pending: queued");
    assert!(desk.attempts(job)[0].confirmed);
}

const LISTS: &str = "name: lists
steps:
  p: { run: 'true' }
  f: { needs: [p], for_each: [1, 2], run: 'true' }
  q: { run: 'true', tags: [late] }
  each: { needs: [q], for_each: [1, 2], run: 'true', tags: [late] }
";

/// Takes the offer that is there among other mail, and ends it like this; none leaves it running.
fn does(desk: &mut Desk, w: &mut Mailbox, step: &str, code: Option<i32>) -> AttemptSpec {
    let offer = |message| match message {
        ServerMessage::Offer { spec, .. } => Some(*spec),
        _ => None,
    };
    let spec = w.take().into_iter().find_map(offer).expect("an offer");
    assert_eq!(spec.step, step);
    desk.says(w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    if let Some(code) = code {
        desk.ends(w, spec.ticket, code);
    }
    spec
}

/// A job that goes on has its lists in other places where one of them is to be made anew.
#[test]
fn an_item_that_may_still_run_is_found_wherever_a_job_has_it() {
    let mut desk = Desk::new();
    let job = desk.submit(LISTS);
    let mut w = desk.worker("w", "script", 1);
    let p = does(&mut desk, &mut w, "p", Some(0));
    does(&mut desk, &mut w, "f[0]", Some(0));
    does(&mut desk, &mut w, "f[1]", Some(0));
    let mut late = desk.worker("late", "script late", 1);
    does(&mut desk, &mut late, "q", Some(0));
    does(&mut desk, &mut late, "each[0]", None);
    let mut later = desk.worker("later", "script late", 1);
    does(&mut desk, &mut later, "each[1]", Some(0));
    desk.hang_up(&late);
    desk.hang_up(&later);
    desk.pass(Duration::from_secs(120));
    desk.check(job, "failed: success success success failed success success failed success");
    desk.hang_up(&w);
    let next = desk.again(Again::Resolve(order(job, &p, How::Rerun))).expect("it goes on").job;
    desk.check(next, "pending: queued pending success failed failed success");
    let mut w = desk.worker("other", "script", 1);
    does(&mut desk, &mut w, "p", Some(1));
    desk.check(next, "failed: failed skipped success failed failed success");
    assert_eq!(desk.again(retry(next, true)), Err(AgainError::MayStillRun(vec!["`each[0]`".to_owned()])));
    let sure = RetryOrder { job: next, from_failed: true, confirm_dead: true, by: "ann".to_owned(), input: None };
    let last = desk.again(Again::Retry(sure)).expect("a new job").job;
    desk.check(last, "pending: queued pending success running queued success");
    assert!(desk.attempts(job).iter().all(|attempt| attempt.confirmed));
}

#[test]
fn a_job_is_run_again_with_other_inputs() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 1);
    w.take();
    let with = |from_failed, input: Value| {
        let input = Some(input);
        Again::Retry(RetryOrder { job, from_failed, confirm_dead: false, by: "ann".to_owned(), input })
    };
    assert_eq!(desk.again(with(true, json!({ "n": 1 }))), Err(AgainError::ChangedInput));
    let next = desk.again(with(false, json!({ "n": 1 }))).expect("it goes on");
    assert!(next.is_new);
    assert_eq!(desk.stored(next.job).job.input, r#"{"n":1}"#);
    assert_eq!(desk.stored(job).job.input, "{}", "a job that is over never changes");
    let family = desk.reader.family(job, 10).expect("a look");
    assert_eq!((family.members[0].job, family.members[0].how.as_str()), (next.job, "retry_changed"));
    // The same once more is the same one; with anything else it has to wait.
    assert_eq!(desk.again(with(false, json!({ "n": 1 }))), Ok(Settled { job: next.job, is_new: false }));
    for other in [with(false, json!({ "n": 2 })), retry(job, false), retry(job, true)] {
        assert_eq!(desk.again(other), Err(AgainError::AlreadyContinued(next.job)));
    }
    // The steps see the new inputs, and the inputs of before count as no change.
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 1);
    let same = desk.again(with(false, json!({}))).expect("it goes on");
    let family = desk.reader.family(job, 10).expect("a look");
    assert_eq!((family.members[0].job, family.members[0].how.as_str()), (same.job, "retry"));
}

#[test]
fn a_list_is_that_of_the_new_inputs() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let yaml = "name: fan\ninput:\n  of: { type: list }\nsteps:\n  each: { for_each: '{{ input.of }}', run: 'true' }\n";
    let (mut command, mut answer) = submit(yaml, None);
    let Command::Submit(order, _) = &mut command else { panic!("it is a submit") };
    order.input = json!({ "of": ["x"] });
    desk.round(vec![command]);
    let job = answer.try_recv().expect("an answer").expect("a job").job;
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 1);
    desk.check(job, "failed: failed failed");
    desk.hang_up(&w);
    let input = Some(json!({ "of": ["x", "y", "z"] }));
    let order = RetryOrder { job, from_failed: false, confirm_dead: false, by: "ann".to_owned(), input };
    let next = desk.again(Again::Retry(order)).expect("it goes on").job;
    desk.check(next, "pending: running queued queued queued");
}
