//! Workers' names, for events that know only their ids.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Time, WorkerId};

use crate::app::App;

/// A worker may come back under another name; nobody minds the old one for this long.
const FRESH: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct WorkerNames {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    names: HashMap<WorkerId, String>,
    read_at: Time,
}

impl WorkerNames {
    /// The worker's name; its id if the name cannot be had.
    pub(super) fn get(app: &App, id: WorkerId) -> String {
        let mut known = app.names.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = app.clock.now();
        if !known.names.contains_key(&id) || now.since(known.read_at) > FRESH {
            match app.reader.workers() {
                Ok(rows) => known.names = rows.iter().map(|row| (row.id, row.name.clone())).collect(),
                Err(error) => tracing::debug!(%error, "the names of workers cannot be read"),
            }
            known.read_at = now;
        }
        known.names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}
