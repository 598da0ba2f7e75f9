//! `bowline db migrate`.

use std::process::{Child, Stdio};

use rusqlite::Connection;
use testkit::postgres::Database;

use super::{arguments, text};
use crate::house::{House, finish, no_sqlite_here};

/// Several at once, as when several machines are upgraded at once.
fn four_at_once(house: &House, words: &[&str]) -> Vec<crate::house::Ran> {
    let start = |_| house.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let children: Vec<Child> = (0..4).map(start).collect();
    children.into_iter().map(finish).collect()
}

#[test]
fn a_file_of_an_older_build_is_brought_up_to_date_once() {
    if no_sqlite_here("its file is changed") {
        return;
    }
    let (house, up) = House::up();
    let data = text(&house.path("data"));
    let migrate = arguments(&["db", "migrate", "--json", "--data"], &data);
    let beside = house.bowline(&migrate).ok().json();
    assert_eq!(beside["from"], beside["to"], "a server has it, and there is nothing to do");
    up.stop();
    let newest = beside["to"].as_u64().expect("a version");
    let change = |sql: &str| {
        Connection::open(house.path("data/bowline.db")).expect("a database").execute_batch(sql).expect("changed");
    };
    change("ALTER TABLE workers DROP COLUMN after_loss; DELETE FROM schema_migrations WHERE version = 22");
    house.bowline(&["db", "check", "--data", &data]).code(1);
    let all: Vec<_> = four_at_once(&house, &migrate).into_iter().map(|ran| ran.ok().json()).collect();
    assert!(all.iter().all(|one| one["to"] == newest), "{all:?}");
    assert_eq!(all.iter().filter(|one| one["from"] == newest - 1).count(), 1, "one of them did it: {all:?}");
    let said = house.bowline(&["db", "migrate", "--data", &data]).ok().out;
    assert!(said.contains("nothing to do"), "{said}");
    house.bowline(&["db", "check", "--data", &data]).ok();
    change("UPDATE meta SET value = '99' WHERE key = 'min_reader'");
    let refused = house.bowline(&["db", "migrate", "--data", &data]).code(1).err;
    assert!(refused.contains("was made by a newer Bowline") && refused.contains("use a newer build"), "{refused}");
    let nowhere = house.bowline(&["db", "migrate", "--data", "/no/such/folder"]).code(2).err;
    assert!(nowhere.contains("there is no database at"), "{nowhere}");
}

#[test]
fn a_file_that_a_server_has_is_not_migrated_under_it() {
    if no_sqlite_here("its file is changed") {
        return;
    }
    let (house, _up) = House::up();
    let file = Connection::open(house.path("data/bowline.db")).expect("a database");
    file.execute("DELETE FROM schema_migrations WHERE version = 22", []).expect("changed");
    let refused = house.bowline(&["db", "migrate", "--data", &text(&house.path("data"))]).code(1).err;
    assert!(refused.contains("in use by another server"), "{refused}");
}

#[test]
fn an_empty_postgresql_gets_its_tables_once() {
    let (house, database) = (House::new(), Database::new());
    let url = database.url();
    let migrate = arguments(&["db", "migrate", "--json", "--database"], &url);
    let all: Vec<_> = four_at_once(&house, &migrate).into_iter().map(|ran| ran.ok().json()).collect();
    let newest = all[0]["to"].as_u64().expect("a version");
    assert!(all.iter().all(|one| one["to"] == newest), "{all:?}");
    let said = house.bowline(&["db", "migrate", "--database", &url]).ok().out;
    assert!(said.contains("nothing to do") && said.contains("postgres://"), "{said}");
    house.bowline(&["db", "check", "--database", &url]).ok();
    database.psql("ALTER TABLE workers DROP COLUMN after_loss; DELETE FROM schema_migrations WHERE version = 5");
    let again = house.bowline(&migrate).ok().json();
    assert_eq!((&again["from"], &again["to"]), (&(newest - 1).into(), &newest.into()));
    database.psql("UPDATE meta SET value = '99' WHERE key = 'min_reader'");
    let refused = house.bowline(&["db", "migrate", "--database", &url]).code(1).err;
    assert!(refused.contains("was made by a newer Bowline") && refused.contains("use a newer build"), "{refused}");
}
