//! Through a connection pooler that hands out sessions for a transaction at a time: all that a store must do, it does there too.

use engine::WorkerId;
use proptest::prelude::*;
use store::conformance::{Fixture, alike};
use store::{Batch, Store, StoreError};
use store_memory::MemoryDatabase;
use store_postgres::{Options, PostgresStore};
use testkit::postgres::Database;
use testkit::{PgBouncer, await_that};
use uuid::Uuid;

struct Pooled {
    pooler: PgBouncer,
    database: Database,
}

impl Pooled {
    fn new() -> Pooled {
        let database = Database::new();
        Pooled { pooler: PgBouncer::start(&database.url()), database }
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::open_with(&self.pooler.url(), &pooled()).expect("a database behind a pooler")
    }
}

fn pooled() -> Options {
    Options { pooled: true, ..Options::default() }
}

impl Fixture for Pooled {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(self.store())
    }

    fn open_beside(&mut self) -> Option<Box<dyn Store>> {
        Some(self.open())
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        drop(store);
    }
}

store::conformance_tests!(Pooled::new());

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

    /// All that can be asked is asked.
    #[test]
    fn it_answers_like_memory(choices in prop::collection::vec(any::<u32>(), 100..400)) {
        alike::play(&mut Pooled::new().store(), &mut MemoryDatabase::new().open(), &choices);
    }
}

/// What a session keeps, others who get the same one would find.
#[test]
fn nothing_is_left_in_a_session() {
    let pooled = Pooled::new();
    let (mut store, url) = (pooled.store(), pooled.pooler.url());
    store.set_meta("who", "me").expect("a write");
    assert_eq!(store.reader().meta("who").expect("a read").as_deref(), Some("me"));
    let kept = "SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'), current_setting('jit'),
                       (SELECT count(*) FROM pg_prepared_statements),
                       (SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
                        WHERE locktype = 'advisory' AND datname = current_database())";
    assert_eq!(pooled.database.psql_at(&url, kept), "0|on|on|0|0");
}

/// More who look than there are sessions.
#[test]
fn many_take_turns() {
    let pooled = Pooled::new();
    let mut stores: Vec<PostgresStore> = (0..4).map(|_| pooled.store()).collect();
    std::thread::scope(|scope| {
        for (n, store) in stores.iter_mut().enumerate() {
            let reader = store.reader();
            scope.spawn(move || {
                for round in 0..20 {
                    store.set_meta(&format!("store {n}"), &round.to_string()).expect("a write");
                }
            });
            for _ in 0..4 {
                let reader = reader.clone();
                scope.spawn(move || (0..20).for_each(|_| drop(reader.meta("store 0").expect("a read"))));
            }
        }
    });
    let reader = stores[0].reader();
    for n in 0..4 {
        assert_eq!(reader.meta(&format!("store {n}")).expect("a read").as_deref(), Some("19"));
    }
}

#[test]
fn a_pooler_that_goes_and_comes_is_waited_for() {
    let mut pooled = Pooled::new();
    let mut store = pooled.store();
    let reader = store.reader();
    store.set_meta("who", "first").expect("a write");
    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("first"));
    pooled.pooler.kill();
    let batch = Batch { meta: vec![("who", "second".to_owned())], ..Batch::default() };
    for error in [
        store.commit(&batch).map(drop).expect_err("nobody there"),
        store.worker(WorkerId(Uuid::nil())).map(drop).expect_err("nobody there"),
        reader.meta("who").map(drop).expect_err("nobody there"),
        PostgresStore::open_with(&pooled.pooler.url(), &self::pooled()).map(drop).expect_err("nobody there"),
    ] {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    pooled.pooler.start_again();
    await_that("it is back", || store.commit(&batch).ok());
    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("second"));
}

/// A pooler closes a session in the midst of whatever it is used for.
#[test]
fn a_session_that_was_ended_costs_one_try() {
    let pooled = Pooled::new();
    let mut store = pooled.store();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    for round in 0..3 {
        assert_ne!(pooled.database.psql(end), "0");
        await_that("a session", || store.set_meta("round", &round.to_string()).ok());
        assert_eq!(store.reader().meta("round").expect("a read"), Some(round.to_string()));
    }
}

#[test]
fn a_pooler_that_nobody_spoke_of_is_noticed_before_anything_is_left_there() {
    let pooled = Pooled::new();
    let error = PostgresStore::open(&pooled.pooler.url()).expect_err("a pooler");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("postgres.pooled: true"), "{error}");
    let kept = "SELECT current_setting('statement_timeout'), (SELECT count(*) FROM pg_prepared_statements)";
    assert_eq!(pooled.database.psql_at(&pooled.pooler.url(), kept), "0|0");
    pooled.store().set_meta("who", "me").expect("and as it should be, it works");
}

/// Slower, and nothing else.
#[test]
fn without_a_pooler_it_works_as_well() {
    let database = Database::new();
    let mut store = PostgresStore::open_with(&database.url(), &pooled()).expect("a database");
    store.set_meta("who", "me").expect("a write");
    assert_eq!(store.reader().meta("who").expect("a read").as_deref(), Some("me"));
}
