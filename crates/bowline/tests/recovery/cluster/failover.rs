//! A database that has forgotten what it had said yes to: it fell over to a standby that lacked the last commits, or came back from a
//! backup. Workers know better, and nothing that writes is done twice.

use testkit::postgres::Postgres;
use testkit::{House, Role, await_that};

use super::stream::{check_alive, check_each_ran_once, under_load};
use super::town::{LOST, Town};
use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate};

fn two_workers(town: &Town) -> [Role; 2] {
    let workers = [town.worker("v", &["a", "b"]), town.worker("w", &["b", "a"])];
    town.house.await_links(2);
    workers
}

/// A step that writes, and that is on record as never started.
fn submit_paused(town: &Town) -> String {
    let house = &town.house;
    house.bowline(&["dispatch", "pause"]).ok();
    town.await_marks();
    let id = house.submit(&counting(house, "effects: writes\nunmatched: wait"));
    house.await_state(&id, Some(STEP), "queued");
    id
}

/// It runs, whoever knows.
fn resume(house: &House, id: &str) {
    house.bowline(&["dispatch", "resume"]).ok();
    house.outside().await_executions(1);
    await_lines(house, id);
}

/// Nothing stands in the way of another start but that it is known to have started.
fn check_not_repeated(town: &Town, id: &str) {
    await_that("somebody can be asked", || (town.house.bowline(&["dispatch", "resume"]).code == 0).then_some(()));
    town.await_said(LOST);
    town.house.await_state(id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, id);
    town.house.bowline(&["exec", "--", "true"]).ok();
}

#[test]
fn a_failover_that_forgets_a_start_repeats_nothing_and_gives_an_alarm() {
    let mut primary = Postgres::start(&[]);
    let standby = primary.standby();
    let mut town = Town::on(&primary.url_with(&standby), "3");
    let _servers = [town.start("a"), town.start("b")];
    let _workers = two_workers(&town);
    let id = submit_paused(&town);
    primary.await_standby(&standby);
    let silent = primary.stop_sending();
    resume(&town.house, &id);
    primary.kill();
    drop(silent);
    standby.promote();
    check_not_repeated(&town, &id);
}

/// The standby does not even know that there is such a job.
#[test]
fn a_failover_that_forgets_a_whole_job_does_not_stop_it() {
    let mut primary = Postgres::start(&[]);
    let standby = primary.standby();
    let mut town = Town::on(&primary.url_with(&standby), "3");
    let _servers = [town.start("a"), town.start("b")];
    let _workers = two_workers(&town);
    primary.await_standby(&standby);
    let silent = primary.stop_sending();
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    primary.kill();
    drop(silent);
    standby.promote();
    town.await_said(LOST);
    town.house.bowline(&["exec", "--effects", "none", "--", "true"]).ok();
    open_gate(&town.house);
    await_that("it ends by itself", || (town.house.outside().completed() == 1).then_some(()));
    assert_eq!(town.house.outside().executions(), 1);
}

/// All that somebody was told is kept: jobs, and pieces of logs.
const KEPT: &str = "SELECT 'job ' || id FROM jobs UNION ALL SELECT concat_ws(' ', 'lines', attempt_id, first_seq, last_seq) FROM log_chunks";

/// The other kind of failover: what the standby lacks nobody was told of, so there is nothing to forget.
#[test]
fn a_failover_to_a_standby_that_every_commit_waits_for_loses_nothing() {
    let mut primary = Postgres::start(&[]);
    let standby = primary.standby();
    primary.wait_for_standby();
    let mut town = Town::on(&primary.url_with(&standby), "30");
    let mut servers = [town.start("a"), town.start("b")];
    let _workers = two_workers(&town);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    await_lines(&town.house, &id);
    let house = &town.house;
    let count = || house.read("ran").lines().count();
    let goes_on = || {
        let before = count();
        await_that("work goes on", || (count() >= before + 5).then_some(()));
    };
    let taken = under_load(house, || {
        goes_on();
        let silent = primary.stop_sending();
        let waiting = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        await_that("a commit waits for the standby", || (primary.psql(waiting) == "t").then_some(()));
        let kept = primary.psql(KEPT);
        primary.kill();
        drop(silent);
        await_that("the standby has all that was said", || {
            let has = standby.psql(KEPT);
            kept.lines().all(|line| has.lines().any(|other| other == line)).then_some(())
        });
        standby.promote();
        goes_on();
    });
    open_gate(house);
    check_each_ran_once(house, &taken);
    check_ran_once(house, &id);
    check_alive(&mut servers);
    town.check_nothing_lost();
}

#[test]
fn a_backup_that_does_not_know_of_a_start_repeats_nothing_and_gives_an_alarm() {
    let mut town = Town::hasty();
    let (a, b) = (town.start("a"), town.start("b"));
    let _workers = two_workers(&town);
    let id = submit_paused(&town);
    assert!([a, b].into_iter().all(|server| server.stop().success()));
    town.house.database.as_ref().expect("a database of its own").back_up();
    let (a, b) = (town.start("a"), town.start("b"));
    town.house.await_links(4);
    resume(&town.house, &id);
    [a, b].into_iter().for_each(Role::kill);
    town.house.database.as_ref().expect("a database of its own").restore();
    let _servers = [town.start("a"), town.start("b")];
    check_not_repeated(&town, &id);
}
