//! Networks that fail in every way that a network can, between a worker and its server.

use std::time::Duration;

use testkit::{Direction, Fault, House, Proxy, Role, await_that, within};

use crate::story::{STEP, await_lines, check_ran_once, counting, each, open_gate, step};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    /// Closed in good order.
    Closed,
    Reset,
    /// Nothing passes and nobody is told.
    HalfOpen,
    OnlyToServer,
    OnlyToWorker,
    /// What was on its way arrives after all, when both sides have given the connection up.
    Late,
}

const CUTS: [Cut; 6] = [Cut::Closed, Cut::Reset, Cut::HalfOpen, Cut::OnlyToServer, Cut::OnlyToWorker, Cut::Late];

impl Cut {
    /// From now on, until the proxy is healed.
    fn make(self, proxy: &Proxy) {
        match self {
            Cut::Closed => {
                proxy.refuse(true);
                proxy.cut();
            }
            Cut::Reset => {
                proxy.refuse(true);
                proxy.reset();
            }
            Cut::HalfOpen => proxy.set_both(Fault::Swallow),
            Cut::OnlyToServer => proxy.set(Direction::ToServer, Fault::Swallow),
            Cut::OnlyToWorker => proxy.set(Direction::ToWorker, Fault::Swallow),
            Cut::Late => proxy.set_both(Fault::Hold),
        }
    }
}

/// A server, and a worker behind a proxy.
fn behind_a_proxy(max_reconnect_delay: &str) -> (House, Role, Role, Proxy) {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", max_reconnect_delay)]);
    let server = house.start_server();
    let proxy = house.add_proxy();
    let worker = house.start_worker("w", &[]);
    (house, server, worker, proxy)
}

#[test]
fn a_cut_of_any_kind_is_found_and_costs_nothing_when_it_heals() {
    each(&CUTS, |cut| {
        let (house, _server, _worker, proxy) = behind_a_proxy("30");
        let id = house.submit(&counting(&house, "effects: writes"));
        house.outside().await_executions(1);
        await_lines(&house, &id);
        cut.make(&proxy);
        house.await_state(&id, Some(STEP), "recovering");
        proxy.heal();
        house.await_state(&id, Some(STEP), "running");
        open_gate(&house);
        check_ran_once(&house, &id);
    });
}

#[test]
fn a_step_that_ends_during_a_cut_is_told_about_once() {
    each(&CUTS, |cut| {
        let (house, _server, _worker, proxy) = behind_a_proxy("30");
        let id = house.submit(&counting(&house, "effects: writes"));
        house.outside().await_executions(1);
        await_lines(&house, &id);
        cut.make(&proxy);
        open_gate(&house);
        await_that("the step has ended", || (house.outside().completed() == 1).then_some(()));
        // Where only the way to the worker is cut the server hears of the end, and the worker never that it did.
        let seen = if cut == Cut::OnlyToWorker { "success" } else { "recovering" };
        house.await_state(&id, Some(STEP), seen);
        proxy.heal();
        check_ran_once(&house, &id);
        assert!(step(&house, &id)["attempts"][0]["late_outcome"].is_null(), "it came in time");
    });
}

#[test]
fn a_step_that_is_offered_into_a_cut_runs_once_afterwards() {
    each(&CUTS, |cut| {
        let (house, _server, _worker, proxy) = behind_a_proxy("30");
        house.bowline(&["exec", "--", "true"]).ok();
        cut.make(&proxy);
        let id = house.submit(&counting(&house, "effects: writes"));
        // The link is found dead: its offers are taken back.
        await_that("the worker is gone", || {
            let workers = house.bowline(&["workers", "--json"]).ok().json();
            (workers["items"][0]["connected"] == false).then_some(())
        });
        proxy.heal();
        house.outside().await_executions(1);
        open_gate(&house);
        check_ran_once(&house, &id);
    });
}

#[test]
fn a_slow_network_is_no_cut() {
    let (house, _server, _worker, proxy) = behind_a_proxy("30");
    house.bowline(&["exec", "--", "true"]).ok();
    proxy.set_both(Fault::Delay(Duration::from_millis(60)));
    let before = proxy.accepted();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    open_gate(&house);
    check_ran_once(&house, &id);
    assert_eq!(proxy.accepted(), before, "the link stood");
}

#[test]
fn a_cut_longer_than_the_window_fails_a_step_that_writes_and_its_end_is_kept_as_the_late_truth() {
    let (house, _server, _worker, proxy) = behind_a_proxy("1");
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    proxy.refuse(true);
    proxy.cut();
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "worker_lost", "{job:#}");
    open_gate(&house);
    await_that("the step has ended", || (house.outside().completed() == 1).then_some(()));
    proxy.heal();
    let late = await_that("the late outcome", || {
        Some(step(&house, &id)["attempts"][0]["late_outcome"].clone()).filter(|late| !late.is_null())
    });
    assert!(late.to_string().contains("exited"), "{late}");
    assert_eq!(house.job(&id)["state"], "failed", "a final job never changes");
    assert_eq!(house.outside().executions(), 1, "and nothing was repeated");
}

#[test]
fn a_cut_longer_than_the_window_repeats_a_step_that_only_reads_and_stops_the_stray_copy() {
    let (house, _server, _worker, proxy) = behind_a_proxy("1");
    let id = house.submit(&counting(&house, "effects: none"));
    let stray = house.outside().await_executions(1)[0];
    proxy.refuse(true);
    proxy.cut();
    house.await_state(&id, Some(STEP), "queued");
    proxy.heal();
    house.outside().await_executions(2);
    within(Duration::from_secs(20), "the stray copy is killed", || (!testkit::process::lives(stray)).then_some(()));
    open_gate(&house);
    let job = house.end(&id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.outside().executions(), 2);
    crate::story::check_whole_log(&house, &id);
}
