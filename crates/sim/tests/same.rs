//! One seed, one story: to the byte, in one process and in two. Without that nothing could be repeated.

use std::process::Command;

use sim::case::Case;
use sim::story::{Listener, Story};

const SEEDS: [u64; 3] = [2, 11, 23];

/// More lines than any world has.
const ALL: usize = 10_000_000;

fn story_of(seed: u64) -> Vec<String> {
    let story = Story::told_to(Listener::Last(ALL));
    let verdict = Case::of(seed).run(&story, None);
    let mut lines = story.lines();
    lines.push(format!("{} events", verdict.events));
    lines
}

#[test]
fn twice_in_one_process() {
    for seed in SEEDS {
        let (first, second) = (story_of(seed), story_of(seed));
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed}, line {at}:\n{}\n{}", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

#[test]
fn in_two_processes() {
    let told_by = |seed: u64| {
        let sim = Command::new(env!("CARGO_BIN_EXE_sim")).args(["--trace", "--seed", &seed.to_string()]).output();
        String::from_utf8(sim.expect("sim starts").stdout).expect("a story is text")
    };
    for seed in SEEDS {
        let (first, second) = (told_by(seed), told_by(seed));
        assert!(first.lines().count() > 1000, "seed {seed} tells nothing");
        let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
    }
}
