//! The way back from a backup on PostgreSQL, with the very commands of docs/operations.md ("After a restore").

use std::process::{Command, Stdio};

use testkit::await_that;
use testkit::postgres::{CREATE_OWNED, Postgres, bin};

use super::town::Town;
use crate::story::{STEP, brief, check_ran_once, step};

/// What an operator types that is not ours; `pg_dump`, which `bowline db backup` runs, is in the same folder.
fn run(town: &Town, program: &str, arguments: &[&str]) {
    let mut command = Command::new(bin().join(program));
    let ended = command.args(arguments).current_dir(town.house.folder.path()).stdin(Stdio::null()).output();
    let ended = ended.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ended.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn the_documented_way_back_from_a_backup_repeats_nothing_without_a_word() {
    let postgres = Postgres::start(&[]);
    let (admin, url) = (postgres.url(), postgres.owned());
    let mut town = Town::on(&url, "1");
    let path = format!("{}:{}", bin().display(), std::env::var("PATH").unwrap_or_default());
    town.house.set("PATH", &path);
    let (a, b) = (town.start("a"), town.start("b"));
    let config = town.house.path("server-a.yaml").display().to_string();
    let worker = town.worker("w", &["a", "b"]);
    town.house.await_links(1);
    // In the backup it waits for a worker; it has run since.
    town.house.bowline(&["dispatch", "pause"]).ok();
    town.await_marks();
    let id = town.house.submit(&brief(&town.house, "effects: writes\nunmatched: wait"));
    town.house.await_state(&id, Some(STEP), "queued");
    town.house.bowline(&["db", "backup", "--config", &config, "--to", "monday.dump"]).ok();
    town.house.bowline(&["dispatch", "resume"]).ok();
    check_ran_once(&town.house, &id);
    // Its worker is gone for good, and the database is lost.
    worker.kill();
    std::fs::remove_dir_all(town.house.path("w")).expect("removed");

    assert!([a, b].into_iter().all(|server| server.stop().success()));
    run(&town, "psql", &["-d", &admin, "-c", "DROP DATABASE bowline", "-c", CREATE_OWNED]);
    run(&town, "pg_restore", &["--no-owner", "--exit-on-error", "-d", &url, "monday.dump"]);
    town.house.bowline(&["db", "check", "--config", &config]).ok();
    let said = town.house.bowline(&["db", "restored", "--config", &config]).ok().out;
    assert!(said.contains("restored, as of ") && said.contains("1 job not over"), "{said}");
    let _servers = [town.start("a"), town.start("b")];
    town.house.bowline(&["dispatch", "resume"]).ok();
    let _worker = town.worker("v", &["b", "a"]);
    town.house.bowline(&["exec", "--", "true"]).ok();
    await_that("it is held", || {
        town.house.bowline(&["jobs", "--state", "held"]).ok().out.contains(&id[..8]).then_some(())
    });
    let held = step(&town.house, &id);
    assert_eq!((&held["state"], &held["hold"]["reason"]), (&"held".into(), &"restored".into()), "{held:#}");
    assert_eq!(town.house.outside().executions(), 1, "nobody said that it may run again");
    town.house.bowline(&["approve", &id, STEP]).ok();
    assert_eq!(town.house.end(&id)["state"], "success");
    assert_eq!(town.house.outside().executions(), 2, "somebody said so");
    town.house.bowline(&["db", "check", "--config", &config]).ok();
}
