//! A database that was put back from a backup, and an operator who says so: nothing with effects runs again without a person's word.

use serde_json::Value;
use testkit::postgres::Database;
use testkit::{House, await_that, on_postgres};

use crate::story::{STEP, await_lines, brief, check_ran_once, counting, open_gate, pass, step};

/// Where the database is, for commands that work on it themselves.
fn place(house: &House) -> Vec<String> {
    match house.database.as_ref() {
        Some(database) => vec!["--database".to_owned(), database.url()],
        None => vec!["--data".to_owned(), house.path("data").display().to_string()],
    }
}

fn db(house: &House, words: &[&str]) -> testkit::Ran {
    let place = place(house);
    house.bowline(&["db"].iter().chain(words).copied().chain(place.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// What was kept takes the place of what there is, and an operator says so.
fn restore(house: &House) -> Value {
    house.restore();
    db(house, &["check"]).ok();
    db(house, &["restored", "--json"]).ok().json()
}

/// A job that waits for a worker, and is in the backup so; it has ended well since.
fn ended_since_the_backup(house: &mut House, server: testkit::Role) -> String {
    house.bowline(&["dispatch", "pause"]).ok();
    let id = house.submit(&brief(house, "effects: writes"));
    house.await_state(&id, Some(STEP), "queued");
    server.stop();
    house.back_up();
    let server = house.start_server();
    house.bowline(&["dispatch", "resume"]).ok();
    check_ran_once(house, &id);
    server.stop();
    id
}

/// The worker is on another machine now, and what it knew is lost.
fn move_away(house: &House, worker: testkit::Role) {
    worker.kill();
    std::fs::remove_dir_all(house.path("w")).expect("removed");
}

#[test]
fn what_ran_since_the_backup_does_not_run_again_without_a_word() {
    let (mut house, server, worker) = House::hasty();
    let id = ended_since_the_backup(&mut house, server);
    move_away(&house, worker);
    let said = restore(&house);
    assert_eq!(said["open_jobs"], 1, "{said}");
    let _server = house.start_server();
    house.bowline(&["dispatch", "resume"]).ok();
    let _worker = house.start_worker("v", &[]);
    house.bowline(&["exec", "--", "true"]).ok();
    // Longer than the window, and another server.
    pass(std::time::Duration::from_secs(4));
    let held = step(&house, &id);
    assert_eq!((&held["state"], &held["hold"]["reason"]), (&"held".into(), &"restored".into()), "{held:#}");
    assert_eq!(held["deadline"]["owner"], "person");
    assert_eq!(house.outside().executions(), 1, "nobody said that it may run");
    let why = house.bowline(&["why", &id]).ok().out;
    assert!(why.contains("the database was restored") && why.contains("bowline approve"), "{why}");
    let shown = house.bowline(&["job", &id]).ok().out;
    assert!(shown.contains("held (0/1, restored)"), "{shown}");
    db(&house, &["check"]).ok();
    house.bowline(&["approve", &id, STEP]).ok();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.outside().executions(), 2, "somebody said so");
}

#[test]
fn a_person_who_knows_what_became_of_it_says_so_and_the_job_goes_on() {
    let (mut house, server, worker) = House::patient();
    let id = ended_since_the_backup(&mut house, server);
    move_away(&house, worker);
    restore(&house);
    let _server = house.start_server();
    house.await_state(&id, Some(STEP), "held");
    house.bowline(&["resolve", &id, STEP, "--succeeded"]).ok();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.outside().executions(), 1);
}

/// Its worker keeps what it did for a day, and is asked for it.
#[test]
fn a_worker_that_knows_how_it_ended_needs_no_person() {
    let (mut house, server, _worker) = House::patient();
    let id = ended_since_the_backup(&mut house, server);
    restore(&house);
    let _server = house.start_server();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!((house.outside().executions(), house.outside().completed()), (1, 1));
}

#[test]
fn what_was_under_way_in_the_backup_goes_on_where_it_runs() {
    let (mut house, server, _worker) = House::patient();
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    server.stop();
    house.back_up();
    let server = house.start_server();
    house.await_links(2);
    server.kill();
    restore(&house);
    let _server = house.start_server();
    house.await_state(&id, Some(STEP), "running");
    open_gate(&house);
    check_ran_once(&house, &id);
}

#[test]
fn what_was_under_way_in_the_backup_is_not_run_beside_itself() {
    let (mut house, server, worker) = House::hasty();
    let id = house.submit(&counting(&house, "effects: idempotent"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    server.stop();
    house.back_up();
    let server = house.start_server();
    open_gate(&house);
    check_ran_once(&house, &id);
    server.stop();
    move_away(&house, worker);
    restore(&house);
    let _server = house.start_server();
    let _worker = house.start_worker("v", &[]);
    pass(std::time::Duration::from_secs(4));
    let held = step(&house, &id);
    assert_eq!((&held["state"], &held["hold"]["reason"]), (&"held".into(), &"restored".into()), "{held:#}");
    db(&house, &["check"]).ok();
    let refused = house.bowline(&["approve", &id, STEP]);
    assert!(refused.code != 0 && refused.err.contains("--confirm-dead"), "{}", refused.err);
    house.bowline(&["resolve", &id, STEP, "--rerun", "--confirm-dead"]).ok();
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.outside().executions(), 2);
}

/// It may be said again, and to servers that run where they may.
#[test]
fn servers_that_run_on_postgresql_hear_of_it() {
    let (house, server, _worker) = House::patient();
    let gate = house.submit("name: gate\nsteps: { a: { run: 'true', tags: [nobody], unmatched: wait } }\n");
    house.await_state(&gate, Some("a"), "queued");
    if !on_postgres() {
        let refused = db(&house, &["restored"]).code(1).err;
        assert!(refused.contains("in use by another server"), "{refused}");
        server.stop();
        let said = db(&house, &["restored"]).ok();
        assert!(said.out.contains("1 job not over"), "{}", said.out);
        return;
    }
    db(&house, &["restored"]).ok();
    house.await_state(&gate, Some("a"), "held");
    house.bowline(&["approve", &gate, "a"]).ok();
    house.await_state(&gate, Some("a"), "queued");
    db(&house, &["restored"]).ok();
    house.await_state(&gate, Some("a"), "held");
    // What is new is none of its business.
    await_that("a new job runs", || (house.bowline(&["exec", "--", "true"]).code == 0).then_some(()));
}

#[test]
fn what_is_no_database_of_ours_is_not_touched() {
    let house = House::new();
    let refused = |words: &[&str], code: i32, wanted: &str| {
        let ran = house.bowline(&[&["db", "restored"], words].concat());
        assert!(ran.code == code && ran.err.contains(wanted), "{} {}", ran.code, ran.err);
    };
    refused(&["--data", "/no/such/folder"], 2, "there is no database at");
    refused(&["--database", "mysql://here"], 2, "is neither");
    let empty = house.write("empty.db", "").display().to_string();
    refused(&["--database", &format!("sqlite:{empty}")], 2, "it is empty");
    assert_eq!(house.read("empty.db"), "", "nothing was made of it");
    let other = house.write("other.db", "no database at all, but long enough to look at").display().to_string();
    refused(&["--database", &format!("sqlite:{other}")], 1, "other.db");
    let database = Database::new();
    refused(&["--database", &database.url()], 2, "it is empty");
    assert_eq!(database.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    database.psql("CREATE TABLE theirs (x int)");
    refused(&["--database", &database.url()], 1, "another program");
    let migrated = Database::new();
    house.bowline(&["db", "migrate", "--database", &migrated.url()]).ok();
    refused(&["--database", &migrated.url()], 2, "no server has ever run");
}
