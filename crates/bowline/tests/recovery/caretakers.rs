//! Workers that stay away: a runner that is left alone starts a caretaker, and the worker gets its folder back.

use std::time::Duration;

use testkit::{House, Role, await_that, process};

use crate::story::{await_lines, check_ran_once, counting, open_gate, pass};

/// Runners wait this long for their worker.
const AFTER: &str = "0.3";

fn house() -> (House, Role, Role) {
    let mut house = House::new();
    house.recovery(&[("caretaker_after_secs", AFTER)]);
    let server = house.start_server();
    let worker = house.start_worker("w", &[]);
    (house, server, worker)
}

fn worker_pid(house: &House) -> Option<u32> {
    let workers = house.bowline(&["workers", "--json"]).ok().json();
    let worker = &workers["items"][0];
    let connected = worker["connected"] == true;
    worker["pid"].as_u64().filter(|_| connected).and_then(|pid| u32::try_from(pid).ok())
}

/// The process that stands in for the worker.
fn await_caretaker(house: &House, worker: u32) -> u32 {
    await_that("a caretaker has come", || worker_pid(house).filter(|pid| *pid != worker))
}

#[test]
fn the_last_runner_wakes_a_caretaker_that_reports_and_leaves() {
    let (house, _server, worker) = house();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    let gone = worker.pid();
    worker.kill();
    let caretaker = await_caretaker(&house, gone);
    assert_ne!(caretaker, process::parent(child), "it is not the runner");
    house.await_state(&id, None, "running");
    open_gate(&house);
    check_ran_once(&house, &id);
    await_that("the caretaker ends with the last of it", || (!process::lives(caretaker)).then_some(()));
}

#[test]
fn a_step_that_ends_alone_is_still_reported() {
    let (house, _server, worker) = house();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    worker.kill();
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn the_worker_gets_its_folder_back_from_a_caretaker() {
    let (house, _server, worker) = house();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    let gone = worker.pid();
    worker.kill();
    let caretaker = await_caretaker(&house, gone);
    let worker = house.start_worker("w", &[]);
    await_that("the worker is back", || (worker_pid(&house) == Some(worker.pid())).then_some(()));
    assert!(!process::lives(caretaker));
    house.await_state(&id, None, "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_worker_that_was_told_to_stop_is_not_stood_in_for() {
    let (house, _server, worker) = house();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    assert!(worker.stop().success());
    pass(Duration::from_secs(1));
    assert!(process::lives(child), "the step goes on");
    assert_eq!(worker_pid(&house), None, "nobody came");
    let _worker = house.start_worker("w", &[]);
    open_gate(&house);
    check_ran_once(&house, &id);
}
