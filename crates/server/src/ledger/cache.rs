//! Jobs in memory, with the version that the database has; and definitions by the hash of their text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::definition::Definition;
use engine::{Job, JobId};
use store::codec::{self, JobMeta};
use store::rows::{DefinitionRow, StoredJob};
use store::{Store, StoreError};

use crate::settings::DefinitionSettings;
use crate::tasks::{self, Bound};

/// Steps kept in memory over all jobs, at less than a kilobyte each; beyond that, jobs are dropped and read again when needed.
/// Whoever waits with a million steps in all is served in turn, and to read jobs of thousands of steps for each turn would take
/// far longer than the turn.
const CACHED_STEPS_MAX: usize = 1_500_000;

/// Jobs that are read together, and how many at first, when nobody knows yet how large they are.
const LOADED_AT_ONCE: usize = 200;
const LOADED_FIRST: usize = 20;

/// Steps that are read together, as far as the jobs before let one guess.
const LOADED_STEPS: usize = 20_000;

/// Definitions kept for jobs that share a text.
const CACHED_DEFINITIONS_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct Cached {
    pub job: Job,
    pub meta: JobMeta,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    jobs: HashMap<JobId, Cached>,
    steps: usize,
    /// Those of them that were final when they were read: nothing more comes of them.
    over: Vec<JobId>,
    /// A look at the rows that failed since this was last asked for.
    missed: Option<StoreError>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("there is no such job")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cache {
    /// The job, from memory or from the store.
    pub(super) fn load(
        &mut self,
        id: JobId,
        store: &mut dyn Store,
        definitions: &Definitions,
    ) -> Result<&mut Cached, LoadError> {
        if !self.jobs.contains_key(&id) {
            let stored = store.load_job(id).inspect_err(|error| self.missed(error))?.ok_or(LoadError::NotFound)?;
            self.take_in(&stored, definitions)?;
        }
        self.jobs.get_mut(&id).ok_or(LoadError::NotFound)
    }

    /// Reads jobs anew, many at once. What cannot be read so is read when it is needed, and says why it cannot.
    pub(super) fn load_anew(&mut self, ids: &[JobId], store: &mut dyn Store, definitions: &Definitions) {
        ids.iter().for_each(|id| self.drop_job(*id));
        let (mut rest, mut at_once) = (ids, LOADED_FIRST);
        while !rest.is_empty() {
            let (some, later) = rest.split_at(at_once.min(rest.len()));
            let Ok(found) = store.load_jobs(some) else { return };
            let steps: usize = found.iter().map(|stored| stored.steps.len()).sum();
            at_once = (some.len() * LOADED_STEPS / steps.max(1)).clamp(1, LOADED_AT_ONCE);
            for stored in found {
                // One that cannot be understood is looked at again by itself.
                let _ = self.take_in(&stored, definitions);
            }
            rest = later;
        }
    }

    fn take_in(&mut self, stored: &StoredJob, definitions: &Definitions) -> Result<(), StoreError> {
        let (job, meta) = definitions.load(stored)?;
        if job.is_final() {
            self.over.push(job.id);
        }
        self.insert(Cached { job, meta });
        Ok(())
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Cached> {
        self.jobs.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Cached> {
        self.jobs.get_mut(&id)
    }

    pub(super) fn insert(&mut self, cached: Cached) {
        self.steps += cached.job.steps.len();
        if let Some(old) = self.jobs.insert(cached.job.id, cached) {
            self.steps -= old.job.steps.len();
        }
    }

    /// Items of a fan-out came up in a job.
    pub(super) fn grew(&mut self, steps: usize) {
        self.steps += steps;
    }

    pub(super) fn drop_job(&mut self, id: JobId) {
        if let Some(old) = self.jobs.remove(&id) {
            self.steps -= old.job.steps.len();
        }
    }

    /// A row of a job could not be read. If that is the database's fault, what was decided without it is worth nothing.
    pub(super) fn missed(&mut self, error: &StoreError) {
        if let StoreError::Unavailable { message } = error {
            self.missed = Some(StoreError::Unavailable { message: message.clone() });
        }
    }

    pub(super) fn take_missed(&mut self) -> Option<StoreError> {
        self.missed.take()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// How many jobs are in memory.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// Drops jobs of so many steps, whichever: who is needed next is not known, and most of those that stay will be.
    fn make_room(&mut self, steps: usize) {
        let mut missing = steps;
        let dropped = self.jobs.values().take_while(|cached| {
            let wanted = missing > 0;
            missing = missing.saturating_sub(cached.job.steps.len().max(1));
            wanted
        });
        let dropped: Vec<JobId> = dropped.map(|cached| cached.job.id).collect();
        dropped.into_iter().for_each(|job| self.drop_job(job));
    }

    /// Called between rounds, when nothing is half-done. `finished`: jobs that ended with the last one.
    pub(super) fn trim(&mut self, finished: impl IntoIterator<Item = JobId>) {
        for job in std::mem::take(&mut self.over).into_iter().chain(finished) {
            self.drop_job(job);
        }
        if self.steps > CACHED_STEPS_MAX {
            self.make_room(self.steps - CACHED_STEPS_MAX);
        }
    }
}

/// Parsed task texts, shared by the ledger and the API's readers.
#[derive(Debug, Default)]
pub struct Definitions {
    known: Mutex<HashMap<[u8; 32], Arc<Definition>>>,
    /// As they are stored: a job that is begun because of another brings its own along.
    rows: Mutex<HashMap<[u8; 32], Arc<DefinitionRow>>>,
}

impl Definitions {
    pub fn known(&self, hash: &[u8; 32]) -> Option<Arc<Definition>> {
        lock(&self.known).get(hash).cloned()
    }

    /// How a definition is stored, for a job that is made because of another: its row may be gone, where no job had it. `of`
    /// gives the definition of that other job, which has the texts of all that it can begin.
    pub fn row(&self, hash: &[u8; 32], of: impl FnOnce() -> Option<DefinitionRow>) -> Option<Arc<DefinitionRow>> {
        let known = || lock(&self.rows).get(hash).cloned();
        known().or_else(|| {
            self.read(&of()?).ok()?;
            known()
        })
    }

    pub fn get(&self, row: &DefinitionRow) -> Result<Arc<Definition>, String> {
        if let Some(known) = self.known(&row.hash) {
            return Ok(known);
        }
        self.read(row)
    }

    fn read(&self, row: &DefinitionRow) -> Result<Arc<Definition>, String> {
        let settings = DefinitionSettings::from_json(&row.settings)?;
        let (task, problems) = spec::task::parse_stored(&row.source, "stored task", &settings.options());
        let Some(task) = task else {
            let first = problems.iter().find(|p| p.is_error()).map(|p| p.message.clone()).unwrap_or_default();
            return Err(format!("its stored task cannot be read: {first}"));
        };
        let Bound { definition, children } = tasks::bind(&task.definition, &settings)?;
        for (row, definition) in children {
            self.remember_row(&row);
            self.remember(row.hash, definition);
        }
        self.remember_row(row);
        self.remember(row.hash, definition.clone());
        Ok(definition)
    }

    pub fn remember(&self, hash: [u8; 32], definition: Arc<Definition>) {
        let mut known = lock(&self.known);
        if known.len() >= CACHED_DEFINITIONS_MAX {
            known.clear();
        }
        known.insert(hash, definition);
    }

    /// How a definition is stored that a job may yet bring along.
    pub fn remember_row(&self, row: &DefinitionRow) {
        let mut rows = lock(&self.rows);
        if rows.len() >= CACHED_DEFINITIONS_MAX {
            rows.clear();
        }
        rows.entry(row.hash).or_insert_with(|| Arc::new(row.clone()));
    }

    pub fn load(&self, stored: &StoredJob) -> Result<(Job, JobMeta), StoreError> {
        let corrupt = |what: String| codec::Corrupt::Job { job: stored.job.id, what };
        let definition = self.get(&stored.definition).map_err(corrupt)?;
        Ok(codec::load(stored, definition)?)
    }
}

/// A panic while a map was held cannot have left it half-changed.
fn lock<T>(map: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}
