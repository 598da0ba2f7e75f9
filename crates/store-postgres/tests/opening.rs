//! Opening a database: what is refused, in which words, and several who come at once.

use std::sync::Barrier;

use store::{Store, StoreError};
use store_postgres::PostgresStore;
use testkit::postgres::Database;

fn open(database: &Database) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(&database.url())
}

/// Opens, and closes again; then changes the database as someone else would.
fn tampered(sql: &str) -> Database {
    let database = Database::new();
    drop(open(&database).expect("a new database"));
    database.psql(sql);
    database
}

#[test]
fn servers_may_start_at_the_same_time() {
    const SERVERS: usize = 6;
    let (database, start) = (Database::new(), Barrier::new(SERVERS));
    std::thread::scope(|scope| {
        for n in 0..SERVERS {
            let (database, start) = (&database, &start);
            scope.spawn(move || {
                start.wait();
                let mut store = open(database).expect("a database");
                store.set_meta(&format!("server {n}"), "was here").expect("a write");
            });
        }
    });
    assert_eq!(database.psql("SELECT count(*) = max(version) FROM schema_migrations"), "t", "each is made once");
    assert_eq!(database.psql("SELECT count(*) FROM meta WHERE value = 'was here'"), SERVERS.to_string());
}

#[test]
fn a_reader_outlives_its_store() {
    let database = Database::new();
    let mut store = open(&database).expect("a database");
    store.set_meta("who", "me").expect("a write");
    let reader = store.reader();
    drop(store);
    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("me"));
}

#[test]
fn many_readers_take_turns() {
    let database = Database::new();
    let mut store = open(&database).expect("a database");
    store.set_meta("who", "me").expect("a write");
    let reader = store.reader();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("me"));
                }
            });
        }
        for n in 0..20 {
            store.set_meta("count", &n.to_string()).expect("a write beside the readers");
        }
    });
    let connections =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bowline'";
    let open: u32 = database.psql(connections).parse().expect("a number");
    assert!(open <= 5, "one that writes and a few that read: {open}");
}

#[test]
fn a_database_of_another_program_is_not_touched() {
    let database = Database::new();
    database.psql("CREATE TABLE recipes (name text)");
    let error = open(&database).expect_err("not ours");
    assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("another program"), "{error}");
    assert_eq!(
        database.psql("SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public'"),
        "recipes"
    );
}

#[test]
fn a_newer_database_is_refused() {
    let error = open(&tampered("UPDATE meta SET value = '99' WHERE key = 'min_reader'")).expect_err("from the future");
    assert!(matches!(error, StoreError::TooNew { needs: 99, .. }), "{error}");
    assert!(error.to_string().contains("use a newer build"), "{error}");
}

#[test]
fn a_newer_migration_that_we_may_read_is_fine() {
    let newer = r"INSERT INTO schema_migrations VALUES (99, 'more', '\x00', 0)";
    let error = open(&tampered(newer)).expect_err("its checksum is none");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let newer = "INSERT INTO schema_migrations SELECT 99, 'more', checksum, 0 FROM schema_migrations WHERE version = 1";
    open(&tampered(newer)).expect("a database that says that we may");
}

#[test]
fn a_database_that_does_not_say_who_may_read_it_is_damaged() {
    for sql in ["DELETE FROM meta WHERE key = 'min_reader'", "UPDATE meta SET value = 'x' WHERE key = 'min_reader'"] {
        let error = open(&tampered(sql)).expect_err("it does not say");
        assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("min_reader"), "{error}");
    }
}

#[test]
fn a_changed_migration_is_refused() {
    let error = open(&tampered("UPDATE schema_migrations SET checksum = sha256('')")).expect_err("not ours");
    assert!(matches!(error, StoreError::MigrationChanged { version: 1, .. }), "{error}");
}

#[test]
fn the_schema_keeps_its_own_word() {
    let database = Database::new();
    let mut store = open(&database).expect("a database");
    assert!(matches!(store.set_meta("min_reader", "9"), Err(StoreError::Refused { .. })));
}

#[test]
fn what_cannot_be_reached_is_unavailable_and_its_password_stays_secret() {
    let database = Database::new();
    let url = database.url();
    let (_, place) = url.split_once('@').expect("a user");
    for url in ["postgres://ada:hush@127.0.0.1:1/jobs".to_owned(), format!("postgres://postgres:hush@{place}")] {
        let error = PostgresStore::open(&url).expect_err("nobody there, or not with this password");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("postgres://") && !error.to_string().contains("hush"), "{error}");
    }
}

#[test]
fn a_database_in_another_encoding_is_refused() {
    let database = Database::new();
    let name = format!("{}_latin", database.psql("SELECT current_database()"));
    database.psql(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"));
    let url = database.url();
    let (address, _) = url.rsplit_once('/').expect("a database's name");
    let error = PostgresStore::open(&format!("{address}/{name}")).expect_err("not every letter fits");
    database.psql(&format!("DROP DATABASE {name} WITH (FORCE)"));
    assert!(matches!(error, StoreError::Refused { .. }) && error.to_string().contains("UTF8"), "{error}");
}

#[test]
fn the_databases_clock_is_in_microseconds() {
    let database = Database::new();
    let mut store = open(&database).expect("a database");
    let mut clock = || store.clock().expect("a time").expect("there is one");
    let (one, other) = (clock(), clock());
    let year_2020 = 1_577_836_800_000_000;
    assert!((year_2020..year_2020 * 10).contains(&one.0) && one <= other, "{one} {other}");
}

/// Programs print anything; PostgreSQL's text cannot hold that one character.
#[test]
fn a_nul_costs_nothing_but_itself() {
    let database = Database::new();
    let mut store = open(&database).expect("a database");
    store.set_meta("a\0b", "c\0d").expect("a write");
    assert_eq!(store.reader().meta("a\0b").expect("a read").as_deref(), Some("c\u{FFFD}d"));
}
