//! What is old goes, and nothing else; and whoever reports on it late is let go without an alarm.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use engine::{AttemptId, JobId};
use protocol::attempt::{AttemptSpec, Ticket};
use protocol::link::{
    Heartbeat, HeldAttempt, HeldState, Hello, LogHeader, MissingCause, RefusedCode, ServerMessage, VerdictKind,
    WorkerMessage,
};
use protocol::log::{BlockEncoder, LineEnd, Stream};
use server::ledger::{Again, Command, Commit, PruneOrder, RetryOrder};
use server::retention::{Cutoffs, Kept, RetentionRules, Run, Tally};
use store::Store;
use store::read::LogState;
use tokio::sync::oneshot;

use crate::children::start;
use crate::cluster::Cluster;
use crate::desk::{Desk, Mailbox, ONE, hello, submit};
use crate::faults::Faulty;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const NOW: Duration = Duration::ZERO;
const CHILD: &str = "name: child\nsteps:\n  c: { run: 'true' }\n";
const PARENT: &str = "\
name: parent
steps:
  first: { task: child }
  gate: { needs: [first], approve: { message: go on?, expires: 90d } }
  last: { needs: [gate], task: child }
";

/// The worker has nothing more, and has heard all that it was told.
fn idle<S: Store>(desk: &mut Desk<S>, w: &mut Mailbox) {
    let beat = Heartbeat { processed: 999, held: Vec::new(), free: 1, ahead: 0, draining: false, runners: Vec::new() };
    desk.says(w, vec![WorkerMessage::Heartbeat(beat)]);
    w.take();
}

/// The attempt's log, whole, with so many lines.
fn log<S: Store>(desk: &mut Desk<S>, w: &Mailbox, ticket: Ticket, lines: u64) {
    let mut encoder = BlockEncoder::new(1);
    for _ in 0..lines {
        encoder.push(0, Stream::Stdout, LineEnd::Newline, b"line");
    }
    let blocks = encoder.seal().map(<[u8]>::to_vec).unwrap_or_default();
    let header =
        LogHeader { ticket, first_seq: 1, last_seq: lines, missing: 0, complete: true, cause: MissingCause::Other };
    desk.log(w, header, blocks);
}

/// A job of one step that ended with this code, log and all.
fn ended<S: Store>(desk: &mut Desk<S>, w: &mut Mailbox, code: i32) -> (JobId, AttemptSpec) {
    let job = desk.submit(ONE);
    let spec = start(desk, w);
    desk.ends(w, spec.ticket, code);
    log(desk, w, spec.ticket, 0);
    idle(desk, w);
    (job, spec)
}

fn held(spec: &AttemptSpec, state: HeldState) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    }
}

/// So much time goes by, in which the server does nothing; then it listens for long enough to go on.
fn later<S: Store>(desk: &mut Desk<S>, time: Duration) {
    desk.freeze(time);
    desk.pass(Duration::from_secs(2));
}

/// It has listened for as long as it must before anything goes by itself, and for a run.
const A_RUN: Duration = Duration::from_secs(605);

fn is_there<S: Store>(desk: &Desk<S>, job: JobId) -> bool {
    desk.reader.job(job).expect("a look").is_some()
}

#[test]
fn what_is_old_goes_by_itself_with_all_that_is_its_own() {
    let rules = RetentionRules { jobs: Some(DAY * 30), ..RetentionRules::default() };
    let mut desk = Desk::configured(|config| config.retention = rules);
    let mut w = desk.worker("w", "script", 1);
    let (old, spec) = ended(&mut desk, &mut w, 0);
    later(&mut desk, DAY * 29);
    let (young, _) = ended(&mut desk, &mut w, 1);
    desk.pass(A_RUN);
    assert!(is_there(&desk, old), "it is not old enough");
    later(&mut desk, DAY * 2);
    desk.pass(A_RUN);
    assert!(!is_there(&desk, old) && is_there(&desk, young));
    assert_eq!(desk.events(old), []);
    assert_eq!(desk.attempts(old), []);
    assert_eq!(desk.log_state(spec.ticket), LogState::default());
    // Nothing is taken for lost: what may have effects starts at once, also after a start.
    desk.restart();
    let mut w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    ended(&mut desk, &mut w, 0);
}

