//! What a step leaves to its cleanup: after a cancel and after a timeout, also when server or worker are killed meanwhile.

use serde_json::Value;

use crate::house::{House, await_that, lives, states, step_of};

/// A step that runs until it is stopped, and the script that cleans up after it.
fn task(house: &House, more: &str, cleanup: &str) -> String {
    let (pid, folder) = (house.path("pid").display().to_string(), house.folder.path().display().to_string());
    let cleanup = cleanup.replace("@", &folder);
    format!(
        "name: t\nsteps:\n  a:\n    env: {{ A: b }}\n    run: touch made; echo $$ > {pid}; echo runs; sleep 300\n    {more}\n    cleanup: |\n      {cleanup}\n"
    )
}

fn running(house: &House, id: &str) -> String {
    house.await_state(id, Some("a"), "running");
    await_that("the step's pid", || Some(house.read("pid").trim().to_owned()).filter(|pid| !pid.is_empty()))
}

fn attempt(job: &Value, number: usize) -> Value {
    step_of(job, "a")["attempts"][number].clone()
}

/// The lines of the log, but for the server's own remarks on what it missed.
fn lines(house: &House, id: &str) -> Vec<String> {
    let log = house.log(id, "a");
    let own = |line: &&str| line.starts_with("--- Cleanup") || !line.starts_with("--- ");
    log.lines().filter(own).map(str::to_owned).collect()
}

#[test]
fn a_cancelled_step_is_cleaned_up_after() {
    let (house, _up) = House::up();
    let cleanup = "test ! -d /proc/$(cat @/pid) && echo $BOWLINE_CLEANUP_REASON $A $(ls); exit 3";
    let id = house.submit(&task(&house, "cancel: { grace: 5s, cleanup: 20s }", cleanup));
    let pid = running(&house, &id);
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert!(!lives(&pid));
    let job = house.job(&id);
    assert_eq!(states(&job), "a cancelled");
    let attempt = attempt(&job, 0);
    assert_eq!((&attempt["signal"], &attempt["error"]["code"]), (&15.into(), &"cancelled".into()), "{attempt}");
    assert_eq!(attempt["cleanup"]["state"], "failed");
    assert_eq!(attempt["cleanup"]["exit_code"], 3);
    let lines = lines(&house, &id);
    let begins = "--- Cleanup begins: the step was cancelled. It has 20s. ---";
    assert_eq!(lines[..3], ["runs", begins, "cancelled b made"]);
    assert!(lines[3].starts_with("--- Cleanup failed after ") && lines[3].ends_with(": exit code 3 ---"), "{lines:?}");
    let shown = house.bowline(&["job", &id]).ok().out;
    assert!(shown.contains("cleanup of a (attempt 1): it exited with code 3"), "{shown}");
}

#[test]
fn a_cleanup_that_hangs_is_killed_with_its_children() {
    let (house, _up) = House::up();
    let cleanup = "sleep 300 & echo $! > @/stray; echo $$ > @/cleaner; setsid sleep 300 & echo $! > @/other; wait";
    let id = house.submit(&task(&house, "cancel: { cleanup: 1s }", cleanup));
    running(&house, &id);
    house.bowline(&["cancel", &id]).ok();
    house.await_file("other", "\n");
    house.bowline(&["wait", &id]).code(3);
    assert_eq!(attempt(&house.job(&id), 0)["cleanup"]["state"], "timed_out");
    for file in ["stray", "cleaner", "other"] {
        assert!(!lives(house.read(file).trim()), "{file} lives");
    }
}

