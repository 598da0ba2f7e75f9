//! Chance, seeded once and then predictable: the ledger's only source of it, so that a seed replays a run.

use uuid::Uuid;

use engine::Time;

/// xoshiro256++: small, fast, and good enough for ids and jitter (never for secrets).
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator that starts from these bits; all zero would never leave zero, so one bit is set.
    pub fn from_seed(seed: [u8; 32]) -> Random {
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(seed.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
        }
        state[0] |= 1;
        Random { state }
    }

    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A time-ordered id (UUID version 7).
    pub fn uuid(&mut self, now: Time) -> Uuid {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.bits().to_le_bytes());
        bytes[8..].copy_from_slice(&self.bits().to_le_bytes()[..2]);
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }
}
