//! Servers that wake each other, and what comes between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use store::{Bell, Store};
use store_postgres::{Options, PostgresStore};
use testkit::postgres::{Database, Postgres};
use testkit::{PgBouncer, Proxy, await_that};

/// Long enough for whatever should not come.
const QUIET: Duration = Duration::from_millis(300);

/// A store with its bell, and how often that was heard.
struct House {
    /// Ends the bell when it goes.
    _store: PostgresStore,
    bell: Arc<dyn Bell>,
    heard: Arc<AtomicUsize>,
}

impl House {
    fn new(url: &str) -> House {
        House::with(url, &Options::default())
    }

    /// Returns when it hears.
    fn with(url: &str, options: &Options) -> House {
        let store = PostgresStore::open_with(url, options).expect("a database");
        let bell = store.bell().expect("a bell");
        let heard = count(&*bell);
        let house = House { _store: store, bell, heard };
        // What may have been missed before it could hear counts as heard.
        await_that("it hears", || (house.heard() > 0).then_some(()));
        house
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }

    /// Does this, and waits until it was heard here.
    fn hears(&self, what: &str, act: impl FnOnce()) {
        let before = self.heard();
        act();
        await_that(what, || (self.heard() > before).then_some(()));
    }
}

/// How often it was heard from now on.
fn count(bell: &dyn Bell) -> Arc<AtomicUsize> {
    let heard = Arc::new(AtomicUsize::new(0));
    let count = heard.clone();
    bell.listen(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    heard
}

/// Who listens there.
const BELLS: &str = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'bowline-bell'";

#[test]
fn who_rings_is_heard_by_the_others_and_not_by_itself() {
    let database = Database::new();
    let (one, other, third) = (House::new(&database.url()), House::new(&database.url()), House::new(&database.url()));
    let own = one.heard();
    for _ in 0..3 {
        let before = third.heard();
        other.hears("the ring", || one.bell.ring());
        await_that("and by the third", || (third.heard() > before).then_some(()));
    }
    std::thread::sleep(QUIET);
    assert_eq!(one.heard(), own);
}

#[test]
fn another_database_of_the_same_cluster_is_not_woken() {
    let (database, elsewhere) = (Database::new(), Database::new());
    let (one, other, stranger) =
        (House::new(&database.url()), House::new(&database.url()), House::new(&elsewhere.url()));
    let before = stranger.heard();
    other.hears("the ring", || one.bell.ring());
    std::thread::sleep(QUIET);
    assert_eq!(stranger.heard(), before);
}

#[test]
fn a_burst_is_few_and_its_last_is_heard() {
    let database = Database::new();
    let (one, other) = (House::new(&database.url()), House::new(&database.url()));
    let (before, began) = (other.heard(), Instant::now());
    let (mut rings, mut last) = (0u32, Instant::now());
    while began.elapsed() < Duration::from_millis(200) {
        one.bell.ring();
        (rings, last) = (rings + 1, Instant::now());
        std::thread::sleep(Duration::from_micros(100));
    }
    let took = last.duration_since(began);
    std::thread::sleep(QUIET);
    let heard = other.heard() - before;
    let most = usize::try_from(took.as_millis() / 20).expect("few") + 2;
    assert!((2..=most).contains(&heard), "{rings} rings in {took:?} came to {heard}, and {most} would be many");
    other.hears("one alone after it", || one.bell.ring());
}

/// The first of a burst is said at once; one that comes right after it must not be forgotten.
#[test]
fn the_second_of_two_is_heard_too() {
    let database = Database::new();
    let (one, other) = (House::new(&database.url()), House::new(&database.url()));
    for _ in 0..10 {
        let before = other.heard();
        one.bell.ring();
        await_that("the first", || (other.heard() > before).then_some(()));
        let before = other.heard();
        one.bell.ring();
        await_that("the second", || (other.heard() > before).then_some(()));
    }
}

#[test]
fn after_the_database_was_away_it_is_heard_again() {
    let mut postgres = Postgres::start(&[]);
    let (one, other) = (House::new(&postgres.url()), House::new(&postgres.url()));
    for crash in [false, true] {
        let before = (one.heard(), other.heard());
        if crash {
            postgres.crash();
        } else {
            postgres.stop();
        }
        // Said while nobody can hear it, and nobody waits for that.
        let began = Instant::now();
        one.bell.ring();
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
        postgres.start_again();
        await_that("both hear again", || (one.heard() > before.0 && other.heard() > before.1).then_some(()));
        std::thread::sleep(QUIET);
        other.hears("a ring", || one.bell.ring());
        one.hears("and the other way", || other.bell.ring());
    }
}

#[test]
fn a_ring_that_could_not_be_said_is_said_later() {
    let database = Database::new();
    let url = database.url();
    let (credentials, place) = url.split_once('@').expect("a user");
    let (server, name) = place.split_once('/').expect("a database");
    let proxy = Proxy::start(server);
    let through = proxy.url();
    let listen = format!("{credentials}@{}/{name}", through.strip_prefix("http://").unwrap_or(&through));
    let (one, other) = (House::with(&url, &Options { listen: Some(listen), ..Options::default() }), House::new(&url));
    proxy.refuse(true);
    proxy.cut();
    await_that("it is gone", || (database.psql(BELLS) == "1").then_some(()));
    let before = other.heard();
    one.bell.ring();
    std::thread::sleep(QUIET);
    assert_eq!(other.heard(), before, "there is no way");
    proxy.heal();
    await_that("it was said", || (other.heard() > before).then_some(()));
}

#[test]
fn a_connection_that_was_ended_is_opened_again() {
    let database = Database::new();
    let (one, other) = (House::new(&database.url()), House::new(&database.url()));
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'bowline-bell'";
    for _ in 0..2 {
        let before = one.heard();
        other.hears("what may have been missed", || assert_eq!(database.psql(end), "2"));
        await_that("the other too", || (one.heard() > before).then_some(()));
        std::thread::sleep(QUIET);
        other.hears("a ring", || one.bell.ring());
    }
}

#[test]
fn it_ends_with_its_store() {
    let database = Database::new();
    let House { _store: store, bell, .. } = House::new(&database.url());
    assert_eq!(database.psql(BELLS), "1");
    let reader = store.reader();
    drop(store);
    await_that("nobody listens", || (database.psql(BELLS) == "0").then_some(()));
    bell.ring();
    assert_eq!(reader.meta("who").expect("what reads is left alone"), None);
    std::thread::sleep(QUIET);
    assert_eq!(database.psql(BELLS), "0");
}

#[test]
fn who_asks_for_no_bell_has_no_connection_for_it() {
    let database = Database::new();
    let mut store = PostgresStore::open(&database.url()).expect("a database");
    store.set_meta("who", "me").expect("a write");
    assert_eq!(database.psql(BELLS), "0");
}

#[test]
fn behind_a_pooler_there_is_one_only_with_an_address_of_its_own() {
    let database = Database::new();
    let pooler = PgBouncer::start(&database.url());
    let silent = Options { pooled: true, ..Options::default() };
    let store = PostgresStore::open_with(&pooler.url(), &silent).expect("a database");
    assert!(store.bell().is_none());
    let options = Options { listen: Some(database.url()), ..silent };
    let (one, other) = (House::with(&pooler.url(), &options), House::with(&pooler.url(), &options));
    other.hears("a ring", || one.bell.ring());
}

/// There it would seem to work, and hear whatever is said to somebody else.
#[test]
fn a_pooler_is_no_place_to_listen() {
    let database = Database::new();
    let pooler = PgBouncer::start(&database.url());
    let options = Options { pooled: true, listen: Some(pooler.url()), ..Options::default() };
    let store = PostgresStore::open_with(&pooler.url(), &options).expect("polling serves");
    let bell = store.bell().expect("nobody knows yet");
    let heard = count(&*bell);
    std::thread::sleep(QUIET);
    assert_eq!(heard.load(Ordering::Relaxed), 0);
    let listening = "SELECT count(*) FROM pg_listening_channels()";
    assert_eq!(database.psql_at(&pooler.url(), listening), "0");
}

#[test]
fn an_address_to_listen_at_that_is_none_is_refused() {
    let database = Database::new();
    let options = Options { listen: Some("postgres://ada:hush@db:x/jobs".to_owned()), ..Options::default() };
    let error = PostgresStore::open_with(&database.url(), &options).expect_err("no address").to_string();
    assert!(error.contains("postgres.listen") && !error.contains("hush"), "{error}");
}
