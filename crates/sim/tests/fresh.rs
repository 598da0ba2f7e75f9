//! Seeds that nobody has run before, a share of every test run. What one of them finds is printed with the command that shows
//! it again.

use std::ops::ControlFlow;
use std::time::Duration;

use sim::campaign::{Campaign, fresh_seed};

/// What a run of all tests can spare on one core. `make sim` takes longer.
const TIME: Duration = Duration::from_secs(60);

/// On a quick machine this is enough.
const SEEDS: u64 = 300;

#[test]
fn fresh_seeds_find_nothing() {
    let mut found = None;
    let campaign = Campaign { first: fresh_seed(), count: SEEDS, time: TIME, threads: 1, servers: 1 };
    let totals = campaign.run(|verdict, _| {
        if verdict.findings.is_empty() {
            return ControlFlow::Continue(());
        }
        found = Some(verdict.clone());
        ControlFlow::Break(())
    });
    if let Some(verdict) = found {
        let findings: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
        panic!("{}\nto see it again: make sim SEED={}", findings.join("\n"), verdict.seed);
    }
    assert!(totals.seeds > 0);
}
