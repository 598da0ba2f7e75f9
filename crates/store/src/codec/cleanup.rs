//! The end of a cleanup as JSON.

use engine::attempt::{Cleanup, CleanupCut, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct StoredCleanup {
    outcome: StoredOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<StoredCut>,
    duration_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredOutcome {
    Exited { code: i32 },
    Signaled { signal: i32, oom: bool },
    SpawnFailed { why: String },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCut {
    Budget,
    Killed,
    LeaseExpired,
}

pub(super) fn encode(cleanup: &Cleanup) -> String {
    let stored = StoredCleanup {
        outcome: match &cleanup.outcome {
            Outcome::Exited(code) => StoredOutcome::Exited { code: *code },
            Outcome::Signaled { signal, oom } => StoredOutcome::Signaled { signal: *signal, oom: *oom },
            Outcome::SpawnFailed(why) => StoredOutcome::SpawnFailed { why: why.clone() },
        },
        cut: cleanup.cut.map(|cut| match cut {
            CleanupCut::Budget => StoredCut::Budget,
            CleanupCut::Killed => StoredCut::Killed,
            CleanupCut::LeaseExpired => StoredCut::LeaseExpired,
        }),
        duration_ms: cleanup.duration_ms,
    };
    serde_json::to_string(&stored).expect("the end of a cleanup is plain data and always has a JSON form")
}

pub(super) fn decode(text: &str) -> Result<Cleanup, String> {
    let stored: StoredCleanup =
        serde_json::from_str(text).map_err(|e| format!("the end of a cleanup is not readable: {e}"))?;
    Ok(Cleanup {
        outcome: match stored.outcome {
            StoredOutcome::Exited { code } => Outcome::Exited(code),
            StoredOutcome::Signaled { signal, oom } => Outcome::Signaled { signal, oom },
            StoredOutcome::SpawnFailed { why } => Outcome::SpawnFailed(why),
        },
        cut: stored.cut.map(|cut| match cut {
            StoredCut::Budget => CleanupCut::Budget,
            StoredCut::Killed => CleanupCut::Killed,
            StoredCut::LeaseExpired => CleanupCut::LeaseExpired,
        }),
        duration_ms: stored.duration_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let outcomes = [
            Outcome::Exited(3),
            Outcome::Signaled { signal: 9, oom: true },
            Outcome::SpawnFailed("no such program".to_owned()),
        ];
        let cuts = [None, Some(CleanupCut::Budget), Some(CleanupCut::Killed), Some(CleanupCut::LeaseExpired)];
        for outcome in &outcomes {
            for cut in cuts {
                let cleanup = Cleanup { outcome: outcome.clone(), cut, duration_ms: 7 };
                assert_eq!(decode(&encode(&cleanup)), Ok(cleanup));
            }
        }
        assert!(decode("{}").is_err());
    }
}
