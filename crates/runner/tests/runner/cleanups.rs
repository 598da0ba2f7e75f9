//! Cleanups as real processes: in their place in the log, with the step's surroundings, and gone when their time is.

use std::fs;
use std::time::{Duration, Instant};

use protocol::attempt::{CleanupCut, CleanupPlan, EndResult, Program, STOP_DRAIN_MAX, StopMode, StopReason};
use protocol::folder::{FromRunner, ToRunner};

use crate::harness::{Attempt, Plan, Process};

const GRACEFUL: ToRunner = ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled };
const KILL: ToRunner = ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::Cancelled };

fn plan(step: &str, cleanup: &str, budget_ms: u64) -> Plan {
    let mut plan = Plan::script(step);
    let program = Program::Script { shell: vec!["bash".to_owned(), "-e".to_owned()], text: cleanup.to_owned() };
    plan.spec.attempt.cleanup = Some(CleanupPlan { program, budget_ms });
    plan
}

#[test]
fn it_has_the_steps_folder_and_environment_and_a_part_of_the_log() {
    let step = "echo x=1 >> $BOWLINE_OUTPUT; touch made; trap 'echo bye; exit 7' TERM; echo ready; sleep 1000 & wait";
    let cleanup = "echo $BOWLINE_CLEANUP_REASON $A $BOWLINE_FENCE; ls; echo x=2 >> $BOWLINE_OUTPUT; echo done >&2";
    let mut plan = plan(step, cleanup, 30_000);
    plan.spec.attempt.env.insert("A".to_owned(), "b".to_owned());
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 7 }, "the step's own end");
    assert_eq!(end.stopped, Some(StopReason::Cancelled));
    assert_eq!(end.output["x"], "1", "what the step had written");
    let cleanup = end.cleanup.expect("it had its turn");
    assert_eq!((cleanup.result, cleanup.cut), (EndResult::Exited { code: 0 }, None));
    assert_eq!(attempt.stdout(), "ready\nbye\ncancelled b 42\nmade\n");
    let texts: Vec<String> =
        attempt.records().into_iter().map(|record| String::from_utf8(record.bytes).expect("text")).collect();
    assert_eq!(texts[2], "--- Cleanup begins: the step was cancelled. It has 30s. ---");
    assert!(texts[3..].contains(&"done".to_owned()));
    assert!(texts.last().is_some_and(|last| last.starts_with("--- Cleanup ended well after ")), "{texts:?}");
    assert_eq!(end.log_last_seq, texts.len() as u64);
}

#[test]
fn one_that_hangs_is_killed_with_its_children_when_its_time_is_over() {
    let cleanup = "setsid -f bash -c 'echo $$ > $stray; exec sleep 1000'; until [ -s $stray ]; do :; done; sleep 1000";
    let mut plan = plan("echo ready; sleep 1000", cleanup, 700);
    let stray = plan.file("stray");
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    let before = Instant::now();
    attempt.link().send(&GRACEFUL);
    let end = attempt.ended();
    assert!(before.elapsed() >= Duration::from_millis(700), "it had its time");
    let stray = fs::read_to_string(stray).expect("it was there").trim().to_owned();
    assert!(!fs::exists(format!("/proc/{stray}")).expect("readable"), "nothing of it lives");
    assert_eq!(end.result, EndResult::Signaled { signal: 15, oom: false });
    let cleanup = end.cleanup.expect("it had its turn");
    assert_eq!(cleanup.cut, Some(CleanupCut::Budget));
}

#[test]
fn a_deaf_step_is_killed_first_and_a_kill_ends_the_cleanup() {
    let step = "trap '' TERM; echo $$ > $step; echo ready; while :; do sleep 0.01; done";
    let cleanup = "test ! -d /proc/$(cat $step) && echo gone; sleep 1000";
    let mut plan = plan(step, cleanup, 3_600_000);
    plan.file("step");
    plan.spec.attempt.stop.grace_ms = 300;
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    attempt.link().wait_for_line(3);
    attempt.link().send(&KILL);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 9, oom: false });
    assert_eq!(end.cleanup.expect("it had its turn").cut, Some(CleanupCut::Killed));
    assert_eq!(attempt.stdout(), "ready\ngone\n");
}

