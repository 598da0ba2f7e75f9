//! Random writes: jobs that the engine itself moves, and around them everything else that a batch can hold.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::attempt::Loss;
use engine::event::Ticket;
use engine::retry::RetryPolicy;
use engine::{AttemptId, Epoch, Event, Fence, Heard, StepIx, Time};

use super::Outcome;
use super::answers::Known;
use crate::conformance::scene::{
    Life, after, approval, attempt_id, definition_row, fan_out, grouped, id, job_id, needs, plain, report, step, task,
    worker_id,
};
use crate::conformance::triggers;
use crate::rows::{
    BeatRole, BeatRow, BreakerRow, FleetChange, HearingRow, IdempotencyRow, LateOutcome, LineageRow, NewWorker,
    OutboxMove, OutboxRow, QuarantineRow, SecretRow, ServerId, ServerRow, TaskRow, TokenRow, WorkerHello,
};
use crate::{
    Admission, Batch, Claim, JobWrite, Lease, LogAppend, LogClose, LogDeadline, LogMark, Mark, Piece, Store, Tenure,
    TriggerWrite,
};

/// Few of each, so that they meet.
const JOBS_MAX: u64 = 6;
const WORKERS: u64 = 4;
const ATTEMPTS_WITH_LOGS: u64 = 2;

/// Enrolled before anything else, so that there is somebody to speak of.
const FIRST_WORKERS: [u64; 3] = [1, 2, 3];

/// One thing that is done to both stores alike.
pub(super) type Write = Box<dyn Fn(&mut dyn Store) -> Outcome>;

pub(super) struct Script<'a> {
    choices: Choices<'a>,
    written: usize,
    now: Time,
    /// The jobs as they are stored.
    lives: Vec<Life>,
    /// The same as they were at some time: whoever writes from these comes too late.
    past: Vec<Life>,
    /// What the jobs of the batch under way become if it is taken.
    drafts: Vec<Life>,
    /// The last lines that are stored, and those that the batch under way would store.
    log_ends: BTreeMap<AttemptId, u64>,
    drafted_ends: BTreeMap<AttemptId, u64>,
    attempts: u64,
    epoch: u64,
    last_mark: Option<HearingRow>,
}

