//! The database that all servers share crashes, is away, is slow, or is full.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::postgres::Postgres;
use testkit::{Fault, House, Proxy, Role, SmallDisk, await_that, within};

use super::stream::{SAYS, check_alive, check_each_ran_once, under_load};
use super::town::Town;
use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate, pass, step};

/// Longer than the window of a hasty town.
const LONG: Duration = Duration::from_secs(4);

#[test]
fn a_database_that_crashes_under_load_loses_nothing_that_was_taken() {
    let mut postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.owned(), "30");
    let mut servers = [town.start("a"), town.start("b")];
    let _workers = [town.worker("v", &["a", "b"]), town.worker("w", &["b", "a"])];
    town.house.await_links(2);
    let house = &town.house;
    let count = || house.read("ran").lines().count();
    let taken = under_load(house, || {
        for _ in 0..3 {
            let before = count();
            await_that("work goes on", || (count() >= before + 5).then_some(()));
            postgres.crash();
            postgres.start_again();
        }
        let before = count();
        await_that("work goes on", || (count() >= before + 5).then_some(()));
    });
    check_each_ran_once(house, &taken);
    check_alive(&mut servers);
}

#[test]
fn a_database_that_is_away_for_longer_than_everything_costs_nothing() {
    let mut postgres = Postgres::start(&[]);
    // Longer than one server may notice later than the other that the database is back.
    let mut town = Town::on(&postgres.url(), "3");
    let mut servers = [town.start("a"), town.start("b")];
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    postgres.stop();
    for name in ["a", "b"] {
        let problem = await_that("it says that it is not ready", || {
            let (status, body) = town.get(name, "/readyz");
            (status == 503).then_some(body)
        });
        assert!(problem.contains("the database") && problem.contains("it is away"), "{problem}");
        assert!(!problem.contains("127.0.0.1"), "{problem}");
        assert_eq!(town.get(name, "/healthz").0, 200, "nobody should kill it for that");
    }
    let refused = town.house.bowline(&["exec", "--detach", "--", "true"]).code(4);
    assert!(refused.err.contains("database"), "{}", refused.err);
    // It ends while nobody can write that down.
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    pass(LONG);
    check_alive(&mut servers);
    postgres.start_again();
    await_that("both are ready", || ["a", "b"].iter().all(|name| town.get(name, "/readyz").0 == 200).then_some(()));
    check_ran_once(&town.house, &id);
    town.house.bowline(&["exec", "--", "true"]).ok();
    check_alive(&mut servers);
}

/// Whoever looks after a server wants an answer of some kind.
const AT_ONCE: Duration = Duration::from_secs(2);

/// It is there, takes connections, and answers nothing.
#[test]
fn a_database_that_stands_still_for_longer_than_everything_costs_nothing() {
    let postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "1");
    let mut servers = [town.start("a"), town.start("b")];
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    let frozen = postgres.freeze();
    for name in ["a", "b"] {
        let (status, body) = town.get_within(AT_ONCE, name, "/readyz");
        assert_eq!(status, 503, "{body}");
        assert_eq!(town.get_within(AT_ONCE, name, "/healthz").0, 200, "nobody should kill it for that");
    }
    // The ledger's own commits are noticed as well, by somebody else than its thread.
    await_that("it says that commits hang", || {
        let body = town.get_within(AT_ONCE, "a", "/readyz").1;
        body.contains("the database does not take commits: it does not answer in time").then_some(())
    });
    let refused = town.house.bowline(&["exec", "--detach", "--", "true"]).code(4);
    assert!(refused.err.contains("database"), "{}", refused.err);
    pass(LONG);
    drop(frozen);
    await_that("both are ready", || ["a", "b"].iter().all(|name| town.get(name, "/readyz").0 == 200).then_some(()));
    town.await_marks();
    pass(LONG);
    assert_eq!(step(&town.house, &id)["state"], "running", "nobody was judged for it");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    check_alive(&mut servers);
}

