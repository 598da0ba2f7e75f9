//! Tasks that start by themselves, while real servers come and go on a clock that the test moves; and calls from outside.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use testkit::{House, await_that};

use crate::story::{each, pass};

const HOUR: i64 = 3600;

/// Every hour, at a minute that is far from now.
fn hourly(minute: u64, missed: &str) -> String {
    format!(
        "name: tidy\nsteps:\n  a: {{ run: 'true' }}\ntriggers:\n  - {{ cron: '{minute} * * * *', missed: {missed} }}\n"
    )
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Half an hour from now.
fn far_minute() -> u64 {
    (seconds() / 60 + 30) % 60
}

fn trigger(house: &House) -> Value {
    house.bowline(&["triggers", "--json"]).ok().json()["items"][0].clone()
}

/// As soon as the server has read its tasks, and has a row of it.
fn await_trigger(house: &House) -> Value {
    await_that("the trigger is known", || {
        let trigger = trigger(house);
        let planned = trigger["next"].get(0).is_some() || trigger["paused"] == true || trigger["kind"] == "webhook";
        (trigger["id"].is_string() && planned).then_some(trigger)
    })
}

fn jobs(house: &House) -> Vec<Value> {
    house.bowline(&["jobs", "--json"]).ok().json()["items"].as_array().expect("items").clone()
}

#[test]
fn a_run_that_was_due_while_the_server_was_down_is_made_up_for_or_skipped() {
    each(&[("once", 1), ("skip", 0)], |(missed, made)| {
        let Some((mut house, clock)) = House::on_a_clock() else { return };
        house.write("tasks/tidy.yaml", &hourly(far_minute(), missed));
        let server = house.start_server();
        let before = await_trigger(&house);
        assert_eq!(before["next"].as_array().map(Vec::len), Some(3), "{before:#}");
        server.kill();
        clock.step(3 * HOUR);
        let _server = house.start_server();
        let after = await_that("the trigger is seen to", || {
            let after = trigger(&house);
            (after["missed_times"].as_u64() > Some(0)).then_some(after)
        });
        assert_eq!(after["missed_times"], 3 - made, "{after:#}");
        assert_eq!(jobs(&house).len() as u64, made);
        assert!(after["next"][0].as_str() > before["next"][2].as_str(), "{after:#}");
    });
}

#[test]
fn a_new_trigger_needs_no_restart_and_comes_when_it_is_due() {
    let Some((mut house, clock)) = House::on_a_clock() else { return };
    // A few seconds before a full minute.
    clock.step(52 - i64::try_from(seconds() % 60).expect("small"));
    let _server = house.start_server();
    house.write("tasks/tidy.yaml", &hourly(0, "skip").replace("'0 *", "'* *"));
    await_trigger(&house);
    let job = await_that("its time makes a job", || jobs(&house).first().cloned());
    let created = job["created_at"].as_str().expect("a time");
    let late = created.split(':').nth(2).and_then(|rest| rest.trim_end_matches('Z').parse::<f64>().ok());
    assert!(late.is_some_and(|late| late < 1.0), "made at {created}");
}

/// What people see of it, whatever the clock says.
#[test]
fn a_trigger_says_what_is_wrong_with_its_task() {
    let mut house = House::new();
    let good = hourly(far_minute(), "skip");
    house.write("tasks/night.yaml", &good);
    let server = house.start_server();
    let before = await_trigger(&house);
    assert_eq!(before["task_problem"], Value::Null, "{before:#}");
    let awaited = |house: &House, problem: &str| {
        await_that("the problem is told", || {
            let trigger = trigger(house);
            trigger["task_problem"].as_str().is_some_and(|told| told.starts_with(problem)).then_some(trigger)
        })
    };
    house.write("tasks/night.yaml", &good.replace("steps:", "stpes:"));
    let outdated = awaited(&house, "its task has errors, and the last good version is in use: night.yaml:");
    assert_eq!(outdated["next"], before["next"], "the last good version goes on");
    server.kill();
    let _server = house.start_server();
    let broken = awaited(&house, "its task has errors: night.yaml:");
    assert_eq!((&broken["id"], &broken["next"]), (&before["id"], &Value::Array(Vec::new())), "{broken:#}");
    house.write("tasks/night.yaml", &good);
    await_that("it is well again", || (trigger(&house)["next"] == before["next"]).then_some(()));
    std::fs::remove_file(house.folder.path().join("tasks/night.yaml")).expect("it is there");
    awaited(&house, "there is no such task any more");
}

/// A bad edit takes no schedule away without a word: not while the server runs, and not over a restart.
#[test]
fn a_schedule_whose_task_file_breaks_or_goes_is_told_of() {
    let Some((mut house, clock)) = House::on_a_clock() else { return };
    let good = hourly(far_minute(), "once");
    house.write("tasks/night.yaml", &good);
    let server = house.start_server();
    let before = await_trigger(&house);
    assert_eq!(before["task_problem"], Value::Null, "{before:#}");

    house.write("tasks/night.yaml", &good.replace("steps:", "stpes:"));
    let outdated = await_that("the errors are seen", || {
        let trigger = trigger(&house);
        trigger["task_problem"].is_string().then_some(trigger)
    });
    assert_eq!(outdated["next"], before["next"], "the last good version goes on");
    let listed = house.bowline(&["triggers"]).ok().out;
    assert!(listed.contains("the last good version is in use"), "{listed}");

    server.kill();
    clock.step(3 * HOUR);
    let server = house.start_server();
    let missed = await_that("the schedule is missed", || {
        let trigger = trigger(&house);
        trigger["notice"].is_string().then_some(trigger)
    });
    let problem = missed["task_problem"].as_str().expect("it says why");
    assert!(problem.starts_with("its task has errors: night.yaml:1: "), "{problem}");
    assert_eq!((&missed["id"], &missed["next"]), (&before["id"], &Value::Array(Vec::new())), "{missed:#}");
    assert_eq!(jobs(&house).len(), 0);
    let tasks = house.bowline(&["tasks"]).ok().out;
    assert!(tasks.contains("tidy") && tasks.contains("cannot be run"), "{tasks}");

    // Repaired, it makes up for all of it, as its policy says.
    house.write("tasks/night.yaml", &good);
    await_that("the schedule goes on", || (jobs(&house).len() == 1).then_some(()));
    let repaired = trigger(&house);
    assert_eq!((&repaired["task_problem"], repaired["missed_times"].as_u64()), (&Value::Null, Some(2)), "{repaired:#}");

    std::fs::remove_file(house.folder.path().join("tasks/night.yaml")).expect("it is there");
    await_that("the file is missed", || (trigger(&house)["task_problem"].is_string()).then_some(()));
    server.kill();
    clock.step(4 * HOUR);
    let _server = house.start_server();
    let gone = await_that("the schedule is missed again", || {
        let trigger = trigger(&house);
        (trigger["notice_at"] != missed["notice_at"]).then_some(trigger)
    });
    assert_eq!(gone["task_problem"], "there is no such task any more", "{gone:#}");
}

#[test]
fn a_pause_survives_a_restart() {
    let mut house = House::new();
    house.write("tasks/tidy.yaml", &hourly(far_minute(), "skip"));
    let server = house.start_server();
    await_trigger(&house);
    house.bowline(&["triggers", "pause", "tidy:cron:1"]).ok();
    server.kill();
    let server = house.start_server();
    let paused = await_trigger(&house);
    assert_eq!((&paused["paused"], &paused["next"]), (&Value::Bool(true), &Value::Array(Vec::new())), "{paused:#}");
    house.bowline(&["triggers", "resume", "tidy:cron:1"]).ok();
    assert_eq!(trigger(&house)["next"].as_array().map(Vec::len), Some(3));
    server.stop();
}

#[test]
fn a_call_starts_a_task_once_if_it_is_signed() {
    let mut house = House::new();
    house.set("BOWLINE_SECRET_SHIP", "s3cret");
    let task = "name: ship\ninput: { body: { type: object } }\nsteps:\n  a: { run: 'true' }\ntriggers: [{ webhook: ship, secret: SHIP }]\n";
    house.write("tasks/ship.yaml", task);
    let server = house.start_server();
    await_trigger(&house);
    let first = call(&house, "s3cret", "one");
    assert!(first.starts_with("HTTP/1.1 202"), "{first}");
    server.kill();
    let _server = house.start_server();
    let again = call(&house, "s3cret", "one");
    assert!(again.starts_with("HTTP/1.1 202") && again.contains("\"repeated\":true"), "{again}");
    assert!(call(&house, "guess", "two").starts_with("HTTP/1.1 401"));
    pass(Duration::from_millis(100));
    let jobs = jobs(&house);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
}

fn call(house: &House, key: &str, delivery: &str) -> String {
    let body = r#"{"ref":"main"}"#;
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any key is good").chain_update(body);
    let tag: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let head = format!(
        "POST /hooks/ship HTTP/1.1\r\nhost: bowline\r\nconnection: close\r\nx-bowline-signature: sha256={tag}\r\n\
         x-bowline-delivery: {delivery}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let address = house.url.strip_prefix("http://").expect("the server is up");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the call goes out");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