#[test]
fn a_timeout_is_cleaned_up_after_and_a_kill_is_not() {
    let mut timed = plan("echo ready; sleep 1000", "echo $BOWLINE_CLEANUP_REASON; exit 4", 30_000);
    timed.spec.attempt.timeout_ms = Some(300);
    let (end, attempt) = timed.run();
    assert_eq!(end.stopped, Some(StopReason::Timeout));
    assert_eq!(end.cleanup.expect("it had its turn").result, EndResult::Exited { code: 4 });
    assert_eq!(attempt.stdout(), "ready\ntimeout\n");

    let mut attempt = plan("echo ready; sleep 1000", "echo no", 30_000).start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&KILL);
    assert_eq!(attempt.ended().cleanup, None);
    assert_eq!(attempt.stdout(), "ready\n");
}

#[test]
fn a_runner_that_dies_leaves_a_cleanup_that_can_be_found() {
    let cleanup = "sleep 1000 & echo $! > $stray; echo cleaning; wait";
    let mut plan = plan("echo ready; sleep 1000", cleanup, 3_600_000);
    let stray = plan.file("stray");
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    attempt.link().wait_for_line(3);
    let stray = Process::from_file(&stray);
    attempt.runner.kill().expect("killed");
    attempt.runner.wait().expect("reaped");
    let recorded = runner::folder_io::read_record(&attempt.folder).expect("readable");
    assert_eq!(recorded.end, None);
    while runner::remains::kill(&attempt.spec, recorded.tally) == runner::remains::Remains::Dying {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!stray.is_alive());
}

#[test]
fn what_cannot_be_started_changes_nothing() {
    let mut plan = Plan::script("echo ready; sleep 1000");
    let program = Program::Command { argv: vec!["no-such-program".to_owned()] };
    plan.spec.attempt.cleanup = Some(CleanupPlan { program, budget_ms: 1_000 });
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    attempt.link().send(&GRACEFUL);
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Signaled { signal: 15, oom: false });
    let cleanup = end.cleanup.expect("it had its turn");
    assert!(matches!(cleanup.result, EndResult::SpawnFailed { .. }), "{cleanup:?}");
}

/// The server takes the log slowly, so that reading it to its end would take minutes: the order to stop has none.
#[test]
fn a_log_that_is_taken_slowly_keeps_neither_the_cleanup_nor_the_record_waiting() {
    let mut plan = plan("seq 1 5000; echo > $gate; sleep 1000", "seq 1 5000", 30_000);
    plan.spec.local.log_lines_max = 100;
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    fs::read(gate).expect("it has printed all");
    let mut acked = 1;
    attempt.link().send_all(&[ToRunner::Acked { seq: acked }, GRACEFUL]);
    let before = Instant::now();
    // One line for each word of more: enough for the runner to go on waiting.
    let mut take = |attempt: &mut Attempt| match attempt.link().next() {
        FromRunner::Log { .. } => {
            acked += 1;
            attempt.link().send(&ToRunner::Acked { seq: acked });
            None
        }
        FromRunner::Ended { end } => Some(end),
        _ => None,
    };
    let end = loop {
        if let Some(end) = take(&mut attempt) {
            break end;
        }
    };
    let took = before.elapsed();
    assert!(took < 6 * STOP_DRAIN_MAX, "it took {took:?}");
    assert_eq!(end.cleanup.expect("it had its turn").result, EndResult::Exited { code: 0 });
    assert_eq!(end.log_last_seq, 10_002, "all that was printed has its number, and the two lines around the cleanup");
}
