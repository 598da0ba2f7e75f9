//! A database that has no connection left for us, and one behind a pooler.

use testkit::postgres::Postgres;
use testkit::process::Frozen;
use testkit::{PgBouncer, await_that};

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

/// Fewer than two servers have connections to it.
const SESSIONS: usize = 6;

#[test]
fn a_pooler_and_a_server_that_die_during_a_step_cost_nothing() {
    let mut postgres = Postgres::start(&[]);
    let mut pooler = PgBouncer::with_sessions(&postgres.url(), SESSIONS);
    let mut town = Town::on(&pooler.url(), "30");
    town.house.set("BOWLINE_POSTGRES__POOLED", "true");
    let (a, mut b) = (town.start("a"), town.start("b"));
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    pooler.kill();
    a.kill();
    town.ask("b");
    await_that("it says that it is not ready", || (town.get("b", "/readyz").0 == 503).then_some(()));
    pooler.start_again();
    town.house.await_links(2);
    let _a = town.start("a");
    // The same once more with what is behind it, while the pooler keeps its clients.
    postgres.crash();
    postgres.start_again();
    await_that("both are ready", || ["a", "b"].iter().all(|name| town.get(name, "/readyz").0 == 200).then_some(()));
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    town.house.bowline(&["exec", "--", "true"]).ok();
    assert!(b.child.try_wait().expect("waited").is_none(), "a server has ended");
    town.check_nothing_lost();
}
