//! Cancel, Ctrl-C, hang-up, and stopping the server on purpose.

use std::process::Stdio;

use crate::house::{House, await_that, finish, lives, signal};

fn sleeper(house: &House) -> String {
    let pid = house.path("pid").display().to_string();
    format!("name: s\nsteps:\n  a:\n    cancel: {{ grace: 200ms }}\n    run: echo $$ > {pid}; sleep 300\n")
}

fn pid(house: &House) -> String {
    await_that("the step's pid", || Some(house.read("pid").trim().to_owned()).filter(|p| !p.is_empty()))
}

#[test]
fn cancel_ends_the_step_and_its_processes() {
    let (house, _up) = House::up();
    let id = house.submit(&sleeper(&house));
    let pid = pid(&house);
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert!(!lives(&pid));
    let again = house.bowline(&["cancel", &id]);
    assert_ne!(again.code, 0, "it is over: {}", again.err);
}

#[test]
fn a_step_that_ignores_term_is_killed() {
    let (house, _up) = House::up();
    let pid_file = house.path("pid").display().to_string();
    let id = house.submit(&format!(
        "name: s\nsteps:\n  a:\n    cancel: {{ grace: 200ms }}\n    run: trap '' TERM; echo $$ > {pid_file}; while :; do sleep 1; done\n"
    ));
    let pid = pid(&house);
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert!(!lives(&pid));
}

#[test]
fn force_does_not_wait_for_the_grace() {
    let (house, _up) = House::up();
    let pid_file = house.path("pid").display().to_string();
    let id = house.submit(&format!(
        "name: s\nsteps:\n  a:\n    cancel: {{ grace: 5m }}\n    run: trap '' TERM; echo $$ > {pid_file}; while :; do sleep 1; done\n"
    ));
    let pid = pid(&house);
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["cancel", &id, "--force"]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert!(!lives(&pid));
}

#[test]
fn ctrl_c_while_following_cancels_the_job() {
    let (house, _up) = House::up();
    let file = house.write("s.yaml", &sleeper(&house)).display().to_string();
    let follower =
        house.command(&["run", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let pid = pid(&house);
    signal(follower.id(), "INT");
    finish(follower).code(3);
    assert!(!lives(&pid));
}

#[test]
fn a_hang_up_detaches_and_never_cancels() {
    let (house, _up) = House::up();
    let file = house.write("s.yaml", &sleeper(&house)).display().to_string();
    let follower =
        house.command(&["run", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let pid = pid(&house);
    signal(follower.id(), "HUP");
    finish(follower);
    assert_eq!(house.job("last")["state"], "running");
    assert!(lives(&pid));
    house.bowline(&["cancel", "last", "--force"]).ok();
    house.bowline(&["wait", "last"]).code(3);
}

#[test]
fn stopping_up_leaves_steps_running_and_the_next_up_finds_them() {
    let (mut house, up) = House::up();
    let gate = house.path("gate").display().to_string();
    let pid_file = house.path("pid").display().to_string();
    let id = house.submit(&format!(
        "name: s\nsteps:\n  a:\n    run: echo $$ > {pid_file}; until [ -e {gate} ]; do sleep 0.05; done\n"
    ));
    let pid = pid(&house);
    assert!(up.stop().success());
    assert!(house.read("roles.log").contains("running steps go on"), "{}", house.read("roles.log"));
    assert!(lives(&pid));
    let _up = house.start_up(&[]);
    house.await_state(&id, Some("a"), "running");
    house.write("gate", "");
    assert_eq!(house.end(&id)["state"], "success");
}

#[test]
fn an_up_whose_database_is_away_stops_when_it_is_told_to() {
    let mut house = House::new();
    house.set("BOWLINE_DATABASE", "postgres://nobody@127.0.0.1:1/nothing");
    let data = house.path("waits").display().to_string();
    for (times, signal) in [(1, "TERM"), (2, "INT")] {
        let mut up = house.role(&["up", "--data", &data, "--listen", "127.0.0.1:0"]);
        await_that("it says that it waits", || {
            (house.read("roles.log").matches("waiting for the database").count() == times).then_some(())
        });
        up.signal(signal);
        assert!(up.wait().success());
    }
}

/// One for a try beside the one that is always there.
#[test]
fn a_second_up_gives_the_context_back_when_it_stops() {
    let (mut house, first) = House::up();
    let context = |house: &House| house.read("config/bowline/context.json");
    let before = context(&house);
    assert!(before.contains(&house.url), "{before}");
    let other = |house: &House, data: &str| {
        let data = house.path(data).display().to_string();
        let up = house.role(&["up", "--data", &data, "--listen", "127.0.0.1:0", "--no-worker"]);
        (up.wait_ready(), up)
    };
    house.set("BOWLINE_DATABASE", "sqlite");
    let (url, second) = other(&house, "second");
    assert!(context(&house).contains(&url));
    assert!(second.stop().success());
    assert_eq!(context(&house), before);
    // What somebody else wrote meanwhile stays.
    let (url, second) = other(&house, "second");
    let (_, third) = other(&house, "third");
    let written = context(&house);
    assert!(second.stop().success());
    assert_eq!(context(&house), written);
    assert!(third.stop().success());
    assert!(context(&house).contains(&url));
    assert!(first.stop().success());
}

#[test]
fn a_second_ctrl_c_ends_the_steps_as_well() {
    let (mut house, mut up) = House::up();
    let id = house.submit(&sleeper(&house));
    let pid = pid(&house);
    up.signal("INT");
    house.await_file("roles.log", "press Ctrl-C again");
    assert!(lives(&pid));
    up.signal("INT");
    assert!(up.wait().success());
    await_that("the step has ended", || (!lives(&pid)).then_some(()));
    let _up = house.start_up(&[]);
    assert_eq!(house.end(&id)["state"], "failed");
}

#[test]
fn nothing_that_was_answered_is_lost_by_a_stop() {
    let (mut house, up) = House::up();
    let ids: Vec<String> = (0..10)
        .map(|n| house.bowline(&["exec", "--detach", "--", "echo", &n.to_string()]).ok().out.trim().to_owned())
        .collect();
    up.stop();
    let _up = house.start_up(&[]);
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(house.end(id)["state"], "success");
        // What stands between dashes is the server's own remark on the restart.
        let log = house.log(id, "run");
        assert_eq!(log.lines().filter(|line| !line.starts_with("--- ")).collect::<Vec<_>>(), [n.to_string()]);
    }
}

#[test]
fn a_worker_for_one_step_ends_after_it() {
    let mut house = House::new();
    let _server = house.start_server();
    let mut worker = house.start_worker("once", &["--once", "--slots", "4"]);
    house.bowline(&["exec", "--", "echo", "hi"]).ok();
    assert!(worker.wait().success());
    assert_eq!(house.bowline(&["logs", "last"]).ok().out, "hi\n");
}
