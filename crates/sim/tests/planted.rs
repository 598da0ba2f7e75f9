//! The simulator finds what is there: bugs of crate `planted` are noticed, each by some checker.
//!
//! A bug is looked for first in the seed that showed it before (`planted.txt`); when the simulator has changed and it is not
//! there any more, in the seeds from 1 on. `make sim-planted` looks from fresh seeds instead, and writes docs/planted.md and
//! the list.

use std::sync::Mutex;

use planted::Bug;
use sim::plants::{self, SEEDS_MAX};

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
    assert!(hidden.is_empty(), "not found in {SEEDS_MAX} seeds: {}", hidden.join(", "));
}

fn is_found(bug: Bug) -> bool {
    plants::shows_again(bug) || plants::hunt(bug, 1..SEEDS_MAX + 1).is_some()
}

/// What went wrong elsewhere has its bug here.
#[test]
fn every_case_has_a_bug() {
    let without = plants::CASES.into_iter().filter(|case| Bug::ALL.iter().all(|bug| bug.case() != *case));
    assert_eq!(without.collect::<Vec<u32>>(), Vec::<u32>::new());
}

/// Every bug has its line, with the words of today; the rest of the table is what was seen when it was written.
#[test]
fn the_page_names_every_bug() {
    let page = include_str!("../../../docs/planted.md");
    for bug in Bug::ALL {
        let row = plants::row_start(*bug);
        assert!(page.contains(&row), "docs/planted.md lacks `{row}`: run `make sim-planted`");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, Bug::ALL.len(), "a bug that is gone has its line in docs/planted.md: run `make sim-planted`");
}
