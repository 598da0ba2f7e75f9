//! How steps end, what they leave behind, and what is recorded.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use protocol::attempt::{EndResult, StopReason};
use protocol::folder::{OUTPUT_BYTES_MAX, RunnerPhase, ToRunner};
use serde_json::json;

use crate::harness::{Plan, Process};

#[test]
fn codes_and_signals_are_told_apart() {
    let (end, _) = Plan::script("exit 75").run();
    assert_eq!(end.result, EndResult::Exited { code: 75 });
    assert_eq!(end.stopped, None);
    let (end, _) = Plan::script("kill -SEGV $$").run();
    assert_eq!(end.result, EndResult::Signaled { signal: 11, oom: false });
}

#[test]
fn usage_is_measured() {
    let (end, _) = Plan::script("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").run();
    assert!(end.cpu_ms > 20 && end.cpu_ms <= end.duration_ms + 50, "{end:?}");
    assert!(end.memory_bytes_max > 1 << 20 && end.memory_bytes_max < 1 << 28, "{end:?}");
}

#[test]
fn a_step_that_closes_its_streams_and_lives_on_is_waited_for() {
    let mut plan = Plan::script("exec >&- 2>&-; read -r x < $gate || exit 4");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    attempt.started();
    // Opening blocks until the step has closed its streams and come to its `read`.
    let writer = OpenOptions::new().write(true).open(gate).expect("gate");
    assert_eq!(attempt.link().status().phase, RunnerPhase::Running);
    drop(writer);
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 4 });
}

#[test]
fn a_grandchild_that_holds_the_pipe_is_killed_and_keeps_nothing_open() {
    check_stray("sleep 1000 & echo $! > $stray", None);
}

#[test]
fn a_grandchild_that_left_session_and_group_is_killed() {
    check_stray("setsid -f bash -c 'echo $$ > $stray; exec sleep 1000'; until [ -s $stray ]; do :; done", None);
}

#[test]
fn a_grandchild_that_left_is_killed_by_its_cgroup_too() {
    let parent = runner::cgroup::find_parent();
    if parent.is_none() {
        testkit::skipped("no writable cgroup v2 tree on this machine");
        return;
    }
    check_stray("setsid -f bash -c 'echo $$ > $stray; exec sleep 1000'; until [ -s $stray ]; do :; done", parent);
}

/// The script writes the number of a process that would live on to `$stray`.
fn check_stray(script: &str, cgroup_parent: Option<std::path::PathBuf>) {
    let mut plan = Plan::script(&format!("{script}; echo done; read -r x < $gate; exit 5"));
    let stray = plan.file("stray");
    let gate = plan.fifo("gate");
    plan.spec.local.cgroup_parent = cgroup_parent;
    let cgroup = plan.spec.cgroup();
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    let stray = Process::from_file(&stray);
    assert!(stray.is_alive());
    if let Some(cgroup) = &cgroup {
        let members = fs::read_to_string(cgroup.join("cgroup.procs")).expect("the step's cgroup");
        assert!(members.lines().any(|pid| pid == stray.pid.to_string()), "{members}");
    }
    let before = Instant::now();
    fs::write(gate, "\n").expect("gate");
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 5 });
    assert!(!stray.is_alive());
    assert!(before.elapsed() < Duration::from_millis(1500), "nobody waited for the stray");
    assert!(cgroup.is_none_or(|cgroup| !cgroup.exists()));
    attempt.finish();
    assert_eq!(attempt.notes(), "");
}

#[test]
fn a_stranger_that_holds_the_pipe_keeps_the_step_open_only_for_a_while() {
    let mut plan = Plan::script("read -r x < $gate; exit 6");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    let step = attempt.started();
    let pipe = OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", step.pid)).expect("the step's stdout");
    let before = Instant::now();
    fs::write(gate, "\n").expect("gate");
    let end = attempt.ended();
    let took = before.elapsed();
    assert_eq!(end.result, EndResult::Exited { code: 6 });
    assert!(took > Duration::from_millis(1900) && took < Duration::from_secs(10), "{took:?}");
    assert!(end.duration_ms < 1500, "the wait is not the step's: {end:?}");
    drop(pipe);
}

