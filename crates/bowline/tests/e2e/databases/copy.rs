//! `bowline db copy`.

use protocol::log::{BlockEncoder, LineEnd, Stream};
use rusqlite::Connection;
use store::conformance::healthy;
use store_sqlite::SqliteStore;
use testkit::postgres::Database;

use super::{text, two_jobs};
use crate::house::{House, Ran, await_that, no_sqlite_here, step_of};

const JOBS: &str = "SELECT count(*) FROM jobs";

fn copy(house: &House, to: &Database) -> Ran {
    let from = format!("sqlite:{}", text(&house.path("data/bowline.db")));
    house.bowline(&["db", "copy", "--json", "--from", &from, "--to", &to.url()])
}

/// Jobs, logs, who went on for whom, triggers, approvals; and a step that runs from before to after.
#[test]
fn an_installation_goes_on_where_it_was() {
    if no_sqlite_here("it is copied from there") {
        return;
    }
    let (mut house, server, _worker) = House::patient();
    std::fs::create_dir_all(house.path("tasks")).expect("made");
    let task = "name: tidy\nsteps: { a: { run: 'true' } }\ntriggers:\n  - { cron: '0 0 1 1 *' }\n";
    house.write("tasks/tidy.yaml", task);
    let trigger = |house: &House| house.bowline(&["triggers", "--json"]).ok().json()["items"][0]["next"].clone();
    await_that("the trigger is known", || trigger(&house).get(0).is_some().then_some(()));
    house.bowline(&["triggers", "pause", "tidy:cron:1"]).ok();
    let (first, second) = two_jobs(&house);
    let gated = house.submit(
        "name: g\nsteps: { gate: { approve: { message: 'Ship it?' } }, s: { run: echo shipped, needs: gate } }\n",
    );
    let go = text(&house.path("go"));
    let runs = house.submit(&format!(
        "name: r\nsteps: {{ a: {{ run: 'echo before; until [ -e {go} ]; do sleep 0.1; done; echo after' }} }}\n"
    ));
    house.await_state(&runs, Some("a"), "running");
    house.await_state(&gated, Some("gate"), "held");
    let events = house.job(&first)["version"].clone();

    let database = Database::new();
    let in_use = copy(&house, &database).code(1).err;
    assert!(in_use.contains("in use by another server"), "{in_use}");
    server.stop();
    let told = copy(&house, &database).ok();
    assert!(told.err.contains("jobs: 4 rows copied"), "{}", told.err);
    let told = told.json();
    assert_eq!(told["check"]["sound"], true, "{told}");
    let tables = told["tables"].as_array().expect("tables");
    assert!(tables.iter().any(|table| table["name"] == "lineage" && table["rows"] == 1), "{told}");

    house.set("BOWLINE_DATABASE", &database.url());
    let _server = house.start_server();
    assert_eq!(house.log(&first, "b"), "again\n");
    assert_eq!((&house.job(&second)["continues"], &house.job(&first)["version"]), (&first.as_str().into(), &events));
    let paused = house.bowline(&["triggers", "--json"]).ok().json()["items"][0].clone();
    assert_eq!((&paused["id"], &paused["paused"]), (&"tidy:cron:1".into(), &true.into()), "{paused}");
    house.write("go", "");
    let ended = house.end(&runs);
    assert_eq!(
        (&ended["state"], &step_of(&ended, "a")["attempts"].as_array().map(Vec::len)),
        (&"success".into(), &Some(1))
    );
    await_that("its log is whole", || {
        let log = house.log(&runs, "a");
        // Between them it says that nobody was there to hear it.
        (log.starts_with("before\n") && log.ends_with("after\n")).then_some(())
    });
    house.bowline(&["approve", &gated, "gate"]).ok();
    assert_eq!(house.end(&gated)["state"], "success");
    two_jobs(&house);
    house.bowline(&["db", "check"]).ok();
}

/// A stopped installation with something of everything in it.
fn still_house() -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("data")).expect("made");
    healthy::fill(&mut SqliteStore::open(&house.path("data/bowline.db")).expect("a database"));
    fill_logs(&Connection::open(house.path("data/bowline.db")).expect("a database"));
    house
}

