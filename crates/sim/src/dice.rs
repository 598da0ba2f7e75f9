//! Chance, all of it from one seed. Each party has a stream of its own, so that a fault more or less changes what follows
//! from it, and not every roll after it.

use std::time::Duration;

use uuid::Uuid;

/// A small generator (splitmix64): fast, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The stream that belongs to `label` under this seed.
    pub fn new(seed: u64, label: &str) -> Dice {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes()).update(label.as_bytes());
        let bytes = *hasher.finalize().as_bytes();
        Dice { state: u64::from_le_bytes(bytes[..8].try_into().expect("a hash has 32 bytes")) }
    }

    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.bits()) * end as u128;
        usize::try_from(wide >> 64).expect("below a usize")
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(most - least + 1);
        least + u64::try_from(wide >> 64).expect("below a u64")
    }

    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.between(micros(least), micros(most)))
    }

    /// Mostly short, sometimes up to `most`: faults of all lengths get their turn.
    pub fn skewed(&mut self, least: Duration, most: Duration) -> Duration {
        let ratio = most.as_secs_f64() / least.as_secs_f64();
        least.mul_f64(ratio.powf(self.fraction()))
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { Some(&items[self.below(items.len())]) }
    }

    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.bits(), self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let rolls = |seed, label| -> Vec<u64> {
            let mut dice = Dice::new(seed, label);
            (0..8).map(|_| dice.bits()).collect()
        };
        assert_eq!(rolls(7, "net"), rolls(7, "net"));
        assert_ne!(rolls(7, "net"), rolls(8, "net"));
        assert_ne!(rolls(7, "net"), rolls(7, "work"));
    }

    #[test]
    fn rolls_stay_in_bounds() {
        let mut dice = Dice::new(1, "bounds");
        for _ in 0..10_000 {
            assert!(dice.below(3) < 3);
            assert!((5..=9).contains(&dice.between(5, 9)));
            let skewed = dice.skewed(Duration::from_millis(10), Duration::from_secs(600));
            assert!(skewed >= Duration::from_millis(9) && skewed <= Duration::from_secs(601));
        }
    }
}