#[test]
fn orphans_that_end_early_are_reaped() {
    let mut plan = Plan::script(
        "for i in 1 2 3 4 5; do (sh -c 'echo $$ >> $pids' &); done; until [ $(wc -l < $pids) = 5 ]; do :; done; \
         echo all; read -r x < $gate",
    );
    let pids = plan.file("pids");
    let gate = plan.fifo("gate");
    fs::write(&pids, "").expect("file");
    let mut attempt = plan.start();
    attempt.link().wait_for_line(1);
    let pids = fs::read_to_string(pids).expect("pids");
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.lines().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "zombies are left");
        std::thread::yield_now();
    }
    fs::write(gate, "\n").expect("gate");
    attempt.ended();
}

#[test]
fn outputs_are_read_and_bad_lines_are_named() {
    let script = r#"echo "sha=abc" >> $BOWLINE_OUTPUT; echo '{"n": [1], "sha": "def"}' >> $BOWLINE_OUTPUT"#;
    let (end, _) = Plan::script(script).run();
    assert_eq!(json!(end.output), json!({"n": [1], "sha": "def"}));
    assert_eq!(end.output_error, None);
    let (end, _) = Plan::script("printf 'a=1\\noops\\n' > $BOWLINE_OUTPUT; exit 9").run();
    assert_eq!(json!(end.output), json!({"a": "1"}));
    assert_eq!(end.output_error.as_deref(), Some("output line 2 is neither key=value nor a JSON object"));
    assert_eq!(end.result, EndResult::Exited { code: 9 });
}

#[test]
fn outputs_up_to_the_limit_pass_and_larger_ones_cost_only_themselves() {
    let size = OUTPUT_BYTES_MAX - 100;
    let (end, mut attempt) =
        Plan::script(&format!("echo blob=$(head -c {size} /dev/zero | tr '\\0' x) > $BOWLINE_OUTPUT")).run();
    assert_eq!(end.output["blob"].as_str().map(str::len), Some(size));
    attempt.finish();
    for size in [OUTPUT_BYTES_MAX, 3_000_000] {
        let script = format!("(printf blob=; head -c {size} /dev/zero | tr '\\0' x) > $BOWLINE_OUTPUT; exit 2");
        let (end, _) = Plan::script(&script).run();
        assert_eq!(end.result, EndResult::Exited { code: 2 });
        assert!(end.output.is_empty() && end.output_error.is_some(), "{:?}", end.output_error);
    }
}

#[test]
fn a_step_that_runs_too_long_is_stopped() {
    let mut plan =
        Plan::script("trap 'echo cleaning; exit 0' TERM; echo ready; while :; do read -r -t 1 x < $gate; done");
    let gate = plan.fifo("gate");
    plan.spec.attempt.timeout_ms = Some(300);
    let _hold = OpenOptions::new().read(true).write(true).open(gate).expect("gate");
    let (end, attempt) = plan.run();
    assert_eq!(end.stopped, Some(StopReason::Timeout));
    assert_eq!(end.result, EndResult::Exited { code: 0 });
    assert!(end.duration_ms >= 300, "{end:?}");
    assert_eq!(attempt.stdout(), "ready\ncleaning\n");
}

/// A file system of its own that is too small for the log.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::TempDir::new().expect("folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(SmallDisk { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

#[test]
fn a_full_disk_costs_log_lines_but_neither_the_step_nor_its_end() {
    let Some(disk) = SmallDisk::mount() else {
        testkit::skipped("no file system can be mounted here");
        return;
    };
    let plan = Plan::script("seq 1 1000000; exit 3");
    let folder = disk.folder.path().join("attempt");
    runner::folder_io::create(&folder, &plan.spec).expect("folder");
    let mut attempt = plan.launch_in(&folder);
    attempt.link().next();
    attempt.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 3 });
    assert_eq!(end.log_last_seq, 1_000_000);
    let tally = runner::folder_io::read_record(&folder).expect("readable").tally.expect("written");
    let kept = attempt.records().len() as u64;
    assert!(kept > 10_000, "only {kept} lines were kept");
    assert_eq!(tally.lost_lines, end.log_last_seq - kept);
    attempt.finish();
}
