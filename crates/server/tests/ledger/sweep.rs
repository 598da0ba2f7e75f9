//! Signs of life, what their absence brings, and the sweeper behind all that is driven by an index.

use std::time::Duration;

use protocol::attempt::{AttemptSpec, Ticket};
use protocol::link::{Heartbeat, Hello, RunnerBeat, ServerMessage, WorkerMessage};
use server::ledger::CoreConfig;
use store::Store;
use store::rows::{BeatRole, BeatRow};

use crate::cluster::Cluster;
use crate::desk::{Desk, Mailbox, ONE, hello};

const NONE: &str = "name: none\nsteps:\n  a: { run: 'true', effects: none }\n";

/// No sweep comes in the course of a test.
fn rarely(config: &mut CoreConfig) {
    config.sweep.interval = Duration::from_secs(86_400);
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A heartbeat that holds these, and a beat of their runners that is so old.
fn beat<S: Store>(desk: &mut Desk<S>, w: &Mailbox, held: &[Ticket], runner_age: Option<u64>) {
    let runners =
        held.iter().filter_map(|ticket| Some(RunnerBeat { ticket: *ticket, pid: 99, age_ms: runner_age? * 1_000 }));
    let beat =
        Heartbeat { processed: 0, held: held.to_vec(), free: 1, ahead: 0, draining: false, runners: runners.collect() };
    desk.says(w, vec![WorkerMessage::Heartbeat(beat)]);
}

fn beats(desk: &Desk, ticket: Ticket) -> Vec<BeatRow> {
    desk.reader.beats(engine::AttemptId(ticket.attempt)).expect("readable")
}

/// A worker with one step that runs.
fn running(desk: &mut Desk, task: &str) -> (engine::JobId, Mailbox, AttemptSpec) {
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(task);
    let spec = desk.start(&mut w);
    (job, w, spec)
}

#[test]
fn beats_are_rows_by_attempt_and_role() {
    let mut desk = Desk::new();
    let (_, w, spec) = running(&mut desk, ONE);
    let stranger = Ticket { attempt: uuid::Uuid::from_u128(42), fence: 1 };
    let begin = desk.now;
    for _ in 0..3 {
        beat(&mut desk, &w, &[spec.ticket, stranger], Some(2));
        assert_eq!(beats(&desk, spec.ticket).len(), if desk.now == begin { 0 } else { 2 }, "written in bulk, later");
        desk.pass(secs(30));
    }
    let rows = beats(&desk, spec.ticket);
    let short: Vec<_> = rows.iter().map(|b| (b.role, b.pid, b.count, b.longest_gap.as_secs())).collect();
    assert_eq!(short, [(BeatRole::Claimer, 1, 3, 30), (BeatRole::Runner, 99, 3, 30)]);
    assert_eq!((rows[0].first_at, rows[0].last_at), (begin, begin + secs(60)));
    assert_eq!((rows[1].first_at, rows[1].last_at), (begin - secs(2), begin + secs(58)));
    assert_eq!(beats(&desk, stranger), [], "nobody granted it");
}

#[test]
fn old_beats_are_deleted() {
    let mut desk = Desk::configured(|config| config.sweep.heartbeat_retention = Some(secs(3_600)));
    let (_, w, spec) = running(&mut desk, ONE);
    beat(&mut desk, &w, &[spec.ticket], None);
    desk.pass(secs(3_500));
    assert_eq!(beats(&desk, spec.ticket).len(), 1);
    desk.pass(secs(200));
    assert_eq!(beats(&desk, spec.ticket).len(), 0);
}

#[test]
fn a_silent_runner_is_judged_at_its_time_whatever_the_sweep_interval() {
    let mut desk = Desk::configured(rarely);
    let (job, mut w, spec) = running(&mut desk, NONE);
    beat(&mut desk, &w, &[spec.ticket], Some(0));
    let last = desk.now;
    // The worker goes on, its runner does not.
    for _ in 0..9 {
        desk.pass(secs(30));
        let age = desk.now.since(last).as_secs();
        beat(&mut desk, &w, &[spec.ticket], Some(age));
    }
    desk.pass(secs(29));
    desk.check(job, "running: running");
    w.take();
    desk.pass(secs(1));
    desk.check(job, "running: cancelling");
    assert!(matches!(w.take()[..], [ServerMessage::Stop { .. }]));
    // Nobody answers the order: its effects allow a repeat, since a whole window has passed.
    desk.pass(secs(60));
    desk.check(job, "running: queued");
    let lost = &desk.attempts(job)[0];
    assert_eq!((lost.error_code.as_deref(), lost.confirmed), (Some("runner_stale"), false));
    let words = "Job failed: no sign of life from the step's runner for 300s";
    assert!(lost.error_message.as_ref().is_some_and(|text| text.starts_with(words)), "{:?}", lost.error_message);
}

/// A worker goes from one server to another with what it runs, and later comes back. Neither has heard its runner while the other did.
#[test]
fn a_runner_is_judged_by_whoever_has_its_workers_link() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    let mut at = 0;
    for place in [1, 0, 1, 0] {
        cluster.desk(at).hang_up(&w);
        at = place;
        let last_epoch = w.welcome.epoch;
        let comes = Hello { last_epoch, ..hello("w", "script", 1, vec![crate::cluster::running(&spec)]) };
        w = cluster.desk(place).knock(w.worker, comes).welcomed();
        // Longer than the silence that a runner is given up for, and a sweep or more before its first heartbeat.
        cluster.pass(secs(70));
        for _ in 0..12 {
            beat(cluster.desk(place), &w, &[spec.ticket], Some(1));
            cluster.pass(secs(30));
        }
        cluster.desk(place).check(job, "running: running");
    }
    // It counts all the same.
    for age in 1..10 {
        beat(cluster.desk(0), &w, &[spec.ticket], Some(30 * age));
        cluster.pass(secs(30));
    }
    cluster.desk(0).check(job, "running: cancelling");
}

