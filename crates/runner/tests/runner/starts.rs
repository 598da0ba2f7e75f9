//! Before exec: the claim, the environment, the folder, and programs that cannot be started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use protocol::attempt::{EndResult, StopMode, StopReason};
use protocol::folder::{Claim, FromRunner, RECORD_FILE, ToRunner};
use runner::folder_io::{claim, read_claim};

use crate::harness::{Attempt, Plan};

#[test]
fn nothing_runs_before_go() {
    let mut plan = Plan::script("touch $proof");
    let proof = plan.file("proof");
    let mut attempt = plan.launch_ready();
    // Two round trips: whatever was going to happen by itself has happened.
    attempt.link().status();
    attempt.link().status();
    assert!(!proof.exists());
    assert_eq!(read_claim(&attempt.folder).expect("readable"), None);
    attempt.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 0 });
    assert!(proof.exists());
    assert_eq!(read_claim(&attempt.folder).expect("readable"), Some(Claim::Intent));
    attempt.finish();
}

#[test]
fn void_comes_first_and_go_is_refused() {
    let mut plan = Plan::script("touch $proof");
    let proof = plan.file("proof");
    let mut attempt = plan.launch_ready();
    assert_eq!(claim(&attempt.folder, Claim::Void, true).expect("claimed"), Claim::Void);
    attempt.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    assert_eq!(attempt.link().next(), FromRunner::Refused { why: "the attempt was declared void".to_owned() });
    attempt.wait_for_runner();
    assert!(!proof.exists());
}

#[test]
fn intent_comes_first_and_void_is_too_late() {
    let mut plan = Plan::script("read -r x < $gate");
    let gate = plan.fifo("gate");
    let mut attempt = plan.start();
    attempt.started();
    let second = claim(&attempt.folder, Claim::Void, false).expect("asked");
    assert_eq!(second, Claim::Intent);
    fs::write(gate, "\n").expect("gate");
    attempt.ended();
}

#[test]
fn a_stop_before_go_leaves_a_void_claim() {
    let mut attempt = Plan::script("true").launch_ready();
    attempt.link().send(&ToRunner::Stop { mode: StopMode::Graceful, reason: StopReason::Cancelled });
    assert!(matches!(attempt.link().next(), FromRunner::Refused { .. }));
    attempt.wait_for_runner();
    assert_eq!(read_claim(&attempt.folder).expect("readable"), Some(Claim::Void));
}

#[test]
fn a_second_runner_is_turned_away_and_never_repeats_the_step() {
    let mut plan = Plan::script("echo ran >> $proof; read -r x < $gate");
    let proof = plan.file("proof");
    let gate = plan.fifo("gate");
    let mut first = plan.start();
    let step = first.started();
    let mut second = Plan::script("").launch_in(&first.folder);
    assert_eq!(second.link().next_or_closed(), None, "a refusal would say that the step never ran");
    assert!(!second.runner.wait().expect("reaped").success());
    assert!(first.notes().contains("another runner holds this folder"));
    assert!(step.is_alive());
    // Not even when the first one is dead and has left everything as it was.
    let _hold = fs::OpenOptions::new().read(true).write(true).open(gate).expect("gate");
    first.runner.kill().expect("killed");
    step.wait_for_death();
    let mut third = Plan::script("").launch_in(&first.folder);
    assert!(matches!(third.link().next(), FromRunner::Ready { .. }));
    third.link().send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    assert_eq!(third.link().next_or_closed(), None);
    assert!(first.notes().contains("an earlier runner has claimed this attempt"));
    let ran = fs::read_to_string(proof).unwrap_or_default();
    assert!(ran.lines().count() <= 1, "{ran}");
}

#[test]
fn the_environment_is_small_and_clean() {
    let mut plan = Plan::script(
        "env | sort; pwd; cat /proc/self/stat | cut -d' ' -f5,6; grep -E '^Sig(Blk|Ign)' /proc/self/status",
    );
    plan.spec.attempt.env.insert("OWN".to_owned(), "a b".to_owned());
    plan.spec.attempt.env.insert("BOWLINE_FENCE".to_owned(), "forged".to_owned());
    let folder = plan.folder();
    let (_, attempt) = plan.run();
    let text = attempt.stdout();
    let variables: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key).collect();
    let expected = [
        "BOWLINE_ATTEMPT",
        "BOWLINE_ATTEMPT_DIR",
        "BOWLINE_ATTEMPT_ID",
        "BOWLINE_FENCE",
        "BOWLINE_JOB_ID",
        "BOWLINE_OUTPUT",
        "BOWLINE_STEP",
        "BOWLINE_TASK",
        "HOME",
        "OWN",
        "PATH",
        "PWD",
        "SHLVL",
        "_",
    ];
    assert_eq!(variables, expected);
    assert!(text.contains("OWN=a b\n") && text.contains("BOWLINE_FENCE=42\n") && text.contains("HOME=/nowhere\n"));
    assert!(text.contains(&format!("\n{}\n", folder.join("work").display())));
    assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"), "{text}");
}

