//! Steps that end with their lease although their runner can no longer see to it. No worker helps.

use std::fs;
use std::time::Duration;

use protocol::attempt::{EndResult, OnDisconnect, StopReason};
use protocol::folder::ToRunner;
use runner::clock::{boot_now, to_ms};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Attempt, Plan, Process};

/// The work is done by a grandchild, which no death signal reaches.
const WORK: &str = "(while :; do echo x >> $work; sleep 0.02; done) >&- 2>&- & echo $! > $stray; wait";
const HOUR_MS: u64 = 3_600_000;
/// As `ps` shows it.
const GUARD: &str = "bowline-guard\n";

struct Guarded {
    attempt: Attempt,
    stray: Process,
    guard: Process,
}

fn start(lease_ms: u64) -> Guarded {
    let mut plan = Plan::script(WORK);
    plan.file("work");
    let stray = plan.file("stray");
    let mut attempt = start_plan(plan, lease_ms);
    attempt.started();
    let guard = guard_of(&attempt).expect("a guard");
    attempt.disconnect();
    Guarded { stray: Process::from_file(&stray), guard, attempt }
}

fn start_plan(mut plan: Plan, lease_ms: u64) -> Attempt {
    plan.spec.attempt.on_disconnect = OnDisconnect::Stop;
    plan.spec.attempt.lease_ms = Some(lease_ms);
    let mut attempt = plan.launch_ready();
    attempt.link().send(&ToRunner::Go { asked_at_ms: Some(to_ms(boot_now())), until_ms: None, cannot: None });
    attempt
}

/// The runner forks its guard before its step, and the step is its only other child.
fn guard_of(attempt: &Attempt) -> Option<Process> {
    let runner = attempt.runner.id();
    let step = runner::folder_io::read_record(&attempt.folder).expect("readable").tally.expect("started").pid;
    let processes = fs::read_dir("/proc").expect("proc").filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent: u32 = stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (parent == runner && pid != step).then_some(pid)
    });
    let guard = processes.map(Process::open).next()?;
    // Until it has its own name it has not let go of what was its runner's.
    while guard.is_alive() && fs::read_to_string(format!("/proc/{}/comm", guard.pid)).is_ok_and(|name| name != GUARD) {
        std::thread::yield_now();
    }
    Some(guard)
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("pid")).expect("pid");
    kill_process(pid, signal).expect("sent");
}

/// A stop takes effect a moment after it was sent.
fn freeze(pid: u32) {
    signal(pid, Signal::STOP);
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    while !state().contains(") T ") {
        std::thread::yield_now();
    }
}

fn kill_runner(attempt: &mut Attempt) {
    attempt.runner.kill().expect("killed");
    attempt.runner.wait().expect("reaped");
}

#[test]
fn a_killed_runner_takes_all_of_its_step_with_it() {
    let mut step = start(HOUR_MS);
    assert!(step.stray.is_alive());
    kill_runner(&mut step.attempt);
    step.stray.wait_for_death();
    step.guard.wait_for_death();
}

#[test]
fn a_killed_runner_whose_folder_was_deleted_takes_all_of_its_step_with_it() {
    let mut step = start(HOUR_MS);
    // The runner may write into it meanwhile.
    while fs::remove_dir_all(&step.attempt.folder).is_err() {}
    kill_runner(&mut step.attempt);
    step.stray.wait_for_death();
    step.guard.wait_for_death();
}

#[test]
fn a_guard_does_not_keep_the_lock_of_a_dead_runner() {
    let mut step = start(HOUR_MS);
    freeze(step.guard.pid);
    assert!(step.attempt.lives());
    kill_runner(&mut step.attempt);
    assert!(!step.attempt.lives(), "whoever looks sees that the runner is dead");
    assert!(step.stray.is_alive(), "the guard has not acted yet");
    signal(step.guard.pid, Signal::CONT);
    step.stray.wait_for_death();
}

#[test]
fn the_lease_of_a_frozen_runner_ends_in_time() {
    let begin = boot_now();
    let mut step = start(1500);
    freeze(step.attempt.runner.id());
    step.stray.wait_for_death();
    let took = boot_now() - begin;
    assert!(took >= Duration::from_millis(1500), "it had all of its lease: {took:?}");
    assert!(took < Duration::from_millis(6000), "and not much more: {took:?}");
    step.guard.wait_for_death();
    signal(step.attempt.runner.id(), Signal::CONT);
    step.attempt.wait_for_runner();
    let end = runner::folder_io::read_record(&step.attempt.folder).expect("readable").end.expect("recorded");
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.stopped, Some(StopReason::LeaseExpired), "the runner knows why");
}

#[test]
fn what_hides_in_the_cgroup_is_found() {
    let Some(parent) = runner::cgroup::find_parent() else {
        testkit::skipped("no writable cgroup v2 tree on this machine");
        return;
    };
    let mut plan = Plan::script("setsid sleep 1000 >&- 2>&- & echo $! > $stray; wait");
    plan.spec.local.cgroup_parent = Some(parent);
    let stray = plan.file("stray");
    let mut attempt = start_plan(plan, HOUR_MS);
    let stray = Process::from_file(&stray);
    attempt.started();
    kill_runner(&mut attempt);
    stray.wait_for_death();
}

#[test]
fn a_normal_end_leaves_no_guard_behind() {
    let mut plan = Plan::script("read -r x < $gate; exit 3");
    let gate = plan.fifo("gate");
    let mut attempt = start_plan(plan, HOUR_MS);
    attempt.started();
    let guard = guard_of(&attempt).expect("a guard");
    fs::write(gate, "\n").expect("gate");
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 3 });
    assert!(!guard.is_alive());
    assert!(guard_of(&attempt).is_none(), "not even its remains");
}

#[test]
fn a_step_that_never_began_has_no_guard() {
    let mut attempt = start_plan(Plan::command(&["/nowhere/to/be/found"]), HOUR_MS);
    assert!(matches!(attempt.ended().result, EndResult::SpawnFailed { .. }));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", attempt.runner.id()));
    assert_eq!(children.unwrap_or_default(), "");
}

#[test]
fn a_step_that_keeps_running_needs_no_guard() {
    let mut attempt = Plan::command(&["sleep", "1000"]).start();
    attempt.started();
    assert!(guard_of(&attempt).is_none());
}
