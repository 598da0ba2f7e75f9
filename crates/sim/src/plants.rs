//! Whether planted bugs are found: by which checker, after how many seeds. Called by `sim --planted` and by the test that
//! keeps the simulator honest.

use std::fmt::{self, Write as _};
use std::ops::Range;

use planted::Bug;

use crate::case::Case;
use crate::check::Finding;
use crate::faults;
use crate::setup::Setup;
use crate::story::Story;

/// For each bug the seed that showed it quickest, one line each; written by `sim --planted all --write`.
const KEPT: &str = include_str!("../planted.txt");

/// A bug that hides from so many seeds hides from an ordinary run, too.
pub const SEEDS_MAX: u64 = 60;

/// As many faults as an ordinary world has.
const FAULTS: usize = 40;

/// How a planted bug was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    pub seed: u64,
    /// Seeds that it took, this one included.
    pub after: u64,
    pub by: Finding,
}

/// The bugs of these names, or all of them; none if one is not there, or this build has none.
pub fn named(names: &str) -> Option<Vec<Bug>> {
    let by_name = || names.split(',').map(Bug::by_name).collect();
    let bugs = if names == "all" { Some(Bug::ALL.to_vec()) } else { by_name() };
    bugs.filter(|_| planted::POSSIBLE)
}

pub fn names() -> String {
    Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<&str>>().join(", ")
}

/// Plants this bug, and nothing else, in one world after the other, until a checker finds something wrong. The bug is in
/// the whole process while this runs: nobody else may run a world in it.
pub fn hunt(bug: Bug, seeds: Range<u64>) -> Option<Caught> {
    let first = seeds.start;
    seeds.into_iter().find_map(|seed| {
        let case = provoking(bug, seed);
        let by = first_finding(&case, Some(bug))?;
        // A world in which something is wrong anyway shows nothing.
        let is_guilty = first_finding(&case, None).is_none();
        is_guilty.then(|| Caught { seed, after: seed - first + 1, by })
    })
}

fn first_finding(case: &Case, bug: Option<Bug>) -> Option<Finding> {
    planted::choose(bug);
    let verdict = case.run(&Story::untold(), None);
    planted::choose(None);
    verdict.findings.into_iter().next()
}

/// This seed's world, with the faults that the bug is about and no others: what one fault shows is found sooner without the
/// rest.
pub fn provoking(bug: Bug, seed: u64) -> Case {
    let setup = Setup::of(seed);
    Case { faults: faults::roll_only(seed, &setup, provokers(bug), FAULTS), ..Case::of(seed) }
}

fn provokers(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::DeafTimeCounts | Bug::NoTimeToCallIn => &["freeze-server", "cut", "kill-server"],
        Bug::StartFlipsSiblings | Bug::DeafServerRenews => &["kill-server", "database-away", "cut"],
        Bug::ReturnNotBelieved | Bug::NobodyAwaited => &["cut", "mass-cut"],
        Bug::OldCloseEndsNewLink => &["half-open", "cut"],
        Bug::DeadLinkStays | Bug::IdentityNotAsked => &["kill-worker", "worker-at-moment", "roll-back"],
        Bug::SilentRunnerBeats => &["freeze-runner"],
        Bug::RetryRevivesCancelled | Bug::StopNotSent => &["cancel"],
        Bug::WindowRevivesCancelled
        | Bug::CancelRefreshesWindow
        | Bug::CancelAwaitsTheLost
        | Bug::StrayRunsOn
        | Bug::RerunWithoutGround => &["cancel", "cut", "freeze-worker", "operator", "cut-and-act"],
        Bug::RemainsLeftAlive
        | Bug::LossesWithoutEnd
        | Bug::LossSpendsRetry
        | Bug::WritesRepeated
        | Bug::IntentCountsAsVoid => &["kill-runner"],
        Bug::OfferWithoutDeadline => &["freeze-worker"],
        Bug::RefusalsCount => &["disk-full", "operator"],
        Bug::ErrorDropsJob => &["refusals", "commit-errors", "poison"],
        Bug::ReportedOnce | Bug::ForgottenOnReport => &["kill-server", "cut", "kill-worker"],
        Bug::GoBeforeCommit | Bug::ForgetBeforeCommit => &["die-before-commit"],
        Bug::SubmittedTwice => &["die-after-commit", "answers-lost"],
        Bug::VerdictTurns | Bug::StaleEndCounts | Bug::LateGoUsed => &["sleep", "freeze-worker", "cut"],
        Bug::LeaseIgnored | Bug::LeaseOutlastsWindow | Bug::LeaseFromLastQuestion => {
            &["cut", "kill-worker", "freeze-worker", "slow"]
        }
        Bug::LinesTwice | Bug::ReplayDropped | Bug::LogCompleteTooEarly => &["cut", "kill-worker"],
        Bug::OfferedToTwo
        | Bug::OfferTimerOutlivesGrant
        | Bug::SlotLeaks
        | Bug::OneExecutionTooMany
        | Bug::FailureReleases
        | Bug::FenceRepeats => &["kill-worker"],
    }
}

