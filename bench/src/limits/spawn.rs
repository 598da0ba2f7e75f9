//! Bare processes: `/bin/true` started (by `posix_spawn`, as the standard library does) and waited for.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::stats::{Times, rate};
use crate::{Effort, Outcome};

/// As many as the machine of the published figures has cores.
const THREADS: usize = 2;

/// Processes per thread: about two seconds of them.
const COUNT: usize = 2_500;

/// Processes one after the other for their latency.
const LATENCIES: usize = 300;

/// Processes per second with two threads.
pub(crate) fn per_second(effort: Effort) -> Outcome<f64> {
    let count = effort.count(COUNT);
    let begin = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(move || (0..count).try_for_each(|_| once()))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread of the bench panicked")?)
    })?;
    Ok(rate(THREADS * count, begin.elapsed()))
}

/// The median time of one process, in milliseconds.
pub(crate) fn latency(effort: Effort) -> Outcome<f64> {
    let timed = |_| {
        let begin = Instant::now();
        once().map(|()| begin.elapsed())
    };
    let times: Vec<Duration> = (0..effort.count(LATENCIES)).map(timed).collect::<Outcome<_>>()?;
    Ok(Times::new(&times).ok_or("no process was timed")?.median())
}

fn once() -> Outcome<()> {
    let mut command = Command::new("/bin/true");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("/bin/true ended with {status}").into()) }
}
