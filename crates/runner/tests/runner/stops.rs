//! Orders to stop: asked first, killed when they do not listen, and everything with them.

use std::time::{Duration, Instant};

use protocol::attempt::{EndResult, StopMode, StopReason};
use protocol::folder::{RunnerPhase, ToRunner};

use crate::harness::{Plan, Process};

const DEAF: &str = "trap '' TERM; sleep 1000 & echo $! > $stray; echo ready; wait; wait; sleep 1000";
const GRACEFUL: ToRunner = ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled };
const KILL: ToRunner = ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::Superseded };

#[test]
fn a_step_may_clean_up_and_choose_its_code() {
    let mut attempt = Plan::script("trap 'echo bye; exit 7' TERM; echo ready; sleep 1000 & wait").start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 7 });
    assert_eq!(end.stopped, Some(StopReason::Cancelled));
    assert_eq!(attempt.stdout(), "ready\nbye\n");
}

#[test]
fn the_signal_is_the_steps_own_and_goes_to_the_group() {
    let mut plan =
        Plan::script("bash -c 'trap \"echo inner; exit 0\" USR1; echo ready; while :; do sleep 0.01; done'; exit 3");
    plan.spec.attempt.stop.signal = 10;
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 10, oom: false });
}

#[test]
fn a_deaf_step_is_killed_after_its_grace_with_all_its_children() {
    let mut plan = Plan::script(DEAF);
    let stray = plan.file("stray");
    plan.spec.attempt.stop.grace_ms = 400;
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    let stray = Process::from_file(&stray);
    let before = Instant::now();
    attempt.link().send(&GRACEFUL);
    assert_eq!(attempt.link().status().phase, RunnerPhase::Stopping);
    let end = attempt.ended();
    assert!(before.elapsed() >= Duration::from_millis(400), "it had its grace");
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::Cancelled));
    assert!(!stray.is_alive());
}

#[test]
fn a_kill_is_at_once_and_hardens_an_earlier_stop() {
    let mut plan = Plan::script(DEAF);
    plan.file("stray");
    plan.spec.attempt.stop.grace_ms = 3_600_000;
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send_all(&[GRACEFUL, GRACEFUL, KILL]);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::Cancelled), "the first reason stays");
}

#[test]
fn a_stop_right_behind_go_is_not_lost() {
    let mut attempt = Plan::command(&["sleep", "1000"]).launch_ready();
    attempt.link().send_all(&[ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None }, KILL]);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::Superseded));
}

#[test]
fn a_kill_reaches_strays_in_the_cgroup_and_outside_the_group() {
    let mut plan = Plan::script(
        "setsid -f bash -c 'echo $$ > $stray; exec sleep 1000'; until [ -s $stray ]; do :; done; echo ready; sleep 1000",
    );
    let stray = plan.file("stray");
    plan.spec.local.cgroup_parent = runner::cgroup::find_parent();
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    let stray = Process::from_file(&stray);
    attempt.link().send(&KILL);
    attempt.ended();
    assert!(!stray.is_alive());
}

#[test]
fn a_runner_that_is_told_to_stop_ends_its_step_in_order() {
    let mut attempt = Plan::script("trap 'exit 8' TERM; echo ready; sleep 1000 & wait").start();
    attempt.link().wait_for_line(1);
    let pid = rustix::process::Pid::from_raw(attempt.runner.id() as i32).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 8 });
    assert_eq!(end.stopped, Some(StopReason::WorkerStopped));
}
