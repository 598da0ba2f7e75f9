//! A database that has no connection left for us.

use testkit::await_that;
use testkit::postgres::Postgres;
use testkit::process::Frozen;

use super::town::Town;
use crate::story::{await_lines, check_ran_once, counting, open_gate};

#[test]
fn a_database_that_others_have_taken_all_connections_of_is_waited_for() {
    let postgres = Postgres::start(&["max_connections=16", "superuser_reserved_connections=0", "max_wal_senders=0"]);
    let mut town = Town::on(&postgres.url(), "30");
    let server = town.start("a");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    // While it stands still it cannot be quicker than those others.
    let frozen = Frozen::new(server.pid());
    let ours = "FROM pg_stat_activity WHERE application_name = 'bowline'";
    postgres.psql(&format!("SELECT pg_terminate_backend(pid) {ours}"));
    await_that("they are gone", || (postgres.psql(&format!("SELECT count(*) {ours}")) == "0").then_some(()));
    let others = postgres.take_all_connections();
    assert!(others.len() > 8, "{}", others.len());
    frozen.thaw();
    await_that("it says that it is not ready", || (town.get("a", "/readyz").0 == 503).then_some(()));
    assert_eq!(town.get("a", "/healthz").0, 200);
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    drop(others);
    check_ran_once(&town.house, &id);
    assert_eq!(town.get("a", "/readyz").0, 200);
}
