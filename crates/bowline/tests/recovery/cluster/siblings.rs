//! Servers that start, stop and sleep beside others that do not.

use std::time::Duration;

use testkit::process::Frozen;
use testkit::{House, await_that};

use super::town::Town;
use crate::story::{STEP, await_lines, check_ran_once, check_whole_log, counting, open_gate, pass, step};

/// Longer than the window of a hasty town, and than it takes to miss a server there.
const LONG: Duration = Duration::from_secs(4);

/// The same for a brisk one.
const SLEEP: Duration = Duration::from_secs(8);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Each time there is one moment in which two of them find that there is no mark yet.
const STARTS: usize = 8;

/// One makes the tables, each of them makes the first mark if nobody else has, and nobody takes the mark of another for a loss.
#[test]
fn servers_that_start_together_on_an_empty_database_give_no_alarm() {
    for _ in 0..STARTS {
        let town = Town::hasty();
        let servers = NAMES.map(|name| town.launch(name));
        servers.iter().for_each(|server| drop(server.wait_ready()));
        town.await_marks();
        assert_eq!(town.psql("SELECT count(*) FROM servers WHERE left_at IS NULL"), "3");
        town.check_nothing_lost();
    }
}

#[test]
fn a_server_that_starts_touches_nothing_of_what_its_siblings_do() {
    let mut town = Town::hasty();
    let _a = town.start("a");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    for name in ["b", "c"] {
        let newcomer = town.start(name);
        town.ask(name);
        town.house.bowline(&["exec", "--", "true"]).ok();
        pass(LONG);
        assert_eq!(step(&town.house, &id)["state"], "running");
        newcomer.kill();
        town.ask("a");
    }
    // Nor does its death.
    pass(LONG);
    assert_eq!(town.times_recovering(&id), "0", "its worker was connected all the while");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
}

#[test]
fn a_rolling_restart_of_three_servers_loses_no_step_and_repeats_none() {
    let mut town = Town::patient();
    let mut servers = NAMES.map(|name| town.start(name));
    let _workers = [town.worker("v", &["a", "b", "c"]), town.worker("w", &["b", "c", "a"])];
    town.house.await_links(2);
    let ids: Vec<String> = (0..4).map(|_| town.house.submit(&counting(&town.house, "effects: writes"))).collect();
    town.house.outside().await_executions(ids.len());
    ids.iter().for_each(|id| await_lines(&town.house, id));
    for (index, name) in NAMES.into_iter().enumerate() {
        town.ask(NAMES[(index + 1) % NAMES.len()]);
        let new = town.start_over(name, &mut servers[index]);
        assert!(new.success(), "{name} ended well");
        await_all_linked(&town.house);
        ids.iter().for_each(|id| drop(town.house.await_state(id, Some(STEP), "running")));
    }
    open_gate(&town.house);
    for id in &ids {
        assert_eq!(town.house.end(id)["state"], "success");
        check_whole_log(&town.house, id);
    }
    let outside = town.house.outside();
    assert_eq!((outside.executions(), outside.completed()), (ids.len(), ids.len()));
}

fn await_all_linked(house: &House) {
    await_that("both workers are connected", || {
        let workers = house.bowline(&["workers", "--json"]).ok().json();
        let connected = workers["items"].as_array().expect("a list").iter().filter(|w| w["connected"] == true).count();
        (connected == 2).then_some(())
    });
}

#[test]
fn a_server_that_slept_for_long_hurts_nothing_when_it_wakes() {
    let mut town = Town::brisk();
    let (a, _b) = (town.start("a"), town.start("b"));
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    let frozen = Frozen::new(a.pid());
    town.ask("b");
    town.house.await_links(2);
    pass(SLEEP);
    town.house.await_state(&id, Some(STEP), "running");
    frozen.thaw();
    town.await_said("a worker's link here was overtaken");
    // It works again, and judges nobody by what it did not hear.
    town.ask("a");
    town.house.bowline(&["exec", "--", "true"]).ok();
    pass(SLEEP);
    assert_eq!(step(&town.house, &id)["state"], "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
}
