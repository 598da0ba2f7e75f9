//! The step that most of these tests run, and what its log must look like.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::Value;
use testkit::{House, await_that, step_of};

/// The step's name in all of these jobs.
pub(crate) const STEP: &str = "count";

/// A step that prints 1, 2, 3, … until the gate opens, then `end`.
pub(crate) fn counting(house: &House, more: &str) -> String {
    let (outside, gate) = (house.outside(), house.path("gate"));
    let lines = [
        outside.begin(),
        format!("n=0; until [ -e {} ]; do n=$((n+1)); echo $n; sleep 0.02; done", gate.display()),
        "echo end".to_owned(),
        outside.end(),
    ];
    task(&lines.join("\n      "), more)
}

/// A step that prints 1 to 20 and `end`.
pub(crate) fn brief(house: &House, more: &str) -> String {
    let outside = house.outside();
    let lines = [outside.begin(), "seq 1 20".to_owned(), "echo end".to_owned(), outside.end()];
    task(&lines.join("\n      "), more)
}

/// `more`: keys of the step, in one line each.
pub(crate) fn task(script: &str, more: &str) -> String {
    let more: String = more.lines().map(|line| format!("    {line}\n")).collect();
    format!("name: count\nsteps:\n  {STEP}:\n{more}    run: |\n      {script}\n")
}

pub(crate) fn open_gate(house: &House) {
    house.write("gate", "");
}

/// The step as the server has it.
pub(crate) fn step(house: &House, id: &str) -> Value {
    step_of(&house.job(id), STEP).clone()
}

/// Waits until lines of the step are stored, so that there is something to lose.
pub(crate) fn await_lines(house: &House, id: &str) {
    await_that("the first lines are stored", || house.log(id, STEP).contains("3\n").then_some(()));
}

/// It ended well, was executed once from begin to end, and its log is whole.
pub(crate) fn check_ran_once(house: &House, id: &str) {
    let job = house.end(id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.outside().executions(), 1, "executions");
    assert_eq!(house.outside().completed(), 1, "completed executions");
    check_whole_log(house, id);
}

/// Every line once, in order, `end` at last. Lines of the server's own stand between `---`.
pub(crate) fn check_whole_log(house: &House, id: &str) {
    let lines = await_that("the log is whole", || {
        let log = house.log(id, STEP);
        let lines: Vec<String> = log.lines().filter(|line| !line.starts_with("--- ")).map(str::to_owned).collect();
        (lines.last()? == "end").then_some(lines)
    });
    let numbers = &lines[..lines.len() - 1];
    for (index, line) in numbers.iter().enumerate() {
        assert_eq!(*line, (index + 1).to_string(), "line {index} of {lines:?}");
    }
}

/// The lines of the server's own in the step's log.
pub(crate) fn markers(house: &House, id: &str) -> Vec<String> {
    house.log(id, STEP).lines().filter(|line| line.starts_with("--- ")).map(str::to_owned).collect()
}

/// Lets so much time pass: where silence itself is the event there is nothing to await.
pub(crate) fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// Runs the scenario for each case at the same time, and fails with the names of those that failed.
pub(crate) fn each<T: Copy + Send + std::fmt::Debug>(cases: &[T], scenario: impl Fn(T) + Sync) {
    let run = &|case: T| {
        let outcome = catch_unwind(AssertUnwindSafe(|| scenario(case)));
        outcome.err().map(|_| format!("{case:?}"))
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = cases.iter().map(|&case| scope.spawn(move || run(case))).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a panic was caught")).collect()
    });
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
