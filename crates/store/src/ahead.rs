//! What the ledger wants to know before it decides a round, asked for all at once: the way to a database can be long, and is the
//! same for one row and for a thousand.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, JobId, StepIx};
use uuid::Uuid;

use crate::read::LogState;
use crate::rows::{IdempotencyRow, ServerRow};
use crate::{Store, StoreError};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Idempotency keys, each with the token that it belongs to.
    pub keys: BTreeSet<(Uuid, String)>,
    /// Attempts, to know where they belong and how far their logs are stored.
    pub attempts: BTreeSet<AttemptId>,
    /// What a server holds its memory against, with these settings.
    pub record: Option<&'static [&'static str]>,
}

/// What was wanted and is not in here is not on record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub keys: BTreeMap<(Uuid, String), IdempotencyRow>,
    pub places: BTreeMap<AttemptId, (JobId, StepIx)>,
    /// One for each attempt.
    pub logs: BTreeMap<AttemptId, LogState>,
    pub record: Option<Record>,
}

/// What tells whether commits were lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub last_event: u64,
    pub servers: Vec<ServerRow>,
    pub settings: BTreeMap<&'static str, String>,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.attempts.is_empty() && self.record.is_none()
    }
}

/// One after the other, where the way is short.
pub(crate) fn one_by_one(store: &mut (impl Store + ?Sized), wanted: &Wanted) -> Result<Found, StoreError> {
    let (reader, mut found) = (store.reader(), Found::default());
    for (token, key) in &wanted.keys {
        found.keys.extend(reader.idempotency(*token, key)?.map(|row| ((*token, key.clone()), row)));
    }
    for attempt in &wanted.attempts {
        found.places.extend(store.place_of(*attempt)?.map(|place| (*attempt, place)));
    }
    if !wanted.attempts.is_empty() {
        let attempts: Vec<AttemptId> = wanted.attempts.iter().copied().collect();
        let states = reader.log_states(&attempts)?;
        found.logs.extend(attempts.into_iter().zip(states));
    }
    if let Some(settings) = wanted.record {
        let mut record = Record { last_event: reader.last_event()?, servers: reader.servers()?, ..Record::default() };
        for key in settings {
            record.settings.extend(reader.meta(key)?.map(|value| (*key, value)));
        }
        found.record = Some(record);
    }
    Ok(found)
}
