//! What a worker should have and does not.
//!
//! Offers, goes and forgets are numbered on each link, and a held set comes with the highest number that was processed
//! when it was taken: only what was sent by then is expected in it, and no clock takes part. `dispatch_grace` is waited on
//! top. Pure; called with every hello and every heartbeat.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, Heard};

/// How an attempt came to this link: by a message with this number, or with the worker's hello (0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub number: u64,
    pub at: Heard,
}

/// A held set, as a worker reports it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported<'a> {
    pub held: &'a BTreeSet<AttemptId>,
    pub processed: u64,
    pub heard: Heard,
}

/// Of what the server believes to be there, what should be in the held set and is not.
pub(super) fn missing(
    believed: impl Iterator<Item = AttemptId>,
    sent: &BTreeMap<AttemptId, Sent>,
    reported: Reported<'_>,
    grace: Duration,
) -> Vec<AttemptId> {
    let expected = |attempt: &AttemptId| {
        // What is not on its way yet cannot be there.
        sent.get(attempt).is_some_and(|s| s.number <= reported.processed && s.at + grace <= reported.heard)
    };
    believed.filter(|attempt| !reported.held.contains(attempt) && expected(attempt)).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_what_was_processed_long_enough_ago_is_missing() {
        let id = |n: u128| AttemptId(Uuid::from_u128(n));
        let sent = |number, at: i64| Sent { number, at: Heard(at * 1_000_000) };
        let on_link: BTreeMap<AttemptId, Sent> = [
            (id(1), sent(0, 0)),
            (id(2), sent(0, 0)),
            (id(3), sent(4, 5)),
            (id(4), sent(5, 5)),
            (id(5), sent(6, 5)),
            (id(6), sent(4, 95)),
        ]
        .into();
        let held: BTreeSet<AttemptId> = [id(1), id(3)].into();
        let reported = Reported { held: &held, processed: 5, heard: Heard(100_000_000) };
        let believed = (1..=7).map(id);
        // 1 and 3 are there; 5 was not processed yet; 6 is too young; 7 was never sent.
        assert_eq!(missing(believed, &on_link, reported, Duration::from_secs(10)), [id(2), id(4)]);
    }
}
