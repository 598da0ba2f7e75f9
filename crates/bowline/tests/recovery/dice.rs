//! Chance from a seed: the same seed gives the same story, as far as the story is ours.

use std::time::Duration;

use crate::story::pass;

/// A small generator (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // It never leaves zero, and small seeds begin alike without the first factor.
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub(crate) fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        let sides = u64::try_from(choice.len()).expect("a short list");
        choice[usize::try_from(self.roll(sides)).expect("below the length of a list")]
    }

    pub(crate) fn wait(&mut self, longest_ms: u64) {
        pass(Duration::from_millis(self.roll(longest_ms)));
    }
}
