//! Runners that die or freeze, while everybody else is well.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use testkit::process::{self, Frozen};
use testkit::{House, await_that};

use crate::story::{await_lines, check_ran_once, check_whole_log, counting, open_gate, pass, step};

#[test]
fn everything_but_the_runner_is_killed_and_the_step_goes_on_alone() {
    let (mut house, server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    server.kill();
    worker.kill();
    open_gate(&house);
    // With nobody there it ends, writes its record, and is found by those who come later.
    await_that("the step has ended", || (house.outside().completed() == 1).then_some(()));
    await_that("its process is gone", || (!process::lives(child)).then_some(()));
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    check_ran_once(&house, &id);
}

#[test]
fn only_the_runner_is_killed_and_a_step_that_writes_fails_with_its_child_gone() {
    let (house, _server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    process::kill(process::parent(child));
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "runner_lost");
    assert!(job["error"]["message"].as_str().expect("words").starts_with("Job failed: the step's runner died"));
    assert!(!process::lives(child), "its child is gone before anything is said");
    assert_eq!(house.outside().executions(), 1);
    assert_eq!(step(&house, &id)["attempts"][0]["confirmed"], true, "the end was seen");
}

#[test]
fn only_the_runner_is_killed_and_a_step_that_reads_is_repeated() {
    let (house, _server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: none"));
    let first = house.outside().await_executions(1)[0];
    process::kill(process::parent(first));
    let second = house.outside().await_executions(2)[1];
    assert!(!process::lives(first), "never two at once after a certain loss");
    assert!(process::lives(second));
    open_gate(&house);
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.outside().executions(), 2);
    check_whole_log(&house, &id);
}

#[test]
fn a_runner_that_is_frozen_for_a_while_loses_nothing() {
    let (house, _server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    let frozen = Frozen::new(process::parent(child));
    pass(Duration::from_millis(800));
    open_gate(&house);
    await_that("the child has ended by itself", || (house.outside().completed() == 1).then_some(()));
    assert_eq!(step(&house, &id)["state"], "running", "nobody knows yet");
    frozen.thaw();
    check_ran_once(&house, &id);
}

#[test]
fn a_step_that_keeps_losing_its_runner_is_poison() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let _server = house.start_server();
    let _worker = house.start_worker("w", &["--slots", "1"]);
    let id = house.submit(&counting(&house, "effects: none"));
    for count in 1..=3 {
        let pids = house.outside().await_executions(count);
        process::kill(process::parent(pids[count - 1]));
    }
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "poison", "{job:#}");
    assert_eq!(house.outside().executions(), 3, "the third loss is the last");
    // Its one slot is free again.
    house.bowline(&["exec", "--", "true"]).ok();
}

#[test]
fn the_death_of_one_runner_is_nobody_elses() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let _server = house.start_server();
    let _worker = house.start_worker("w", &["--slots", "2"]);
    let pid_file = house.path("pid").display().to_string();
    let victim = house.submit(&format!("name: v\nsteps:\n  v: {{ run: 'echo $$ > {pid_file}; exec sleep 300' }}\n"));
    let neighbour = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    let pid: u32 = await_that("the victim's pid", || house.read("pid").trim().parse().ok());
    process::kill(process::parent(pid));
    assert_eq!(house.end(&victim)["error"]["code"], "runner_lost");
    open_gate(&house);
    check_ran_once(&house, &neighbour);
}

#[test]
fn a_runner_that_shows_no_sign_of_life_is_given_up_though_its_worker_is_well() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30"), ("RUNNING_STALE_SECS", "2")]);
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes\ncancel: { grace: 200ms }"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    let frozen = Frozen::new(process::parent(child));
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "runner_stale", "{job:#}");
    let words = job["error"]["message"].as_str().expect("words");
    assert!(words.starts_with("Job failed: no sign of life from the step's runner"), "{words}");
    frozen.thaw();
    await_that("the order to stop is obeyed at last", || (!process::lives(child)).then_some(()));
    assert_eq!(house.job(&id)["state"], "failed", "and a final job never changes");
    assert_eq!(house.outside().executions(), 1);
}

#[test]
fn whoever_follows_hears_that_the_worker_is_cut_off_and_until_when_it_is_waited_for() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    await_lines(&house, &id);
    let mut follow = house.command(&["attach", &id]);
    let mut follower = follow.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let told = BufReader::new(follower.stderr.take().expect("a pipe"));
    worker.kill();
    let mut lines = told.lines().map(|line| line.expect("text"));
    let told = lines.find(|line| line.contains("is cut off: ")).expect("the follower is told");
    assert!(told.contains("was lost"), "{told}");
    assert!(told.contains("the recovery window is over in "), "{told}");
    let _worker = house.start_worker("w", &[]);
    open_gate(&house);
    check_ran_once(&house, &id);
    assert!(follower.wait().expect("waited").success());
}

#[test]
fn a_step_of_a_worker_that_will_not_come_back_ends_with_it() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let _server = house.start_server();
    let worker = house.start_worker("w", &["--no-reconnect"]);
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    worker.kill();
    assert_eq!(house.end(&id)["error"]["code"], "worker_lost", "decided at once");
    await_that("the runner has ended its child", || (!process::lives(child)).then_some(()));
}
