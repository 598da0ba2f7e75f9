//! When a verdict comes that the one who would have passed it did not live to see.

use std::time::{Duration, Instant};

use super::town::Town;
use crate::story::{await_lines, counting};

/// Of a hasty town.
const WINDOW: Duration = Duration::from_secs(2);

/// For the others to miss the server, and for a busy machine.
const SLACK: Duration = Duration::from_secs(3);

#[test]
fn a_step_whose_worker_and_server_die_together_is_decided_by_the_others_in_time() {
    let mut town = Town::hasty();
    let (a, _b) = (town.start("a"), town.start("b"));
    let worker = town.worker("w", &["a"]);
    let id = town.house.submit(&counting(&town.house, "effects: writes"));
    town.house.outside().await_executions(1);
    await_lines(&town.house, &id);
    town.ask("b");
    worker.kill();
    a.kill();
    let dead = Instant::now();
    let job = town.house.end(&id);
    let took = dead.elapsed();
    assert_eq!(job["error"]["code"], "worker_lost", "{job:#}");
    assert!((WINDOW..WINDOW + SLACK).contains(&took), "the verdict came after {took:?}");
    println!("the verdict came after {took:?}, with a window of {WINDOW:?}");
    assert_eq!(town.house.outside().executions(), 1);
}