#[test]
fn standard_input_is_empty() {
    let (end, attempt) = Plan::script("cat; ls -l /proc/self/fd | grep -c socket || true").run();
    assert_eq!(end.result, EndResult::Exited { code: 0 });
    assert_eq!(attempt.stdout(), "0\n");
}

#[test]
fn a_relative_workdir_is_made_and_an_absolute_one_must_exist() {
    let mut plan = Plan::command(&["pwd"]);
    plan.spec.attempt.workdir = Some("./repo/deep".to_owned());
    let (_, attempt) = plan.run();
    assert!(attempt.stdout().trim_end().ends_with("/attempt/work/repo/deep"));
    let mut plan = Plan::command(&["pwd"]);
    plan.spec.attempt.workdir = Some("/usr".to_owned());
    let (_, attempt) = plan.run();
    assert_eq!(attempt.stdout(), "/usr\n");
}

#[test]
fn what_cannot_be_started_says_why() {
    check_failure(Plan::command(&["no-such-program"]), "program `no-such-program` was not found in PATH (/usr/");
    check_failure(Plan::command(&["/no/such"]), "program `/no/such` was not found, or the interpreter");
    check_failure(Plan::command(&["/etc/passwd"]), "program `/etc/passwd` may not be executed");
    check_failure(Plan::command(&[]), "the command is empty");
    check_failure(Plan::command(&["echo", "a\0b"]), "a NUL byte");
    let mut plan = Plan::command(&["true"]);
    plan.spec.attempt.workdir = Some("/no/such/folder".to_owned());
    check_failure(plan, "the working folder /no/such/folder does not exist on this worker");
    let mut plan = Plan::command(&["true"]);
    plan.spec.attempt.workdir = Some("a/../../x".to_owned());
    check_failure(plan, "the working folder a/../../x leads out of the attempt's own folder; use one without");
    let mut plan = Plan::command(&["true"]);
    plan.spec.attempt.env.insert("A=B".to_owned(), String::new());
    check_failure(plan, "`A=B` is not a possible name");
    let mut plan = Plan::command(&[]);
    let garbage = plan.file("garbage");
    fs::write(&garbage, "neither").expect("file");
    fs::set_permissions(&garbage, fs::Permissions::from_mode(0o755)).expect("mode");
    plan.spec.attempt.program =
        protocol::attempt::Program::Command { argv: vec![garbage.to_str().expect("text").to_owned()] };
    check_failure(plan, &format!("program `{}` is neither a binary", garbage.display()));
}

fn check_failure(plan: Plan, expected: &str) {
    let (end, mut attempt): (_, Attempt) = plan.run();
    let EndResult::SpawnFailed { message } = end.result else { panic!("expected {expected}, got {end:?}") };
    assert!(message.starts_with(expected), "expected {expected}, got {message}");
    attempt.finish();
}

#[test]
fn a_broken_folder_is_refused_with_a_reason() {
    let plan = Plan::command(&["true"]);
    let folder = plan.folder();
    runner::folder_io::create(&folder, &plan.spec).expect("folder");
    fs::write(folder.join("spec.json"), "{\"format\": 1").expect("spec");
    let mut attempt = plan.launch_in(&folder);
    let FromRunner::Refused { why } = attempt.link().next() else { panic!("expected a refusal") };
    assert!(why.starts_with("spec.json cannot be understood"), "{why}");
    assert!(attempt.notes().contains("spec.json"));

    let mut plan = Plan::command(&["true"]);
    plan.spec.format = 99;
    let mut attempt = plan.launch();
    let expected = "the folder has format 99, this version knows 1 to 2".to_owned();
    assert_eq!(attempt.link().next(), FromRunner::Refused { why: expected });
}

#[test]
fn somebody_who_only_looks_does_not_keep_a_runner_from_its_folder() {
    let plan = Plan::script("true");
    let folder = plan.folder();
    runner::folder_io::create(&folder, &plan.spec).expect("attempt folder");
    let record = std::fs::File::create(folder.join(RECORD_FILE)).expect("writable");
    // As `runner_lives` does, for much longer.
    rustix::fs::flock(&record, rustix::fs::FlockOperation::LockShared).expect("free");
    let looking = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(record);
    });
    let mut attempt = plan.launch_in(&folder);
    assert!(matches!(attempt.link().next(), FromRunner::Ready { .. }));
    looking.join().expect("no panic");
}