#[test]
fn nothing_goes_before_the_server_has_listened_for_a_while() {
    let rules = RetentionRules { jobs: Some(DAY), ..RetentionRules::default() };
    let mut desk = Desk::configured(|config| config.retention = rules);
    let mut w = desk.worker("w", "script", 1);
    let (job, _) = ended(&mut desk, &mut w, 0);
    desk.down(DAY * 365);
    desk.pass(Duration::from_secs(300));
    assert!(is_there(&desk, job), "it may be the clock that is wrong");
    desk.pass(A_RUN);
    assert!(!is_there(&desk, job));
}

#[test]
fn a_family_goes_together_and_not_while_one_of_it_is_open() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let parent = desk.submit_with(PARENT, &[("child", CHILD)]);
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 0);
    log(&mut desk, &w, spec.ticket, 0);
    idle(&mut desk, &mut w);
    let child = desk.children(parent)[0];
    later(&mut desk, DAY);
    let tally = desk.prune(HOUR);
    assert_eq!((tally.jobs, tally.kept.needed), (0, 2), "{tally:?}");
    assert!(is_there(&desk, child), "its parent is not over");
    // What it begins later has its definition, which no job had in between.
    desk.core().store_mut().prune_definitions(None, 100, None).expect("a write");
    let approve = engine::Event::Approve { step: engine::StepIx(1), by: "ann".to_owned(), comment: String::new() };
    desk.event(parent, approve).expect("it waits for that");
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 0);
    log(&mut desk, &w, spec.ticket, 0);
    idle(&mut desk, &mut w);
    desk.check(parent, "success: success success success");
    later(&mut desk, HOUR * 2);
    assert_eq!(desk.prune(HOUR).jobs, 3);
    assert!(desk.children(parent).is_empty() && !is_there(&desk, parent));
}

#[test]
fn a_child_whose_definition_went_meanwhile_brings_it_along() {
    const LATE: &str = "name: late\nsteps:\n  gate: { approve: { message: go on?, expires: 90d } }\n  last: { needs: [gate], task: child }\n";
    let mut desk = Desk::new();
    let w = desk.worker("w", "script", 1);
    let parent = desk.submit_with(LATE, &[("child", CHILD)]);
    let (dropped, _) = desk.core().store_mut().prune_definitions(None, 100, None).expect("a write");
    assert_eq!(dropped, 1, "no job has the child's");
    // Nobody remembers it.
    desk.restart();
    let mut w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    let approve = engine::Event::Approve { step: engine::StepIx(0), by: "ann".to_owned(), comment: String::new() };
    desk.event(parent, approve).expect("it waits for that");
    let spec = start(&mut desk, &mut w);
    desk.restart();
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    desk.ends(&w, spec.ticket, 0);
    desk.check(parent, "success: success success");
}

#[test]
fn what_may_still_run_stays_until_that_is_known() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(300));
    desk.check(job, "failed: failed");
    later(&mut desk, DAY * 40);
    assert_eq!(desk.prune(HOUR), Tally { kept: Kept { in_doubt: 1, ..Kept::default() }, ..Tally::default() });
    // It comes back after all: now its job is heard of today, and goes in its time.
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Ended)]);
    desk.ends(&w, spec.ticket, 0);
    log(&mut desk, &w, spec.ticket, 0);
    idle(&mut desk, &mut w);
    assert_eq!(desk.prune(HOUR).jobs, 0);
    later(&mut desk, HOUR * 2);
    assert_eq!(desk.prune(HOUR).jobs, 1);
}

#[test]
fn a_late_report_on_a_deleted_job_ends_well() {
    for state in [HeldState::Ended, HeldState::Running, HeldState::Waiting] {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        let (job, spec) = ended(&mut desk, &mut w, 0);
        desk.hang_up(&w);
        later(&mut desk, HOUR);
        assert_eq!(desk.prune(NOW).jobs, 1);
        let w = desk.connect(w.worker, "w", "script", 2, vec![held(&spec, state)]);
        let expected = if state == HeldState::Running { VerdictKind::Finish } else { VerdictKind::Forget };
        assert_eq!(w.welcome.verdicts[0].verdict, expected, "{state:?}");
        let mut w = w;
        w.take();
        desk.ends(&w, spec.ticket, 0);
        let messages = w.take();
        let forgets =
            messages.iter().any(|m| matches!(m, ServerMessage::Forget { ticket, .. } if *ticket == spec.ticket));
        assert!(forgets, "its worker may let go: {messages:?}");
        log(&mut desk, &w, spec.ticket, 2);
        assert_eq!(desk.log_state(spec.ticket), LogState::default(), "nobody keeps its lines");
        assert!(!is_there(&desk, job), "it does not come back");
        // Nothing was lost: what may have effects goes out at once.
        desk.submit(ONE);
        start(&mut desk, &mut w);
    }
}

