//! Seeds that everybody runs, and seeds that nobody has run: a share of every test run. What one of them finds is printed with the command that
//! shows it again.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sim::case::Case;
use sim::story::Story;

/// What a run of all tests can spare for each of the two on one core. `make sim` takes longer.
const TIME: Duration = Duration::from_secs(30);

/// On a quick machine this is enough.
const SEEDS: u64 = 165;

/// Fresh seeds lie above those of every documented run.
const FRESH_FROM: u64 = 1_000_000;

fn find_nothing_from(first: u64) {
    let started = Instant::now();
    for seed in first..first + SEEDS {
        let verdict = Case::of(seed).run(&Story::untold(), None);
        let findings: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}\nto see it again: make sim SEED={seed}", findings.join("\n"));
        if started.elapsed() >= TIME {
            return;
        }
    }
}

#[test]
fn the_first_seeds_find_nothing() {
    find_nothing_from(1);
}

/// Others with every run.
#[test]
fn fresh_seeds_find_nothing() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    find_nothing_from(FRESH_FROM + since.as_secs() * SEEDS);
}
