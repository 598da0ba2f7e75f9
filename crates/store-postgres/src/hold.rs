//! The first round trip of a batch: everything that it builds on is locked and read.
//!
//! Each kind of rows is locked in the order of its keys, and the kinds always in the same order, so that two servers wait for each
//! other and never both. What is not there cannot be locked: where another server adds it in the same moment, the write finds out
//! (`commit.rs`), and the batch begins anew.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, JobId, WorkerId};
use store::plan::Plan;
use store::read::LogState;
use store::rows::{FleetChange, HearingRow};
use store::{Batch, Lease, LeaseRow, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::session::{Failure, Session, Train};
use crate::values::{self, as_written, column, get, param, texts, unsigned};
use crate::{leases, migrate, servers, sql};

#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) leases: BTreeMap<Lease, LeaseRow>,
    versions: BTreeMap<JobId, u64>,
    keys: BTreeSet<(Uuid, String)>,
    /// Of families.
    places: BTreeSet<(JobId, u32)>,
    triggers: BTreeMap<String, u64>,
    groups: BTreeMap<String, JobId>,
    pub(crate) epochs: BTreeMap<WorkerId, u64>,
    pub(crate) logs: BTreeMap<AttemptId, LogState>,
    pub(crate) hearing: Option<HearingRow>,
}

impl Held {
    /// Begins the transaction. `writer` names the store: its last transaction must be over.
    pub(crate) async fn take(session: &mut Session, batch: &Batch, writer: i64) -> Result<Held, Failure> {
        let mut train = Train::beginning();
        let writer = train.add(sql::LOCK_WRITER, vec![param(writer)]);
        let names = leases::names(batch);
        let leases = train.add_if(!names.is_empty(), sql::LOCK_LEASES, || vec![param(names)]);
        let ids = |ids: BTreeSet<Uuid>| param(ids.into_iter().collect::<Vec<Uuid>>());
        let jobs: BTreeSet<Uuid> = batch.jobs.iter().map(|write| write.row.id.0).collect();
        let jobs = train.add_if(!jobs.is_empty(), sql::LOCK_JOBS, || vec![ids(jobs)]);
        let attempts = attempts(batch);
        train.add_if(!attempts.is_empty(), sql::LOCK_ATTEMPTS, || vec![ids(attempts)]);
        let triggers = train.add_if(!batch.triggers.is_empty(), sql::LOCK_TRIGGERS, || {
            vec![texts(batch.triggers.iter().map(|write| &write.row.id))]
        });
        let groups = train.add_if(!batch.admissions.is_empty(), sql::LOCK_GROUPS, || {
            vec![texts(batch.admissions.iter().map(|admission| &admission.group))]
        });
        let logs = logs(batch);
        let logs = train.add_if(!logs.is_empty(), sql::LOCK_LOGS, || vec![ids(logs)]);
        let outbox: BTreeSet<Uuid> = batch.outbox_moves.iter().map(|row| row.id).collect();
        train.add_if(!outbox.is_empty(), sql::LOCK_OUTBOX, || vec![ids(outbox)]);
        let beats: BTreeSet<Uuid> = batch.beats.rows.iter().map(|row| row.attempt.0).collect();
        train.add_if(!beats.is_empty(), sql::LOCK_BEATS, || vec![ids(beats)]);
        let workers = workers(batch);
        let workers = train.add_if(!workers.is_empty(), sql::LOCK_WORKERS, || vec![ids(workers)]);
        let hearing = train.add_if(batch.hearing.is_some(), sql::LOCK_HEARING, Vec::new);
        let rows = &batch.idempotency;
        let keys = train.add_if(!rows.is_empty(), sql::TAKEN_KEYS, || {
            vec![column(rows, |row| row.token), texts(rows.iter().map(|row| &row.key))]
        });
        let rows = &batch.lineage;
        let places = train.add_if(!rows.is_empty(), sql::FOLLOWED, || {
            vec![column(rows, |row| row.root.0), column(rows, |row| i64::from(row.number))]
        });

        let answers = session.run(&train).await?;
        migrate::check_still_known(&answers[writer])?;
        let of = |place: Option<usize>| place.map_or(&[] as &[Row], |place| &answers[place]).iter();
        let leases = of(leases).map(leases::lease_row).collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        Ok(Held {
            leases: leases.map(|row| (row.lease, row)).collect(),
            versions: of(jobs)
                .map(|row| Ok((values::job(row, 0)?, unsigned(row, 1)?)))
                .collect::<Result<_, Failure>>()?,
            keys: of(keys).map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect::<Result<_, Failure>>()?,
            places: of(places)
                .map(|row| Ok((values::job(row, 0)?, values::small(row, 1)?)))
                .collect::<Result<_, Failure>>()?,
            triggers: of(triggers).map(|row| Ok((get(row, 0)?, unsigned(row, 1)?))).collect::<Result<_, Failure>>()?,
            groups: of(groups).map(|row| Ok((get(row, 0)?, values::job(row, 1)?))).collect::<Result<_, Failure>>()?,
            epochs: of(workers)
                .map(|row| Ok((values::worker(row, 0)?, unsigned(row, 1)?)))
                .collect::<Result<_, Failure>>()?,
            logs: of(logs).map(log).collect::<Result<_, Failure>>()?,
            hearing: of(hearing).next().map(servers::hearing_row).transpose()?,
        })
    }