/// The seed that showed this bug when the list was written.
pub fn kept_seed(bug: Bug) -> Option<u64> {
    let mut lines = KEPT.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == bug.name()).and_then(|(_, seed)| seed.parse().ok())
}

/// Writes docs/planted.md and the seeds that are tried first.
pub fn write(found: &[(Bug, Option<Caught>)], first_seed: u64) -> std::io::Result<()> {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::write(crate_folder.join("planted.txt"), kept(found))?;
    std::fs::write(crate_folder.join("../../docs/planted.md"), page(found, first_seed))
}

/// What `planted.txt` is to hold.
fn kept(found: &[(Bug, Option<Caught>)]) -> String {
    let lines = found.iter().filter_map(|(bug, caught)| Some(format!("{} {}\n", bug.name(), caught.as_ref()?.seed)));
    lines.collect()
}

/// docs/planted.md.
fn page(found: &[(Bug, Option<Caught>)], first_seed: u64) -> String {
    let mut page = PAGE.to_owned();
    let how = |bug: Bug| found.iter().find(|(of, _)| *of == bug).and_then(|(_, caught)| caught.as_ref());
    for bug in Bug::ALL {
        let start = row_start(*bug);
        let _ = match how(*bug) {
            Some(Caught { after, by, .. }) => writeln!(page, "{start} {} | {after} |", by.checker),
            None => writeln!(page, "{start} not yet | |"),
        };
    }
    let count = Bug::ALL.iter().filter(|bug| how(**bug).is_some()).count();
    let _ = writeln!(page, "\n{count} of {} were found, each from seed {first_seed} on.", Bug::ALL.len());
    page
}

/// What does not change with the simulator: the bug, its case and its words.
pub fn row_start(bug: Bug) -> String {
    let case = if bug.case() == 0 { String::new() } else { bug.case().to_string() };
    format!("| `{}` | {} | {case} |", bug.name(), bug.imitates())
}

const PAGE: &str = "\
# Planted bugs

Written by `make sim-planted`; do not edit.

Whether a simulator finds anything is shown by what it finds. So the product's sources hold wrong decisions on purpose, one
short branch each at the place of the true one (`crates/planted`). They are constants in the product, and are not even compiled
into it; a build for the simulator chooses one of them at a time. Each imitates what went wrong in some job system; the case is its
number in [testing.md](testing.md). A bug is looked for in worlds with the faults that it is about and no others. `cargo test -p sim`
looks for those that were found before, and fails if one no longer is.

| bug | what goes wrong | case | found by | after seeds |
|---|---|---|---|---|
";

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found in seed {} (number {}) by {}", self.seed, self.after, self.by)
    }
}
