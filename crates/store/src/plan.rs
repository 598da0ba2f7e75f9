//! Which jobs of a batch are written, and which are left out: the same rule for every store.
//!
//! A store looks up versions and keys in its own transaction, before it writes anything; [`Plan`] decides.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, JobId};

use crate::rows::{IdempotencyRow, LineageRow};
use crate::{Admission, Batch, JobWrite, StoreError, TriggerWrite};

#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// In the order of their ids: neighbours share pages.
    jobs: BTreeMap<JobId, PlannedJob<'a>>,
    pub conflicts: BTreeSet<JobId>,
    /// Triggers that are left out.
    pub triggers_moved: BTreeSet<String>,
    /// Concurrency groups whose admissions are left out.
    pub groups_moved: BTreeSet<String>,
}

/// A job that is written more than once in a batch needs only its last row; its first says what must be there.
#[derive(Debug)]
pub struct PlannedJob<'a> {
    pub expected: Option<u64>,
    pub last: &'a JobWrite,
}

impl<'a> Plan<'a> {
    /// `version_of` gives the version that is stored, `is_taken` whether a key is, `is_followed` whether a family has a
    /// job in this place, `trigger_version` what `version_of` does for triggers, `last_admitted` who was last admitted to a
    /// group.
    pub fn new<E: From<StoreError>>(
        batch: &'a Batch,
        version_of: impl FnMut(JobId) -> Result<Option<u64>, E>,
        is_taken: impl FnMut(&IdempotencyRow) -> Result<bool, E>,
        is_followed: impl FnMut(&LineageRow) -> Result<bool, E>,
        trigger_version: impl FnMut(&str) -> Result<Option<u64>, E>,
        last_admitted: impl FnMut(&str) -> Result<Option<JobId>, E>,
    ) -> Result<Plan<'a>, E> {
        let mut plan = Plan::default();
        let there_already = plan.check_versions(&batch.jobs, version_of)?;
        plan.check_keys(&batch.idempotency, is_taken)?;
        plan.check_families(&batch.lineage, is_followed)?;
        plan.check_triggers(&batch.triggers, trigger_version)?;
        plan.check_groups(&batch.admissions, last_admitted)?;
        plan.spread(batch);
        match there_already.into_iter().find(|id| plan.takes(*id)) {
            Some(id) => Err(refused(format!("job {id} is there already"))),
            None => Ok(plan),
        }
    }

    /// Who is tied to a job that is left out is left out as well.
    fn spread(&mut self, batch: &Batch) {
        let families = batch.lineage.iter().map(|row| (row.job, row.continues));
        let ties: Vec<(JobId, JobId)> = batch.ties.iter().copied().chain(families).collect();
        let mut grows = !self.conflicts.is_empty();
        while grows {
            grows = false;
            for write in &batch.triggers {
                if write.jobs.iter().any(|job| !self.takes(*job)) && self.takes_trigger(&write.row.id) {
                    self.triggers_moved.insert(write.row.id.clone());
                    self.conflicts.extend(&write.jobs);
                    grows = true;
                }
            }
            for admission in &batch.admissions {
                let missing = admission.jobs.iter().chain(&admission.after).any(|job| !self.takes(*job));
                if missing && self.takes_group(&admission.group) {
                    self.groups_moved.insert(admission.group.clone());
                    self.conflicts.extend(&admission.jobs);
                    grows = true;
                }
            }
            for &(one, other) in &ties {
                if self.takes(one) != self.takes(other) {
                    grows |= self.conflicts.insert(one) | self.conflicts.insert(other);
                }
            }
        }
    }

    /// Whether what belongs to this job is written.
    pub fn takes(&self, job: JobId) -> bool {
        self.conflicts.is_empty() || !self.conflicts.contains(&job)
    }

    /// Attempts whose end is left out with their job. What else the batch says of them counts on that end, and is left out too.
    pub fn undone(&self, batch: &Batch) -> BTreeSet<AttemptId> {
        batch.attempts.iter().filter(|row| !self.takes(row.job)).map(|row| row.id).collect()
    }

    pub fn takes_trigger(&self, id: &str) -> bool {
        !self.triggers_moved.contains(id)
    }

    /// Whether the batch's admissions to this concurrency group are written.
    pub fn takes_group(&self, group: &str) -> bool {
        !self.groups_moved.contains(group)
    }

    pub fn jobs(&self) -> impl Iterator<Item = &PlannedJob<'a>> {
        self.jobs.values().filter(|job| self.takes(job.last.row.id))
    }

    /// New jobs of which there is one already: another server decided the same, or else something is wrong.
    fn check_versions<E: From<StoreError>>(
        &mut self,
        writes: &'a [JobWrite],
        mut version_of: impl FnMut(JobId) -> Result<Option<u64>, E>,
    ) -> Result<Vec<JobId>, E> {
        let mut there_already = Vec::new();
        for write in writes {
            let id = write.row.id;
            match self.jobs.entry(id) {
                Entry::Vacant(entry) => {
                    let stored = version_of(id)?;
                    if write.expected.is_none() && stored.is_some() {
                        there_already.push(id);
                    } else if write.expected != stored {
                        self.conflicts.insert(id);
                    }
                    entry.insert(PlannedJob { expected: write.expected, last: write });
                }
                Entry::Occupied(mut entry) => {
                    if write.expected != Some(entry.get().last.row.version) {
                        return Err(refused(format!("the batch's writes of job {id} do not follow each other")));
                    }
                    entry.get_mut().last = write;
                }
            }
        }
        Ok(there_already)
    }

    /// A key that is taken means that another submit was first: its job is the one that counts.
    fn check_keys<E>(
        &mut self,
        rows: &[IdempotencyRow],
        mut is_taken: impl FnMut(&IdempotencyRow) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut in_batch = BTreeSet::new();
        for row in rows {
            if !self.takes(row.job) {
                continue;
            }
            if is_taken(row)? || !in_batch.insert((row.token, row.key.as_str())) {
                self.conflicts.insert(row.job);
            }
        }
        Ok(())
    }

    /// A trigger that has moved made its job elsewhere.
    fn check_triggers<E: From<StoreError>>(
        &mut self,
        writes: &[TriggerWrite],
        mut version_of: impl FnMut(&str) -> Result<Option<u64>, E>,
    ) -> Result<(), E> {
        let mut in_batch = BTreeSet::new();
        for write in writes {
            if !in_batch.insert(write.row.id.as_str()) {
                return Err(refused(format!("the batch writes the trigger {} twice", write.row.id)));
            }
            if version_of(&write.row.id)? != write.expected {
                self.triggers_moved.insert(write.row.id.clone());
                self.conflicts.extend(&write.jobs);
            }
        }
        Ok(())
    }

    /// Somebody else was admitted meanwhile: there may be no room any more.
    fn check_groups<E: From<StoreError>>(
        &mut self,
        admissions: &[Admission],
        mut last_admitted: impl FnMut(&str) -> Result<Option<JobId>, E>,
    ) -> Result<(), E> {
        let mut in_batch = BTreeSet::new();
        for admission in admissions {
            let group = admission.group.as_str();
            if !in_batch.insert(group) || admission.jobs.is_empty() {
                return Err(refused(format!("the batch admits to the group {group} twice, or nobody")));
            }
            if last_admitted(group)? != admission.expected {
                self.groups_moved.insert(group.to_owned());
                self.conflicts.extend(&admission.jobs);
            }
        }
        Ok(())
    }

    /// A place that is taken means that another job went on first. What the older job was told of this one is left out
    /// with it, and so is whatever would go on for a job that is left out.
    fn check_families<E>(
        &mut self,
        rows: &[LineageRow],
        mut is_followed: impl FnMut(&LineageRow) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut in_batch = BTreeSet::new();
        for row in rows {
            if !self.takes(row.job) {
                continue;
            }
            if !self.takes(row.continues) || is_followed(row)? || !in_batch.insert((row.root, row.number)) {
                self.conflicts.extend([row.job, row.continues]);
            }
        }
        Ok(())
    }
}

fn refused<E: From<StoreError>>(message: String) -> E {
    StoreError::Refused { message }.into()
}