/// Longer than it tries, and longer than it waits for an answer.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_server_whose_database_stands_still_stops_when_it_is_told_to() {
    let postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "30");
    let mut server = town.start("a");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    let frozen = postgres.freeze();
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    await_that("it has noticed", || (town.get("a", "/readyz").0 == 503).then_some(()));
    server.signal("TERM");
    let ended = within(STOPS_WITHIN, "the server ends", || server.child.try_wait().expect("waited"));
    assert!(ended.success());
    assert!(town.house.read("roles.log").contains("the server stops without its database"));
    drop(frozen);
    let _server = town.start("a");
    check_ran_once(&town.house, &id);
}

/// The same for a step that is still running when it is over.
#[test]
fn nobody_is_judged_for_his_silence_while_the_database_is_away() {
    let mut postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "1");
    let _servers = [town.start("a"), town.start("b")];
    let worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    postgres.crash();
    // Even one that is gone meanwhile has its whole window afterwards.
    worker.kill();
    pass(LONG);
    postgres.start_again();
    let _worker = town.worker("w", &["b", "a"]);
    town.house.await_links(2);
    town.house.await_state(&id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
}

/// With a proxy between this server alone and the database.
fn start_by_a_way_of_its_own(town: &mut Town, name: &'static str, postgres: &Postgres) -> (Role, Proxy) {
    let direct = postgres.url();
    let place = direct.split(['@', '/']).nth(3).expect("address and port");
    let way = Proxy::start(place);
    town.house.set("BOWLINE_DATABASE", &direct.replace(place, way.url().trim_start_matches("http://")));
    let server = town.start(name);
    town.house.set("BOWLINE_DATABASE", &direct);
    (server, way)
}

/// For each way. A round of the ledger may ask more than twenty times, one after the other, so that takes a good second then.
const SLOWLY: Duration = Duration::from_millis(25);

/// It answers all that it is asked, late, and only one of two servers sees it so.
#[test]
fn a_database_that_is_slow_for_longer_than_everything_costs_nothing_but_time() {
    let postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "1");
    let b = town.start("b");
    let (a, way) = start_by_a_way_of_its_own(&mut town, "a", &postgres);
    let _workers = [town.worker("v", &["a", "b"]), town.worker("w", &["b", "a"])];
    town.house.await_links(2);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    way.set_both(Fault::Delay(SLOWLY));
    let (begun, mut ready) = (Instant::now(), BTreeMap::new());
    while begun.elapsed() < LONG {
        assert_eq!(town.get_within(AT_ONCE, "b", "/readyz").0, 200, "its own way is good");
        let (status, body) = town.get_within(AT_ONCE, "a", "/readyz");
        assert!(status == 200 || status == 503 && body.contains("the database"), "{status} {body}");
        assert_eq!(town.get_within(AT_ONCE, "a", "/healthz").0, 200, "nobody should kill it for that");
        *ready.entry(status).or_insert(0) += 1;
        pass(AT_ONCE / 20);
    }
    println!("asked whether it is ready it said: {ready:?}");
    // Work is taken and done there, too.
    town.ask("a");
    let exec = ["exec", "--effects", "none", "--", "true"];
    await_that("work is taken and done", || (town.house.bowline(&exec).code == 0).then_some(()));
    println!("work was done {:?} after that began", begun.elapsed());
    assert_eq!(town.times_recovering(&id), "0", "somebody was judged for it");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    way.heal();
    await_that("it is ready", || (town.get("a", "/readyz").0 == 200).then_some(()));
    town.check_nothing_lost();
    check_alive(&mut [a, b]);
}

