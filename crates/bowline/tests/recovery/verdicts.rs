//! When a verdict comes: at its time, however seldom the sweeper runs.

use testkit::House;

use crate::story::{STEP, await_lines, counting, step};

/// Of what the server says itself: both times are its own.
const LATE_MS_MAX: i64 = 1000;

#[test]
fn a_verdict_comes_within_a_second_of_its_time_whatever_the_sweep_interval() {
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "1"), ("SWEEP_INTERVAL_SECS", "3600")]);
    let _server = house.start_server();
    let worker = house.start_worker("w", &[]);
    let id = house.submit(&counting(&house, "effects: writes"));
    house.outside().await_executions(1);
    await_lines(&house, &id);
    worker.kill();
    house.await_state(&id, Some(STEP), "recovering");
    let promised = milliseconds(step(&house, &id)["deadline"]["at"].as_str().expect("a time"));
    let ended = milliseconds(house.end(&id)["ended_at"].as_str().expect("a time"));
    let late = ended - promised;
    assert!((0..=LATE_MS_MAX).contains(&late), "the verdict came {late} ms after its time");
}

/// Within its day, of an RFC 3339 time in UTC.
fn milliseconds(time: &str) -> i64 {
    let clock = time.split_once('T').expect("a date and a time").1.trim_end_matches('Z');
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    let [hours, minutes, seconds] = parts[..] else { panic!("not a time: {time}") };
    ((hours * 60.0 + minutes) * 60_000.0 + seconds * 1000.0) as i64
}
