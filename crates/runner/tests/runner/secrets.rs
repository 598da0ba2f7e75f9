//! What a step is given in secret is in its environment, and nowhere that a runner writes.

use std::fs;
use std::path::Path;

use protocol::attempt::EndResult;
use protocol::folder::{FromRunner, ToRunner};
use protocol::log::{LINE_BYTES_MAX, Stream};
use protocol::secret::{SecretValue, SecretValues};
use serde_json::json;

use crate::harness::{Attempt, Plan};

const VALUE: &str = "hunter2-and-more";

fn values(value: &str) -> SecretValues {
    [("TOKEN".to_owned(), SecretValue::new(value.to_owned()).expect("fit"))].into()
}

fn start(mut plan: Plan, value: &str) -> Attempt {
    plan.spec.attempt.secrets = vec!["TOKEN".to_owned()];
    let mut attempt = plan.launch_ready();
    attempt.link().send_all(&[
        ToRunner::Secrets { values: values(value) },
        ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None },
    ]);
    attempt
}

/// Files below `folder` that hold `text`.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        let metadata = path.symlink_metadata().expect("there");
        if metadata.is_dir() {
            found.extend(holding(&path, text));
        } else if metadata.is_file() && memchr::memmem::find(&fs::read(&path).expect("file"), text.as_bytes()).is_some()
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn the_step_has_it_and_the_folder_does_not() {
    let mut plan = Plan::script(
        "test \"$TOKEN\" = hunter2-and-more || exit 9
        echo \"it is $TOKEN!\"; echo \"$TOKEN\" >&2
        printf hunter2-; sleep 0.05; printf 'and'; sleep 0.05; echo -more
        echo \"key=$TOKEN\" >> \"$BOWLINE_OUTPUT\"; echo written
        read _ < \"$WAIT\"; printf \"last $TOKEN\"",
    );
    // The script itself must not hold what is looked for.
    let wait = plan.fifo("WAIT");
    if let protocol::attempt::Program::Script { text, .. } = &mut plan.spec.attempt.program {
        *text = text.replace("= hunter2-and-more", "= \"hunter2-\"\"and-more\"");
    }
    plan.spec.attempt.env.insert("TOKEN".to_owned(), "of the task".to_owned());
    let mut attempt = start(plan, VALUE);
    attempt.link().wait_for_line(4);
    let output = attempt.folder.join("output").display().to_string();
    assert_eq!(holding(&attempt.folder, VALUE), [output], "only what the step itself wrote");
    fs::write(wait, "\n").expect("somebody reads");
    let end = attempt.ended();
    assert_eq!(end.result, EndResult::Exited { code: 0 });
    assert_eq!(json!(end.output), json!({"key": "***"}));
    assert_eq!(attempt.stdout(), "it is ***!\n***\nwritten\nlast ***");
    assert_eq!(attempt.raw(Stream::Stderr), b"***\n");
    attempt.finish();
    assert_eq!(holding(&attempt.folder, VALUE), [] as [String; 0], "what it wrote for us is not kept");
}

#[test]
fn neither_a_read_nor_an_overlong_line_cuts_it_in_two() {
    // Filled up so that the value lies across the limit of a line, and across that of a read from the pipe.
    let before = LINE_BYTES_MAX - 5;
    let text = format!(
        "head -c {before} /dev/zero | tr '\\0' x; printf %s \"$TOKEN\"
        head -c 262139 /dev/zero | tr '\\0' y; printf %s \"$TOKEN\"; echo"
    );
    let mut attempt = start(Plan::script(&text), VALUE);
    assert_eq!(attempt.ended().result, EndResult::Exited { code: 0 });
    let joined: String = attempt.stdout().replace(['x', 'y'], "");
    assert_eq!(joined, "******\n");
    assert_eq!(holding(&attempt.folder, "hunter2"), [] as [String; 0]);
}

#[test]
fn a_new_worker_changes_nothing_about_that() {
    let mut plan = Plan::script("printf hunter2-; read _ < \"$WAIT\"; echo and-more");
    let wait = plan.fifo("WAIT");
    let mut attempt = start(plan, VALUE);
    attempt.started();
    attempt.disconnect();
    attempt.reconnect();
    fs::write(wait, "\n").expect("somebody reads");
    attempt.ended();
    assert_eq!(attempt.stdout(), "***\n");
}

#[test]
fn one_that_waits_is_given_it_by_whoever_comes_next() {
    let mut plan = Plan::script("echo \"${#TOKEN}\"");
    plan.spec.attempt.secrets = vec!["TOKEN".to_owned()];
    let mut attempt = plan.launch_ready();
    attempt.link().send(&ToRunner::Secrets { values: values("of a worker that died") });
    attempt.disconnect();
    attempt.reconnect();
    assert!(matches!(attempt.link().next(), FromRunner::Ready { .. }));
    attempt.link().send_all(&[
        ToRunner::Secrets { values: values(VALUE) },
        ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None },
    ]);
    attempt.ended();
    assert_eq!(attempt.stdout(), "16\n");
}

#[test]
fn without_it_nothing_starts() {
    let mut plan = Plan::script("touch \"$RAN\"");
    let ran = plan.file("RAN");
    plan.spec.attempt.secrets = vec!["TOKEN".to_owned()];
    // As a worker would that does not know of secrets.
    let mut attempt = plan.start();
    let FromRunner::Refused { why } = attempt.link().next() else { panic!("it went without") };
    assert_eq!(why, "the secret `TOKEN` was not handed over");
    attempt.wait_for_runner();
    assert!(!ran.exists());
}

#[test]
fn it_is_in_nobodys_arguments() {
    let mut plan = Plan::script("read _ < \"$WAIT\"");
    let wait = plan.fifo("WAIT");
    let mut attempt = start(plan, VALUE);
    let step = attempt.started();
    for pid in [step.pid, attempt.runner.id()] {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).expect("a process");
        assert!(memchr::memmem::find(&arguments, VALUE.as_bytes()).is_none());
    }
    let environment = fs::read(format!("/proc/{}/environ", step.pid)).expect("our own");
    assert!(memchr::memmem::find(&environment, VALUE.as_bytes()).is_some());
    let environment = fs::read(format!("/proc/{}/environ", attempt.runner.id())).expect("our own");
    assert!(memchr::memmem::find(&environment, VALUE.as_bytes()).is_none());
    fs::write(wait, "\n").expect("somebody reads");
    attempt.ended();
}
