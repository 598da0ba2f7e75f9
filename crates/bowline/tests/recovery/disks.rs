//! Disks that are full.

use testkit::{House, SmallDisk, await_that, no_sqlite_here};

use crate::story::{STEP, await_lines, check_ran_once, counting, open_gate, task};

/// What the worker's disk holds: enough for folder and record, not for the log.
const WORKER_DISK_KIB: u32 = 3 * 1024;
const LINES: u64 = 400_000;
/// The next step's script: more than such a log leaves free.
const NEXT_BYTES: usize = 200_000;

#[test]
fn a_full_disk_of_the_worker_costs_lines_that_are_counted_and_never_the_exit_code() {
    let mut house = House::new();
    let Some(_disk) = SmallDisk::mount(&house.path("w"), WORKER_DISK_KIB) else { return };
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let (go, gate) = (house.path("go"), house.path("gate"));
    let script = format!(
        "{}\n      until [ -e {} ]; do sleep 0.02; done\n      seq 1 {LINES}\n      {}\n      until [ -e {} ]; do sleep 0.02; done\n      exit 7",
        house.outside().begin(),
        go.display(),
        house.outside().end(),
        gate.display()
    );
    let id = house.submit(&task(&script, "effects: writes"));
    house.outside().await_executions(1);
    // Without the server nothing is taken off the disk.
    server.kill();
    house.write("go", "");
    await_that("all was printed", || (house.outside().completed() == 1).then_some(()));
    open_gate(&house);
    let _server = house.start_server();
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "exit_code", "{job:#}");
    assert_eq!(job["steps"][0]["attempts"][0]["exit_code"], 7);
    let log = await_that("the log is closed", || {
        let answer = house.bowline(&["logs", &id, STEP]).ok().out;
        (count(&answer) == LINES).then_some(answer)
    });
    assert!(log.lines().any(|line| line.starts_with("--- ")), "some were lost, or the disk was too large");
    // What is kept of it although the server has it makes room for the next step.
    let long = "x".repeat(NEXT_BYTES);
    let next = house.submit(&format!("name: next\nsteps:\n  a: {{ run: 'true # {long}', unmatched: wait }}\n"));
    assert_eq!(house.end(&next)["state"], "success");
}

/// Lines that are there, and lines that are said to be missing.
fn count(log: &str) -> u64 {
    let missing = |line: &str| -> u64 {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.windows(3).position(|w| w[1] == "log" && w[2] == "lines" && line.contains("dropped"));
        let lost = || words.windows(3).position(|w| w[1] == "log" && w[2] == "lines" && !line.contains("Replaying"));
        at.or_else(lost).and_then(|at| words[at].parse().ok()).unwrap_or(0)
    };
    log.lines().map(|line| if line.starts_with("--- ") { missing(line) } else { 1 }).sum()
}

#[test]
fn a_full_disk_of_the_server_is_waited_out() {
    if no_sqlite_here("the server's disk holds its file") {
        return;
    }
    let mut house = House::new();
    let Some(_disk) = SmallDisk::mount(&house.path("data"), 8 * 1024) else { return };
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let _server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    fill(&house.path("data/filler"));
    open_gate(&house);
    await_that("the step has ended", || (house.outside().completed() == 1).then_some(()));
    await_that("the server says that it cannot write", || {
        house.read("roles.log").contains("the database is away").then_some(())
    });
    std::fs::remove_file(house.path("data/filler")).expect("removed");
    check_ran_once(&house, &id);
}

/// Takes all the room that there is.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("created");
    for size in [64 * 1024, 4096, 1] {
        let block = vec![0; size];
        while file.write_all(&block).is_ok() {}
    }
}
