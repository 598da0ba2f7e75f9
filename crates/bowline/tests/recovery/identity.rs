//! Who a worker is: its credential, not its name, its number or its socket.

use std::process::Stdio;
use std::time::Duration;

use testkit::{House, Role, await_that, process};

use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate, pass};

#[test]
fn a_worker_that_comes_back_under_another_name_is_the_same_worker() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    worker.kill();
    let state = house.path("w").display().to_string();
    let mut command = house.command(&["worker", "--server", &house.url, "--name", "renamed", "--state", &state]);
    let _worker = Role::start({
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    });
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn a_worker_that_dies_while_it_registers_leaves_no_ghost() {
    let (house, _server, worker) = House::patient();
    await_connected(&house, true);
    worker.kill();
    for delay in 0..10 {
        let worker = house.start_worker("w", &[]);
        pass(Duration::from_millis(delay * 4));
        worker.kill();
    }
    await_connected(&house, false);
    let _worker = house.start_worker("w", &[]);
    house.bowline(&["exec", "--", "true"]).ok();
}

fn await_connected(house: &House, wanted: bool) {
    await_that(&format!("connected is {wanted}"), || {
        let workers = house.bowline(&["workers", "--json"]).ok().json();
        (workers["items"][0]["connected"] == wanted).then_some(())
    });
}

/// A database from a backup does not know what was started since: that is no reason to stop it.
#[test]
fn a_step_that_the_server_does_not_know_is_not_stopped() {
    let (mut house, server, _worker) = House::patient();
    house.bowline(&["exec", "--", "true"]).ok();
    server.stop();
    house.back_up();
    let server = house.start_server();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    server.kill();
    house.restore();
    let _server = house.start_server();
    house.await_links(3);
    assert_ne!(house.bowline(&["job", &id]).code, 0, "the server does not know it");
    house.bowline(&["exec", "--", "true"]).ok();
    assert!(process::lives(child), "it is not ours to stop");
    open_gate(&house);
    await_that("it ends by itself", || (house.outside().completed() == 1).then_some(()));
}

/// A copied state folder is a second worker with the first one's papers.
#[test]
fn a_worker_on_a_copy_of_another_ones_folder_is_refused_and_hurts_nobody() {
    let (house, _server, worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    let child = house.outside().await_executions(1)[0];
    await_lines(&house, &id);
    house.copy("w", "copy");
    let copy = house.start_worker("copy", &[]);
    await_that("the copy is refused", || {
        let said = house.read("roles.log");
        (said.contains("duplicate") || said.contains("copy of")).then_some(())
    });
    pass(Duration::from_secs(1));
    assert!(process::lives(child), "the step is not the copy's to touch");
    assert_eq!(house.job(&id)["state"], "running");
    drop(copy);
    open_gate(&house);
    check_ran_once(&house, &id);
    drop(worker);
}
