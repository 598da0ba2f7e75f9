//! What one server at a time does for all of them: whoever sleeps through the end of its lease does not finish it.

use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::postgres::Postgres;
use testkit::process::{self, Frozen};
use testkit::{Pauses, Point, Role, await_that};

use super::town::Town;

/// A server `a` that stops where it is about to write something under this lease. It alone has all leases.
fn stops_at(town: &mut Town, point: Point) -> (Role, Pauses) {
    let pauses = town.house.pause_at(point);
    town.settle("a");
    let a = town.launch("a");
    ["BOWLINE_PAUSE_AT", "BOWLINE_PAUSE_DIR"].into_iter().for_each(|name| town.house.unset(name));
    (a, pauses)
}

/// `a` stands there and is stopped; `b` comes and takes the lease; `a` goes on with what it was about to write.
fn sleep_through(town: &mut Town, a: &Role, pauses: &Pauses, lease: &str) -> Role {
    assert_eq!(pauses.reached(), a.pid());
    let frozen = Frozen::new(a.pid());
    let epoch = |town: &Town| town.psql(&format!("SELECT epoch FROM leases WHERE name = '{lease}'"));
    assert_eq!(epoch(town), "1", "it has the lease");
    let b = town.start("b");
    await_that("the other one has it", || (epoch(town) == "2").then_some(()));
    pauses.open();
    frozen.thaw();
    town.await_said(&format!("the lease `{lease}` of epoch 1 is over"));
    town.await_marks();
    assert_eq!(epoch(town), "2", "and it stays there");
    b
}

#[test]
fn a_trigger_that_its_server_slept_over_is_fired_once_by_another() {
    let Some((postgres, clock)) = Postgres::on_a_clock() else { return };
    let mut town = Town::on(&postgres.url(), "1");
    town.house
        .write("tasks/tidy.yaml", "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers:\n  - { cron: '* * * * *' }\n");
    // A few seconds before a full minute.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    clock.step(52 - i64::try_from(seconds % 60).expect("small"));
    let (a, pauses) = stops_at(&mut town, Point::Firing);
    let _b = sleep_through(&mut town, &a, &pauses, "cron");
    town.ask("b");
    await_that("the trigger has made its job", || (town.psql("SELECT count(*) FROM jobs") != "0").then_some(()));
    let twice = "SELECT count(*) - count(DISTINCT created_at / 60000000) FROM jobs";
    assert_eq!(town.psql(twice), "0", "one for each minute");
    assert_eq!(town.psql("SELECT count(DISTINCT last_job) FROM triggers"), "1");
}

#[test]
fn what_a_server_that_slept_was_about_to_delete_stays() {
    let mut town = Town::hasty();
    let (a, pauses) = stops_at(&mut town, Point::Deleting);
    let url = a.wait_ready();
    town.house.url = url;
    let worker = town.worker("w", &["a"]);
    town.house.bowline(&["exec", "--", "true"]).ok();
    assert!(worker.stop().success());
    let mut asked = town.house.command(&["db", "prune", "--older-than", "0s"]);
    let mut asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let _b = sleep_through(&mut town, &a, &pauses, "retention");
    assert_eq!(town.psql("SELECT count(*) FROM jobs"), "1", "it is the other one's to delete, in its time");
    // Whoever asked for it is told that it is over, or that its server is not there.
    process::kill(asked.id());
    asked.wait().expect("reaped");
    assert_eq!(town.psql("SELECT count(*) FROM doomed"), "0");
}

#[test]
fn what_a_server_that_slept_was_about_to_sweep_out_stays() {
    let mut town = Town::hasty();
    town.house.recovery(&[("SWEEP_INTERVAL_SECS", "1")]);
    let (a, pauses) = stops_at(&mut town, Point::Sweeping);
    let _b = sleep_through(&mut town, &a, &pauses, "sweep");
}
