//! Servers that die while others live.

use std::collections::{BTreeMap, BTreeSet};

use testkit::{Proxy, Role, await_that};

use super::town::Town;
use crate::dice::Dice;
use crate::story::{STEP, await_lines, check_ran_once, check_whole_log, counting, open_gate};

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

/// It picks a server by itself for every connection, of workers and of whoever asks, and passes over one that is dead.
#[test]
fn workers_behind_a_balancer_that_takes_servers_in_turn_come_and_go_as_they_like() {
    let mut town = Town::patient();
    let (a, _b) = (town.start("a"), town.start("b"));
    let balancer = Proxy::between(&[town.place("a"), town.place("b")]);
    town.house.url = balancer.url();
    let join = |town: &Town, name: &str| town.house.start_worker_at(&balancer.url(), name, &["--slots", "1"]);
    let mut workers = vec![join(&town, "u"), join(&town, "v")];
    // What else is asked in between has its turn as well, so both may come to one server: then there are more.
    let linked = "SELECT count(DISTINCT server_id) FROM workers WHERE left_heard IS NULL AND server_id IS NOT NULL";
    let mut more = ["w", "x", "y", "z"].into_iter();
    town.house.await_links(2);
    while town.psql(linked) != "2" {
        workers.push(join(&town, more.next().expect("they are all on one server")));
        town.house.await_links(workers.len());
    }
    let ids: Vec<String> =
        workers.iter().map(|_| town.house.submit(&counting(&town.house, "effects: writes"))).collect();
    town.house.outside().await_executions(ids.len());
    ids.iter().for_each(|id| await_lines(&town.house, id));
    a.kill();
    await_that("all are with the other one", || (town.psql(linked) == "1").then_some(()));
    // Who joins now is led to the one that is left, and works.
    let _late = join(&town, "late");
    town.house.bowline(&["exec", "--", "true"]).ok();
    let _a = town.start("a");
    let _later = join(&town, "later");
    town.house.bowline(&["exec", "--", "true"]).ok();
    open_gate(&town.house);
    for id in &ids {
        assert_eq!(town.house.end(id)["state"], "success");
        check_whole_log(&town.house, id);
    }
    let outside = town.house.outside();
    assert_eq!((outside.executions(), outside.completed()), (ids.len(), ids.len()));
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
