//! What each kind of row is found by: its key, and the orders that the queries of a database need.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::rows::{
    BeatRole, BeatRow, BreakerRow, DefinitionRow, EventRow, HearingRow, IdempotencyRow, JobRow, LineageRow,
    QuarantineRow, SecretRow, ServerId, ServerRow, StepRow, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{Lease, LeaseRow};
use uuid::Uuid;

use crate::table::Row;
use crate::tables::{
    AttemptRecord, ChunkRow, Counter, DepartedRow, DoomedRow, GroupRow, LogRow, MarkRow, MetaRow, OutboxRecord,
    PastBeat, WorkerRecord,
};

/// Rows that are found by their keys alone.
macro_rules! plain {
    ($($row:ty: $key:ty;)*) => {
        $(impl Row for $row {
            type Key = $key;
            type Index = ();
        })*
    };
}

plain! {
    DefinitionRow: [u8; 32];
    IdempotencyRow: (Uuid, String);
    QuarantineRow: u64;
    ChunkRow: (AttemptId, u64);
    MarkRow: (AttemptId, u64, u32);
    SecretRow: String;
    TaskRow: String;
    ServerRow: ServerId;
    LeaseRow: Lease;
    HearingRow: ();
    BreakerRow: ();
    MetaRow: String;
    Counter: &'static str;
    DoomedRow: JobId;
    GroupRow: String;
}

#[derive(Debug, Default, Clone)]
pub(crate) struct JobIndex {
    pub(crate) due: BTreeSet<(Time, JobId)>,
    pub(crate) by_state: BTreeMap<&'static str, BTreeSet<JobId>>,
    pub(crate) by_task: BTreeMap<String, BTreeSet<JobId>>,
    /// Open jobs that were admitted to their concurrency group.
    pub(crate) slots: BTreeSet<(String, JobId)>,
    /// Those that wait for it, in the order of service.
    pub(crate) line: BTreeSet<(String, Reverse<i32>, Time, JobId)>,
    /// Those that are over, and left something that may still run.
    pub(crate) astray: BTreeSet<(String, Time, JobId)>,
    /// By the job on whose end they follow, the oldest first.
    pub(crate) hooks: BTreeSet<(JobId, Time, JobId)>,
    /// By the job that began them, the oldest first.
    pub(crate) children: BTreeSet<(JobId, Time, JobId)>,
}

impl Row for JobRow {
    type Key = JobId;
    type Index = JobIndex;

    fn enter(&self, id: &JobId, index: &mut JobIndex) {
        index.due.extend(self.check_at.map(|at| (at, *id)));
        index.by_state.entry(self.state).or_default().insert(*id);
        index.children.extend(self.parent.map(|parent| (parent.job, self.created_at, *id)));
        match group_place(self) {
            Some(GroupPlace::Slot(group)) => drop(index.slots.insert((group.clone(), *id))),
            Some(GroupPlace::Line(group)) => {
                index.line.insert((group.clone(), Reverse(self.priority), self.created_at, *id));
            }
            Some(GroupPlace::Astray(group, ended_at)) => drop(index.astray.insert((group.clone(), ended_at, *id))),
            None => {}
        }
        if let (Some(job), None) = (self.hook_of, self.parent) {
            index.hooks.insert((job, self.created_at, *id));
        }
        match index.by_task.get_mut(&self.task) {
            Some(jobs) => drop(jobs.insert(*id)),
            None => drop(index.by_task.insert(self.task.clone(), BTreeSet::from([*id]))),
        }
    }

    fn leave(&self, id: &JobId, index: &mut JobIndex) {
        if let Some(at) = self.check_at {
            index.due.remove(&(at, *id));
        }
        match group_place(self) {
            Some(GroupPlace::Slot(group)) => drop(index.slots.remove(&(group.clone(), *id))),
            Some(GroupPlace::Line(group)) => {
                index.line.remove(&(group.clone(), Reverse(self.priority), self.created_at, *id));
            }
            Some(GroupPlace::Astray(group, ended_at)) => drop(index.astray.remove(&(group.clone(), ended_at, *id))),
            None => {}
        }
        if let Some(parent) = self.parent {
            index.children.remove(&(parent.job, self.created_at, *id));
        }
        if let Some(job) = self.hook_of {
            index.hooks.remove(&(job, self.created_at, *id));
        }
        if let Some(jobs) = index.by_state.get_mut(self.state) {
            jobs.remove(id);
        }
        if let Some(jobs) = index.by_task.get_mut(&self.task) {
            jobs.remove(id);
        }
    }
}

