//! `bowline db backup`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testkit::postgres::{Database, bin};

use super::{text, two_jobs};
use crate::house::{House, no_sqlite_here, step_of};

/// Prints until it is told to end.
const TALKER: &str = "name: talker\nsteps: { a: { run: 'while [ ! -e stop ]; do seq 200; sleep 0.02; done' } }\n";

#[test]
fn a_file_is_backed_up_while_a_server_writes_and_serves_from_another_folder() {
    if no_sqlite_here("its file is backed up") {
        return;
    }
    let (house, up) = House::up();
    let (first, second) = two_jobs(&house);
    let talker = house.submit(TALKER);
    house.await_state(&talker, Some("a"), "running");
    let (data, to) = (text(&house.path("data")), text(&house.path("monday.db")));
    let backup = ["db", "backup", "--data", &data, "--to", &to, "--json"];
    for round in 0..3 {
        let more: &[&str] = if round == 0 { &[] } else { &["--force"] };
        let told = house.bowline(&[&backup, more].concat()).ok().json();
        assert_eq!(told["bytes"], fs::metadata(&to).expect("a file").len());
    }
    let refused = house.bowline(&backup).code(2).err;
    assert!(refused.contains("--force"), "{refused}");
    let itself = text(&house.path("data/bowline.db"));
    house.bowline(&["db", "backup", "--data", &data, "--to", &itself, "--force"]).code(2);
    assert_eq!(fs::metadata(&to).expect("a file").permissions().mode() & 0o777, 0o600);
    assert!(!house.path("monday.db.part").exists());
    house.bowline(&["cancel", &talker]).ok();
    house.end(&talker);
    up.stop();

    // As an operator restores it: in another folder, under the name that a server expects.
    let mut other = House::new();
    fs::create_dir_all(other.path("data")).expect("made");
    fs::copy(&to, other.path("data/bowline.db")).expect("copied");
    fs::copy(house.path("data/admin.token"), other.path("data/admin.token")).expect("copied");
    let checked = other.bowline(&["db", "check", "--data", &text(&other.path("data"))]);
    assert_eq!(checked.code, 0, "{} {}", checked.out, checked.err);
    let _server = other.start_server();
    assert_eq!(other.log(&first, "b"), "again\n");
    assert_eq!(other.job(&second)["continues"], first.as_str());
    assert_eq!(step_of(&other.job(&talker), "a")["name"], "a", "what ran is on record");
}

#[test]
fn a_file_that_is_left_of_a_killed_backup_is_no_hindrance() {
    if no_sqlite_here("its file is backed up") {
        return;
    }
    let (house, _up) = House::up();
    let (data, to) = (text(&house.path("data")), text(&house.path("monday.db")));
    house.write("monday.db.part", "torn");
    house.bowline(&["db", "backup", "--data", &data, "--to", &to]).ok();
    assert!(!house.path("monday.db.part").exists());
    let nowhere = house.bowline(&["db", "backup", "--data", &data, "--to", "/no/such/folder/file"]).code(2).err;
    assert!(nowhere.contains("its folder must exist"), "{nowhere}");
}

/// A `pg_dump` that says what it was given, and then does its work.
const WITNESS: &str = "#!/bin/sh\necho \"$@\" > seen\nexec REAL/pg_dump \"$@\"\n";

#[test]
fn postgresql_is_dumped_while_a_server_writes_and_its_password_is_not_seen() {
    let mut house = House::shared();
    let url = house.database.as_ref().expect("a database").url();
    let programs = text(&bin());
    fs::create_dir(house.path("bin")).expect("made");
    let witness = house.write("bin/pg_dump", &WITNESS.replace("REAL", &programs));
    fs::set_permissions(&witness, fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{programs}:{}", text(&house.path("bin")), std::env::var("PATH").unwrap_or_default());
    house.set("PATH", &path);
    let _up = house.start_up(&[]);
    let (first, _) = two_jobs(&house);
    let talker = house.submit(TALKER);
    house.await_state(&talker, Some("a"), "running");
    let told = house.bowline(&["db", "backup", "--to", "monday.dump"]).ok();
    let (credentials, _) = url.split_once('@').expect("a user");
    let (_, password) = credentials.rsplit_once(':').expect("a password");
    let seen = house.read("seen");
    assert!(seen.contains("--format=custom") && password.len() > 8, "{seen}");
    assert!(![&seen, &told.out, &told.err].iter().any(|text| text.contains(password)), "{seen} {told:?}");
    let refused = house.bowline(&["db", "backup", "--to", "monday.dump"]).code(2).err;
    assert!(refused.contains("--force"), "{refused}");

    let restored = Database::new();
    let mut restoring = Command::new(bin().join("pg_restore"));
    restoring.args(["--no-owner", "--exit-on-error", "-d"]).arg(restored.url()).arg(house.path("monday.dump"));
    assert!(restoring.status().expect("pg_restore runs").success());
    let checked = house.bowline(&["db", "check", "--database", &restored.url()]);
    assert_eq!(checked.code, 0, "{} {}", checked.out, checked.err);
    assert_eq!(restored.psql(&format!("SELECT count(*) FROM jobs WHERE id = '{first}'")), "1");
}

#[test]
fn without_pg_dump_it_says_what_to_install() {
    let mut house = House::new();
    house.set("PATH", "/no/such/folder");
    let database = Database::new();
    let told = house.bowline(&["db", "backup", "--database", &database.url(), "--to", "file"]).code(2).err;
    assert!(told.contains("pg_dump") && told.contains("apt install postgresql-client-"), "{told}");
    let url = database.url();
    let (credentials, _) = url.split_once('@').expect("a user");
    let (_, password) = credentials.rsplit_once(':').expect("a password");
    assert!(!told.contains(password), "{told}");
    assert!(!house.path("file").exists() && !house.path("file.part").exists());
}
