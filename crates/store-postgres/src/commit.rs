//! One batch, one transaction, three round trips.
//!
//! ```text
//!  1  BEGIN, locks and what they show        (hold.rs)      ─► store::plan decides who is left out
//!  2  all rows but events                                   ─► were they as they seemed? else from the beginning
//!  3  events with their numbers, COMMIT      (add_events.sql)
//! ```
//!
//! The statements behind [`jobs`], [`steps`] and [`attempts`] are the only ones in the project that write states.

use std::collections::{BTreeMap, BTreeSet};

use engine::AttemptId;
use store::codec::late_artifacts;
use store::plan::{Plan, PlannedJob};
use store::rows::{AttemptRow, EventRow, LateOutcome, OutboxMove, StepRow};
use store::{Batch, Committed, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::hold::Held;
use crate::session::{Failure, Session, Train};
use crate::values::{column, counted, get, maybe_text, micros, param, signed, text, unsigned};
use crate::{beats, groups, leases, logs, servers, sql, triggers, workers};

/// How often a batch is begun anew because others were faster. Each time some of them are through.
const RACES_MAX: u32 = 5;

pub(crate) async fn commit(session: &mut Session, batch: &Batch, writer: i64) -> Result<Committed, Failure> {
    if batch.is_empty() {
        return Ok(Committed::default());
    }
    let mut races = 0;
    loop {
        let written = write(session, batch, writer).await;
        if written.is_err() {
            session.roll_back().await;
        }
        match written {
            Err(failure) if failure.is_race() && races < RACES_MAX => races += 1,
            written => return written,
        }
    }
}

async fn write(session: &mut Session, batch: &Batch, writer: i64) -> Result<Committed, Failure> {
    let held = Held::take(session, batch, writer).await?;
    batch.under.iter().try_for_each(|tenure| tenure.compare(held.leases.get(&tenure.lease).copied()))?;
    let plan = held.plan(batch)?;
    let mut writes = Writes::default();
    definitions(&mut writes, batch);
    jobs(&mut writes, &plan)?;
    steps(&mut writes, batch.steps.iter().filter(|row| plan.takes(row.job)))?;
    attempts(&mut writes, batch.attempts.iter().filter(|row| plan.takes(row.job)))?;
    idempotency(&mut writes, batch, &plan);
    outbox(&mut writes, batch, &plan);
    let moves = outbox_moves(&mut writes, batch);
    evidence(&mut writes, batch, &plan)?;
    logs::write(&mut writes, batch, &held)?;
    beats::write(&mut writes, &batch.beats)?;
    lineage(&mut writes, batch, &plan);
    triggers::write(&mut writes, batch, &plan, &held)?;
    groups::write(&mut writes, batch, &plan, &held);
    workers::write(&mut writes, batch)?;
    let mark_moved = !servers::mark(&mut writes, batch, &held);
    servers::put(&mut writes.train, batch.server.as_ref())?;
    let leases = leases::claim(&mut writes, batch, &held)?;
    settings(&mut writes, batch);
    let greeted = workers::greet(batch, &held);

    let answers = session.run(&writes.train).await?;
    writes.check(&answers)?;
    let outbox_moved = left_out(batch, &moves, &answers)?;
    greeted?;
    let event_ids = finish(session, &batch.events, &plan).await?;
    Ok(Committed {
        conflicts: plan.conflicts,
        event_ids,
        triggers_moved: plan.triggers_moved,
        groups_moved: plan.groups_moved,
        mark_moved,
        outbox_moved,
        leases,
    })
}

/// The second round trip, and what must come back if nobody else was faster.
#[derive(Default)]
pub(crate) struct Writes<'a> {
    pub(crate) train: Train<'a>,
    checks: Vec<(usize, usize, &'static str)>,
}

impl Writes<'_> {
    /// The statement at this place must answer with so many rows.
    pub(crate) fn expect(&mut self, place: usize, rows: usize, what: &'static str) {
        self.checks.push((place, rows, what));
    }

    fn check(&self, answers: &[Vec<Row>]) -> Result<(), Failure> {
        match self.checks.iter().find(|(place, rows, _)| answers[*place].len() != *rows) {
            Some((.., what)) => Err(Failure::Race(what)),
            None => Ok(()),
        }
    }
}

