//! Steps that end with their lease, and signs of life.

use std::time::Duration;

use protocol::attempt::{EndResult, OnDisconnect, StopMode, StopReason};
use protocol::folder::{Claim, FromRunner, Ownership, RunnerRules, ToRunner};
use runner::clock::{boot_now, to_ms};
use runner::folder_io::{read_claim, read_record};

use crate::harness::{Attempt, Plan, Process};

const DEAF: &str = "trap '' TERM; sleep 1000 & echo $! > $stray; echo ready; wait; wait; sleep 1000";

/// A step that stops with a lease of so many milliseconds, from now on.
fn start(mut plan: Plan, lease_ms: u64) -> Attempt {
    plan.spec.attempt.on_disconnect = OnDisconnect::Stop;
    plan.spec.attempt.lease_ms = Some(lease_ms);
    go(plan, boot_now())
}

fn go(plan: Plan, asked_at: Duration) -> Attempt {
    let mut attempt = plan.launch_ready();
    attempt.link().send(&ToRunner::Go { asked_at_ms: Some(to_ms(asked_at)), until_ms: None, cannot: None });
    attempt
}

fn ownership(attempt: &Attempt) -> Ownership {
    read_record(&attempt.folder).expect("readable").ownership.expect("written")
}

/// Answers the next `count` questions; the rest of what is said is passed over.
fn answer(attempt: &mut Attempt, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        if let FromRunner::Renew { n, .. } = attempt.link().next() {
            attempt.link().send(&ToRunner::Renewed { n });
            numbers.push(n);
        }
    }
    numbers
}

#[test]
fn a_step_without_answers_is_over_when_its_lease_is() {
    let mut plan = Plan::script(DEAF);
    let stray = plan.file("stray");
    let begin = boot_now();
    let mut attempt = start(plan, 900);
    attempt.link().wait_for_line(1);
    let stray = Process::from_file(&stray);
    let end = attempt.ended();
    assert!(boot_now() >= begin + Duration::from_millis(900), "it had all of its lease");
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::LeaseExpired));
    assert!(!stray.is_alive(), "and everything with it");
    assert_eq!(ownership(&attempt).until_ms, 0, "it owns nothing any more");
}

#[test]
fn the_signal_comes_early_enough_for_the_grace() {
    let mut plan = Plan::script("trap 'echo bye; exit 7' TERM; echo ready; sleep 1000 & wait");
    plan.spec.attempt.stop.grace_ms = 60_000;
    let begin = boot_now();
    let mut attempt = start(plan, 3000);
    let end = attempt.ended();
    let took = boot_now() - begin;
    assert_eq!((end.result, end.stopped), (EndResult::Exited { code: 7 }, Some(StopReason::LeaseExpired)));
    assert!(took >= Duration::from_millis(2000), "a third of the lease at most: {took:?}");
    assert!(took < Duration::from_millis(3000), "before the end: {took:?}");
}

#[test]
fn answers_keep_it_alive_and_silence_ends_it() {
    let plan = Plan::command(&["sleep", "1000"]);
    let mut attempt = start(plan, 600);
    let first = ownership_when_started(&mut attempt);
    // Twice as many questions as fit into one lease.
    let numbers = answer(&mut attempt, 16);
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(ownership(&attempt).until_ms > first.until_ms);
    let end = attempt.ended();
    assert_eq!(end.stopped, Some(StopReason::LeaseExpired));
    assert!(end.duration_ms >= 1000, "{}", end.duration_ms);
}

fn ownership_when_started(attempt: &mut Attempt) -> Ownership {
    attempt.started();
    ownership(attempt)
}

#[test]
fn without_a_worker_it_ends_all_the_same() {
    let mut attempt = start(Plan::command(&["sleep", "1000"]), 600);
    let step = attempt.started();
    attempt.disconnect();
    step.wait_for_death();
    attempt.wait_for_runner();
    let end = read_record(&attempt.folder).expect("readable").end.expect("recorded");
    assert_eq!(end.stopped, Some(StopReason::LeaseExpired));
}

#[test]
fn a_new_worker_is_asked_at_once() {
    let mut attempt = start(Plan::command(&["sleep", "1000"]), 3_600_000);
    attempt.started();
    attempt.disconnect();
    attempt.reconnect();
    assert_eq!(answer(&mut attempt, 1), [1]);
}

#[test]
fn a_start_whose_lease_is_over_does_not_happen() {
    let mut plan = Plan::script("echo hello");
    plan.spec.attempt.on_disconnect = OnDisconnect::Stop;
    plan.spec.attempt.lease_ms = Some(500);
    let mut attempt = go(plan, boot_now() - Duration::from_millis(500));
    assert!(matches!(attempt.link().next(), FromRunner::Refused { .. }));
    attempt.wait_for_runner();
    assert_eq!(read_claim(&attempt.folder).expect("readable"), Some(Claim::Void));
}

#[test]
fn a_long_cancel_does_not_outlast_the_lease() {
    let mut plan = Plan::script(DEAF);
    plan.file("stray");
    plan.spec.attempt.stop.grace_ms = 3_600_000;
    let mut attempt = start(plan, 900);
    attempt.link().wait_for_line(1);
    attempt.link().send(&ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled });
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::Cancelled), "the first reason stays");
}

#[test]
fn a_step_that_keeps_running_outlives_its_lease() {
    let mut plan = Plan::script("read -r x < $gate; exit 3");
    let gate = plan.fifo("gate");
    plan.spec.attempt.lease_ms = Some(90);
    let mut attempt = go(plan, boot_now());
    let first = ownership_when_started(&mut attempt);
    answer(&mut attempt, 2);
    let until = ownership(&attempt).until_ms;
    assert!(until > first.until_ms);
    // Two more questions, and no answer.
    for _ in 0..2 {
        while !matches!(attempt.link().next(), FromRunner::Renew { .. }) {}
    }
    std::fs::write(gate, "\n").expect("gate");
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 3 });
}

#[test]
fn a_runner_shows_that_it_lives_whatever_its_step_does() {
    let mut plan = Plan::script("kill -STOP $$");
    plan.spec.local.rules = RunnerRules { beat_ms: 20, caretaker_after_ms: None };
    let mut attempt = plan.start();
    attempt.started();
    let runner = attempt.runner.id();
    for _ in 0..3 {
        next_beat(&mut attempt, runner);
    }
    attempt.link().send(&ToRunner::Rules { rules: RunnerRules { beat_ms: 0, caretaker_after_ms: None } });
    attempt.disconnect();
    attempt.reconnect();
    attempt.link().send(&ToRunner::Rules { rules: RunnerRules { beat_ms: 10, caretaker_after_ms: None } });
    next_beat(&mut attempt, runner);
}

fn next_beat(attempt: &mut Attempt, runner: u32) {
    loop {
        if let FromRunner::Beat { pid } = attempt.link().next() {
            assert_eq!(pid, runner);
            return;
        }
    }
}

#[test]
fn a_step_that_floods_its_output_does_not_silence_its_runner() {
    let mut plan = Plan::script("yes");
    plan.spec.local.rules = RunnerRules { beat_ms: 20, caretaker_after_ms: None };
    plan.spec.local.log_bytes_max = 1 << 20;
    let mut attempt = plan.start();
    let runner = attempt.runner.id();
    for _ in 0..5 {
        next_beat(&mut attempt, runner);
    }
}
