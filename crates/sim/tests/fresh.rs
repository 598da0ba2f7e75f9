//! Seeds from 1 on, a share of every test run. What one of them finds is printed with the command that shows it again.

use std::time::{Duration, Instant};

use sim::case::Case;
use sim::story::Story;

/// What a run of all tests can spare on one core. `make sim` takes longer, and begins with a seed that nobody has run.
const TIME: Duration = Duration::from_secs(60);

/// On a quick machine this is enough. As long as seeds beyond these show something ("Open" in docs/simulation.md), a fresh one
/// could fail a run that has nothing to do with it.
const SEEDS: u64 = 330;

#[test]
fn seeds_find_nothing_new() {
    let started = Instant::now();
    for seed in 1..=SEEDS {
        let verdict = Case::of(seed).run(&Story::untold(), None);
        let findings: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}\nto see it again: make sim SEED={seed}", findings.join("\n"));
        if started.elapsed() >= TIME {
            return;
        }
    }
}