#[test]
fn what_is_missing_and_was_not_deleted_is_still_an_alarm() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 2);
    ended(&mut desk, &mut w, 0);
    later(&mut desk, HOUR);
    assert_eq!(desk.prune(Duration::from_secs(60)).jobs, 1);
    // Made after the time up to which anything was deleted.
    desk.submit(ONE);
    let spec = start(&mut desk, &mut w);
    let reader = desk.reader.clone();
    let missing = JobId(uuid::Uuid::from_u128(spec.job.as_u128() ^ (1 << 64)));
    assert!(!server::retention::was_deleted(&*reader, missing).expect("a look"));
    let old = JobId::lowest_at(desk.now - HOUR);
    assert!(server::retention::was_deleted(&*reader, old).expect("a look"));
    // One of whose family somebody is on record is lost, however old it is.
    later(&mut desk, HOUR);
    desk.prune(NOW);
    assert!(!server::retention::was_deleted(&*reader, JobId(spec.job).hook(3)).expect("a look"));
}

#[test]
fn the_older_of_two_that_go_on_for_each_other_goes_first_and_is_known_by_name() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (first, _) = ended(&mut desk, &mut w, 1);
    later(&mut desk, DAY);
    let order = RetryOrder { job: first, from_failed: false, confirm_dead: false, by: "ann".to_owned(), input: None };
    let second = desk.again(Again::Retry(order)).expect("it goes on").job;
    desk.pass(Duration::from_secs(1));
    let tally = desk.prune(NOW);
    assert_eq!((tally.jobs, tally.kept.needed), (0, 2), "the second goes on for it, and is not over");
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 0);
    log(&mut desk, &w, spec.ticket, 0);
    idle(&mut desk, &mut w);
    // Heard of when the second was made: it is as old as that.
    later(&mut desk, HOUR * 2);
    assert_eq!(desk.prune(HOUR).jobs, 2, "both with one run, and the older one first");
    assert!(!is_there(&desk, first) && !is_there(&desk, second));
}

/// A run takes its time: what was said of a job since it was judged counts.
#[test]
fn a_job_that_is_spoken_of_while_a_run_is_under_way_stays() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let (quiet, _) = ended(&mut desk, &mut w, 1);
    let (first, _) = ended(&mut desk, &mut w, 1);
    later(&mut desk, DAY);
    let now = desk.core().now();
    let mut run = Run::new(Cutoffs { jobs: Some(now - HOUR), ..Cutoffs::default() });
    let mut gone = Vec::new();
    // What is left of earlier runs, then a look at all jobs: they are condemned, and none has gone.
    for _ in 0..2 {
        gone.extend(run.step(desk.core().store_mut(), now, None, &|_| false).expect("a step").jobs);
    }
    assert_eq!(gone, []);
    let order = RetryOrder { job: first, from_failed: false, confirm_dead: false, by: "ann".to_owned(), input: None };
    desk.again(Again::Retry(order)).expect("it goes on");
    while !run.step(desk.core().store_mut(), now, None, &|_| false).expect("a step").done {}
    assert!(!is_there(&desk, quiet) && is_there(&desk, first));
}

#[test]
fn logs_can_go_before_their_jobs_and_leave_a_word() {
    let rules = RetentionRules { jobs: Some(DAY * 30), logs: Some(DAY), ..RetentionRules::default() };
    let mut desk = Desk::configured(|config| config.retention = rules);
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = start(&mut desk, &mut w);
    log(&mut desk, &w, spec.ticket, 3);
    desk.ends(&w, spec.ticket, 0);
    idle(&mut desk, &mut w);
    let attempt = AttemptId(spec.ticket.attempt);
    later(&mut desk, HOUR * 23);
    desk.pass(A_RUN);
    assert_eq!(desk.reader.log_chunks(attempt, 1, 1_000).expect("a look").len(), 1);
    later(&mut desk, HOUR * 3);
    desk.pass(A_RUN);
    assert_eq!(desk.reader.log_chunks(attempt, 1, 1_000).expect("a look"), []);
    let marks = desk.reader.log_marks(attempt, 0, 9, 9).expect("a look");
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0].text, "--- log lines 1 to 3 were removed by retention. ---");
    desk.check(job, "success: success");
}

