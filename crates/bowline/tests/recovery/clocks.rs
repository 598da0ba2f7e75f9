//! Wall clocks that are moved under a running server or worker.

use std::time::Duration;

use testkit::{FakeClock, House};

use crate::story::{STEP, await_lines, check_ran_once, counting, each, open_gate, pass, step};

const HOUR: i64 = 3600;

/// A server, its database and a worker on a clock that the test moves; recovery window two seconds.
fn on_a_clock() -> Option<(House, FakeClock)> {
    let (mut house, clock) = House::on_a_clock()?;
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "1")]);
    Some((house, clock))
}

#[test]
fn a_clock_that_jumps_costs_no_step() {
    each(&[HOUR, -HOUR], |jump| {
        let Some((mut house, clock)) = on_a_clock() else { return };
        let _server = house.start_server();
        let _worker = house.start_worker("w", &[]);
        let id = house.submit(&counting(&house, "effects: writes"));
        house.outside().await_executions(1);
        await_lines(&house, &id);
        clock.step(jump);
        pass(Duration::from_secs(1));
        house.await_state(&id, Some(STEP), "running");
        open_gate(&house);
        check_ran_once(&house, &id);
    });
}

#[test]
fn a_clock_that_jumps_while_a_step_is_recovering_decides_nothing() {
    each(&[HOUR, -HOUR], |jump| {
        let Some((mut house, clock)) = on_a_clock() else { return };
        let _server = house.start_server();
        let worker = house.start_worker("w", &[]);
        let id = house.submit(&counting(&house, "effects: writes"));
        house.outside().await_executions(1);
        await_lines(&house, &id);
        worker.kill();
        house.await_state(&id, Some(STEP), "recovering");
        clock.step(jump);
        // Something to do, so that the server looks at its clock.
        house.bowline(&["exec", "--detach", "--", "true"]).ok();
        assert_eq!(step(&house, &id)["state"], "recovering");
        let _worker = house.start_worker("w", &[]);
        house.await_state(&id, Some(STEP), "running");
        open_gate(&house);
        check_ran_once(&house, &id);
    });
}

#[test]
fn a_clock_that_went_back_does_not_stop_the_window() {
    let Some((mut house, clock)) = on_a_clock() else { return };
    let _server = house.start_server();
    let worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    worker.kill();
    house.await_state(&id, Some(STEP), "recovering");
    clock.step(-HOUR);
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "worker_lost", "{job:#}");
}

#[test]
fn a_clock_that_is_set_ahead_ends_no_step_by_its_timeout() {
    let Some((mut house, clock)) = on_a_clock() else { return };
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes\ntimeout: 10m"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    clock.step(HOUR);
    pass(Duration::from_secs(1));
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}
