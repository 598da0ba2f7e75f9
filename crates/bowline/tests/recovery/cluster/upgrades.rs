//! Servers of one build beside those of a newer one, which has changed the schema: as in every rolling upgrade.

use testkit::await_that;
use testkit::postgres::LATER;

use super::town::Town;
use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate};

#[test]
fn servers_go_on_with_a_database_that_a_newer_one_has_migrated() {
    let mut town = Town::patient();
    let (mut a, _b) = (town.start("a"), town.start("b"));
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    town.psql(LATER);
    // With connections, and statements on them, from before.
    for name in ["a", "b"] {
        town.ask(name);
        town.house.bowline(&["exec", "--", "true"]).ok();
    }
    assert!(town.start_over("a", &mut a).success());
    town.await_said("a newer build has migrated the database, and this one may use it");
    town.ask("a");
    town.house.bowline(&["exec", "--", "true"]).ok();
    town.house.await_state(&id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    let said = town.house.bowline(&["db", "migrate"]).ok().out;
    assert!(said.contains("nothing to do"), "{said}");
    town.house.bowline(&["db", "check"]).ok();
}

/// A newer build has said that those like this one must not go on: steps do, and nothing is written that it would not understand.
#[test]
fn a_server_that_is_too_old_by_now_writes_nothing_and_says_so() {
    let mut town = Town::patient();
    let _a = town.start("a");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    town.psql("UPDATE meta SET value = '99' WHERE key = 'min_reader'");
    await_that("it says that it is not ready", || (town.get("a", "/readyz").0 == 503).then_some(()));
    town.await_said("this server is too old for it");
    assert_eq!(town.get("a", "/healthz").0, 200);
    let last = town.psql("SELECT max(id) FROM events");
    let refused = town.house.bowline(&["exec", "--detach", "--", "true"]).code(4);
    assert!(refused.err.contains("start a newer one"), "{}", refused.err);
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    let mut newcomer = town.launch("b");
    assert!(!newcomer.wait().success(), "nor does one like it start");
    town.await_said("was made by a newer Bowline");
    assert_eq!(town.psql("SELECT max(id) FROM events"), last, "nothing was written");
    assert_eq!(town.psql("SELECT count(*) FROM quarantine"), "0");
    // As far as this step is concerned, the newer one is there now.
    town.psql("UPDATE meta SET value = '1' WHERE key = 'min_reader'");
    check_ran_once(&town.house, &id);
}