/// Only time in which somebody listened counts against it: a clock that leaps, or a server that was away for long, keeps nobody away.
#[test]
fn a_worker_that_nobody_saw_for_long_is_told_so_when_it_comes_back() {
    let rules = RetentionRules { workers: Some(HOUR), ..RetentionRules::default() };
    let mut desk = Desk::configured(|config| config.retention = rules);
    let mut stays = desk.worker("stays", "script", 1);
    let w = desk.worker("w", "script", 1);
    desk.hang_up(&w);
    let known = |desk: &Desk| -> Vec<String> {
        desk.reader.workers().expect("a look").iter().map(|row| row.name.clone()).collect()
    };
    later(&mut desk, DAY * 2);
    idle(&mut desk, &mut stays);
    desk.pass(A_RUN);
    assert_eq!(known(&desk), ["stays", "w"]);
    for _ in 0..6 {
        idle(&mut desk, &mut stays);
        desk.pass(A_RUN);
    }
    assert_eq!(known(&desk), ["stays"]);
    let mut back = desk.knock(w.worker, Hello { last_epoch: 1, ..hello("w", "script", 1, Vec::new()) }).welcomed();
    let words = back.take();
    assert!(matches!(words[..], [ServerMessage::Refused { code: RefusedCode::Removed, .. }]), "{words:?}");
    assert!(back.closed);
}

#[test]
fn of_several_servers_one_does_it_and_nobody_takes_anything_for_lost() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let (job, spec) = ended(cluster.desk(1), &mut w, 0);
    cluster.pass(Duration::from_secs(120));
    assert_eq!(cluster.desk(0).prune(NOW).jobs, 1);
    cluster.pass(Duration::from_secs(60));
    assert!(!is_there(cluster.desk(1), job));
    cluster.desk(1).ends(&w, spec.ticket, 0);
    w.take();
    // The other one has forgotten it too, and hands out what may have effects at once.
    ended(cluster.desk(1), &mut w, 0);
}

/// Its log never became whole, and was closed. The server that deletes the job does not have its worker.
#[test]
fn whoever_still_has_the_log_of_a_job_that_another_server_deleted_may_forget_it() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    let spec = cluster.desk(1).start(&mut w);
    cluster.desk(1).ends(&w, spec.ticket, 0);
    cluster.pass(Duration::from_secs(200));
    assert_eq!(cluster.desk(0).prune(NOW).jobs, 1);
    cluster.pass(Duration::from_secs(60));
    assert!(!is_there(cluster.desk(1), job));
    w.take();
    log(cluster.desk(1), &w, spec.ticket, 3);
    let forgets =
        |message: &ServerMessage| matches!(message, ServerMessage::Forget { ticket, .. } if *ticket == spec.ticket);
    let words = w.take();
    assert!(words.iter().any(forgets), "{words:?}");
}

/// It ended and went while this server was frozen, and its events went with it: nobody says so.
#[test]
fn what_another_server_has_deleted_unheard_is_forgotten() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    let spec = cluster.desk(1).start(&mut w);
    cluster.freeze(1);
    cluster.pass(Duration::from_secs(60));
    let brings = vec![held(&spec, HeldState::Running)];
    let comes = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, brings) };
    let back = cluster.desk(0).knock(w.worker, comes).welcomed();
    log(cluster.desk(0), &back, spec.ticket, 3);
    cluster.desk(0).ends(&back, spec.ticket, 0);
    cluster.pass(Duration::from_secs(120));
    assert_eq!(cluster.desk(0).prune(NOW).jobs, 1);
    cluster.pass(Duration::from_secs(60));
    assert!(!is_there(cluster.desk(0), job));
    cluster.thaw(1);
    cluster.pass(Duration::from_secs(30));
    let census = cluster.desk(1).core().census();
    assert_eq!((census.cached_jobs, census.held), (0, 0), "{census:?}");
}

