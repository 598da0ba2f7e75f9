//! Servers that are away: for a moment, for longer than the window, again and again.

use std::time::Duration;

use testkit::{House, await_that, process, within};

use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate, pass, step};

/// Longer than the window of `House::hasty`, with room for a busy machine.
const LONG: Duration = Duration::from_secs(4);

#[test]
fn an_outage_longer_than_the_window_costs_no_step() {
    let (mut house, server, _worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    server.kill();
    pass(LONG);
    let _server = house.start_server();
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_step_that_was_already_recovering_is_not_judged_for_the_servers_absence() {
    let (mut house, server, worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    worker.kill();
    house.await_state(&id, Some(STEP), "recovering");
    server.kill();
    pass(LONG);
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_server_that_crashes_again_and_again_costs_no_step() {
    let (mut house, mut server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    for _ in 0..5 {
        server.kill();
        server = house.start_server();
    }
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
    drop(server);
}

#[test]
fn a_server_that_is_stopped_and_started_costs_no_step() {
    let (mut house, server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    assert!(server.stop().success());
    let _server = house.start_server();
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_worker_deep_in_its_back_off_is_back_within_three_seconds() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "60")]);
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    server.kill();
    // By now the pause between two of its tries has grown beyond three seconds.
    await_that("the back-off has grown", || {
        (house.read("roles.log").matches("no link to the server").count() >= 4).then_some(())
    });
    let _server = house.start_server();
    within(Duration::from_secs(3), "the step is back", || (step(&house, &id)["state"] == "running").then_some(()));
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_queued_step_is_not_unmatched_while_its_worker_is_in_its_window() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30"), ("UNMATCHED_STEP_TIMEOUT_SECS", "0.5")]);
    let server = house.start_server();
    let worker = house.start_worker("w", &["--slots", "1"]);
    house.bowline(&["exec", "--", "true"]).ok();
    worker.kill();
    server.kill();
    let _server = house.start_server();
    let id = house.submit(&counting(&house, "effects: writes"));
    pass(Duration::from_millis(1500));
    assert_eq!(step(&house, &id)["state"], "queued", "its worker may still come back");
    let _worker = house.start_worker("w", &[]);
    house.outside().await_executions(1);
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_step_that_was_told_to_stop_stops_also_when_the_server_crashes_after_the_order() {
    let (mut house, server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes\ncancel: { grace: 200ms }"));
    let child = house.outside().await_executions(1)[0];
    // The worker does not hear the order, and the server that gave it is gone.
    let frozen = process::Frozen::new(worker.pid());
    house.bowline(&["cancel", &id]).ok();
    server.kill();
    frozen.thaw();
    let _server = house.start_server();
    await_that("the step is stopped", || (!process::lives(child)).then_some(()));
    assert_eq!(house.end(&id)["state"], "cancelled");
    assert_eq!(house.outside().executions(), 1);
}
