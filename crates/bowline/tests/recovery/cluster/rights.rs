//! A role that may not do with the database what servers do.

use std::time::Duration;

use testkit::await_that;
use testkit::postgres::{Postgres, psql};

use super::town::Town;
use crate::story::{await_lines, check_ran_once, counting, open_gate, pass};

const WRITES: &str = "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public";

/// So long the database's own count of refused transactions is watched.
const WATCHED: Duration = Duration::from_secs(3);

/// Of two servers in that time; each has a mark to make, and readers that ask for it.
const TRIES_MAX: u64 = 30;

#[test]
fn servers_that_may_not_write_say_so_and_try_now_and_then() {
    let postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.owned(), "30");
    let as_admin = |sql: &str| psql(&postgres.url_of("bowline"), sql);
    let mut a = town.start("a");
    town.settle("b");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    as_admin(&format!("REVOKE {WRITES} FROM bowline"));
    let told = await_that("it says that it is not ready", || {
        let (status, body) = town.get("a", "/readyz");
        (status == 503 && body.contains("the database")).then_some(body)
    });
    println!("{told}");
    assert_eq!(town.get("a", "/healthz").0, 200, "nobody should kill it for that");
    town.await_said("permission denied");
    let mut b = town.launch("b");
    town.await_said("waiting for the database");
    assert_eq!((town.get("b", "/healthz").0, town.get("b", "/readyz").0), (200, 503));
    let refused = || -> u64 {
        let count = as_admin("SELECT xact_rollback FROM pg_stat_database WHERE datname = 'bowline'");
        count.parse().expect("a number")
    };
    let before = refused();
    pass(WATCHED);
    let tries = refused() - before;
    println!("{tries} tries in {WATCHED:?}");
    assert!(tries <= TRIES_MAX, "{tries} tries in {WATCHED:?}");
    as_admin(&format!("GRANT {WRITES} TO bowline"));
    b.wait_ready();
    await_that("both are ready", || ["a", "b"].iter().all(|name| town.get(name, "/readyz").0 == 200).then_some(()));
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    for server in [&mut a, &mut b] {
        assert!(server.child.try_wait().expect("waited").is_none(), "a server has ended");
    }
}
