//! Three servers, ten workers, a stream of jobs, and a PostgreSQL of their own: all of them are killed, frozen and started again at times
//! that a seed chooses. When that is over everything comes to an end, and nothing was lost or done twice.
//!
//! ```text
//!  load ── submits, each job under a key of its own ──► servers a, b, c ──► PostgreSQL
//!  faults ── kill, freeze, start again ──► all of these, workers and runners
//!  checks ◄── rows, logs, and the files that steps write themselves (`outside`)
//! ```
//!
//! `BOWLINE_CHAOS_SEED` repeats what is planned: which faults at which times, to which servers and workers, and which jobs. What these are
//! doing at that moment, and so whose runner it is that is killed, is up to the machine.

mod ask;
mod checks;
mod faults;
mod load;
mod outside;
mod report;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testkit::postgres::Postgres;

use super::town::Town;
use crate::chaos::seed;
use faults::Stage;
use load::Load;
use report::Report;

const SERVERS: [&str; 3] = ["a", "b", "c"];

const WORKERS: [&str; 10] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];

/// The longest pause between a worker's tries. The window is twice that: long enough to go to another server, short enough for verdicts.
const MAX_RECONNECT_DELAY_SECS: &str = "3";

/// Unless `BOWLINE_CHAOS_SECONDS` says otherwise.
const SECONDS: u64 = 25;

fn length() -> Duration {
    let given = std::env::var("BOWLINE_CHAOS_SECONDS").ok();
    Duration::from_secs(given.map_or(SECONDS, |text| text.parse().expect("a number of seconds")))
}

#[test]
fn whatever_happens_to_servers_and_their_database_every_job_ends_and_none_is_done_twice() {
    let (seed, length) = (seed(), length());
    println!("BOWLINE_CHAOS_SEED={seed} BOWLINE_CHAOS_SECONDS={}", length.as_secs());
    // Processes are killed, and no machine: what was written stays written.
    let mut postgres = Postgres::start(&["fsync=off"]);
    let mut town = Town::on(&postgres.url(), MAX_RECONNECT_DELAY_SECS);
    SERVERS.into_iter().for_each(|name| town.settle(name));
    let servers = SERVERS.map(|name| town.start(name));
    let town = &town;
    let load = Load::new(seed, &town.house);
    let workers = WORKERS.map(|name| town.worker(name, &SERVERS));
    town.house.await_links(WORKERS.len());
    let mut stage = Stage::new(town, &mut postgres, servers, workers);
    let stop = Flag::default();
    let sent = std::thread::scope(|scope| {
        let submitter = scope.spawn(|| load.submit_until(&stop.0, town));
        // Whatever becomes of this thread, the other ends.
        let stopping = stop.when_dropped();
        stage.play(seed, length);
        drop(stopping);
        submitter.join().expect("no panic")
    });
    let quiet = Instant::now();
    checks::await_all_final(town);
    let settled = quiet.elapsed();
    let lines = checks::await_whole_logs(town, &load);
    let faults = stage.end();
    let seen = checks::check_rows(town, &load, &sent);
    checks::check_database(town);
    // Whatever was killed, what was committed stayed so.
    town.check_nothing_lost();
    checks::check_nothing_lives(town);
    let taken = sent.iter().map(|sent| sent.took).max().unwrap_or_default();
    Report { seed, length, faults, seen, lines, settled, taken, verdict: checks::longest_doubt(town) }.publish();
}

#[derive(Default)]
struct Flag(AtomicBool);

struct Raising<'a>(&'a AtomicBool);

impl Flag {
    fn when_dropped(&self) -> Raising<'_> {
        Raising(&self.0)
    }
}

impl Drop for Raising<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
