//! Everything a step can print, through runner, worker, server and back.

use crate::house::{House, peak_kib};

/// What a server and a worker may need while a step prints without end; lines that were kept would be many times as much.
const FLOOD_KIB_MAX: u64 = 200 * 1024;

/// Runs a script as a step and returns its log, byte for byte.
fn printed(script: &str) -> Vec<u8> {
    let (house, _up) = House::up();
    let id = house.bowline(&["exec", "--detach", "--", "bash", "-c", script]).ok().out;
    house.bowline(&["wait", id.trim()]).ok();
    house.bowline(&["logs", id.trim(), "run"]).ok().raw
}

#[test]
fn odd_bytes_come_back_as_they_were_written() {
    let log = printed(r"printf 'a\xff\xfeb\n\0nul\0\nbar 1%%\rbar 2%%\r\nno newline'");
    assert_eq!(log, b"a\xff\xfeb\n\0nul\0\nbar 1%\rbar 2%\r\nno newline");
}

#[test]
fn a_giant_line_is_whole() {
    let log = printed("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end");
    assert_eq!(log.len(), 5_000_001 + 4);
    assert!(log.ends_with(b"x\nend\n"));
}

#[test]
fn a_burst_of_lines_is_whole_and_in_order() {
    let log = printed("seq 1 200000");
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(log == expected.as_bytes(), "{} bytes instead of {}", log.len(), expected.len());
}

#[test]
fn a_step_that_closes_its_stdout_lives_on() {
    let (house, _up) = House::up();
    let mark = house.path("mark").display().to_string();
    let script = format!("echo before; exec >&- 2>&-; sleep 0.3; echo done > {mark}; exit 7");
    house.bowline(&["exec", "--", "bash", "-c", &script]).code(1);
    assert_eq!(house.read("mark"), "done\n");
    assert_eq!(house.job("last")["steps"][0]["attempts"][0]["exit_code"], 7);
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_step() {
    let (house, _up) = House::up();
    let started = std::time::Instant::now();
    house.bowline(&["exec", "--", "bash", "-c", "echo out; setsid sleep 300 & exit 0"]).ok();
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!(house.bowline(&["logs", "last"]).ok().out, "out\n");
}

#[test]
fn the_environment_is_small_and_clean() {
    let (mut house, up) = House::up();
    up.stop();
    house.set("LEAKED_SECRET", "x");
    let _up = house.start_up(&[]);
    let ran = house.bowline(&["exec", "--env", "MINE=yes", "--", "env"]).ok();
    assert!(ran.out.contains("MINE=yes"));
    assert!(!ran.out.contains("LEAKED_SECRET"), "{}", ran.out);
    for name in ["PATH=", "HOME=", "BOWLINE_JOB_ID=", "BOWLINE_FENCE=", "BOWLINE_OUTPUT="] {
        assert!(ran.out.lines().any(|line| line.starts_with(name)), "{name} is missing: {}", ran.out);
    }
}

#[test]
fn too_much_output_data_fails_the_step_and_says_so() {
    let (house, _up) = House::up();
    let script = r#"head -c 3000000 /dev/zero | tr '\0' x | sed 's/^/big=/' >> "$BOWLINE_OUTPUT""#;
    let ran = house.bowline(&["exec", "--", "bash", "-c", script]).code(1);
    assert!(ran.err.contains("output"), "{}", ran.err);
    assert_eq!(house.job("last")["error"]["code"], "bad_output");
}

/// Numbers that a log holds, and how many lines its markers say are missing.
fn count(log: &str) -> (Vec<u64>, u64) {
    let (mut numbers, mut dropped) = (Vec::new(), 0);
    for line in log.lines() {
        match line.strip_prefix("--- ") {
            // By itself, or at the end of what is said about an outage.
            Some(marker) => {
                let words = marker.strip_suffix(" log lines dropped due to buffer overflow. ---").expect("a count");
                dropped += words.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
            }
            None => numbers.push(line.parse().expect("a number")),
        }
    }
    (numbers, dropped)
}

#[test]
fn a_flood_is_held_back_while_the_server_keeps_up() {
    let mut house = House::new();
    let server = house.start_server();
    house.set("BOWLINE_WORKER__SPOOL__LOG_LINES", "10000");
    let worker = house.start_worker("w", &[]);
    let id = house.submit("name: flood\nsteps:\n  a: { run: seq 1 300000 }\n");
    house.end(&id);
    // Before anybody reads all of it.
    let peaks = [&server, &worker].map(|role| peak_kib(role.pid()));
    println!("server and worker, KiB: {peaks:?}");
    assert!(peaks.iter().all(|peak| *peak < FLOOD_KIB_MAX), "{peaks:?}");
    let (numbers, dropped) = count(&house.log(&id, "a"));
    assert_eq!(dropped, 0);
    assert!(numbers.iter().copied().eq(1..=300_000), "{} lines", numbers.len());
}

#[test]
fn lines_that_no_disk_had_room_for_are_counted_in_their_place() {
    let mut house = House::new();
    house.set("BOWLINE_RECOVERY__MAX_RECONNECT_DELAY_SECS", "2");
    let server = house.start_server();
    house.set("BOWLINE_WORKER__SPOOL__LOG_LINES", "10000");
    let _worker = house.start_worker("w", &[]);
    let (gate, done) = (house.path("gate").display().to_string(), house.path("done").display().to_string());
    let id = house.submit(&format!(
        "name: flood\nsteps:\n  a:\n    run: |\n      echo 1\n      until [ -e {gate} ]; do sleep 0.02; done\n      seq 2 1000000\n      echo x > {done}\n      until [ -e {gate}2 ]; do sleep 0.02; done\n"
    ));
    house.await_state(&id, Some("a"), "running");
    crate::house::await_that("the first line is stored", || (house.log(&id, "a") == "1\n").then_some(()));
    server.kill();
    house.write("gate", "");
    house.await_file("done", "x");
    let _server = house.start_server();
    house.write("gate2", "");
    assert_eq!(house.end(&id)["state"], "success");
    let (numbers, dropped) = count(&crate::house::await_that("the log is whole", || {
        let log = house.log(&id, "a");
        log.ends_with("\n1000000\n").then_some(log)
    }));
    assert!(dropped > 500_000, "{dropped}");
    assert_eq!(numbers.len() as u64 + dropped, 1_000_000, "every line is there or counted");
    assert!(numbers.is_sorted_by(|a, b| a < b));
}
