//! Everything a step can print, through runner, worker, server and back.

use crate::house::House;

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
