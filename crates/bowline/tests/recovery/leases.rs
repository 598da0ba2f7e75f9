//! Steps that stop when they are cut off: two copies never run at the same time.

use std::time::Duration;

use testkit::process::{self, Frozen};
use testkit::{House, Proxy, Role, await_that};

use crate::story::{STEP, await_lines, check_whole_log, open_gate, pass, step, task};

/// With a window of four seconds a lease is 3.2 s long.
const MAX_RECONNECT_DELAY: &str = "2";
const LEASE: Duration = Duration::from_millis(3200);

fn behind_a_proxy() -> (House, Role, Role, Proxy) {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", MAX_RECONNECT_DELAY)]);
    let server = house.start_server();
    let proxy = house.add_proxy();
    let worker = house.start_worker("w", &[]);
    (house, server, worker, proxy)
}

/// Counts, and says so if a copy of itself is alive when it begins.
fn jealous(house: &House, more: &str) -> String {
    let (outside, overlap, gate) = (house.path("outside"), house.path("overlap"), house.path("gate"));
    let script = [
        house.outside().begin(),
        format!("for p in $(awk '/^begin/ {{ print $3 }}' {} | grep -vx $$); do", outside.display()),
        format!(
            "if grep -q '^State:.[^ZX]' /proc/$p/status 2>/dev/null; then echo $p >> {}; fi; done",
            overlap.display()
        ),
        format!("n=0; until [ -e {} ]; do n=$((n+1)); echo $n; sleep 0.02; done; echo end", gate.display()),
        house.outside().end(),
    ];
    task(&script.join("\n      "), &format!("on_disconnect: stop\n{more}"))
}

#[test]
fn a_step_that_is_cut_off_ends_with_its_lease_before_its_successor_begins() {
    let (mut house, _server, _worker, proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: idempotent"));
    let first = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    house.proxy = None;
    let _other = house.start_worker("other", &[]);
    proxy.refuse(true);
    proxy.cut();
    let second = house.outside().await_executions(2)[1];
    assert!(!process::lives(first), "its lease was over first");
    assert_eq!(house.read("overlap"), "", "and it saw no other copy");
    proxy.heal();
    pass(LEASE / 2);
    assert!(process::lives(second), "the first one's worker disturbs nobody when it is back");
    open_gate(&house);
    let job = house.end(&id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.outside().executions(), 2);
    check_whole_log(&house, &id);
}

#[test]
fn a_step_that_writes_and_is_cut_off_fails_with_its_process_gone() {
    let (house, _server, _worker, proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    proxy.refuse(true);
    proxy.cut();
    await_that("its lease is over", || (!process::lives(child)).then_some(()));
    proxy.heal();
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "lease_expired", "{job:#}");
    let words = job["error"]["message"].as_str().expect("words");
    assert!(words.starts_with("Step stopped: its worker was cut off for longer than its lease"), "{words}");
    assert_eq!(house.outside().executions(), 1);
}

#[test]
fn a_step_whose_link_stands_outlives_its_lease() {
    let (house, _server, _worker, _proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    pass(LEASE * 2);
    assert!(process::lives(child));
    assert_eq!(step(&house, &id)["state"], "running");
    open_gate(&house);
    assert_eq!(house.end(&id)["state"], "success");
}

#[test]
fn a_step_whose_worker_is_killed_ends_with_its_lease() {
    let (house, _server, worker, _proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    worker.kill();
    await_that("its lease is over", || (!process::lives(child)).then_some(()));
    let job = house.end(&id);
    assert_eq!(job["state"], "failed", "{job:#}");
    assert_eq!(house.outside().executions(), 1);
}

#[test]
fn a_step_whose_server_is_killed_ends_with_its_lease() {
    let (mut house, server, _worker, _proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    server.kill();
    await_that("its lease is over", || (!process::lives(child)).then_some(()));
    let _server = house.start_server();
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "lease_expired", "{job:#}");
}

#[test]
fn the_worker_ends_a_step_whose_runner_is_frozen_past_the_lease() {
    let (house, _server, _worker, proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    let _frozen = Frozen::new(process::parent(child));
    proxy.refuse(true);
    proxy.cut();
    await_that("its lease is over", || (!process::lives(child)).then_some(()));
    assert_eq!(step(&house, &id)["name"], STEP);
}

#[test]
fn a_step_whose_worker_is_frozen_ends_with_its_lease() {
    let (house, _server, worker, _proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    let frozen = Frozen::new(worker.pid());
    await_that("its lease is over", || (!process::lives(child)).then_some(()));
    frozen.thaw();
    assert_eq!(house.end(&id)["state"], "failed");
    assert_eq!(house.outside().executions(), 1);
}

/// A machine that was suspended: worker, runner and step stand still past window and lease, and wake up.
#[test]
fn a_step_that_slept_past_its_lease_is_killed_when_its_runner_wakes() {
    let (mut house, _server, worker, _proxy) = behind_a_proxy();
    let id = house.submit(&jealous(&house, "effects: idempotent"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    let asleep = [worker.pid(), process::parent(child), child].map(Frozen::new);
    house.proxy = None;
    let _other = house.start_worker("other", &[]);
    let second = house.outside().await_executions(2)[1];
    let [worker, runner, step] = asleep;
    // In the worst order: the step could write before anybody looks at a clock, were it not for the runner.
    runner.thaw();
    await_that("the first copy is killed", || (!process::lives(child)).then_some(()));
    step.thaw();
    worker.thaw();
    assert!(process::lives(second));
    open_gate(&house);
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.outside().executions(), 2);
    check_whole_log(&house, &id);
}