    pub(crate) fn plan<'a>(&self, batch: &'a Batch) -> Result<Plan<'a>, StoreError> {
        Plan::new(
            batch,
            |id| Ok(self.versions.get(&id).copied()),
            |row| Ok(self.keys.contains(&(row.token, as_written(&row.key).into_owned()))),
            |row| Ok(self.places.contains(&(row.root, row.number))),
            |id| Ok(self.triggers.get(&*as_written(id)).copied()),
            |group| Ok(self.groups.get(&*as_written(group)).copied()),
        )
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(&*as_written(group))
    }

    pub(crate) fn has_trigger(&self, id: &str) -> bool {
        self.triggers.contains_key(&*as_written(id))
    }
}

fn log(row: &Row) -> Result<(AttemptId, LogState), Failure> {
    let (last_seq, complete, closed) = (unsigned(row, 1)?, get(row, 2)?, get(row, 3)?);
    Ok((values::attempt(row, 0)?, LogState { last_seq, complete, closed, ..LogState::default() }))
}

fn attempts(batch: &Batch) -> BTreeSet<Uuid> {
    let written = batch.attempts.iter().map(|row| row.id);
    let late = batch.late_outcomes.iter().map(|row| row.attempt);
    let said = batch.confirmed.iter().chain(&batch.begun).map(|(attempt, _)| *attempt);
    written.chain(late).chain(said).map(|attempt| attempt.0).collect()
}

fn logs(batch: &Batch) -> BTreeSet<Uuid> {
    let appended = batch.logs.iter().map(|append| append.attempt);
    let deadlines = batch.log_deadlines.iter().map(|deadline| deadline.attempt);
    let closed = batch.log_closes.iter().map(|close| close.attempt);
    appended.chain(deadlines).chain(closed).map(|attempt| attempt.0).collect()
}

fn workers(batch: &Batch) -> BTreeSet<Uuid> {
    let fleet = batch.fleet.iter().map(|change| match change {
        FleetChange::Drain { worker, .. } | FleetChange::Remove { worker, .. } => *worker,
    });
    let hellos = batch.hellos.iter().map(|hello| hello.id);
    let seen = batch.seen.iter().map(|(worker, _)| *worker);
    let left = batch.left.iter().map(|(worker, ..)| *worker);
    let unwilling = batch.unwilling.iter().map(|(worker, ..)| *worker);
    let used = batch.used_epochs.iter().map(|(worker, _)| *worker);
    let all = fleet.chain(hellos).chain(seen).chain(left).chain(unwilling).chain(used);
    all.map(|worker| worker.0).collect()
}
