//! `bowline db check`, on databases that somebody broke.

use testkit::postgres::{Database, free_port};

use super::{text, two_jobs};
use crate::house::{House, no_sqlite_here};

/// What no part of Bowline writes: a job that nobody looks at, one whose data is no JSON, and values that only a server reads.
fn breaks(first: &str, second: &str) -> String {
    format!(
        "UPDATE steps SET owner = 'person' WHERE job_id = {first}; UPDATE jobs SET data = '{{nonsense' WHERE id = {second}; \
         UPDATE jobs SET input = '{{nonsense' WHERE id = {first}; \
         UPDATE log_chunks SET blocks = (SELECT hash FROM definitions LIMIT 1) WHERE attempt_id IN (SELECT id FROM attempts WHERE job_id = {first}); \
         UPDATE definitions SET source = 'steps: {{}}'"
    )
}

/// Damage is told on stdout, by name, with the rows; the exit code is 1.
fn check_told(house: &House, place: &[&str], first: &str, second: &str) {
    let told = house.bowline(&[&["db", "check"], place].concat()).code(1);
    for wanted in ["damage: step-owner (2): ", "damage: job-data (1): ", "its data cannot be read: "] {
        assert!(told.out.contains(wanted), "{}", told.out);
    }
    for wanted in ["damage: job-input (1): ", "damage: definition-text (1): ", "damage: log-blocks (2): "] {
        assert!(told.out.contains(wanted), "{}", told.out);
    }
    assert!(told.out.contains(&format!("job {first}, step 0")), "{}", told.out);
    assert!(told.out.contains(&format!("job {second}: its data cannot be read")), "{}", told.out);
    assert!(told.err.contains("checks found damage"), "{}", told.err);
    let told = house.bowline(&[&["db", "check", "--json"], place].concat()).code(1).json();
    assert_eq!(told["sound"], false);
    let checks = told["checks"].as_array().expect("a list");
    let found = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).expect("it is asked");
        (check["count"].as_u64(), check["found"][0]["job"].as_str().map(str::to_owned))
    };
    assert_eq!(found("step-owner"), (Some(2), Some(first.to_owned())));
    assert_eq!(found("job-data"), (Some(1), Some(second.to_owned())));
    assert_eq!(found("fence-once"), (Some(0), None));
}

#[test]
fn a_broken_file_is_told_by_its_rows() {
    if no_sqlite_here("its file is broken") {
        return;
    }
    let (house, up) = House::up();
    let (first, second) = two_jobs(&house);
    up.stop();
    let data = text(&house.path("data"));
    let told = house.bowline(&["db", "check", "--data", &data]).ok();
    let told = format!("{}{}", told.out, told.err);
    let count =
        told.split(" checks in ").next().and_then(|before| before.rsplit(' ').next()).expect("a number of checks");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(
        page.contains(&format!("bowline.db: {count} checks in ")),
        "docs/operations.md shows another number: {told}"
    );
    let database = rusqlite::Connection::open(house.path("data/bowline.db")).expect("a database");
    let id = |id: &str| format!("x'{}'", id.replace('-', ""));
    database.execute_batch(&breaks(&id(&first), &id(&second))).expect("broken");
    drop(database);
    check_told(&house, &["--data", &data], &first, &second);
}

#[test]
fn a_broken_database_is_told_by_its_rows() {
    let mut house = House::shared();
    let up = house.start_up(&[]);
    let (first, second) = two_jobs(&house);
    up.stop();
    let url = house.database.as_ref().expect("a database").url();
    house.bowline(&["db", "check", "--database", &url]).ok();
    let id = |id: &str| format!("'{id}'");
    house.database.as_ref().expect("a database").psql(&breaks(&id(&first), &id(&second)));
    check_told(&house, &["--database", &url], &first, &second);
}

/// Nobody knows then whether anything is damaged.
#[test]
fn a_database_that_is_not_there_is_no_damage() {
    let house = House::new();
    let nowhere = format!("postgres://bowline:hush@127.0.0.1:{}/bowline", free_port());
    let file = text(&house.path("file"));
    for words in [
        &["check"][..],
        &["migrate"],
        &["prune", "--dry-run", "--older-than", "1d"],
        &["restored"],
        &["backup", "--to", file.as_str()],
    ] {
        let told = house.bowline(&[&["db"], words, &["--database", nowhere.as_str()]].concat()).code(4);
        assert!(told.err.contains("the database is not available") && !told.err.contains("hush"), "{}", told.err);
        assert_eq!(told.out, "");
    }
    // One that is there, and is none of ours, is what it was.
    let other = Database::new();
    other.psql("CREATE TABLE recipes (name text)");
    house.bowline(&["db", "check", "--database", &other.url()]).code(1);
}