impl<'a> Script<'a> {
    pub(super) fn new(choices: &'a [u32]) -> Script<'a> {
        Script {
            choices: Choices(choices.iter()),
            written: 0,
            now: after(1),
            lives: Vec::new(),
            past: Vec::new(),
            drafts: Vec::new(),
            log_ends: BTreeMap::new(),
            drafted_ends: BTreeMap::new(),
            attempts: 0,
            epoch: 0,
            last_mark: None,
        }
    }

    pub(super) fn written(&self) -> usize {
        self.written
    }

    pub(super) fn known(&self) -> Known {
        Known { jobs: JOBS_MAX, attempts: self.attempts.max(ATTEMPTS_WITH_LOGS), workers: WORKERS, now: self.now }
    }

    /// There are no choices left.
    pub(super) fn is_over(&self) -> bool {
        self.choices.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<Write> {
        if self.is_over() {
            return None;
        }
        self.written += 1;
        if self.written <= FIRST_WORKERS.len() {
            return Some(first_worker(FIRST_WORKERS[self.written - 1]));
        }
        let seconds = if self.choices.one_in(8) { 3_600 } else { self.choices.below(3) };
        self.now = self.now + Duration::from_secs(seconds);
        Some(match self.choices.below(19) {
            0 => self.reserve_fences(),
            1 => self.prune_beats(),
            2 => self.token(),
            3 => self.enroll(),
            4 => self.task_or_setting(),
            5 => self.register(),
            6 => self.retention(),
            7 => self.prune_groups(),
            _ => self.batch(),
        })
    }

    /// What was committed is what jobs are from now on.
    pub(super) fn learn(&mut self, outcome: &Outcome) {
        let (drafts, ends) = (std::mem::take(&mut self.drafts), std::mem::take(&mut self.drafted_ends));
        let Outcome::Committed { conflicts, .. } = outcome else {
            return;
        };
        self.log_ends.extend(ends);
        for draft in drafts.into_iter().filter(|draft| !conflicts.contains(&draft.job.id)) {
            match self.lives.iter_mut().find(|life| life.job.id == draft.job.id) {
                Some(life) => self.past.push(std::mem::replace(life, draft)),
                None => self.lives.push(draft),
            }
        }
    }

    fn batch(&mut self) -> Write {
        let mut batch = Batch { now: self.now, ..Batch::default() };
        for _ in 0..=self.choices.below(3) {
            match self.choices.below(14) {
                13 => self.admission(&mut batch),
                12 => self.trigger(&mut batch),
                0 => self.submit(&mut batch),
                1..=5 => self.happen(&mut batch),
                6 | 7 => self.logs(&mut batch),
                8 => self.beats(&mut batch),
                9 => self.evidence(&mut batch),
                _ => self.fleet(&mut batch),
            }
        }
        if self.choices.one_in(6) {
            twist(&mut batch);
        }
        Box::new(move |store| store.commit(&batch).into())
    }

    fn submit(&mut self, batch: &mut Batch) {
        let next = self.lives.len() as u64 + self.drafts.len() as u64 + 1;
        let n = if self.choices.one_in(12) { 1 } else { next };
        if n > JOBS_MAX {
            return;
        }
        let retry = RetryPolicy { attempts: 2, delay: Duration::from_secs(5), ..RetryPolicy::default() };
        let definition = match self.choices.below(7) {
            0 => plain(),
            1 => task("wide", vec![step("a"), step("b"), needs(step("c"), StepIx(0))]),
            2 => task("gate", vec![approval("a"), needs(step("b"), StepIx(0))]),
            3 => task("many", vec![fan_out("c", 2)]),
            4 => grouped("g", 0),
            5 => grouped(["g", "h"][self.choices.index(2)], 1),
            _ => task("again", vec![engine::definition::StepDef { retry, ..step("a") }]),
        };
        let (life, mut new) = Life::draft(n, &definition, self.now);
        if self.choices.one_in(12) {
            new.definitions.clear();
        }
        if self.choices.one_in(3) {
            let (key, token) = (["a", "b"][self.choices.index(2)].to_owned(), id(900 + self.choices.below(2)));
            let created_at = self.now;
            let row = IdempotencyRow { key, token, request_hash: [3; 32], job: life.job.id, created_at };
            batch.idempotency.push(row);
        }
        if self.choices.one_in(4) {
            batch.ties.push((life.job.id, job_id(1 + self.choices.below(JOBS_MAX))));
        }
        if self.choices.one_in(3) {
            batch.lineage.push(LineageRow {
                job: life.job.id,
                continues: job_id(1 + self.choices.below(JOBS_MAX)),
                root: job_id(1 + self.choices.below(4)),
                number: [1, 2, 3, 4, 5][self.choices.index(5)],
                resolves: self.choices.one_in(2),
                how: "retry",
                by: "ada".to_owned(),
                at: self.now,
            });
        }
        append(batch, new);
        self.drafts.push(life);
    }

    /// A trigger, seen as it is or as it was, and maybe with a job.
    fn trigger(&mut self, batch: &mut Batch) {
        let (id, version) = (["a", "b"][self.choices.index(2)], self.choices.below(4));
        let next_at = self.choices.one_in(3).then(|| after(self.choices.below(400)));
        let job = self.choices.one_in(3).then(|| job_id(1 + self.choices.below(JOBS_MAX)));
        batch.triggers.push(TriggerWrite {
            row: triggers::trigger(id, version + 1, next_at),
            expected: (version > 0).then_some(version),
            jobs: job.into_iter().collect(),
        });
    }

    /// Jobs that a group has room for, by what is known of it or was. Whether their own rows say so is all the same to a store.
    fn admission(&mut self, batch: &mut Batch) {
        let group = ["g", "h"][self.choices.index(2)].to_owned();
        let mut some = |one_in| self.choices.one_in(one_in).then(|| job_id(1 + self.choices.below(JOBS_MAX)));
        let (expected, first, more, after) = (some(2), some(8), some(3), some(4));
        let jobs = [Some(first.unwrap_or(job_id(1))), more].into_iter().flatten().collect();
        batch.admissions.push(Admission { group, expected, jobs, after: after.into_iter().collect() });
    }

    fn prune_groups(&mut self) -> Write {
        let (before, limit, under) = (after(self.choices.below(4_000)), self.choices.index(3), self.tenure());
        Box::new(move |store| Outcome::of(store.prune_groups(before, limit, under)))
    }

    /// An event of some job, if it is in a state for it.
    fn happen(&mut self, batch: &mut Batch) {
        let Some(mut life) = self.some_life() else { return };
        life.now = self.now;
        let ix = StepIx::of(self.choices.index(life.job.steps.len()));
        let event = self.event(&life, ix);
        if let Some((changes, more)) = life.try_change(&event) {
            append(batch, more);
            life.job.absorb(&changes);
            self.drafts.retain(|draft| draft.job.id != life.job.id);
            self.drafts.push(life);
        }
    }

    fn some_life(&mut self) -> Option<Life> {
        let from = if self.choices.one_in(10) && !self.past.is_empty() { &self.past } else { &self.lives };
        if from.is_empty() {
            return None;
        }
        let life = &from[self.choices.index(from.len())];
        let drafted = self.drafts.iter().find(|draft| draft.job.id == life.job.id);
        Some(drafted.unwrap_or(life).clone())
    }

    fn event(&mut self, life: &Life, ix: StepIx) -> Event {
        let state = &life.job.step(ix).state;
        let epoch = Epoch(1);
        let offered = state.offer().map(|o| Ticket { step: ix, attempt: o.attempt, fence: o.fence });
        let live = state.live().map(|l| Ticket { step: ix, attempt: l.attempt, fence: l.fence });
        let choice = self.choices.below(12);
        if life.job.awaits_slot() && choice < 6 {
            return Event::Admit { reason: "there is room".to_owned() };
        }
        match (offered, live) {
            (_, Some(ticket)) if choice == 11 => Event::WorkerRemoved { ticket, by: "eve".to_owned() },
            (Some(ticket), _) if choice < 6 => Event::Accepted { ticket, epoch },
            (Some(ticket), _) if choice < 8 => Event::Refused { ticket, reason: "busy".to_owned() },
            (Some(ticket), _) if choice < 9 => Event::OfferLost { ticket, epoch },
            (_, Some(ticket)) if choice < 4 => Event::Ended { ticket, report: report(i32::from(choice == 0)) },
            (_, Some(ticket)) if choice < 6 => Event::LinkLost { ticket, epoch },
            (_, Some(ticket)) if choice < 7 => Event::Gone { ticket, epoch, loss: Loss::RunnerLost },
            (_, Some(ticket)) if choice < 8 => Event::Reattached { ticket, epoch },
            (None, None) if choice < 7 => {
                self.attempts += 1;
                let ticket = Ticket { step: ix, attempt: attempt_id(self.attempts), fence: Fence(self.attempts) };
                Event::Offer { ticket, worker: worker_id(1 + self.choices.below(WORKERS)), epoch }
            }
            _ if choice < 9 => Event::Approve { step: ix, by: "bob".to_owned(), comment: String::new() },
            _ if choice < 10 && self.choices.one_in(4) => Event::Restored { at: self.now },
            _ if choice < 10 => Event::CheckJob,
            _ if choice < 11 => Event::Check { step: ix },
            _ => Event::Cancel { by: "eve".to_owned(), force: self.choices.one_in(2) },
        }
    }

    fn logs(&mut self, batch: &mut Batch) {
        let attempt = attempt_id(1 + self.choices.below(ATTEMPTS_WITH_LOGS));
        let after_seq = self.choices.below(8);
        match self.choices.below(8) {
            0 => {
                let (missing, text) = (self.choices.below(3), "mark".to_owned());
                batch.marks.push(LogMark { attempt, after_seq, at: self.now, missing, text });
            }
            1 => {
                let (close_at, end_seq) = (after(self.choices.below(300)), self.choices.maybe(9));
                batch.log_deadlines.push(LogDeadline { attempt, close_at, end_seq });
            }
            2 => {
                let text = self.choices.one_in(2).then(|| "closed".to_owned());
                batch.log_closes.push(LogClose { attempt, after_seq, text });
            }
            _ => {
                let stands = self.drafted_ends.get(&attempt).or(self.log_ends.get(&attempt)).copied().unwrap_or(0);
                let (missing, lines) = (self.choices.rarely(2), self.choices.below(4));
                let first_seq = if self.choices.one_in(6) { self.choices.below(8) } else { stands + missing + 1 };
                let last_seq = (first_seq + lines).saturating_sub(1);
                let blocks = (first_seq..first_seq + lines).map(|seq| seq.to_le_bytes()[0]).collect();
                let complete = self.choices.one_in(4);
                self.drafted_ends.insert(attempt, last_seq.max(stands));
                batch.logs.push(LogAppend { attempt, first_seq, last_seq, blocks, missing, complete });
            }
        }
    }

    fn beats(&mut self, batch: &mut Batch) {
        batch.beats.silence = Duration::from_secs(60);
        let first = self.choices.below(300);
        batch.beats.rows.push(BeatRow {
            attempt: attempt_id(1 + self.choices.below(ATTEMPTS_WITH_LOGS)),
            sender: worker_id(1 + self.choices.below(2)),
            role: if self.choices.one_in(2) { BeatRole::Runner } else { BeatRole::Claimer },
            hostname: format!("host {}", self.choices.rarely(1)),
            pid: 1 + u32::from(self.choices.one_in(8)),
            first_at: after(first),
            last_at: after(first + self.choices.below(60)),
            count: 1 + self.choices.below(5),
            longest_gap: Duration::from_nanos(self.choices.below(9) * 1_000_000_500),
        });
    }

    fn evidence(&mut self, batch: &mut Batch) {
        let attempt = attempt_id(1 + self.choices.below(self.attempts.max(1)));
        let job = job_id(1 + self.choices.below(JOBS_MAX));
        match self.choices.below(7) {
            0 => {
                let outcome = format!("exited {}", self.choices.below(3));
                batch.late_outcomes.push(LateOutcome { attempt, outcome, at: self.now });
            }
            1 => batch.confirmed.push((attempt, Fence(1 + self.choices.below(self.attempts.max(1))))),
            5 => batch.begun.push((attempt, Fence(1 + self.choices.below(self.attempts.max(1))))),
            2 => {
                let (job, event) = (self.choices.one_in(2).then_some(job), "{}".to_owned());
                batch.quarantine.push(QuarantineRow { job, at: self.now, event, error: "boom".to_owned() });
            }
            3 => {
                let id = id(self.choices.below(6));
                let (kind, created_at) = ("webhook", self.now);
                batch.outbox.push(OutboxRow { id, job, kind, body: "{}".to_owned(), created_at });
            }
            4 => {
                let (id, expected) = (id(self.choices.below(6)), u32::try_from(self.choices.below(3)).unwrap_or(0));
                let next_at = self.choices.one_in(2).then_some(self.now);
                let delivered_at = self.choices.one_in(4).then_some(self.now);
                let tries = expected + 1;
                batch.outbox_moves.push(OutboxMove { id, expected, tries, next_at, delivered_at, error: None });
            }
            _ => batch.definitions.push(definition_row(&plain())),
        }
    }

    fn fleet(&mut self, batch: &mut Batch) {
        let worker = worker_id(1 + self.choices.below(WORKERS));
        let at = after(self.choices.below(300));
        match self.choices.below(13) {
            0 => batch.seen.push((worker, at)),
            1 => batch.left.push((worker, Epoch(self.choices.below(4)), Heard(at.0))),
            2 => batch.used_epochs.push((worker, Epoch(self.choices.below(5)))),
            3 => batch.fleet.push(FleetChange::Drain { worker, on: self.choices.one_in(2) }),
            4 => batch.fleet.push(FleetChange::Remove { worker, at }),
            5 => batch.meta.push((["a", "b"][self.choices.index(2)], format!("{at}"))),
            6 => batch.hearing = Some(self.mark(at)),
            7 => batch.breaker = Some(BreakerRow { tripped_at: at, lost: 3, connected: 9, ended_at: None }),
            8 => batch.breaker_ended = Some(at),
            9 => batch.unwilling.push((worker, Epoch(self.choices.below(4)), self.choices.one_in(2))),
            10 => batch.server = Some(self.server()),
            11 => self.claim(batch),
            _ => {
                self.epoch += self.choices.below(2);
                batch.hellos.push(hello(1 + self.choices.below(WORKERS - 1), Epoch(self.epoch)));
            }
        }
    }

    /// One of two servers wants a lease, and maybe acts under one that it may have.
    fn claim(&mut self, batch: &mut Batch) {
        let (lease, by) = (Lease::ALL[self.choices.index(3)], ServerId(id(1 + self.choices.below(2))));
        let soon = |choices: &mut Choices<'_>| Heard(after(choices.below(300)).0);
        let (at, until) = (soon(&mut self.choices), soon(&mut self.choices));
        let at = if self.choices.one_in(6) { Claim::WHATEVER } else { at };
        if !batch.claims.iter().any(|claim| claim.lease == lease) {
            batch.claims.push(Claim { lease, by, at, until });
        }
        batch.under.extend(self.tenure());
    }

    /// Now and then somebody's lease, as it may be.
    fn tenure(&mut self) -> Option<Tenure> {
        let (lease, holder) = (Lease::ALL[self.choices.index(3)], ServerId(id(1 + self.choices.below(2))));
        let epoch = 1 + self.choices.below(2);
        self.choices.one_in(4).then_some(Tenure { lease, holder, epoch })
    }

    /// After the last one, or after one that may have been overtaken.
    fn mark(&mut self, at: Time) -> Mark {
        let row = HearingRow {
            mark_at: at,
            deaf_us: 5,
            stretch_from: Heard(at.0 - 5),
            unsettled_since: self.choices.one_in(2).then_some(Heard(7)),
            verdicts_from: Heard::MIN,
            alarmed: self.choices.one_in(2),
        };
        let expected = if self.choices.one_in(4) { None } else { self.last_mark };
        if expected == self.last_mark || self.choices.one_in(3) {
            self.last_mark = Some(row);
        }
        Mark { row, expected }
    }

    fn server(&mut self) -> ServerRow {
        let n = self.choices.below(3);
        ServerRow {
            id: ServerId(id(800 + n)),
            generation: n,
            address: format!("10.0.0.{}", self.choices.below(2)),
            started_at: after(n),
            beat_at: after(self.choices.below(300)),
            beat_heard: Heard(i64::try_from(self.choices.below(300)).unwrap_or(0)),
            left_at: self.choices.maybe(300).map(after),
        }
    }

    fn register(&mut self) -> Write {
        let (server, stale_before) = (self.server(), after(self.choices.below(300)));
        Box::new(move |store| Outcome::of(store.register_server(&server, stale_before)))
    }

    fn reserve_fences(&mut self) -> Write {
        let count = if self.choices.one_in(6) { u64::MAX } else { self.choices.below(100) };
        let floor = self.choices.below(1_000);
        Box::new(move |store| Outcome::of(store.reserve_fences(count, floor)))
    }

    fn prune_beats(&mut self) -> Write {
        let (before, limit, under) = (after(self.choices.below(300)), self.choices.index(4), self.tenure());
        Box::new(move |store| Outcome::of(store.prune_beats(before, limit, under)))
    }

    /// Something old goes, or a piece of it.
    fn retention(&mut self) -> Write {
        let (now, under) = (self.now, self.tenure());
        let piece = Piece { rows: self.choices.index(12), log_bytes: self.choices.below(6) };
        let piece = if self.choices.one_in(2) { Piece { rows: 1_000, log_bytes: 1_000 } } else { piece };
        match self.choices.below(8) {
            0..=2 => {
                let from = if self.choices.one_in(6) { &self.past } else { &self.lives };
                let jobs: Vec<_> = from.iter().map(|life| (life.job.id, life.job.header.version)).collect();
                Box::new(move |store| Outcome::of(store.doom(&jobs, now, under)))
            }
            3 => Box::new(move |store| Outcome::of(store.clear_doomed(piece, under))),
            4 => {
                let attempt = attempt_id(1 + self.choices.below(ATTEMPTS_WITH_LOGS));
                Box::new(move |store| Outcome::of(store.drop_log(attempt, now, piece, under)))
            }
            5 => {
                let (after, limit) = (self.choices.maybe(250).map(hash), self.choices.index(4));
                Box::new(move |store| Outcome::of(store.prune_definitions(after, limit, under)))
            }
            6 => {
                let (before, limit) = (after(self.choices.below(9_000)), self.choices.index(4));
                Box::new(move |store| Outcome::of(store.drop_strays(before, limit, under)))
            }
            _ => {
                let (worker, since) = (worker_id(1 + self.choices.below(WORKERS)), after(self.choices.below(9_000)));
                Box::new(move |store| Outcome::of(store.depart(worker, since, now, under)))
            }
        }
    }

    fn token(&mut self) -> Write {
        let (n, now) = (self.choices.below(4), self.now);
        if self.choices.one_in(4) {
            return Box::new(move |store| Outcome::of(store.revoke_token(id(n), now)));
        }
        let token = TokenRow {
            id: id(n),
            kind: ["enroll", "api"][self.choices.index(2)].to_owned(),
            role: "operator".to_owned(),
            name: format!("token {n}"),
            hash: hash(self.choices.below(4)),
            tags: vec!["linux".to_owned()],
            uses_left: self.choices.maybe(3).and_then(|uses| u32::try_from(uses).ok()),
            created_at: after(self.choices.below(3)),
            expires_at: self.choices.maybe(9_000).map(after),
            revoked_at: None,
        };
        Box::new(move |store| Outcome::of(store.put_token(&token)))
    }

    fn enroll(&mut self) -> Write {
        let n = 1 + self.choices.below(WORKERS);
        let (name, credential_hash) = (format!("w{}", n % 2), hash(n + self.choices.rarely(2)));
        let worker = NewWorker { id: worker_id(n), name, credential_hash, state_id: id(500 + n) };
        let (token, now) = (hash(self.choices.below(4)), self.now);
        Box::new(move |store| Outcome::of(store.enroll(&token, &worker, now)))
    }

    fn task_or_setting(&mut self) -> Write {
        let (n, pushed_at) = (self.choices.below(3), self.now);
        if self.choices.one_in(4) {
            return Box::new(move |store| Outcome::of(store.remove_secret(&format!("SECRET_{n}"))));
        }
        if self.choices.one_in(4) {
            let (name, sealed) = (format!("SECRET_{n}"), format!("at {pushed_at}").into_bytes());
            let row = SecretRow { name, sealed, set_at: pushed_at, set_by: "ada".to_owned() };
            return Box::new(move |store| Outcome::of(store.put_secret(&row)));
        }
        if self.choices.one_in(2) {
            let key = ["a", "b", "min_reader"][self.choices.index(3)];
            return Box::new(move |store| Outcome::of(store.set_meta(key, &format!("set {n}"))));
        }
        let (name, source) = (format!("task {n}"), format!("at {pushed_at}"));
        let row = TaskRow { name, source, pushed_at, pushed_by: "ada".to_owned() };
        Box::new(move |store| Outcome::of(store.put_task(&row)))
    }
}

fn first_worker(n: u64) -> Write {
    let token = TokenRow {
        id: id(800),
        kind: "enroll".to_owned(),
        role: "operator".to_owned(),
        name: "for the first".to_owned(),
        hash: hash(80),
        tags: Vec::new(),
        uses_left: None,
        created_at: after(0),
        expires_at: None,
        revoked_at: None,
    };
    let worker = NewWorker { id: worker_id(n), name: format!("w{n}"), credential_hash: hash(n), state_id: id(500 + n) };
    Box::new(move |store| {
        store.put_token(&token).expect("a token of its own");
        Outcome::of(store.enroll(&token.hash, &worker, after(0)))
    })
}

/// Columns that no update may change, and numbers that no database counts to.
fn twist(batch: &mut Batch) {
    for JobWrite { row, .. } in &mut batch.jobs {
        row.task = "twisted".to_owned();
        row.submitted_by = "twisted".to_owned();
    }
    for row in &mut batch.steps {
        row.name = "twisted".to_owned();
    }
    for row in &mut batch.attempts {
        (row.number, row.fence, row.started_at) = (row.number + 7, Fence(row.fence.0 + 7), after(7));
    }
    for row in &mut batch.beats.rows {
        row.count = u64::MAX;
    }
    for mark in &mut batch.marks {
        mark.missing = u64::MAX;
    }
}

fn append(batch: &mut Batch, more: Batch) {
    batch.definitions.extend(more.definitions);
    batch.jobs.extend(more.jobs);
    batch.steps.extend(more.steps);
    batch.attempts.extend(more.attempts);
    batch.events.extend(more.events);
}

fn hello(n: u64, epoch: Epoch) -> WorkerHello {
    WorkerHello {
        id: worker_id(n),
        epoch,
        name: format!("build-{}", n % 2),
        tags: vec!["script".to_owned()],
        slots: 4,
        kind: "ephemeral",
        session: id(700 + n),
        boot_id: "boot".to_owned(),
        state_id: id(600 + n),
        machine: "fingerprint".to_owned(),
        version: "1.2.3".to_owned(),
        platform: "linux-x86_64".to_owned(),
        hostname: format!("host {n}"),
        pid: 4321,
        started_at: after(2),
        no_reconnect: false,
        server: ServerId(id(800 + n % 2)),
        unwilling: n == 2,
        features: if n == 1 { Vec::new() } else { vec!["secrets".to_owned()] },
        unread: n == 0,
        after_loss: (n == 1).then_some(u64::MAX),
    }
}

fn hash(n: u64) -> [u8; 32] {
    [n.to_le_bytes()[0]; 32]
}

/// Numbers from outside; zero once they are used up.
struct Choices<'a>(std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next().map_or(0, |choice| u64::from(*choice) % end)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is below a usize")
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 1
    }

    fn maybe(&mut self, end: u64) -> Option<u64> {
        let chosen = self.below(end + 1);
        chosen.checked_sub(1)
    }

    /// Mostly zero.
    fn rarely(&mut self, end: u64) -> u64 {
        if self.one_in(4) { self.below(end + 1) } else { 0 }
    }
}
