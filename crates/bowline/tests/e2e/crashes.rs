//! Kill -9, at the worst time. What ran goes on, is found again, and runs once.

use std::time::{Duration, Instant};

use crate::house::{House, no_sqlite_here, states};

/// Prints numbers until a file appears; leaves a mark outside Bowline for each execution.
fn counting(house: &House) -> String {
    let (ran, gate) = (house.path("ran").display().to_string(), house.path("gate").display().to_string());
    format!(
        "name: count\nsteps:\n  count:\n    run: |\n      echo x >> {ran}\n      n=0\n      until [ -e {gate} ]; do n=$((n+1)); echo $n; sleep 0.02; done\n      echo end\n"
    )
}

/// The log is 1, 2, 3, …, end: whole, once, in order.
fn check_log(house: &House, id: &str) {
    let log = house.log(id, "count");
    // What stands between dashes is the server's own remark on the outage.
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("--- ")).collect();
    let (last, numbers) = lines.split_last().expect("lines");
    assert_eq!(*last, "end");
    for (index, line) in numbers.iter().enumerate() {
        assert_eq!(*line, (index + 1).to_string(), "line {index} of {log}");
    }
}

fn open_gate(house: &House, id: &str) {
    house.write("gate", "");
    let job = house.end(id);
    assert_eq!(states(&job), "count success");
    assert_eq!(house.read("ran"), "x\n", "it ran once");
    check_log(house, id);
}

#[test]
fn up_is_killed_and_the_next_up_finds_the_step() {
    let (mut house, up) = House::up();
    let id = house.submit(&counting(&house));
    house.await_state(&id, Some("count"), "running");
    house.await_file("ran", "x");
    up.kill();
    let _up = house.start_up(&[]);
    house.await_state(&id, Some("count"), "running");
    open_gate(&house, &id);
}

#[test]
fn a_step_that_ends_while_nobody_looks_is_told_about() {
    let (mut house, up) = House::up();
    let begun = Instant::now();
    let id = house.submit(&counting(&house));
    house.await_state(&id, Some("count"), "running");
    house.await_file("ran", "x");
    up.kill();
    house.write("gate", "");
    // The runner writes its record by itself, and lets go of its lock when it ends.
    let attempts = house.path("data/worker/attempts");
    crate::house::await_that("the runner has ended", || {
        let folder = std::fs::read_dir(&attempts).expect("there").next()?.expect("readable").path();
        (!runner::folder_io::runner_lives(&folder).expect("readable")).then_some(())
    });
    let lived = begun.elapsed();
    // Nobody is there for a while longer: that is no part of the run.
    std::thread::sleep(Duration::from_secs(2));
    let _up = house.start_up(&[]);
    open_gate(&house, &id);
    let attempt = &house.job(&id)["steps"][0]["attempts"][0];
    let ran = Duration::from_millis(attempt["duration_ms"].as_u64().expect("its worker told"));
    assert!(ran <= lived, "{attempt}");
}

#[test]
fn the_server_alone_is_killed() {
    let mut house = House::new();
    house.set("BOWLINE_RECOVERY__MAX_RECONNECT_DELAY_SECS", "2");
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house));
    house.await_state(&id, Some("count"), "running");
    house.await_file("ran", "x");
    server.kill();
    let _server = house.start_server();
    house.await_state(&id, Some("count"), "running");
    open_gate(&house, &id);
}

#[test]
fn the_worker_alone_is_killed() {
    let mut house = House::new();
    let _server = house.start_server();
    let worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house));
    house.await_state(&id, Some("count"), "running");
    house.await_file("ran", "x");
    worker.kill();
    house.await_state(&id, Some("count"), "recovering");
    let _worker = house.start_worker("w", &[]);
    house.await_state(&id, Some("count"), "running");
    open_gate(&house, &id);
}

#[test]
fn a_runner_that_is_killed_takes_its_child_along_and_fails_the_step() {
    let (house, _up) = House::up();
    let pid_file = house.path("pid").display().to_string();
    let id = house.submit(&format!("name: r\nsteps:\n  a: {{ run: 'echo $$ > {pid_file}; exec sleep 300' }}\n"));
    let pid = crate::house::await_that("the child's pid", || {
        Some(house.read("pid").trim().to_owned()).filter(|p| !p.is_empty())
    });
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let runner: u32 =
        status.lines().find_map(|l| l.strip_prefix("PPid:")).expect("a parent").trim().parse().expect("a pid");
    crate::house::signal(runner, "KILL");
    let job = house.end(&id);
    assert_eq!(job["error"]["code"], "runner_lost");
    assert!(!crate::house::lives(&pid), "its child is gone");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    if no_sqlite_here("one server has the file") {
        return;
    }
    let (house, _up) = House::up();
    let data = house.path("data").display().to_string();
    let second = house.bowline(&["up", "--data", &data, "--listen", "127.0.0.1:0"]);
    assert_ne!(second.code, 0);
    assert!(second.err.contains("another") || second.err.contains("in use"), "{}", second.err);
    house.bowline(&["exec", "--", "true"]).ok();
}

#[test]
fn a_follower_survives_a_restart_of_the_server() {
    let mut house = House::new();
    house.set("BOWLINE_RECOVERY__MAX_RECONNECT_DELAY_SECS", "2");
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let file = house.write("count.yaml", &counting(&house)).display().to_string();
    let follower = house
        .command(&["run", &file])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    house.await_file("ran", "x");
    server.kill();
    let _server = house.start_server();
    house.write("gate", "");
    let ran = crate::house::finish(follower).ok();
    let numbers: Vec<&str> =
        ran.out.lines().filter(|l| !l.ends_with(" ---")).map(|l| l.rsplit(' ').next().expect("a word")).collect();
    let (last, numbers) = numbers.split_last().expect("lines");
    assert_eq!(*last, "end");
    for (index, number) in numbers.iter().enumerate() {
        assert_eq!(*number, (index + 1).to_string(), "{}", ran.out);
    }
}

#[test]
fn a_worker_whose_attempts_were_deleted_goes_on() {
    let (house, _up) = House::up();
    house.bowline(&["exec", "--", "true"]).ok();
    std::fs::remove_dir_all(house.path("data/worker/attempts")).expect("removed");
    assert_eq!(house.bowline(&["exec", "--", "echo", "still here"]).ok().out, "still here\n");
}
