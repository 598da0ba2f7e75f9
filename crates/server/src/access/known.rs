//! Tokens that were looked up before, so that a request costs no read. Forgotten when any token is revoked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Time;

use store::rows::TokenRow;

/// More tokens than people and programs talk to one server; beyond that all are looked up again.
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Known {
    rows: HashMap<[u8; 32], Arc<TokenRow>>,
    /// Grows when something is revoked: what was read before that is not to be believed.
    generation: u64,
    forgotten_at: Time,
}

/// Taken before a look into the store, given back with what was found there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket(u64);

impl Known {
    pub(super) fn get(&self, hash: &[u8; 32]) -> Result<Arc<TokenRow>, Ticket> {
        self.rows.get(hash).cloned().ok_or(Ticket(self.generation))
    }

    pub(super) fn remember(&mut self, ticket: Ticket, hash: [u8; 32], row: Arc<TokenRow>) {
        if ticket.0 != self.generation {
            return;
        }
        if self.rows.len() >= KNOWN_MAX {
            self.rows.clear();
        }
        self.rows.insert(hash, row);
    }

    /// Forgets all, if that is so long ago.
    pub(super) fn forget_after(&mut self, age: Duration, now: Time) {
        if now >= self.forgotten_at + age {
            self.forgotten_at = now;
            self.forget();
        }
    }

    pub(super) fn forget(&mut self) {
        self.generation += 1;
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use engine::Time;
    use uuid::Uuid;

    use super::*;

    fn row() -> Arc<TokenRow> {
        Arc::new(TokenRow {
            id: Uuid::nil(),
            kind: "api".to_owned(),
            role: "admin".to_owned(),
            name: String::new(),
            hash: [1; 32],
            tags: Vec::new(),
            uses_left: None,
            created_at: Time(0),
            expires_at: None,
            revoked_at: None,
        })
    }

    #[test]
    fn what_was_read_before_a_revocation_is_not_kept() {
        let mut known = Known::default();
        let ticket = known.get(&[1; 32]).expect_err("nothing is known yet");
        known.forget();
        known.remember(ticket, [1; 32], row());
        let ticket = known.get(&[1; 32]).expect_err("it may have been the revoked one");
        known.remember(ticket, [1; 32], row());
        assert!(known.get(&[1; 32]).is_ok());
        known.forget();
        assert!(known.get(&[1; 32]).is_err());
    }

    #[test]
    fn what_others_may_have_revoked_is_not_kept_for_long() {
        let (mut known, age) = (Known::default(), Duration::from_secs(1));
        known.forget_after(age, Time(10_000_000));
        let ticket = known.get(&[1; 32]).expect_err("nothing is known yet");
        known.remember(ticket, [1; 32], row());
        known.forget_after(age, Time(10_900_000));
        assert!(known.get(&[1; 32]).is_ok());
        known.forget_after(age, Time(11_000_000));
        assert!(known.get(&[1; 32]).is_err());
    }
}