/// Rows that no statement may see twice, in pieces in which none comes twice, and each after those before it.
pub(crate) fn layers<R, K: Ord>(rows: impl Iterator<Item = R>, key: impl Fn(&R) -> K) -> Vec<Vec<R>> {
    let (mut layers, mut depths) = (Vec::new(), BTreeMap::new());
    for row in rows {
        let depth = depths.entry(key(&row)).or_insert(0);
        if layers.len() == *depth {
            layers.push(Vec::new());
        }
        layers[*depth].push(row);
        *depth += 1;
    }
    layers
}

fn definitions<'a>(writes: &mut Writes<'a>, batch: &'a Batch) {
    let rows: BTreeMap<&[u8], _> = batch.definitions.iter().rev().map(|row| (row.hash.as_slice(), row)).collect();
    if rows.is_empty() {
        return;
    }
    let hashes: Vec<&[u8]> = rows.keys().copied().collect();
    let rows: Vec<_> = rows.into_values().collect();
    let params =
        vec![param(hashes.clone()), column(&rows, |row| text(&row.source)), column(&rows, |row| text(&row.settings))];
    writes.train.add(sql::ADD_DEFINITION, params);
    let count = hashes.len();
    let place = writes.train.add(sql::LOCK_DEFINITIONS, vec![param(hashes)]);
    writes.expect(place, count, "definitions");
}

fn jobs<'a>(writes: &mut Writes<'a>, plan: &Plan<'a>) -> Result<(), StoreError> {
    let (new, known): (Vec<&PlannedJob<'a>>, Vec<_>) = plan.jobs().partition(|job| job.expected.is_none());
    if !new.is_empty() {
        let rows: Vec<_> = new.iter().map(|job| &job.last.row).collect();
        let params = vec![
            column(&rows, |row| row.id.0),
            counted(&rows, |row| signed(row.version))?,
            column(&rows, |row| text(row.state)),
            column(&rows, |row| maybe_text(&row.owner)),
            column(&rows, |row| micros(row.check_at)),
            column(&rows, |row| maybe_text(&row.action)),
            column(&rows, |row| text(&row.task)),
            column(&rows, |row| row.definition.as_slice()),
            column(&rows, |row| text(&row.input)),
            column(&rows, |row| row.priority),
            column(&rows, |row| text(&row.submitted_by)),
            column(&rows, |row| row.created_at.0),
            column(&rows, |row| micros(row.started_at)),
            column(&rows, |row| micros(row.ended_at)),
            column(&rows, |row| micros(row.expires_at)),
            column(&rows, |row| maybe_text(&row.error_code)),
            column(&rows, |row| maybe_text(&row.error_message)),
            column(&rows, |row| maybe_text(&row.error_step)),
            column(&rows, |row| text(&row.data)),
            column(&rows, |row| row.parent.map(|parent| parent.job.0)),
            column(&rows, |row| row.parent.map(|parent| i64::from(parent.step.0))),
            column(&rows, |row| row.hook_of.map(|job| job.0)),
            column(&rows, |row| maybe_text(&row.group)),
            column(&rows, |row| micros(row.admitted_at)),
            column(&rows, |row| row.strays),
        ];
        let place = writes.train.add(sql::ADD_JOB, params);
        writes.expect(place, rows.len(), "jobs");
    }
    if !known.is_empty() {
        let rows: Vec<_> = known.iter().map(|job| &job.last.row).collect();
        let params = vec![
            column(&rows, |row| row.id.0),
            counted(&rows, |row| signed(row.version))?,
            column(&rows, |row| text(row.state)),
            column(&rows, |row| maybe_text(&row.owner)),
            column(&rows, |row| micros(row.check_at)),
            column(&rows, |row| maybe_text(&row.action)),
            column(&rows, |row| micros(row.started_at)),
            column(&rows, |row| micros(row.ended_at)),
            column(&rows, |row| maybe_text(&row.error_code)),
            column(&rows, |row| maybe_text(&row.error_message)),
            column(&rows, |row| maybe_text(&row.error_step)),
            column(&rows, |row| text(&row.data)),
            column(&rows, |row| micros(row.admitted_at)),
            column(&rows, |row| row.strays),
            counted(&known, |job| job.expected.map(signed).transpose())?,
        ];
        let place = writes.train.add(sql::PUT_JOB, params);
        writes.expect(place, rows.len(), "jobs");
    }
    Ok(())
}

