//! How much a seed is: less would be a figure without a meaning.

use std::time::Duration;

use sim::case::Case;
use sim::story::Story;

#[test]
fn a_seed_is_at_least_twenty_jobs_ten_faults_and_an_hour() {
    for seed in 100..106 {
        let case = Case::of(seed);
        assert!(case.jobs.len() >= 20, "seed {seed}");
        let verdict = case.run(&Story::untold(), None);
        assert_eq!(verdict.findings, [], "seed {seed}");
        assert!(verdict.faults_fired >= 10, "seed {seed}: {:?}", verdict.fired);
        assert!(verdict.simulated >= Duration::from_secs(3600), "seed {seed}");
        assert!(verdict.jobs >= 20, "seed {seed}");
    }
}