/// Only one of two servers loses the database, and keeps hearing its worker, of which the other one cannot know.
#[test]
fn a_server_that_loses_the_database_alone_sends_its_workers_to_another() {
    let postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "3");
    let _b = town.start("b");
    let (mut a, way) = start_by_a_way_of_its_own(&mut town, "a", &postgres);
    let _worker = town.worker("w", &["a", "b"]);
    town.house.await_links(1);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    way.refuse(true);
    way.reset();
    let linked = "SELECT count(*) FROM workers w JOIN servers s ON s.id = w.server_id WHERE w.left_heard IS NULL AND s.address = ";
    let with_b = format!("{linked}'{}'", town.place("b"));
    await_that("the worker is with the other server", || (town.psql(&with_b) == "1").then_some(()));
    // Longer than the window, so that whoever would be given up is.
    pass(LONG * 2);
    town.house.await_state(&id, Some(STEP), "running");
    open_gate(&town.house);
    check_ran_once(&town.house, &id);
    check_alive(std::slice::from_mut(&mut a));
    way.heal();
}

/// What a start reads after it has reached the database: each is a moment at which that can die.
#[test]
fn a_server_whose_database_crashes_while_it_starts_waits_for_it() {
    let mut postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "30");
    assert!(town.start("a").stop().success());
    for table in ["meta", "hearing", "tasks", "tokens"] {
        let holding = postgres.hold(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"));
        let server = town.launch("a");
        await_that(&format!("it reads {table}"), || {
            let waiting = postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
            (waiting != "0").then_some(())
        });
        let waits = || town.house.read("roles.log").matches("waiting for the database").count();
        let before = waits();
        postgres.kill();
        drop(holding);
        await_that("it says that it waits", || (waits() > before).then_some(()));
        postgres.start_again();
        server.wait_ready();
        town.house.bowline(&["jobs"]).ok();
        assert!(server.stop().success());
    }
}

#[test]
fn a_server_that_starts_without_its_database_says_so_and_stops_when_it_is_told_to() {
    let mut postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "30");
    town.settle("a");
    postgres.stop();
    let listens = |town: &Town| TcpStream::connect(town.place("a")).is_ok().then_some(());
    let waiting = town.launch("a");
    await_that("it listens", || listens(&town));
    assert_eq!(town.get("a", "/healthz").0, 200, "nobody should kill it for that");
    await_that("it says what it waits for", || {
        let (status, body) = town.get("a", "/readyz");
        assert_eq!(status, 503, "{body}");
        body.contains("the server is starting: it waits for its database\"").then_some(())
    });
    let (status, body) = town.get("a", "/api/jobs");
    assert!(status == 503 && body.contains("\"unavailable\""), "{status} {body}");
    // Where that is, and who it is there, is for those alone who may read the log.
    let url = postgres.url();
    let (_, place) = url.rsplit_once('@').expect("a user");
    for path in ["/readyz", "/api/jobs", "/hooks/any", "/"] {
        let body = town.get("a", path).1;
        assert!(!["postgres", "127.0.0.1", place, "refused"].iter().any(|word| body.contains(word)), "{path}: {body}");
    }
    assert!(town.house.read("roles.log").contains(place), "the log says it");
    assert!(waiting.stop().success());
    let waiting = town.launch("a");
    await_that("it listens", || listens(&town));
    postgres.start_again();
    waiting.wait_ready();
    assert_eq!(town.get("a", "/readyz").0, 200);
}

/// And whoever could not be written down comes again.
#[test]
fn a_server_whose_database_is_away_stops_when_it_is_told_to() {
    let mut postgres = Postgres::start(&[]);
    let mut town = Town::on(&postgres.url(), "30");
    let server = town.start("a");
    let _worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    postgres.stop();
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    assert!(server.stop().success());
    assert!(town.house.read("roles.log").contains("the server stops without its database"));
    postgres.start_again();
    let _server = town.start("a");
    check_ran_once(&town.house, &id);
}

