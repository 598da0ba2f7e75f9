//! The simulator finds what is there: bugs of crate `planted` are noticed, each by some checker.
//!
//! A bug is looked for first in the world that showed it before (`planted.txt`), which must be well without it; when the simulator has
//! changed and it is not there any more, in the whole of the normal budget from seed 1 on. `make sim-planted` looks from fresh seeds instead, and writes docs/planted.md and
//! the list.

use std::sync::Mutex;

use planted::Bug;
use sim::plants::{self, ORDINARY_SEEDS, SEEDS_MAX};

/// They are shared out to tests, so that more than one core can be used.
const SHARES: usize = 4;

/// One bug at a time in one process: it is the whole process that is wrong.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn planted_bugs_are_found_1() {
    find(0);
}

#[test]
fn planted_bugs_are_found_2() {
    find(1);
}

#[test]
fn planted_bugs_are_found_3() {
    find(2);
}

#[test]
fn planted_bugs_are_found_4() {
    find(3);
}

#[track_caller]
fn find(share: usize) {
    let _one = ONE.lock();
    let share = Bug::ALL.iter().copied().skip(share).step_by(SHARES);
    let hidden: Vec<&str> = share.filter(|bug| !is_found(*bug)).map(Bug::name).collect();
    assert!(
        hidden.is_empty(),
        "not found in {ORDINARY_SEEDS} ordinary worlds and {SEEDS_MAX} of its own: {}",
        hidden.join(", ")
    );
}

fn is_found(bug: Bug) -> bool {
    plants::shows_again(bug) || plants::hunt(bug, 1, SEEDS_MAX).is_some()
}

/// What went wrong elsewhere has its bug here.
#[test]
fn every_case_has_a_bug() {
    let without = plants::CASES.into_iter().filter(|case| Bug::ALL.iter().all(|bug| bug.case() != *case));
    assert_eq!(without.collect::<Vec<u32>>(), Vec::<u32>::new());
}

/// Every bug has its line, with the words of today, and is said to be found where the list of the same run has it.
#[test]
fn the_page_is_of_today() {
    let wrong = plants::wrong_on(include_str!("../../../docs/planted.md"));
    assert!(wrong.is_empty(), "run `make sim-planted`; docs/planted.md differs in {wrong:#?}");
}