/// Where a job stands in its concurrency group.
enum GroupPlace<'a> {
    Slot(&'a String),
    Line(&'a String),
    Astray(&'a String, Time),
}

fn group_place(row: &JobRow) -> Option<GroupPlace<'_>> {
    let group = row.group.as_ref()?;
    match (row.admitted_at, row.check_at, row.ended_at) {
        (Some(_), Some(_), _) => Some(GroupPlace::Slot(group)),
        (None, Some(_), _) => Some(GroupPlace::Line(group)),
        (Some(_), None, Some(ended_at)) => row.strays.then_some(GroupPlace::Astray(group, ended_at)),
        (_, None, _) => None,
    }
}

/// By when they are due.
impl Row for TriggerRow {
    type Key = String;
    type Index = BTreeSet<(Time, String)>;

    fn enter(&self, id: &String, index: &mut BTreeSet<(Time, String)>) {
        index.extend(self.next_at.map(|at| (at, id.clone())));
    }

    fn leave(&self, id: &String, index: &mut BTreeSet<(Time, String)>) {
        if let Some(at) = self.next_at {
            index.remove(&(at, id.clone()));
        }
    }
}

pub(crate) type StepPlace = (JobId, StepIx);

#[derive(Debug, Default, Clone)]
pub(crate) struct StepIndex {
    /// State and attempt stand before the place, as in the index of SQLite: they decide who comes first at one time.
    pub(crate) due: BTreeSet<(Time, &'static str, Option<AttemptId>, StepPlace)>,
    pub(crate) queued: BTreeSet<StepPlace>,
    pub(crate) held: BTreeSet<(AttemptId, Option<WorkerId>, StepPlace)>,
}

impl Row for StepRow {
    type Key = StepPlace;
    type Index = StepIndex;

    fn enter(&self, place: &StepPlace, index: &mut StepIndex) {
        index.due.extend(self.check_at.map(|at| (at, self.state, self.attempt, *place)));
        index.held.extend(self.attempt.map(|attempt| (attempt, self.worker, *place)));
        if waits_for_an_offer(self) {
            index.queued.insert(*place);
        }
    }

    fn leave(&self, place: &StepPlace, index: &mut StepIndex) {
        if let Some(at) = self.check_at {
            index.due.remove(&(at, self.state, self.attempt, *place));
        }
        if let Some(attempt) = self.attempt {
            index.held.remove(&(attempt, self.worker, *place));
        }
        if waits_for_an_offer(self) {
            index.queued.remove(place);
        }
    }
}

fn waits_for_an_offer(step: &StepRow) -> bool {
    step.check_at.is_some() && step.state == "queued" && step.attempt.is_none()
}

impl Row for AttemptRecord {
    type Key = AttemptId;
    /// By step and number.
    type Index = BTreeSet<(StepPlace, u32, AttemptId)>;

    fn enter(&self, id: &AttemptId, index: &mut Self::Index) {
        index.insert(((self.row.job, self.row.ix), self.row.number, *id));
    }

    fn leave(&self, id: &AttemptId, index: &mut Self::Index) {
        index.remove(&((self.row.job, self.row.ix), self.row.number, *id));
    }
}

impl Row for EventRow {
    type Key = u64;
    type Index = BTreeSet<(JobId, u64)>;

    fn enter(&self, id: &u64, index: &mut Self::Index) {
        index.insert((self.job, *id));
    }

    fn leave(&self, id: &u64, index: &mut Self::Index) {
        index.remove(&(self.job, *id));
    }
}

impl Row for LineageRow {
    type Key = JobId;
    type Index = Families;

    fn enter(&self, job: &JobId, index: &mut Self::Index) {
        index.stands_in.extend(self.resolves.then_some((self.continues, *job)));
        index.places.insert((self.root, self.number), *job);
    }

    fn leave(&self, _: &JobId, index: &mut Self::Index) {
        if self.resolves {
            index.stands_in.remove(&self.continues);
        }
        index.places.remove(&(self.root, self.number));
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Families {
    /// Which job stands in for another.
    pub(crate) stands_in: BTreeMap<JobId, JobId>,
    /// By their first job, in the order in which they went on for it.
    pub(crate) places: BTreeMap<(JobId, u32), JobId>,
}

impl Row for OutboxRecord {
    type Key = Uuid;
    type Index = OutboxIndex;

    fn enter(&self, id: &Uuid, index: &mut OutboxIndex) {
        index.by_job.insert((self.row.job, self.row.created_at, *id));
        index.due.extend(self.next_at.map(|at| (at, *id)));
        if self.is_dead() {
            index.dead.insert((Reverse(self.row.created_at), *id));
        }
    }

    fn leave(&self, id: &Uuid, index: &mut OutboxIndex) {
        index.by_job.remove(&(self.row.job, self.row.created_at, *id));
        if let Some(at) = self.next_at {
            index.due.remove(&(at, *id));
        }
        index.dead.remove(&(Reverse(self.row.created_at), *id));
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct OutboxIndex {
    pub(crate) due: BTreeSet<(Time, Uuid)>,
    pub(crate) by_job: BTreeSet<(JobId, Time, Uuid)>,
    /// Given up, the newest first.
    pub(crate) dead: BTreeSet<(Reverse<Time>, Uuid)>,
}

impl Row for LogRow {
    type Key = AttemptId;
    /// By the time at which they are closed.
    type Index = BTreeSet<(Time, AttemptId)>;

    fn enter(&self, attempt: &AttemptId, index: &mut Self::Index) {
        index.extend(self.close_at.map(|at| (at, *attempt)));
    }

    fn leave(&self, attempt: &AttemptId, index: &mut Self::Index) {
        if let Some(at) = self.close_at {
            index.remove(&(at, *attempt));
        }
    }
}

pub(crate) type BeatKey = (AttemptId, WorkerId, BeatRole);

impl Row for BeatRow {
    type Key = BeatKey;
    type Index = BTreeSet<(Time, BeatKey)>;

    fn enter(&self, key: &BeatKey, index: &mut Self::Index) {
        index.insert((self.last_at, *key));
    }

    fn leave(&self, key: &BeatKey, index: &mut Self::Index) {
        index.remove(&(self.last_at, *key));
    }
}

impl Row for PastBeat {
    type Key = (BeatKey, Time);
    type Index = BTreeSet<(Time, (BeatKey, Time))>;

    fn enter(&self, key: &Self::Key, index: &mut Self::Index) {
        index.insert((self.0.last_at, *key));
    }

    fn leave(&self, key: &Self::Key, index: &mut Self::Index) {
        index.remove(&(self.0.last_at, *key));
    }
}

impl Row for WorkerRecord {
    type Key = WorkerId;
    type Index = WorkersBy;

    fn enter(&self, id: &WorkerId, index: &mut WorkersBy) {
        index.credential.insert(self.credential_hash, *id);
        index.name.insert((self.row.name.clone(), *id), self.row.clone());
    }

    fn leave(&self, id: &WorkerId, index: &mut WorkersBy) {
        index.credential.remove(&self.credential_hash);
        index.name.remove(&(self.row.name.clone(), *id));
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WorkersBy {
    /// By the hash of their credentials.
    pub(crate) credential: BTreeMap<[u8; 32], WorkerId>,
    /// The rows themselves: all of them are read far more often than one is written.
    pub(crate) name: BTreeMap<(String, WorkerId), Arc<WorkerRow>>,
}

impl Row for DepartedRow {
    type Key = WorkerId;
    /// By the hash of their credentials.
    type Index = BTreeMap<[u8; 32], WorkerId>;

    fn enter(&self, id: &WorkerId, index: &mut Self::Index) {
        index.insert(self.credential_hash, *id);
    }

    fn leave(&self, _: &WorkerId, index: &mut Self::Index) {
        index.remove(&self.credential_hash);
    }
}

impl Row for TokenRow {
    type Key = Uuid;
    /// By hash.
    type Index = BTreeMap<[u8; 32], Uuid>;

    fn enter(&self, id: &Uuid, index: &mut Self::Index) {
        index.insert(self.hash, *id);
    }

    fn leave(&self, _: &Uuid, index: &mut Self::Index) {
        index.remove(&self.hash);
    }
}