#[test]
fn a_database_whose_rows_are_locked_for_long_is_waited_for() {
    let mut town = Town::hasty();
    let mut servers = [town.start("a"), town.start("b")];
    let _worker = town.worker("w", &["a", "b"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    let database = town.house.database.as_ref().expect("a database of its own");
    let holding = database.hold("BEGIN; LOCK TABLE jobs, steps, attempts, workers IN ACCESS EXCLUSIVE MODE");
    open_gate(&town.house);
    await_that("the step has ended", || (town.house.outside().completed() == 1).then_some(()));
    pass(LONG);
    drop(holding);
    check_ran_once(&town.house, &id);
    check_alive(&mut servers);
}

const DISK_KIB: u32 = 24 * 1024;

/// So much text that it does not get smaller, and few of it fill what room is left in the tables' files.
fn long_task(house: &House, seed: u64) -> String {
    let mut dice = crate::dice::Dice::new(seed);
    let text: String = (0..2_000).map(|_| format!("{:016x}", dice.roll(u64::MAX))).collect();
    format!("name: long\nsteps:\n  a:\n    run: |\n      {SAYS}{} # {text}\n", house.path("ran").display())
}

#[test]
fn a_database_without_room_keeps_what_it_took_and_goes_on_when_there_is_some() {
    let postgres = Postgres::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("small");
    let Some(_disk) = SmallDisk::mount(&at, DISK_KIB) else { return };
    [folder.path(), &at].into_iter().for_each(|path| postgres.give(path));
    postgres.psql(&format!("CREATE TABLESPACE small LOCATION '{}'", at.display()));
    postgres.psql("ALTER DATABASE postgres SET default_tablespace = small");
    let mut town = Town::on(&postgres.url(), "30");
    let mut server = [town.start("a")];
    let _worker = town.worker("w", &["a"]);
    town.house.await_links(1);
    fill(&at.join("filler"));
    let mut taken = Vec::new();
    for seed in 1.. {
        assert!(seed < 1_000, "it is never full");
        let file = town.house.write("long.yaml", &long_task(&town.house, seed)).display().to_string();
        let ran = town.house.bowline(&["run", &file, "--detach"]);
        if ran.code != 0 {
            break;
        }
        taken.push(ran.out.trim().to_owned());
    }
    town.await_said("the database is away");
    await_that("it says why it is not ready", || {
        town.get("a", "/readyz").1.contains("it has no room left").then_some(())
    });
    std::fs::remove_file(at.join("filler")).expect("removed");
    check_each_ran_once(&town.house, &taken);
    town.house.bowline(&["exec", "--", "true"]).ok();
    check_alive(&mut server);
    // Its files are on a disk that goes first.
    drop(postgres);
}

const LOG_DISK_KIB: u32 = 80 * 1024;

/// Worse than tables without room: PostgreSQL itself falls over, and may not come up again before there is some.
#[test]
fn a_database_whose_log_has_no_room_falls_over_and_loses_nothing_that_was_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("small");
    let Some(_disk) = SmallDisk::mount(&at, LOG_DISK_KIB) else { return };
    testkit::postgres::hand_over(folder.path());
    let mut postgres = Postgres::with_log_in(&at, &["max_wal_size=32MB", "min_wal_size=32MB"]);
    let mut town = Town::on(&postgres.url(), "30");
    let mut servers = [town.start("a"), town.start("b")];
    let _workers = [town.worker("v", &["a", "b"]), town.worker("w", &["b", "a"])];
    town.house.await_links(2);
    let house = &town.house;
    let count = || house.read("ran").lines().count();
    let taken = under_load(house, || {
        await_that("work goes on", || (count() >= 3).then_some(()));
        fill(&at.join("filler"));
        // So much that no piece of the log holds it.
        let more =
            "SELECT count(pg_logical_emit_message(true, 'more', repeat('x', 1000000))) FROM generate_series(1, 40)";
        postgres.try_psql(more).expect_err("there is no room for it");
        town.await_said("the database is away");
        std::fs::remove_file(at.join("filler")).expect("removed");
        postgres.revive();
        let before = count();
        await_that("work goes on", || (count() >= before + 3).then_some(()));
    });
    check_each_ran_once(house, &taken);
    check_alive(&mut servers);
    town.check_nothing_lost();
    // Its log is on a disk that goes first.
    drop(postgres);
}

/// Takes all the room that there is.
fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).expect("created");
    for size in [64 * 1024, 4096, 1] {
        let block = vec![0; size];
        while file.write_all(&block).is_ok() {}
    }
}
