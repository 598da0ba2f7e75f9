//! Many seeds in a row, on a few threads, one world each. `main` and the test with fresh seeds run it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::case::Case;
use crate::setup::Scale;
use crate::story::Story;
use crate::world::Verdict;

/// Which seeds, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Campaign<'a> {
    pub first: u64,
    pub count: u64,
    /// No seed is begun after so much real time.
    pub time: Duration,
    pub threads: usize,
    /// Of each world.
    pub scale: Scale,
    /// A kind of fault that each world has some of.
    pub with: Option<&'a str>,
}

/// What all of them were together.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub seeds: u64,
    pub jobs: u64,
    pub events: u64,
    pub simulated: Duration,
    pub took: Duration,
    /// Faults that hit something, by name.
    pub fired: BTreeMap<String, u64>,
    pub with_findings: u64,
}

impl Campaign<'_> {
    /// Hands each verdict over as it comes, until told to stop.
    pub fn run(&self, mut each: impl FnMut(&Verdict, &Totals) -> ControlFlow<()>) -> Totals {
        let started = Instant::now();
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let mut totals = Totals::default();
        thread::scope(|scope| {
            let (sender, verdicts) = mpsc::channel();
            for _ in 0..self.threads.max(1) {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && started.elapsed() < self.time {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.count {
                            break;
                        }
                        let case = Case::with(self.first.wrapping_add(number), self.scale, self.with);
                        let verdict = case.run(&Story::untold(), None);
                        if sender.send(verdict).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for verdict in verdicts {
                totals.add(&verdict, started.elapsed());
                if each(&verdict, &totals).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
        });
        totals.took = started.elapsed();
        totals
    }
}

impl Totals {
    fn add(&mut self, verdict: &Verdict, took: Duration) {
        self.seeds += 1;
        self.jobs += verdict.jobs as u64;
        self.events += verdict.events;
        self.simulated += verdict.simulated;
        self.took = took;
        self.with_findings += u64::from(!verdict.findings.is_empty());
        for (name, times) in &verdict.fired {
            *self.fired.entry(name.clone()).or_default() += times;
        }
    }

    pub fn hours(&self) -> f64 {
        self.simulated.as_secs_f64() / 3600.0
    }

    pub fn hours_a_minute(&self) -> f64 {
        self.hours() / (self.took.as_secs_f64() / 60.0)
    }
}

/// A seed that nobody has had before, short enough to be read out.
pub fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX) % 10_000_000_000
}
