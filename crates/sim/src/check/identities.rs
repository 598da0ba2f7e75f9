//! Promise: a worker's identity belongs to one state folder, and not to an older copy of it: who comes back with a folder that
//! has not been as far as its worker is refused, and moves nothing.

use std::collections::BTreeMap;

use engine::{Epoch, WorkerId};
use store::Batch;
use uuid::Uuid;

use super::Findings;

const CHECKER: &str = "identity";

#[derive(Debug, Default)]
pub(crate) struct Identities {
    /// How far each worker has been, as far as the database knows.
    used: BTreeMap<WorkerId, Epoch>,
    /// The last epoch in the folder that each process began with, until it is admitted.
    begun: BTreeMap<Uuid, Epoch>,
}

impl Identities {
    /// A worker's process begins, with a folder that knows this epoch.
    pub(crate) fn worker_starts(&mut self, session: Uuid, last_epoch: u64) {
        self.begun.insert(session, Epoch(last_epoch));
    }

    pub(crate) fn committed(&mut self, batch: &Batch, found: &mut Findings) {
        for hello in &batch.hellos {
            let Some(began) = self.begun.remove(&hello.session) else { continue };
            let used = self.used.get(&hello.id).copied().unwrap_or_default();
            // A folder that keeps no epoch says nothing.
            if began != Epoch::default() && began < used {
                let known = format!("its state folder knows link {}, and it has used link {}", began.0, used.0);
                found.add(CHECKER, format!("worker {} was admitted, and {known}", hello.id));
            }
        }
        for (worker, epoch) in &batch.used_epochs {
            let used = self.used.entry(*worker).or_default();
            *used = (*used).max(*epoch);
        }
    }

    pub(crate) fn used(&self, worker: WorkerId) -> Epoch {
        self.used.get(&worker).copied().unwrap_or_default()
    }

    /// That the workers have been further is not on record any more: nobody can tell an older folder by it.
    pub(crate) fn put_back(&mut self, used: Vec<(WorkerId, Epoch)>) {
        self.used.extend(used);
    }
}