fn steps<'a>(writes: &mut Writes<'a>, rows: impl Iterator<Item = &'a StepRow>) -> Result<(), StoreError> {
    for rows in layers(rows, |row| (row.job, row.ix)) {
        let params = vec![
            column(&rows, |row| row.job.0),
            column(&rows, |row| i64::from(row.ix.0)),
            column(&rows, |row| text(&row.name)),
            column(&rows, |row| text(row.state)),
            column(&rows, |row| maybe_text(&row.owner)),
            column(&rows, |row| micros(row.check_at)),
            column(&rows, |row| maybe_text(&row.action)),
            column(&rows, |row| row.worker.map(|worker| worker.0)),
            column(&rows, |row| row.attempt.map(|attempt| attempt.0)),
            counted(&rows, |row| row.fence.map(|fence| signed(fence.0)).transpose())?,
            column(&rows, |row| i64::from(row.dispatch_attempts)),
            column(&rows, |row| maybe_text(&row.error_code)),
            column(&rows, |row| maybe_text(&row.error_message)),
            column(&rows, |row| micros(row.queued_at)),
            column(&rows, |row| micros(row.disconnected_at)),
            column(&rows, |row| row.recovery_deadline.map(|heard| heard.0)),
            column(&rows, |row| row.updated_at.0),
            column(&rows, |row| text(&row.data)),
            column(&rows, |row| maybe_text(&row.artifacts)),
        ];
        writes.train.add(sql::PUT_STEP, params);
    }
    Ok(())
}

fn attempts<'a>(writes: &mut Writes<'a>, rows: impl Iterator<Item = &'a AttemptRow>) -> Result<(), StoreError> {
    for rows in layers(rows, |row| row.id) {
        let params = vec![
            column(&rows, |row| row.id.0),
            column(&rows, |row| row.job.0),
            column(&rows, |row| i64::from(row.ix.0)),
            column(&rows, |row| i64::from(row.number)),
            counted(&rows, |row| signed(row.fence.0))?,
            column(&rows, |row| row.worker.0),
            counted(&rows, |row| signed(row.epoch.0))?,
            column(&rows, |row| text(row.state)),
            column(&rows, |row| row.confirmed),
            column(&rows, |row| row.started_at.0),
            column(&rows, |row| micros(row.ended_at)),
            column(&rows, |row| row.exit_code),
            column(&rows, |row| row.signal),
            column(&rows, |row| maybe_text(&row.error_code)),
            column(&rows, |row| maybe_text(&row.error_message)),
            counted(&rows, |row| signed(row.cpu_ms))?,
            counted(&rows, |row| signed(row.memory_bytes_max))?,
            column(&rows, |row| maybe_text(&row.cleanup)),
            counted(&rows, |row| row.duration_ms.map(signed).transpose())?,
        ];
        writes.train.add(sql::PUT_ATTEMPT, params);
    }
    Ok(())
}

