//! Servers that die while others live.

use std::collections::{BTreeMap, BTreeSet};

use testkit::{Proxy, Role, await_that};

use super::town::Town;
use crate::dice::Dice;
use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate};

#[test]
fn a_worker_whose_server_is_killed_goes_to_the_next_and_its_step_goes_on() {
    let mut town = Town::patient();
    let (a, _b) = (town.start("a"), town.start("b"));
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    a.kill();
    town.ask("b");
    town.house.await_links(2);
    town.house.await_state(&id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
}

#[test]
fn a_worker_behind_a_balancer_goes_on_with_the_server_that_is_left() {
    let mut town = Town::patient();
    let (a, _b) = (town.start("a"), town.start("b"));
    let balancer = Proxy::start(town.place("a"));
    let _worker = town.house.start_worker_at(&balancer.url(), "w", &[]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    balancer.lead_to(town.place("b"));
    a.kill();
    town.ask("b");
    town.house.await_links(2);
    town.house.await_state(&id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 120;
const KILLS: usize = 6;

/// Two servers never act twice on one row: whoever is killed in the midst of it leaves it to the others, and to nobody twice.
#[test]
fn steps_that_write_run_once_each_however_often_servers_are_killed() {
    let mut town = Town::patient();
    let mut servers: BTreeMap<&str, Role> = NAMES.map(|name| (name, town.start(name))).into();
    let _workers = [town.worker("v", &["a", "b", "c"]), town.worker("w", &["c", "b", "a"])];
    town.house.await_links(2);
    let ran = town.house.path("ran").display().to_string();
    let items = (0..STEPS).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let id = town.house.submit(&format!(
        "name: many\nsteps:\n  each: {{ for_each: [{items}], run: 'echo {{{{ item }}}} >> {ran}; sleep 0.1' }}\n"
    ));
    let mut dice = Dice::new(7);
    for kill in 1..=KILLS {
        await_that("some have run", || (count(&town) >= kill * STEPS / (KILLS + 2)).then_some(()));
        let name = dice.of(&NAMES);
        servers.remove(name).expect("it runs").kill();
        let next = NAMES.into_iter().find(|other| *other != name).expect("another");
        town.ask(next);
        servers.insert(name, town.start(name));
    }
    let job = town.house.end(&id);
    assert_eq!(job["state"], "success", "{:#}", job["error"]);
    let ran: Vec<String> = town.house.read("ran").lines().map(str::to_owned).collect();
    let distinct: BTreeSet<&String> = ran.iter().collect();
    assert_eq!((ran.len(), distinct.len()), (STEPS, STEPS), "each ran once");
}

fn count(town: &Town) -> usize {
    town.house.read("ran").lines().count()
}
