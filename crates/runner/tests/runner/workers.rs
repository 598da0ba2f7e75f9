//! Workers come and go; the step does not care.

use std::fs;
use std::io::Write;
use std::time::Instant;

use protocol::attempt::EndResult;
use protocol::folder::{Claim, FOLDER_FORMAT, FromRunner, RunnerPhase, ToRunner};
use protocol::state::{Caretaker, LOCK_FILE};
use runner::folder_io::{claim, read_record};
use runner::remains::{self, Remains};

use crate::harness::{PATIENCE, Plan, Process, connect};

#[test]
fn a_worker_lost_before_go_may_come_back_and_say_it() {
    let mut attempt = Plan::script("echo hello").launch_ready();
    attempt.disconnect();
    attempt.reconnect();
    let ready = FromRunner::Ready { pid: attempt.runner.id(), format: FOLDER_FORMAT };
    assert_eq!(attempt.link().next(), ready);
    assert_eq!(attempt.link().status().phase, RunnerPhase::Waiting);
    attempt.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    attempt.ended();
    assert_eq!(attempt.stdout(), "hello\n");
    attempt.finish();
}

#[test]
fn a_runner_without_worker_leaves_when_it_is_declared_void() {
    let mut attempt = Plan::script("true").launch_ready();
    attempt.disconnect();
    assert!(attempt.lives());
    claim(&attempt.folder, Claim::Void, false).expect("claimed");
    attempt.wait_for_runner();
}

#[test]
fn a_runner_without_worker_leaves_when_its_folder_is_gone() {
    let mut attempt = Plan::script("true").launch_ready();
    attempt.disconnect();
    // The runner may be making its socket at this very moment.
    while fs::remove_dir_all(&attempt.folder).is_err() {}
    Process::open(attempt.runner.id()).wait_for_death();
    assert!(!attempt.folder.exists(), "nothing was made anew");
}

#[test]
fn a_runner_that_waits_survives_the_end_of_a_caretaker_that_it_woke() {
    let mut plan = Plan::script("true");
    let (state, woken) = (plan.folder().with_file_name("state"), plan.file("woken"));
    fs::create_dir(&state).expect("writable");
    fs::write(state.join(LOCK_FILE), "").expect("writable");
    let arguments = vec!["-c".to_owned(), format!("echo woken >> {}", woken.display())];
    plan.spec.local.caretaker = Some(Caretaker { state, program: "/bin/sh".into(), arguments });
    plan.spec.local.rules.caretaker_after_ms = Some(20);
    let mut attempt = plan.launch_ready();
    attempt.disconnect();
    let give_up_at = Instant::now() + PATIENCE;
    // When it wakes another the first one is gone.
    while fs::read_to_string(&woken).unwrap_or_default().lines().count() < 2 {
        assert!(Instant::now() < give_up_at && attempt.lives());
        std::thread::yield_now();
    }
    attempt.reconnect();
    assert!(matches!(attempt.link().next(), FromRunner::Ready { .. }));
    assert_eq!(attempt.link().status().phase, RunnerPhase::Waiting);
}

#[test]
fn a_step_goes_on_without_a_worker_and_its_record_speaks() {
    let mut plan = Plan::script("echo one; read -r x < $gate; echo two; exit 5");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    attempt.started();
    attempt.disconnect();
    fs::write(gate, "\n").expect("gate");
    attempt.wait_for_runner();
    let end = read_record(&attempt.folder).expect("readable").end.expect("recorded");
    assert_eq!(end.result, EndResult::Exited { code: 5 });
    assert_eq!(attempt.stdout(), "one\ntwo\n");
}

#[test]
fn a_new_worker_hears_where_things_stand_and_the_newest_wins() {
    let mut plan = Plan::script("echo one; read -r x < $gate; echo two");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    let step = attempt.started();
    attempt.link().wait_for_line(1);
    attempt.disconnect();
    for _ in 0..3 {
        let old = attempt.link.take();
        attempt.reconnect();
        let FromRunner::Started { pid, .. } = attempt.link().next() else { panic!("expected `started`") };
        assert_eq!(pid, step.pid);
        attempt.link().wait_for_line(1);
        if let Some(mut old) = old {
            while old.next_or_closed().is_some() {}
        }
    }
    fs::write(gate, "\n").expect("gate");
    assert_eq!(attempt.ended().log_last_seq, 2);
    attempt.finish();
}