fn idempotency<'a>(writes: &mut Writes<'a>, batch: &'a Batch, plan: &Plan<'_>) {
    let mut rows: Vec<_> = batch.idempotency.iter().filter(|row| plan.takes(row.job)).collect();
    rows.sort_unstable_by_key(|row| (row.token, &row.key));
    writes.train.add_if(!rows.is_empty(), sql::ADD_IDEMPOTENCY, || {
        vec![
            column(&rows, |row| row.token),
            column(&rows, |row| text(&row.key)),
            column(&rows, |row| row.request_hash.as_slice()),
            column(&rows, |row| row.job.0),
            column(&rows, |row| row.created_at.0),
        ]
    });
}

fn outbox<'a>(writes: &mut Writes<'a>, batch: &'a Batch, plan: &Plan<'_>) {
    let mut rows: Vec<_> = batch.outbox.iter().filter(|row| plan.takes(row.job)).collect();
    rows.sort_by_key(|row| row.id);
    writes.train.add_if(!rows.is_empty(), sql::ADD_OUTBOX, || {
        vec![
            column(&rows, |row| row.id),
            column(&rows, |row| row.job.0),
            column(&rows, |row| text(row.kind)),
            column(&rows, |row| text(&row.body)),
            column(&rows, |row| row.created_at.0),
        ]
    });
}

/// Where the answers will be.
fn outbox_moves<'a>(writes: &mut Writes<'a>, batch: &'a Batch) -> Vec<(usize, Vec<Uuid>)> {
    let mut places = Vec::new();
    for rows in layers(batch.outbox_moves.iter(), |row: &&OutboxMove| row.id) {
        let params = vec![
            column(&rows, |row| row.id),
            column(&rows, |row| i64::from(row.expected)),
            column(&rows, |row| i64::from(row.tries)),
            column(&rows, |row| micros(row.next_at)),
            column(&rows, |row| micros(row.delivered_at)),
            column(&rows, |row| maybe_text(&row.error)),
        ];
        places.push((writes.train.add(sql::MOVE_OUTBOX, params), rows.iter().map(|row| row.id).collect()));
    }
    places
}

/// Rows of the outbox that somebody else was faster with.
fn left_out(batch: &Batch, moves: &[(usize, Vec<Uuid>)], answers: &[Vec<Row>]) -> Result<BTreeSet<Uuid>, Failure> {
    let mut left_out = BTreeSet::new();
    for (place, ids) in moves {
        let moved: BTreeSet<Uuid> = answers[*place].iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        left_out.extend(ids.iter().filter(|id| !moved.contains(id)));
    }
    debug_assert!(left_out.len() <= batch.outbox_moves.len(), "only what was to be moved");
    Ok(left_out)
}

/// What changes no state: late ends of attempts that were given up, and events that could not be handled.
fn evidence<'a>(writes: &mut Writes<'a>, batch: &'a Batch, plan: &Plan<'_>) -> Result<(), StoreError> {
    // The first of each counts.
    let undone = plan.undone(batch);
    let late = batch.late_outcomes.iter().filter(|row| !undone.contains(&row.attempt));
    let rows: BTreeMap<AttemptId, &LateOutcome> = late.rev().map(|row| (row.attempt, row)).collect();
    let rows: Vec<_> = rows.into_values().collect();
    writes.train.add_if(!rows.is_empty(), sql::ADD_LATE_OUTCOME, || {
        vec![
            column(&rows, |row| row.attempt.0),
            column(&rows, |row| text(&row.outcome)),
            column(&rows, |row| row.at.0),
            column(&rows, |row| late_artifacts(&row.outcome)),
        ]
    });
    let rows: Vec<_> = batch.confirmed.iter().filter(|(attempt, _)| !undone.contains(attempt)).collect();
    let fences = counted(&rows, |(_, fence)| signed(fence.0))?;
    writes
        .train
        .add_if(!rows.is_empty(), sql::CONFIRM_ATTEMPT, || vec![column(&rows, |(attempt, _)| attempt.0), fences]);
    let rows = &batch.begun;
    let fences = counted(rows, |(_, fence)| signed(fence.0))?;
    writes.train.add_if(!rows.is_empty(), sql::BEGIN_ATTEMPT, || vec![column(rows, |(attempt, _)| attempt.0), fences]);
    let rows: Vec<_> = batch.quarantine.iter().filter(|row| row.job.is_none_or(|job| plan.takes(job))).collect();
    writes.train.add_if(!rows.is_empty(), sql::ADD_QUARANTINE, || {
        vec![
            column(&rows, |row| row.job.map(|job| job.0)),
            column(&rows, |row| row.at.0),
            column(&rows, |row| text(&row.event)),
            column(&rows, |row| text(&row.error)),
        ]
    });
    Ok(())
}