/// A store does not look into pieces of logs, and puts anything there; who checks a database does.
fn fill_logs(database: &Connection) {
    let mut rows = database.prepare("SELECT attempt_id, first_seq, last_seq FROM log_chunks").expect("a statement");
    let pieces = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    for (attempt, first, last) in pieces.collect::<Result<Vec<(Vec<u8>, u32, u32)>, _>>().expect("numbers") {
        let mut encoder = BlockEncoder::new(u64::from(first));
        for seq in first..=last {
            encoder.push(0, Stream::Stdout, LineEnd::Newline, format!("line {seq}").as_bytes());
        }
        let blocks = encoder.seal().map(<[u8]>::to_vec).unwrap_or_default();
        let of_this = "UPDATE log_chunks SET blocks = ?3 WHERE attempt_id = ?1 AND first_seq = ?2";
        database.execute(of_this, (attempt, first, blocks)).expect("filled");
    }
}

#[test]
fn everything_arrives_and_numbers_go_on() {
    let (house, database) = (still_house(), Database::new());
    let file = Connection::open(house.path("data/bowline.db")).expect("a database");
    let odd = "INSERT INTO tasks VALUES ('odd', 'a' || char(0) || 'b', 1, 'ann');
               INSERT INTO quarantine VALUES (7, NULL, 1, 'e', 'why')";
    file.execute_batch(odd).expect("changed");
    drop(file);
    let told = copy(&house, &database);
    // Its clock is long ago, and what was set aside is a doubt: neither is damage.
    let told = told.ok().json();
    assert_eq!(told["check"]["sound"], true, "{told}");
    let empty =
        |name: &str| told["tables"].as_array().expect("tables").iter().any(|t| t["name"] == name && t["rows"] == 0);
    for name in
        ["jobs", "steps", "attempts", "events", "logs", "log_chunks", "workers", "triggers", "outbox", "lineage"]
    {
        assert!(!empty(name), "{name} has no rows to copy: {told}");
    }
    assert_eq!(database.psql("SELECT source FROM tasks WHERE name = 'odd'"), "a\u{FFFD}b");
    let last = database.psql("SELECT max(id) FROM events");
    assert_eq!(
        database.psql("SELECT value FROM counters WHERE name = 'event'"),
        last,
        "the next event has a new number"
    );
    database.psql("INSERT INTO quarantine (at, event, error) VALUES (1, 'e', 'why')");
    assert_eq!(database.psql("SELECT max(id) FROM quarantine"), "8");
    let again = copy(&house, &database).code(2).err;
    assert!(again.contains("is not empty"), "{again}");
}

#[test]
fn a_copy_that_is_not_what_the_source_is_is_noticed_and_not_kept() {
    let (house, database) = (still_house(), Database::new());
    house.bowline(&["db", "migrate", "--database", &database.url()]).ok();
    let spoils = |table: &str, body: &str| {
        database.psql(&format!(
            "CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
             CREATE TRIGGER spoil BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION spoil()"
        ));
        let told = copy(&house, &database).code(1);
        assert!(told.err.contains(&format!("table `{table}` is not what the source is")), "{}", told.err);
        assert_eq!((told.out.as_str(), database.psql(JOBS).as_str()), ("", "0"), "nothing was kept");
        database.psql(&format!("DROP TRIGGER spoil ON {table}"));
    };
    spoils("jobs", "NEW.priority := NEW.priority + 1; RETURN NEW;");
    spoils("log_chunks", "NEW.blocks := NEW.blocks || '\\x00'; RETURN NEW;");
    spoils("events", "IF NEW.id = 3 THEN RETURN NULL; END IF; RETURN NEW;");
    copy(&house, &database).ok();
    assert_ne!(database.psql(JOBS), "0", "what was begun anew is whole");
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_written() {
    let (house, database) = (still_house(), Database::new());
    let (file, url) = (format!("sqlite:{}", text(&house.path("data/bowline.db"))), database.url());
    let refused = |from: &str, to: &str| house.bowline(&["db", "copy", "--from", from, "--to", to]).code(2).err;
    assert!(refused(&url, &file).contains("from `sqlite:PATH` to `postgres://…`"));
    assert!(refused("sqlite:/no/such/file", &url).contains("there is no database at"));
    assert!(refused("bowline.db", &url).contains("sqlite:PATH"));
    let change = |sql: &str| {
        Connection::open(house.path("data/bowline.db")).expect("a database").execute_batch(sql).expect("changed");
    };
    change("UPDATE jobs SET parent_job = 'x' WHERE id = (SELECT min(id) FROM jobs)");
    let told = copy(&house, &database).code(1).err;
    assert!(told.contains("jobs.parent_job holds what does not belong there"), "{told}");
    assert_eq!(database.psql(JOBS), "0");
    change("DELETE FROM schema_migrations WHERE version = 22");
    let told = copy(&house, &database).code(2).err;
    assert!(told.contains("bowline db migrate"), "{told}");
}