#[test]
fn a_worker_that_never_reads_holds_nobody_up() {
    let mut plan = Plan::script("for i in $(seq 1 3000); do echo $i; done");
    plan.spec.attempt.timeout_ms = Some(20_000);
    let attempt = plan.start();
    let deadline = Instant::now() + PATIENCE;
    let end = loop {
        if let Some(end) = read_record(&attempt.folder).ok().and_then(|recorded| recorded.end) {
            break end;
        }
        assert!(Instant::now() < deadline, "no end");
        std::thread::yield_now();
    };
    assert_eq!((end.result, end.stopped, end.log_last_seq), (EndResult::Exited { code: 0 }, None, 3000));
}

#[test]
fn nonsense_on_the_socket_is_survived() {
    let mut plan = Plan::script("read -r x < $gate; echo fine");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    attempt.started();
    attempt.link().send_raw(b"\xff\n{}\nnull\n{\"type\":\"lease\",\"n\":[]}\n{\"type\":\"stop\"}\n\n");
    assert_eq!(attempt.link().status().phase, RunnerPhase::Running);
    // A line without end: the runner drops the connection, not the step.
    attempt.disconnect();
    let mut flood = connect(&attempt.folder);
    let chunk = vec![b'x'; 1 << 16];
    while flood.write_all(&chunk).is_ok() {}
    attempt.reconnect();
    attempt.started();
    fs::write(gate, "\n").expect("gate");
    attempt.ended();
    assert_eq!(attempt.stdout(), "fine\n");
}

#[test]
fn a_killed_runner_takes_its_step_along() {
    check_killed_runner(None);
}

#[test]
fn a_killed_runner_leaves_nothing_that_the_worker_could_not_empty() {
    check_killed_runner(runner::cgroup::find_parent());
}

fn check_killed_runner(cgroup_parent: Option<std::path::PathBuf>) {
    let mut plan = Plan::script("sleep 1000 & echo $! > $stray; echo ready; wait");
    let stray = plan.file("stray");
    plan.spec.local.cgroup_parent = cgroup_parent;
    let mut attempt = plan.start();
    let step = attempt.started();
    attempt.link().wait_for_line(1);
    let stray = Process::from_file(&stray);
    attempt.runner.kill().expect("killed");
    step.wait_for_death();
    attempt.runner.wait().expect("reaped");
    assert!(!attempt.lives());
    let recorded = read_record(&attempt.folder).expect("readable");
    assert_eq!(recorded.end, None);
    assert_eq!(recorded.tally.expect("written").pid, step.pid);
    while remains::kill(&attempt.spec, recorded.tally) == Remains::Dying {
        std::thread::yield_now();
    }
    assert!(!stray.is_alive());
    assert!(attempt.spec.cgroup().is_none_or(|cgroup| !cgroup.exists()));
}

#[test]
fn a_frozen_runner_is_found_by_its_lock_even_if_it_wrote_nothing_down() {
    let mut attempt = Plan::command(&["sleep", "1000"]).start();
    let step = attempt.started();
    let runner = Process::open(attempt.runner.id());
    let stopped = rustix::process::Pid::from_raw(attempt.runner.id().cast_signed()).expect("a number");
    rustix::process::kill_process(stopped, rustix::process::Signal::STOP).expect("ours");
    // As if it had been frozen between the fork and its note of it.
    while remains::kill_with_runner(&attempt.folder, &attempt.spec, None).expect("readable") == Remains::Dying {
        std::thread::yield_now();
        if !runner.is_alive() {
            attempt.runner.wait().expect("reaped");
        }
    }
    runner.wait_for_death();
    step.wait_for_death();
}
