//! Whether planted bugs are found: by which checker, after how many seeds. Called by `sim --planted` and by the test that
//! keeps the simulator honest.

use std::fmt::{self, Write as _};
use std::ops::Range;

use planted::Bug;

use crate::case::Case;
use crate::check::Finding;
use crate::story::Story;

/// For each bug the seed that showed it quickest, one line each; written by `sim --planted all --write`.
const KEPT: &str = include_str!("../planted.txt");

/// A bug that hides from so many seeds hides from an ordinary run, too.
pub const SEEDS_MAX: u64 = 60;

/// How a planted bug was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    pub seed: u64,
    /// Seeds that it took, this one included.
    pub after: u64,
    pub by: Finding,
}

/// The bugs of this name, or all of them; none if there is no such bug, or this build has none.
pub fn named(name: &str) -> Option<Vec<Bug>> {
    let bugs = if name == "all" { Bug::ALL.to_vec() } else { vec![Bug::by_name(name)?] };
    planted::POSSIBLE.then_some(bugs)
}

pub fn names() -> String {
    Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<&str>>().join(", ")
}

/// Plants this bug, and nothing else, in one world after the other, until a checker finds something wrong. The bug is in
/// the whole process while this runs: nobody else may run a world in it.
pub fn hunt(bug: Bug, seeds: Range<u64>) -> Option<Caught> {
    planted::choose(Some(bug));
    let first = seeds.start;
    let caught = seeds.into_iter().find_map(|seed| {
        let verdict = Case::of(seed).run(&Story::untold(), None);
        let by = verdict.findings.into_iter().next()?;
        Some(Caught { seed, after: seed - first + 1, by })
    });
    planted::choose(None);
    caught
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
    for (bug, caught) in found {
        let start = row_start(*bug);
        let _ = match caught {
            Some(Caught { after, by, .. }) => writeln!(page, "{start} {} | {after} |", by.checker),
            None => writeln!(page, "{start} not found | |"),
        };
    }
    let missed = found.iter().filter(|(_, caught)| caught.is_none()).count();
    let all = found.len();
    let _ = writeln!(page, "\n{} of {all} were found, each from seed {first_seed} on.", all - missed);
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
number in [testing.md](testing.md). `cargo test -p sim` looks for all of them, and fails if one is not found.

| bug | what goes wrong | case | found by | after seeds |
|---|---|---|---|---|
";

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found in seed {} (number {}) by {}", self.seed, self.after, self.by)
    }
}
