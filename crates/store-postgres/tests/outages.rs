//! A database that goes away, comes back, is full, or whose answers get lost.

use std::collections::BTreeSet;

use engine::{JobId, Time, WorkerId};
use store::conformance::Fixture;
use store::conformance::{access, events, jobs, retention};
use store::rows::{EventRow, SecretRow};
use store::{Batch, Store, StoreError};
use store_postgres::PostgresStore;
use testkit::postgres::{Database, Postgres};
use testkit::{Proxy, SmallDisk, await_that};
use uuid::Uuid;

fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.expect_err("a database that is not there");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

/// Any call of the writer.
fn look(store: &mut PostgresStore) -> Result<(), StoreError> {
    store.worker(WorkerId(Uuid::nil())).map(drop)
}

#[test]
fn a_store_is_back_as_soon_as_its_database_is() {
    let mut postgres = Postgres::start(&[]);
    let mut store = PostgresStore::open(&postgres.url()).expect("a database");
    let reader = store.reader();
    store.set_meta("who", "first").expect("a write");
    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("first"));
    for crash in [false, true] {
        if crash {
            postgres.crash();
        } else {
            postgres.stop();
        }
        assert_unavailable(store.set_meta("who", "nobody"));
        assert_unavailable(store.commit(&Batch { meta: vec![("who", "nobody".to_owned())], ..Batch::default() }));
        assert_unavailable(look(&mut store));
        assert_unavailable(reader.meta("who"));
        assert_unavailable(PostgresStore::open(&postgres.url()));
        postgres.start_again();
        assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("first"));
        look(&mut store).expect("a read");
        store.commit(&Batch { meta: vec![("again", "yes".to_owned())], ..Batch::default() }).expect("a write");
    }
}

#[test]
fn a_connection_that_was_ended_is_opened_again() {
    let database = Database::new();
    let mut store = PostgresStore::open(&database.url()).expect("a database");
    let reader = store.reader();
    assert_eq!(reader.meta("who").expect("a read"), None);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'bowline'";
    let others =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bowline'";
    for _ in 0..3 {
        assert_ne!(database.psql(end), "0");
        await_that("they are gone", || (database.psql(others) == "0").then_some(()));
        assert_eq!(reader.meta("who").expect("nothing was changed, so it was asked again"), None);
        // The writer does not repeat what may have happened. It says so once at most.
        let _ = look(&mut store);
        look(&mut store).expect("a connection");
    }
}

/// The commit goes through while its answer is lost: whoever asks afterwards waits until that is certain.
#[test]
fn a_commit_whose_answer_was_lost_is_over_before_anything_is_asked() {
    let database = Database::new();
    let url = database.url();
    let (credentials, place) = url.split_once('@').expect("a user");
    let (server, name) = place.split_once('/').expect("a database");
    let proxy = Proxy::start(server);
    let through = proxy.url();
    let through = format!("{credentials}@{}/{name}", through.strip_prefix("http://").unwrap_or(&through));
    let mut store = PostgresStore::open(&through).expect("a database");
    // The commit itself waits for a lock that somebody holds.
    database.psql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0
             AS $$ BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON meta DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.key = 'slow') EXECUTE FUNCTION slow()",
    );
    let holding = database.hold("SELECT pg_advisory_lock(77)");
    let written = || database.psql("SELECT count(*) FROM meta WHERE key = 'slow'");
    let batch = Batch { meta: vec![("slow", "commit".to_owned())], ..Batch::default() };
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| store.commit(&batch));
        waiting(&database, 1);
        proxy.reset();
        assert_unavailable(committing.join().expect("no panic"));
    });
    assert_eq!(written(), "0", "it is under way");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| look(&mut store));
        waiting(&database, 2);
        drop(holding);
        asking.join().expect("no panic").expect("a new connection");
    });
    assert_eq!(written(), "1", "it had happened when we looked");
}