#[test]
fn deaf_time_is_no_silence_of_a_runner() {
    let mut desk = Desk::configured(rarely);
    let (job, w, spec) = running(&mut desk, NONE);
    beat(&mut desk, &w, &[spec.ticket], Some(0));
    // The whole server stands still; then its worker speaks first.
    desk.now = desk.now + secs(3_600);
    beat(&mut desk, &w, &[spec.ticket], Some(1));
    desk.pass(secs(200));
    desk.check(job, "running: running");
}

#[test]
fn a_runner_that_never_beats_is_not_judged_by_it() {
    let mut desk = Desk::new();
    let (job, w, spec) = running(&mut desk, NONE);
    for _ in 0..40 {
        beat(&mut desk, &w, &[spec.ticket], None);
        desk.pass(secs(30));
    }
    desk.check(job, "running: running");
}

#[test]
fn an_offer_of_a_silent_worker_goes_elsewhere() {
    let mut desk = Desk::configured(|config| config.rules.dispatch_ack = secs(3_000));
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let offered = w.offer().ticket;
    desk.pass(secs(119));
    w.none();
    let mut other = desk.worker("other", "script", 1);
    desk.pass(secs(62));
    assert!(w.take().iter().any(|m| matches!(m, ServerMessage::Withdraw { ticket } if *ticket == offered)));
    assert_ne!(other.offer().ticket, offered);
    desk.check(job, "pending: queued");
}

#[test]
fn with_automatic_actions_off_an_operator_is_reminded() {
    let mut desk = Desk::configured(|config| config.rules.auto_fail_stale_running = false);
    let (job, w, spec) = running(&mut desk, ONE);
    beat(&mut desk, &w, &[spec.ticket], Some(0));
    desk.pass(secs(301));
    let reminders = |desk: &Desk| {
        let events = desk.events(job);
        let about = events.iter().filter(|e| e.verb.as_deref() == Some("silent")).collect::<Vec<_>>();
        assert!(about.iter().all(|e| e.reason.contains("bowline recover fail")), "{about:?}");
        about.len()
    };
    assert_eq!(reminders(&desk), 1, "at its time");
    desk.pass(secs(120));
    assert_eq!(reminders(&desk), 3, "and with each sweep");
    desk.check(job, "running: running");
    beat(&mut desk, &w, &[spec.ticket], Some(0));
    desk.pass(secs(60));
    assert_eq!(reminders(&desk), 3, "it is heard again");
    assert!(desk.events(job).iter().any(|e| e.verb.as_deref() == Some("heard_again")));
}

#[test]
fn sweeps_begin_at_once_and_do_not_spin() {
    let mut desk = Desk::new();
    let first = desk.core().wake_at();
    assert!(first <= desk.now, "the first one comes at once");
    desk.pass(secs(1));
    assert!(desk.core().wake_at() > desk.now);
}

/// Another server moves the job in the same moment, and writes first.
#[test]
fn a_verdict_on_a_runner_that_came_second_is_passed_again_at_once() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(NONE);
    let spec = cluster.desk(0).start(&mut w);
    beat(cluster.desk(0), &w, &[spec.ticket], Some(0));
    let last = cluster.now;
    for _ in 0..9 {
        cluster.pass(secs(30));
        let age = cluster.now.since(last).as_secs();
        beat(cluster.desk(0), &w, &[spec.ticket], Some(age));
    }
    cluster.pass(secs(29));
    cluster.freeze(0);
    cluster.pass(secs(1));
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(Vec::new(), tick);
    cluster.desk(1).event(job, engine::Event::CheckJob).expect("a look");
    assert!(matches!(cluster.desk(0).core().commit(), server::ledger::Commit::Done));
    cluster.desk(0).check(job, "running: running");
    cluster.thaw(0);
    cluster.pass(secs(1));
    cluster.desk(0).check(job, "running: cancelling");
}
