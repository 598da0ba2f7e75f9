//! Every check finds what it should, and nothing else, in a database of this store.

use store::Store;
use store::check::Finding;
use store::conformance::healthy;
use store_postgres::{PostgresStore, check};
use testkit::postgres::Database;

#[path = "../../store/tests/support/damages.rs"]
mod damages;

use damages::{Damage, LIMIT, Patient, READERS, names};

impl Patient for Database {
    fn new() -> Database {
        Database::new()
    }

    fn open(&mut self) -> Box<dyn Store> {
        Box::new(PostgresStore::open(&self.url()).expect("a database"))
    }

    fn execute(&mut self, sql: &str) {
        let answer = self.psql(&format!("WITH done AS ({sql} RETURNING 1) SELECT count(*) FROM done"));
        assert_ne!(answer.trim(), "0", "it changes nothing: {sql}");
    }

    fn check(&mut self) -> Vec<Finding> {
        check(&self.url(), Some(healthy::NOW), LIMIT, &READERS).expect("an answer")
    }
}

const ONLY: &[Damage] = &[Damage {
    check: "event-number",
    sql: &["UPDATE events SET id = 1000000 WHERE id = (SELECT max(id) FROM events)"],
}];

#[test]
fn each_damage_is_named() {
    damages::each_damage_is_named::<Database>(ONLY);
}

#[test]
fn what_cannot_be_read_is_found_too() {
    damages::what_cannot_be_read_is_found_too::<Database>();
}

#[test]
fn many_are_counted_and_few_are_named() {
    damages::many_are_counted_and_few_are_named::<Database>();
}

/// Servers have the database, and go on writing.
#[test]
fn it_looks_beside_servers() {
    let mut database = Database::new();
    let mut store = database.open();
    healthy::fill(&mut *store);
    assert_eq!(names(&database.check()), Vec::<&str>::new());
    store.set_meta("key", "value").expect("nobody is in the way");
}

#[test]
fn an_empty_database_stays_empty() {
    let mut database = Database::new();
    assert_eq!(names(&database.check()), ["schema"]);
    assert_eq!(database.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").trim(), "0");
}