/// A command waits for one piece at most: none takes long, however much there is to delete.
#[test]
fn ten_thousand_jobs_go_and_nobody_waits_for_long() {
    const JOBS: usize = 10_000;
    const TOGETHER: usize = 500;
    let mut desk = Desk::new();
    let mut jobs = Vec::new();
    for _ in 0..JOBS / TOGETHER {
        let (commands, answers): (Vec<_>, Vec<_>) = (0..TOGETHER).map(|_| crate::desk::submit(ONE, None)).unzip();
        desk.round(commands);
        let some = answers.into_iter().map(|mut answer| answer.try_recv().expect("an answer").expect("a job").job);
        let some: Vec<JobId> = some.collect();
        let cancel = |job: &JobId| {
            let event = engine::Event::Cancel { by: "ann".to_owned(), force: false };
            Command::Event { job: *job, event, reply: oneshot::channel().0 }
        };
        desk.round(some.iter().map(cancel).collect());
        jobs.extend(some);
    }
    later(&mut desk, HOUR);
    let (reply, _answer) = oneshot::channel();
    desk.round(vec![Command::Prune(PruneOrder { older_than: Some(Duration::from_secs(60)) }, reply)]);
    let (mut pieces, mut rounds) = (Vec::new(), Vec::new());
    while desk.core().retention().ended_at.is_none() {
        // Somebody submits all the while, as often as there is a piece.
        let (submit, _answer) = crate::desk::submit(ONE, None);
        desk.now = desk.now + Duration::from_millis(10);
        let tick = desk.tick();
        let began = std::time::Instant::now();
        desk.core().begin(vec![submit], tick);
        assert!(matches!(desk.core().commit(), server::ledger::Commit::Done));
        rounds.push(began.elapsed());
        let began = std::time::Instant::now();
        desk.core().tidy(false);
        pieces.push(began.elapsed());
        assert!(pieces.len() < 100_000, "it never ends");
    }
    assert_eq!(desk.core().retention().tally.jobs, JOBS as u64);
    assert!(jobs.iter().all(|job| !is_there(&desk, *job)));
    for (what, times) in [("pieces", &mut pieces), ("rounds", &mut rounds)] {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!("{what}: {} of them, median {:?}, 99% {:?}, longest {:?}", times.len(), at(50), at(99), at(100));
    }
    let longest = pieces.last().copied().unwrap_or_default();
    assert!(pieces[pieces.len() / 2] < Duration::from_millis(50), "a piece is small");
    // A machine that does ten other things at the same time may be slow once.
    assert!(longest < Duration::from_secs(2), "the longest piece took {longest:?}");
}

/// A server sleeps over the answer to a commit until another one has done all of it, and has deleted it for its age.
#[test]
fn a_submit_whose_answer_was_lost_is_not_made_again_when_its_job_may_have_come_and_gone() {
    static MUTE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
    let mut cluster = Cluster::with(2, |inner| Faulty::mute(inner, MUTE.clone()));
    let mut w = cluster.desk(1).worker("w", "script", 1);
    cluster.pass(Duration::from_secs(1));
    let (command, mut answer) = submit(ONE, None);
    MUTE.store(true, Ordering::Relaxed);
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(vec![command], tick);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Retry(_)));
    cluster.freeze(0);
    cluster.pass(Duration::from_secs(1));
    let spec = cluster.desk(1).start(&mut w);
    cluster.desk(1).ends(&w, spec.ticket, 0);
    log(cluster.desk(1), &w, spec.ticket, 0);
    idle(cluster.desk(1), &mut w);
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.desk(1).prune(NOW).jobs, 1);
    cluster.thaw(0);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Split));
    let error = answer.try_recv().expect("an answer").expect_err("nobody knows");
    assert!(error.to_string().contains("can no longer be told"), "{error}");
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.desk(1).reader.job_counts().expect("readable"), [], "it ran once");
}

/// Something else of the same commit is still there, so all of it was.
#[test]
fn a_deleted_job_of_a_commit_that_is_there_is_not_made_again() {
    static MUTE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
    let mut cluster = Cluster::with(2, |inner| Faulty::mute(inner, MUTE.clone()));
    let mut w = cluster.desk(1).worker("w", "script", 1);
    cluster.pass(Duration::from_secs(1));
    let (first, mut taken) = submit(ONE, None);
    let (second, mut waits) = submit("name: waits\nsteps:\n  a: { run: 'true', tags: [gpu], unmatched: wait }\n", None);
    MUTE.store(true, Ordering::Relaxed);
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(vec![first, second], tick);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Retry(_)));
    cluster.freeze(0);
    cluster.pass(Duration::from_secs(1));
    let spec = cluster.desk(1).start(&mut w);
    cluster.desk(1).ends(&w, spec.ticket, 0);
    log(cluster.desk(1), &w, spec.ticket, 0);
    idle(cluster.desk(1), &mut w);
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.desk(1).prune(NOW).jobs, 1);
    cluster.thaw(0);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    taken.try_recv().expect("an answer").expect("it was taken");
    waits.try_recv().expect("an answer").expect("it was taken");
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.desk(1).reader.job_counts().expect("readable"), [("pending".to_owned(), 1)]);
}