/// Who commits last may have the lower number: then the higher one is not there for anybody before the lower one is.
#[test]
fn a_number_waits_for_all_below_it() {
    let database = Database::new();
    let mut stores: Vec<_> = (0..3).map(|_| PostgresStore::open(&database.url()).expect("a database")).collect();
    let slow = JobId(Uuid::from_u128(1));
    database.psql(&format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0
             AS $$ BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.job_id = '{slow}') EXECUTE FUNCTION slow()"
    ));
    let event = |job: JobId| {
        let (kind, reason) = ("notice", "a test".to_owned());
        let row = EventRow { job, ix: None, at: Time(0), kind, verb: None, from: None, to: None, worker: None, reason };
        Batch { events: vec![row], ..Batch::default() }
    };
    let fast = JobId(Uuid::from_u128(2));
    let (first, second) = (event(slow), event(fast));
    let holding = database.hold("SELECT pg_advisory_lock(77)");
    let [one, other, third] = &mut stores[..] else { panic!("three") };
    std::thread::scope(|scope| {
        let late = scope.spawn(|| one.commit(&first).expect("a write").event_ids);
        waiting(&database, 1);
        let early = scope.spawn(|| other.commit(&second).expect("a write").event_ids);
        waiting(&database, 2);
        assert_eq!(third.changed_since(0, 10).expect("a read"), []);
        drop(holding);
        assert_eq!(late.join().expect("no panic"), [Some(1)]);
        assert_eq!(early.join().expect("no panic"), [Some(2)]);
    });
    assert_eq!(third.changed_since(0, 10).expect("a read"), [(1, slow), (2, fast)]);
}

/// Returns when so many of Bowline's sessions wait for a lock.
fn waiting(database: &Database, count: usize) {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'bowline'";
    await_that("they wait", || (database.psql(sql) == count.to_string()).then_some(()));
}

#[test]
fn too_many_connections_are_a_reason_to_wait() {
    let postgres = Postgres::start(&["max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0"]);
    let mut stores = Vec::new();
    let refused = loop {
        match PostgresStore::open(&postgres.url()) {
            Ok(store) => stores.push(store),
            Err(error) => break error,
        }
        assert!(stores.len() < 10, "there is a limit");
    };
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("53300"), "{refused}");
    stores.pop();
    await_that("one is gone", || PostgresStore::open(&postgres.url()).ok());
}

#[test]
fn a_full_disk_is_a_reason_to_wait() {
    const KIBIBYTES: u32 = 8 * 1024;
    let postgres = Postgres::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("small");
    let Some(_disk) = SmallDisk::mount(&at, KIBIBYTES) else { return };
    postgres.give(&at);
    postgres.give(folder.path());
    postgres.psql(&format!("CREATE TABLESPACE small LOCATION '{}'", at.display()));
    postgres.psql("ALTER DATABASE postgres SET default_tablespace = small");
    let mut store = PostgresStore::open(&postgres.url()).expect("a database");
    let secret = |name: &str, bytes: usize| {
        // What does not get smaller by itself.
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        let (set_at, set_by) = (Time(0), "ada".to_owned());
        SecretRow { name: name.to_owned(), sealed: (0..bytes).map(|_| next()).collect(), set_at, set_by }
    };
    let error = store.put_secret(&secret("large", 12 * 1024 * 1024)).expect_err("more than there is");
    assert!(matches!(error, StoreError::Unavailable { .. }) && error.to_string().contains("53100"), "{error}");
    store.set_meta("who", "still here").expect("what fits is written");
    // Its files are on a disk that goes first.
    drop(store);
    drop(postgres);
}

#[test]
fn a_table_that_is_gone_is_damage() {
    let database = Database::new();
    let mut store = PostgresStore::open(&database.url()).expect("a database");
    database.psql("DROP TABLE workers CASCADE");
    let error = look(&mut store).expect_err("no workers");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let database = Database::new();
    let mut store = PostgresStore::open(&database.url()).expect("a database");
    database.psql("ALTER TABLE meta ADD CHECK (value <> 'evil')");
    let error = store.commit(&Batch { meta: vec![("a", "evil".to_owned())], ..Batch::default() }).expect_err("a rule");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    store.set_meta("a", "good").expect("and all is well again");
    let kept: BTreeSet<String> = store.reader().meta("a").expect("a read").into_iter().collect();
    assert_eq!(kept, BTreeSet::from(["good".to_owned()]));
}

/// A crash is one of the database here, not only of the server that uses it.
struct Crashing(Postgres);

impl Fixture for Crashing {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(PostgresStore::open(&self.0.url()).expect("a database"))
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        self.0.crash();
        drop(store);
        self.0.start_again();
    }
}

#[test]
fn what_was_answered_survives_a_crash_of_the_database() {
    for case in [
        jobs::committed_work_survives_a_crash,
        access::fences_survive_a_crash,
        events::numbers_never_return,
        retention::what_was_begun_goes_on_after_a_crash,
    ] {
        let postgres = Postgres::start(&[]);
        case(&mut Crashing(postgres));
    }
}
