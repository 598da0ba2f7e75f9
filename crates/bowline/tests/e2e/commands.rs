//! The commands, as a new user tries them.

use crate::house::{House, step_of};

#[test]
fn exec_runs_one_command_in_the_callers_folder() {
    let (house, _up) = House::up();
    let ran = house.bowline(&["exec", "--", "sh", "-c", "pwd; echo to-stderr >&2"]).ok();
    assert_eq!(ran.out.trim(), house.folder.path().canonicalize().expect("there").display().to_string());
    assert!(ran.err.contains("to-stderr"), "{}", ran.err);
    assert!(!ran.out.contains("to-stderr"));
}

#[test]
fn exit_codes_tell_how_the_job_ended() {
    let (house, up) = House::up();
    house.bowline(&["exec", "--", "true"]).code(0);
    let failed = house.bowline(&["exec", "--", "sh", "-c", "exit 9"]).code(1);
    assert!(failed.err.contains("exited with code 9"), "{}", failed.err);
    assert!(failed.err.contains("bowline why"), "{}", failed.err);
    house.bowline(&["exec"]).code(2);
    house.bowline(&["run", "no-such-task"]).code(2);
    house.bowline(&["--token", "wrong", "jobs"]).code(4);
    up.stop();
    let gone = house.bowline(&["jobs"]).code(4);
    assert!(gone.err.contains("bowline up"), "{}", gone.err);
}

#[test]
fn detach_prints_the_id_alone_and_the_rest_finds_it() {
    let (house, _up) = House::up();
    let id = house.bowline(&["exec", "--detach", "--", "echo", "hi"]).ok().out;
    assert_eq!(id.lines().count(), 1);
    let id = id.trim();
    house.bowline(&["wait", id]).ok();
    assert_eq!(house.bowline(&["logs", "last"]).ok().out, "hi\n");
    assert_eq!(house.bowline(&["logs", &id[..13], "run"]).ok().out, "hi\n");
    assert_eq!(house.bowline(&["attach", id]).ok().out, "hi\n");
    let job = house.job("last");
    assert_eq!(job["id"], id);
    assert_eq!(job["state"], "success");
    let step = step_of(&job, "run");
    assert_eq!(step["attempts"][0]["exit_code"], 0);
    assert_eq!(step["attempts"][0]["state"], "ended");
    assert_eq!(step["deadline"], serde_json::Value::Null);
    let list = house.bowline(&["jobs", "--json"]).ok().json();
    assert_eq!(list["items"][0]["id"], id);
    assert!(house.bowline(&["jobs"]).ok().out.contains("success"));
    let why = house.bowline(&["why", id, "--json"]).ok().json();
    assert_eq!(why["steps"][0]["state"], "success");
}

#[test]
fn workers_are_listed() {
    let (house, _up) = House::up();
    house.bowline(&["exec", "--", "true"]).ok();
    let workers = house.bowline(&["workers", "--json"]).ok().json();
    let worker = &workers["items"][0];
    assert_eq!(worker["status"], "active");
    assert_eq!(worker["connected"], true);
    assert_eq!(worker["tags"], serde_json::json!(["script"]));
}

#[test]
fn a_queued_step_says_what_it_waits_for() {
    let (house, _up) = House::up();
    let id = house.submit("name: g\nsteps:\n  a: { run: 'true', tags: [gpu], unmatched: wait }\n");
    let why = house.bowline(&["why", &id]).ok();
    assert!(why.out.contains("gpu"), "{}", why.out);
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["wait", &id]).code(3);
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let (house, _up) = House::up();
    let made = house.bowline(&["token", "create", "--kind", "api", "--role", "viewer", "--json"]).ok().json();
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    house.bowline(&["--token", token, "jobs"]).ok();
    // A viewer may only look.
    assert_ne!(house.bowline(&["--token", token, "exec", "--", "true"]).code, 0);
    assert!(house.bowline(&["token", "list"]).ok().out.contains(id));
    assert!(!house.bowline(&["token", "list", "--json"]).ok().out.contains(token));
    house.bowline(&["token", "revoke", id]).ok();
    house.bowline(&["--token", token, "jobs"]).code(4);
}

#[test]
fn an_enroll_token_is_good_for_one_worker() {
    let mut house = House::new();
    let _server = house.start_server();
    let made = house.bowline(&["token", "create", "--kind", "enroll", "--json"]).ok().json();
    let token = made["token"].as_str().expect("a token");
    // Not for the API.
    house.bowline(&["--token", token, "jobs"]).code(4);
    let state = |name: &str| house.path(name).display().to_string();
    let _first = crate::house::Role::start({
        let mut command =
            house.command(&["worker", "--server", &house.url, "--state", &state("one"), "--enroll-token", token]);
        command.stdout(std::process::Stdio::piped());
        command
    });
    house.bowline(&["exec", "--", "true"]).ok();
    let second = house.bowline(&["worker", "--server", &house.url, "--state", &state("two"), "--enroll-token", token]);
    assert_ne!(second.code, 0);
    assert!(second.err.contains("enroll token"), "{}", second.err);
}

#[test]
fn tasks_are_read_again_when_files_change() {
    let mut house = House::new();
    house.write("tasks/greet.yaml", "name: greet\nsteps:\n  say: { run: echo one }\n");
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let greeting = || house.bowline(&["run", "greet"]).ok().out;
    assert!(greeting().contains("one"));
    house.write("tasks/greet.yaml", "name: greet\nsteps:\n  say: { run: echo two }\n");
    crate::house::await_that("the new version", || greeting().contains("two").then_some(()));
    // A bad file keeps the last good version, and shows what is wrong.
    house.write("tasks/greet.yaml", "name: greet\nsteps:\n  say: { runn: echo three }\n");
    let listed = crate::house::await_that("the problem is shown", || {
        let out = house.bowline(&["tasks", "--json"]).ok().out;
        out.contains("runn").then_some(out)
    });
    assert!(listed.contains("did you mean"), "{listed}");
    assert!(greeting().contains("two"));
}

#[test]
fn pushed_tasks_survive_a_restart() {
    let (mut house, up) = House::up();
    let file = house.write("t.yaml", "name: pushed\nsteps:\n  a: { run: echo pushed it }\n");
    house.bowline(&["tasks", "push", &file.display().to_string()]).ok();
    up.stop();
    let _up = house.start_up(&[]);
    assert!(house.bowline(&["run", "pushed"]).ok().out.contains("pushed it"));
}

#[test]
fn completions_and_version() {
    let house = House::new();
    assert!(house.bowline(&["completions", "bash"]).ok().out.contains("bowline"));
    assert!(house.bowline(&["--version"]).ok().out.starts_with("bowline "));
}

#[test]
fn a_folder_that_is_given_to_exec_is_looked_for_from_here() {
    let (house, _up) = House::up();
    std::fs::create_dir(house.path("sub")).expect("made");
    house.write("sub/here", "");
    assert_eq!(house.bowline(&["exec", "--workdir", "sub", "--", "ls"]).ok().out, "here\n");
}