fn lineage<'a>(writes: &mut Writes<'a>, batch: &'a Batch, plan: &Plan<'_>) {
    let mut rows: Vec<_> = batch.lineage.iter().filter(|row| plan.takes(row.job)).collect();
    rows.sort_by_key(|row| (row.root, row.number));
    writes.train.add_if(!rows.is_empty(), sql::ADD_LINEAGE, || {
        vec![
            column(&rows, |row| row.job.0),
            column(&rows, |row| row.continues.0),
            column(&rows, |row| row.root.0),
            column(&rows, |row| i64::from(row.number)),
            column(&rows, |row| row.resolves),
            column(&rows, |row| text(row.how)),
            column(&rows, |row| text(&row.by)),
            column(&rows, |row| row.at.0),
        ]
    });
}

fn settings<'a>(writes: &mut Writes<'a>, batch: &'a Batch) {
    // The last word counts.
    let meta: BTreeMap<&str, &str> = batch.meta.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let meta: Vec<_> = meta.into_iter().collect();
    writes.train.add_if(!meta.is_empty(), sql::PUT_META, || {
        vec![column(&meta, |(key, _)| text(key)), column(&meta, |(_, value)| text(value))]
    });
    if let Some(row) = &batch.breaker {
        let (lost, connected) = (i64::from(row.lost), i64::from(row.connected));
        let params = vec![param(row.tripped_at.0), param(lost), param(connected), param(micros(row.ended_at))];
        writes.train.add(sql::PUT_BREAKER, params);
    }
    if let Some(at) = batch.breaker_ended {
        writes.train.add(sql::END_BREAKER, vec![param(at.0)]);
    }
}

/// The last round trip: from here on others wait for this transaction's end.
async fn finish(session: &mut Session, events: &[EventRow], plan: &Plan<'_>) -> Result<Vec<Option<u64>>, Failure> {
    let rows: Vec<&EventRow> = events.iter().filter(|row| plan.takes(row.job)).collect();
    let mut train = Train::default();
    let place = train.add_if(!rows.is_empty(), sql::ADD_EVENTS, || {
        vec![
            column(&rows, |row| row.job.0),
            column(&rows, |row| row.ix.map(|ix| i64::from(ix.0))),
            column(&rows, |row| row.at.0),
            column(&rows, |row| text(row.kind)),
            column(&rows, |row| maybe_text(&row.verb)),
            column(&rows, |row| maybe_text(&row.from)),
            column(&rows, |row| maybe_text(&row.to)),
            column(&rows, |row| row.worker.map(|worker| worker.0)),
            column(&rows, |row| text(&row.reason)),
        ]
    });
    train.commit();
    let answers = session.run(&train).await?;
    let last = place.and_then(|place| answers[place].first()).map(|row| unsigned(row, 0)).transpose()?;
    let mut next = last.unwrap_or(0).saturating_sub(rows.len() as u64);
    let mut number = || {
        next += 1;
        next
    };
    Ok(events.iter().map(|row| plan.takes(row.job).then(&mut number)).collect())
}
