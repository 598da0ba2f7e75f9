//! Whether planted bugs are found: by which checker, after how many seeds. Called by `sim --planted` and by the test that
//! keeps the simulator honest.

use std::fmt;
use std::ops::Range;

use planted::Bug;

use crate::check::Finding;
use crate::faults;
use crate::setup::Setup;
use crate::world::World;

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
        let setup = Setup::of(seed);
        let faults = faults::roll(seed, &setup);
        let (verdict, _) = World::new(seed, setup, faults).run(None);
        let by = verdict.findings.into_iter().next()?;
        Some(Caught { seed, after: seed - first + 1, by })
    });
    planted::choose(None);
    caught
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found in seed {} (number {}) by {}", self.seed, self.after, self.by)
    }
}