#[test]
fn force_ends_the_cleanup_as_well() {
    let (house, _up) = House::up();
    let id = house.submit(&task(&house, "cancel: { cleanup: 10m }", "echo $$ > @/cleaner; sleep 300"));
    running(&house, &id);
    house.bowline(&["cancel", &id]).ok();
    house.await_file("cleaner", "\n");
    assert_eq!(states(&house.job(&id)), "a cancelling", "until it is over");
    let why = house.bowline(&["why", &id]).ok().out;
    assert!(why.contains("its cleanup runs, for 10m at most"), "{why}");
    house.bowline(&["cancel", &id, "--force"]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert_eq!(attempt(&house.job(&id), 0)["cleanup"]["state"], "killed");
    assert!(!lives(house.read("cleaner").trim()));
}

#[test]
fn by_force_there_is_none() {
    let (house, _up) = House::up();
    let id = house.submit(&task(&house, "cancel: { grace: 5m }", "echo no"));
    running(&house, &id);
    house.bowline(&["cancel", &id, "--force"]).ok();
    house.bowline(&["wait", &id]).code(3);
    assert_eq!(attempt(&house.job(&id), 0)["cleanup"], Value::Null);
    assert_eq!(lines(&house, &id), ["runs"]);
}

#[test]
fn a_timeout_is_cleaned_up_after_before_it_is_tried_again() {
    let (house, _up) = House::up();
    let more = "timeout: 1s\n    retry: { attempts: 2, on: [timeout], delay: 0s }";
    let cleanup = "echo $BOWLINE_CLEANUP_REASON $BOWLINE_ATTEMPT; test ! -d /proc/$(cat @/pid) && echo x >> @/cleaned";
    let id = house.submit(&task(&house, more, cleanup));
    let job = house.end(&id);
    assert_eq!(states(&job), "a failed");
    assert_eq!(step_of(&job, "a")["error"]["code"], "step_timeout");
    assert_eq!(house.read("cleaned"), "x\nx\n", "after each attempt, and before the next");
    for number in 0..2 {
        assert_eq!(attempt(&job, number)["cleanup"]["state"], "success");
    }
    let begins = "--- Cleanup begins: the step took longer than its timeout. It has 30s. ---";
    assert_eq!(lines(&house, &id)[..3], ["runs", begins, "timeout 2"]);
}

/// A cleanup that waits for a word, and how it ends when somebody was killed meanwhile.
fn interrupted(kill: impl FnOnce(&mut House, [testkit::Role; 2]) -> [testkit::Role; 2]) {
    let (mut house, server, worker) = House::patient();
    let cleanup = "echo x >> @/cleaned; until [ -e @/gate ]; do sleep 0.05; done; echo cleaned";
    let id = house.submit(&task(&house, "cancel: { cleanup: 10m }", cleanup));
    running(&house, &id);
    house.bowline(&["cancel", &id]).ok();
    house.await_file("cleaned", "x");
    let _roles = kill(&mut house, [server, worker]);
    await_that("the worker is back", || {
        let workers = house.bowline(&["workers", "--json"]).ok().json();
        (workers["items"][0]["connected"] == true).then_some(())
    });
    assert_eq!(states(&house.job(&id)), "a cancelling");
    house.write("gate", "");
    house.bowline(&["wait", &id]).code(3);
    let attempt = attempt(&house.job(&id), 0);
    assert_eq!((&attempt["state"], &attempt["cleanup"]["state"]), (&"ended".into(), &"success".into()), "{attempt}");
    assert_eq!(house.read("cleaned"), "x\n", "once");
    let lines = lines(&house, &id);
    assert_eq!((lines[0].as_str(), lines[2].as_str(), lines.len()), ("runs", "cleaned", 4), "{lines:?}");
}

#[test]
fn a_server_that_is_killed_during_a_cleanup_hears_of_it_later() {
    interrupted(|house, [server, worker]| {
        server.kill();
        [house.start_server(), worker]
    });
}

#[test]
fn a_worker_that_is_killed_during_a_cleanup_finds_it_again() {
    interrupted(|house, [server, worker]| {
        worker.kill();
        [server, house.start_worker("w", &[])]
    });
}

#[test]
fn a_runner_that_is_killed_during_a_cleanup_takes_it_along() {
    let (house, _server, _worker) = House::patient();
    let cleanup = "sleep 300 & echo $! > @/stray; echo $PPID > @/runner; wait";
    let id = house.submit(&task(&house, "cancel: { cleanup: 10m }", cleanup));
    running(&house, &id);
    house.bowline(&["cancel", &id]).ok();
    house.await_file("runner", "\n");
    crate::house::signal(house.read("runner").trim().parse().expect("a process"), "KILL");
    house.bowline(&["wait", &id]).code(3);
    let attempt = attempt(&house.job(&id), 0);
    assert_eq!((&attempt["state"], &attempt["confirmed"]), (&"lost".into(), &true.into()), "{attempt}");
    assert!(!lives(house.read("stray").trim()));
}
