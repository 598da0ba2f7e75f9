//! Processes that stand still: alive for the kernel, silent for everybody else.

use std::time::Duration;

use testkit::process::{self, Frozen};
use testkit::{House, await_that};

use crate::story::{STEP, await_lines, check_ran_once, check_whole_log, counting, open_gate, pass, step};

#[test]
fn a_frozen_worker_is_found_and_active_again_when_it_wakes() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    let frozen = Frozen::new(worker.pid());
    house.await_state(&id, Some(STEP), "recovering");
    frozen.thaw();
    house.await_state(&id, Some(STEP), "running");
    let workers = house.bowline(&["workers", "--json"]).ok().json();
    assert_eq!(workers["items"][0]["status"], "active", "{workers:#}");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_worker_that_wakes_after_the_verdict_changes_nothing() {
    let (house, _server, worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    let frozen = Frozen::new(worker.pid());
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "worker_lost", "{job:#}");
    let words = job["error"]["message"].as_str().expect("words");
    assert!(words.starts_with("Job failed: agent disconnected and did not reconnect within the recovery window"));
    assert_eq!(step(&house, &id)["attempts"][0]["confirmed"], false, "nobody has seen its end");
    open_gate(&house);
    frozen.thaw();
    await_that("the late outcome is kept", || {
        (!step(&house, &id)["attempts"][0]["late_outcome"].is_null()).then_some(())
    });
    assert_eq!(house.job(&id)["state"], "failed", "a final job never changes");
    assert_eq!(house.outside().executions(), 1);
    check_whole_log(&house, &id);
}

#[test]
fn another_worker_repeats_what_may_be_repeated_and_the_sleeper_is_told_to_stop() {
    let (house, _server, sleeper) = House::hasty();
    let id = house.submit(&counting(&house, "effects: idempotent"));
    let first = house.outside().await_executions(1)[0];
    let frozen = Frozen::new(sleeper.pid());
    let _other = house.start_worker("other", &[]);
    house.outside().await_executions(2);
    house.await_state(&id, Some(STEP), "running");
    frozen.thaw();
    await_that("the stray copy is killed", || (!process::lives(first)).then_some(()));
    open_gate(&house);
    let job = house.end(&id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.outside().executions(), 2);
    check_whole_log(&house, &id);
}

#[test]
fn a_server_that_stood_still_for_longer_than_the_window_judges_nobody() {
    let (house, server, _worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    let frozen = Frozen::new(server.pid());
    pass(Duration::from_secs(4));
    frozen.thaw();
    // Whatever it thinks at first, the worker comes back before it decides.
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_server_that_stood_still_while_a_step_was_recovering_judges_nobody() {
    let (house, server, worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    worker.kill();
    house.await_state(&id, Some(STEP), "recovering");
    let frozen = Frozen::new(server.pid());
    pass(Duration::from_secs(4));
    let _worker = house.start_worker("w", &[]);
    frozen.thaw();
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_step_that_is_cancelled_while_its_worker_sleeps_is_stopped_when_it_wakes() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes\nretry: { attempts: 3, delay: 1ms }"));
    let child = house.outside().await_executions(1)[0];
    let frozen = Frozen::new(worker.pid());
    house.await_state(&id, Some(STEP), "recovering");
    house.bowline(&["cancel", &id]).ok();
    assert_eq!(house.end(&id)["state"], "cancelled");
    assert!(process::lives(child), "nobody could tell it");
    frozen.thaw();
    await_that("the step is stopped", || (!process::lives(child)).then_some(()));
    assert_eq!(house.job(&id)["state"], "cancelled", "and nothing revives it");
    assert_eq!(house.outside().executions(), 1);
}
