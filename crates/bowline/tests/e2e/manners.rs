//! How the commands treat those who call them: pipes that close, input that nobody reads, words that are nearly right.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::house::{House, Ran, await_that, finish};

/// Runs a command, reads one line of it and closes the pipe, as `head -1` does.
fn head_1(mut command: Command) -> (String, i32, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let status = await_that("the command ends", || child.try_wait().expect("waited"));
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
    (line, status.code().unwrap_or(-1), told)
}

#[test]
fn a_closed_stdout_detaches_and_never_cancels() {
    let (house, _up) = House::up();
    let (gate, folder) = (house.path("gate"), house.folder.path());
    let script =
        format!("while [ ! -e {} ] && [ -d {} ]; do echo y; sleep 0.02; done", gate.display(), folder.display());
    let (line, code, told) = head_1(house.command(&["exec", "--", "sh", "-c", &script]));
    assert_eq!((line.as_str(), code), ("y\n", 141), "{told}");
    let job = house.job("last");
    assert_eq!(job["state"], "running");
    let id = job["id"].as_str().expect("an id");
    assert!(told.contains("goes on") && told.contains(id), "{told}");
    house.write("gate", "");
    assert_eq!(house.end(id)["state"], "success");
}

#[test]
fn a_closed_stdout_keeps_a_result_that_is_known() {
    let (house, _up) = House::up();
    for (exit, state) in [(0, "success"), (1, "failed")] {
        let script = format!("seq 1 200000; exit {exit}");
        let id = house.bowline(&["exec", "--detach", "--", "sh", "-c", &script]).ok().out;
        assert_eq!(house.end(id.trim())["state"], state);
        let (line, code, told) = head_1(house.command(&["attach", id.trim()]));
        assert_eq!((line.as_str(), code), ("1\n", exit), "{told}");
    }
}

fn exec_with(house: &House, stdin: Stdio) -> Ran {
    let mut command = house.command(&["exec", "--", "cat"]);
    finish(command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")).ok()
}

#[test]
fn input_that_no_step_will_read_is_not_dropped_in_silence() {
    let (house, _up) = House::up();
    let notice = "a step's stdin is closed";
    let pipe = |text: &str| {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(text.as_bytes()).expect("written");
        Stdio::from(reader)
    };
    let file = |text: &str| Stdio::from(File::open(house.write("in", text)).expect("opened"));
    for full in [pipe("hi\n"), file("hi\n")] {
        let ran = exec_with(&house, full);
        assert_eq!(ran.out, "");
        assert_eq!(ran.err.matches(notice).count(), 1, "{}", ran.err);
    }
    for empty in [pipe(""), file(""), Stdio::null()] {
        assert_eq!(exec_with(&house, empty).err, "");
    }
}

#[test]
fn the_list_tells_commands_apart() {
    let (house, _up) = House::up();
    house.bowline(&["exec", "--", "echo", "a b"]).ok();
    house.bowline(&["exec", "--", "sh", "-c", &format!("true {}", "x".repeat(300))]).ok();
    let file = house.write("t.yaml", "name: t\nsteps:\n  a: { run: 'true' }\n").display().to_string();
    house.bowline(&["run", &file]).ok();
    let list = house.bowline(&["jobs", "--json"]).ok().json();
    let commands: Vec<&serde_json::Value> = (0..3).map(|n| &list["items"][n]["command"]).collect();
    assert!(commands[0].is_null());
    assert!(commands[1].as_str().expect("a command").starts_with("sh -c 'true xxx"));
    assert_eq!(commands[2], "echo 'a b'");
    let table = house.bowline(&["jobs"]).ok().out;
    assert!(table.contains("  echo 'a b'"), "{table}");
    assert!(table.contains("xxx…") && !table.contains(&"x".repeat(50)), "{table}");
}

#[test]
fn a_token_is_revoked_by_a_part_of_its_id() {
    let (house, _up) = House::up();
    let create = || house.bowline(&["token", "create", "--kind", "api", "--json"]).ok().json();
    let ids: Vec<String> = (0..2).map(|_| create()["id"].as_str().expect("an id").to_owned()).collect();
    let shared = ids[0].bytes().zip(ids[1].bytes()).take_while(|(a, b)| a == b).count();
    let ambiguous = house.bowline(&["token", "revoke", &ids[0][..shared]]).code(2);
    // The server's own first tokens may begin so too, and then the list is cut.
    assert!(ambiguous.err.contains("fits several tokens: "), "{}", ambiguous.err);
    assert!(ambiguous.err.contains("give more of the id"), "{}", ambiguous.err);
    // Ids begin with the time: nothing older shares what the newest has alone.
    let newest = &ids[1][..=shared];
    house.bowline(&["token", "revoke", newest]).ok();
    let again = house.bowline(&["token", "revoke", newest]).code(2);
    assert!(again.err.contains("no valid token"), "{}", again.err);
    house.bowline(&["token", "revoke", "01"]).code(2);
    let list = house.bowline(&["token", "list"]).ok().out;
    assert!(!list.contains("LAST USED"), "{list}");
}

#[test]
fn a_task_that_is_nearly_right_is_named() {
    let (house, _up) = House::up();
    let file = house.write("t.yaml", "name: nightly-backup\nsteps:\n  a: { run: 'true' }\n").display().to_string();
    house.bowline(&["tasks", "push", &file]).ok();
    let ran = house.bowline(&["run", "nigthly-backup"]).code(2);
    assert!(ran.err.contains("did you mean `nightly-backup`?"), "{}", ran.err);
    let ran = house.bowline(&["run", "something-else"]).code(2);
    assert!(!ran.err.contains("did you mean"), "{}", ran.err);
}

#[test]
fn whoever_follows_hears_why_a_step_has_no_worker() {
    let (house, _up) = House::up();
    let spec = "name: g\nsteps:\n  a: { run: 'true', tags: [gpu], unmatched: 3s }\n  b: { run: 'true', tags: [gpu], unmatched: 3s }\n";
    let file = house.write("g.yaml", spec).display().to_string();
    let ran = house.bowline(&["run", &file]).code(1);
    assert_eq!(ran.err.matches("waits: no worker has tag `gpu`").count(), 1, "said once: {}", ran.err);
    assert!(!house.bowline(&["exec", "--", "sleep", "1.5"]).ok().err.contains("waits"));
}

#[test]
fn why_names_a_worker_that_refuses() {
    let (house, _up) = House::up();
    house.bowline(&["exec", "--", "true"]).ok();
    let attempts = house.path("data/worker/attempts");
    await_that("the folder is gone", || {
        let _ = std::fs::remove_dir_all(&attempts);
        std::fs::write(&attempts, "in the way").ok()
    });
    let id = house.bowline(&["exec", "--detach", "--", "true"]).ok().out;
    let why = await_that("the refusal is told", || {
        let why = house.bowline(&["why", id.trim()]).ok().out;
        why.contains("refused by worker").then_some(why)
    });
    assert!(why.contains("it could not prepare the step: "), "{why}");
    assert!(!why.contains("busy"), "{why}");
    house.bowline(&["cancel", id.trim()]).ok();
}
