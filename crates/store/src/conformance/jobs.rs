//! Jobs, steps and attempts: what goes in comes back, whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::attempt::Loss;
use engine::definition::{Condition, KeepRule, KeepWhen, Program, Protection, RunBody, StepDef, Work};
use engine::job::{Unborn, Unlisted};
use engine::retry::RetryPolicy;
use engine::{Epoch, Event, Fence, JobState, StateName, StepIx};

use super::Fixture;
use super::scene::{
    FIRST, Life, after, approval, attempt_id, cleaned_up, commit, definition_row, fan_out, id, job_id, needs, plain,
    step, task, worker_id,
};
use crate::read::{Family, Kin, Lineage};
use crate::rows::{IdempotencyRow, LateOutcome, LineageRow, OpenJob, OutboxRow, QuarantineRow};
use crate::{Batch, JobWrite, LogAppend, Store, StoreError};

pub fn every_step_state_comes_back(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &task_of_all_states());
    life.assert_stored(store);

    life.offer(store, StepIx(2), 102, 1);
    life.start(store, StepIx(3), 103, 1);
    let cut_off = life.start(store, StepIx(4), 104, 2);
    life.lose_link(store, cut_off);
    let slow = life.start(store, StepIx(5), 105, 1);
    life.now = after(60);
    life.apply(store, &Event::Check { step: slow.step });
    let again = life.start(store, StepIx(7), 107, 1);
    life.end(store, again, 1);
    let good = life.start(store, StepIx(8), 108, 1);
    life.end(store, good, 0);
    let bad = life.start(store, StepIx(9), 109, 1);
    life.end(store, bad, 3);
    let (by, comment) = ("bob".to_owned(), "looks good".to_owned());
    life.apply(store, &Event::Approve { step: StepIx(6), by, comment });
    life.apply(store, &Event::Reject { step: StepIx(10), by: "bob".to_owned(), reason: "no".to_owned() });

    let (attempt, fence, worker) = (attempt_id(114), Fence(114), worker_id(1));
    let unlisted = Unlisted { number: 2, attempt, fence, worker, epoch: Epoch(3) };
    life.apply(store, &Event::Unlisted { of: StepIx(15), unlisted });
    let (job, step, epoch) = (job_id(9), "a".to_owned(), Epoch(3));
    life.apply(store, &Event::Unborn(Unborn { job, step, attempt, fence, worker, epoch }));

    let reached: BTreeSet<StateName> = life.job.steps.iter().map(|s| s.state.name()).collect();
    assert_eq!(reached, BTreeSet::from(StateName::ALL), "the case itself reaches every state");
    life.assert_stored(store);
}

pub fn what_is_held_since_a_restore_comes_back(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &task("two", vec![step("runs"), step("waits")]));
    let ticket = life.start(store, FIRST, 101, 1);
    life.apply(store, &Event::Restored { at: after(61) });
    assert!(life.job.steps.iter().all(|s| s.in_doubt && s.state.name() == StateName::Held));
    assert_eq!(life.job.step(FIRST).state.live().map(|live| live.attempt), Some(ticket.attempt));
    life.assert_stored(store);
}

pub fn every_job_state_comes_back(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let lives: Vec<Life> = JobState::ALL.into_iter().zip(1..).map(|(state, n)| job_in(store, n, state)).collect();
    for life in &lives {
        life.assert_stored(store);
    }
}

pub fn what_is_not_there_is_none(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.load_job(job_id(1)).expect("a read"), None);
    assert_eq!(store.place_of(attempt_id(1)).expect("a read"), None);
    let reader = store.reader();
    assert_eq!(reader.job(job_id(1)).expect("a read"), None);
    assert_eq!(reader.last_job().expect("a read"), None);
    assert_eq!(reader.attempts(job_id(1)).expect("a read"), Vec::new());
    assert_eq!(reader.worker_by_credential(&[1; 32]).expect("a read"), None);
    assert_eq!(reader.token_by_hash(&[1; 32]).expect("a read"), None);
    assert_eq!(reader.idempotency(id(1), "key").expect("a read"), None);
    assert_eq!(reader.meta("nothing").expect("a read"), None);
    assert_eq!(reader.job_counts().expect("a read"), Vec::new());
    let committed = commit(store, &Batch::default());
    assert!(committed.conflicts.is_empty() && committed.event_ids.is_empty());
}

pub fn many_are_read_as_each_of_them_is(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.load_jobs(&[]).expect("a read"), []);
    Life::submit(store, 1, &plain());
    Life::submit(store, 2, &task("wide", vec![step("a"), step("b")])).start(store, FIRST, 1, 1);
    job_in(store, 3, JobState::Success);
    let mut many = store.load_jobs(&[3, 1, 9, 2].map(job_id)).expect("a read");
    many.sort_by_key(|stored| stored.job.id);
    let each: Vec<_> = (1..=3).filter_map(|n| store.load_job(job_id(n)).expect("a read")).collect();
    assert_eq!(many, each);
    assert_eq!(each.iter().map(|stored| stored.steps.len()).collect::<Vec<_>>(), [1, 2, 1]);
    let mut offered = Life::submit(store, 4, &plain());
    offered.offer(store, FIRST, 2, 2);
    let mut open = store.open_among(&[3, 1, 9, 4, 2].map(job_id)).expect("a read");
    open.sort();
    let (queued, begun) =
        (|n| OpenJob { id: job_id(n), has_queued: true }, |n| OpenJob { id: job_id(n), has_queued: false });
    // The second step of the second job waits while the first one runs.
    assert_eq!(open, [queued(1), queued(2), begun(4)]);
    assert_eq!(store.open_among(&[]).expect("a read"), []);
}

pub fn a_new_job_never_replaces_one(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    life.start(store, FIRST, 1, 1);
    let (_, again) = Life::draft(1, &plain(), after(9));
    assert_refused(store, &again);
    life.assert_stored(store);
}

pub fn a_job_that_moved_is_left_out_whole(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut moved = Life::submit(store, 1, &plain());
    let mut steady = Life::submit(store, 2, &plain());
    let mut elsewhere = Life { job: moved.job.clone(), meta: moved.meta.clone(), now: moved.now };
    let ticket = moved.offer(store, FIRST, 1, 1);
    moved.apply(store, &Event::Accepted { ticket, epoch: engine::Epoch(1) });
    let events_before = store.reader().events(Some(job_id(1)), 0, 100).expect("a read");

    let cancel = Event::Cancel { by: "eve".to_owned(), force: true };
    let (_, mut batch) = elsewhere.change(&cancel);
    let stale_events = batch.events.len();
    batch.outbox.push(outbox(1, 1));
    batch.idempotency.push(key("k", 1));
    batch.quarantine.push(quarantine(1));
    let (changes, other) = steady.change(&cancel);
    batch.jobs.extend(other.jobs);
    batch.steps.extend(other.steps);
    batch.events.extend(other.events);
    let committed = commit(store, &batch);
    steady.job.absorb(&changes);

    assert_eq!(committed.conflicts, BTreeSet::from([job_id(1)]));
    assert!(committed.event_ids[..stale_events].iter().all(Option::is_none));
    assert!(committed.event_ids[stale_events..].iter().all(Option::is_some));
    moved.assert_stored(store);
    steady.assert_stored(store);
    let reader = store.reader();
    assert_eq!(reader.events(Some(job_id(1)), 0, 100).expect("a read"), events_before);
    assert_eq!(reader.idempotency(id(900), "k").expect("a read"), None);
    // The id of the outbox row that was left out is still free.
    commit(store, &Batch { outbox: vec![outbox(1, 2)], ..Batch::default() });
}

pub fn an_update_of_a_job_that_is_not_there_is_a_conflict(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (mut life, _) = Life::draft(1, &plain(), after(1));
    let (_, batch) = life.change(&Event::Cancel { by: "eve".to_owned(), force: false });
    assert_eq!(commit(store, &batch).conflicts, BTreeSet::from([job_id(1)]));
    assert_eq!(store.load_job(job_id(1)).expect("a read"), None);
    assert_eq!(store.reader().last_event().expect("a read"), 0);
}

pub fn several_writes_of_one_job_count_as_one(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (mut life, mut batch) = Life::draft(1, &plain(), after(1));
    let (changes, next) = life.change(&Event::Cancel { by: "eve".to_owned(), force: false });
    batch.jobs.extend(next.jobs);
    batch.steps.extend(next.steps);
    batch.events.extend(next.events);
    commit(store, &batch);
    life.job.absorb(&changes);
    life.assert_stored(store);

    let (_, mut torn) = Life::draft(2, &plain(), after(2));
    let row = torn.jobs[0].row.clone();
    torn.jobs.push(JobWrite { row, expected: Some(99) });
    assert_refused(store, &torn);
    assert_eq!(store.load_job(job_id(2)).expect("a read"), None);
}

pub fn a_batch_with_a_bad_row_leaves_nothing(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let before = store.reader().last_event().expect("a read");
    let (_, mut batch) = life.change(&Event::Cancel { by: "eve".to_owned(), force: false });
    let (_, new) = Life::draft(2, &plain(), after(2));
    batch.jobs.extend(new.jobs);
    batch.steps.extend(new.steps);
    batch.outbox.push(outbox(1, 1));
    batch.idempotency.push(key("k", 2));
    batch.logs.push(LogAppend {
        attempt: attempt_id(1),
        first_seq: 5,
        last_seq: 5,
        blocks: vec![0],
        missing: 0,
        complete: false,
    });
    assert_refused(store, &batch);

    life.assert_stored(store);
    assert_eq!(store.load_job(job_id(2)).expect("a read"), None);
    let reader = store.reader();
    assert_eq!(reader.last_event().expect("a read"), before);
    assert_eq!(reader.idempotency(id(900), "k").expect("a read"), None);
    commit(store, &Batch { outbox: vec![outbox(1, 1)], ..Batch::default() });
}

pub fn jobs_share_a_definition(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (first, second) = (Life::submit(store, 1, &plain()), Life::submit(store, 2, &plain()));
    let other = Life::submit(store, 3, &task("other", vec![step("only")]));
    for life in [&first, &second, &other] {
        life.assert_stored(store);
    }
    assert_ne!(definition_row(&first.job.definition), definition_row(&other.job.definition));
}

pub fn a_definition_that_is_missing_is_said(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (_, mut batch) = Life::draft(1, &plain(), after(1));
    batch.definitions.clear();
    commit(store, &batch);
    let error = store.load_job(job_id(1)).expect_err("a job that cannot go on");
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

pub fn attempts_keep_their_history(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let retry = RetryPolicy { attempts: 2, ..RetryPolicy::default() };
    let mut life = Life::submit(store, 1, &task("twice", vec![StepDef { retry, ..step("only") }]));
    life.run_to_end(store, 1, 7);
    life.apply(store, &Event::Check { step: FIRST });
    let second = life.start(store, FIRST, 2, 2);
    let reader = store.reader();

    let running = reader.attempts(job_id(1)).expect("a read");
    assert_eq!(running.iter().map(|a| (a.id, a.number)).collect::<Vec<_>>(), [(attempt_id(1), 1), (attempt_id(2), 2)]);
    let ended = &running[0];
    assert_eq!((ended.state.as_str(), ended.confirmed, ended.exit_code, ended.signal), ("ended", true, Some(7), None));
    assert_eq!((ended.error_code.as_deref(), ended.fence, ended.worker), (Some("exit_code"), 1, worker_id(1)));
    assert_eq!((ended.duration_ms, ended.cpu_ms, ended.memory_bytes_max), (Some(1_234), 12, 34_567_890));
    let cleanup = ended.cleanup.as_deref().map(crate::codec::cleanup);
    assert_eq!(cleanup, Some(Ok(cleaned_up())), "as it was reported");
    assert_eq!((&running[1].cleanup, running[1].duration_ms), (&None, None));
    assert!(ended.ended_at.is_some() && ended.error_message.is_some());
    assert_eq!((running[1].state.as_str(), running[1].confirmed), ("running", false));
    assert_eq!((running[1].ended_at, running[1].worker_name.as_deref()), (None, None));

    let glance = reader.step(job_id(1), FIRST).expect("a read").expect("the job has this step");
    assert_eq!(glance.attempts, [(attempt_id(1), 1), (attempt_id(2), 2)]);
    assert_eq!(glance.state, "running");
    assert_eq!(reader.step(job_id(1), StepIx(1)).expect("a read"), None);
    let stored = reader.job(job_id(1)).expect("a read").expect("the job is there");
    assert_eq!(reader.definition_of(job_id(1)).expect("a read"), Some(stored.definition.hash));
    assert_eq!(reader.definition_of(job_id(2)).expect("a read"), None);

    life.lose(store, second);
    let lost = reader.attempts(job_id(1)).expect("a read");
    assert_eq!(lost[0], *ended, "history does not change");
    assert_eq!((lost[1].state.as_str(), lost[1].error_code.as_deref()), ("lost", Some("runner_lost")));
    assert_eq!(lost[1].started_at, running[1].started_at);
    life.assert_stored(store);
}

pub fn that_an_attempt_began_stays_on_record(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    let reader = store.reader();
    let has_begun = || reader.attempt(ticket.attempt).expect("a read").map(|glance| glance.begun);
    assert_eq!(has_begun(), Some(false));
    commit(store, &Batch { begun: vec![(ticket.attempt, Fence(ticket.fence.0 + 1))], ..Batch::default() });
    assert_eq!(has_begun(), Some(false), "somebody else's fence");
    commit(store, &Batch { begun: vec![(ticket.attempt, ticket.fence)], ..Batch::default() });
    assert_eq!(has_begun(), Some(true));
    life.lose(store, ticket);
    assert_eq!(has_begun(), Some(true), "whatever becomes of it");
    life.assert_stored(store);
}

pub fn the_first_late_outcome_stays(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    life.lose(store, ticket);
    for outcome in ["exited 0", "exited 1"] {
        let late = LateOutcome { attempt: ticket.attempt, outcome: outcome.to_owned(), at: after(5) };
        commit(store, &Batch { late_outcomes: vec![late], ..Batch::default() });
    }
    let attempts = store.reader().attempts(job_id(1)).expect("a read");
    assert_eq!(attempts[0].late_outcome.as_deref(), Some("exited 0"));
    assert_eq!(attempts[0].state, "lost", "evidence changes no state");
    life.assert_stored(store);
}

/// An end and its repetition come together, and another server was faster with the job.
pub fn evidence_goes_with_the_end_that_it_counts_on(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    let mut elsewhere = Life { job: life.job.clone(), meta: life.meta.clone(), now: life.now };
    life.apply(store, &Event::LinkLost { ticket, epoch: engine::Epoch(1) });

    let gone = Event::Gone { ticket, epoch: Epoch(1), loss: Loss::RunnerLost };
    let (_, mut batch) = elsewhere.change(&gone);
    let late = LateOutcome { attempt: ticket.attempt, outcome: "exited 0".to_owned(), at: after(5) };
    batch.late_outcomes.push(late);
    batch.confirmed.push((ticket.attempt, ticket.fence));
    assert_eq!(commit(store, &batch).conflicts, BTreeSet::from([job_id(1)]));

    let attempts = store.reader().attempts(job_id(1)).expect("a read");
    assert_eq!((attempts[0].late_outcome.as_deref(), attempts[0].confirmed), (None, false));
    life.assert_stored(store);
}

pub fn a_job_knows_which_it_continues_and_which_goes_on(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let row = |job: u64, resolves: bool| LineageRow {
        job: job_id(job),
        continues: job_id(1),
        root: job_id(1),
        number: u32::try_from(job).expect("a small number"),
        resolves,
        how: "retry",
        by: "ann".to_owned(),
        at: after(1),
    };
    commit(&mut *store, &Batch { lineage: vec![row(2, false), row(3, true)], ..Batch::default() });
    let second = store.commit(&Batch { lineage: vec![row(4, true)], ..Batch::default() });
    assert!(matches!(second, Err(StoreError::Refused { .. })), "one job stands in for another, not two: {second:?}");
    fixture.crash(store);
    let reader = fixture.open().reader();
    let kin = |job: u64| reader.lineage(job_id(job)).expect("a read");
    assert_eq!(kin(1), Lineage { continues: None, resolved_by: Some(job_id(3)) });
    assert_eq!(kin(2), Lineage { continues: Some(job_id(1)), resolved_by: None });
    assert_eq!(kin(9), Lineage::default());
}

pub fn two_who_go_on_at_the_same_time_are_in_conflict(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let go_on = |store: &mut dyn Store, n: u64, continues: u64, number: u32| {
        let (_, mut batch) = Life::draft(n, &plain(), after(n));
        let (job, continues, root) = (job_id(n), job_id(continues), job_id(1));
        let (how, by, at) = ("retry", "ann".to_owned(), after(n));
        batch.lineage.push(LineageRow { job, continues, root, number, resolves: false, how, by, at });
        commit(store, &batch).conflicts
    };
    assert_eq!(go_on(store, 2, 1, 1), BTreeSet::new());
    // Both had seen one: the second is left out, with what the job before it was told.
    assert_eq!(go_on(store, 3, 1, 2), BTreeSet::new());
    assert_eq!(go_on(store, 4, 2, 2), BTreeSet::from([job_id(4), job_id(2)]));
    assert_eq!(store.load_job(job_id(4)).expect("a read"), None);
    let kin = |job: u64, continues: u64, number: u32| Kin {
        job: job_id(job),
        continues: job_id(continues),
        number,
        how: "retry".to_owned(),
    };
    let family = |of: u64, limit| store.reader().family(job_id(of), limit).expect("a read");
    for of in [1, 2, 3] {
        let members = vec![kin(3, 1, 2), kin(2, 1, 1)];
        assert_eq!(family(of, 10), Family { root: job_id(1), members }, "the same for job {of}");
    }
    assert_eq!(family(1, 1).members, [kin(3, 1, 2)]);
    assert_eq!(family(9, 10), Family { root: job_id(9), members: Vec::new() });
}

pub fn a_taken_key_is_a_conflict(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let submit = |store: &mut dyn Store, n: u64, name: &str| {
        let (_, mut batch) = Life::draft(n, &plain(), after(n));
        batch.idempotency.push(key(name, n));
        commit(store, &batch).conflicts
    };
    assert_eq!(submit(store, 1, "deploy"), BTreeSet::new());
    assert_eq!(submit(store, 2, "deploy"), BTreeSet::from([job_id(2)]));
    assert_eq!(submit(store, 3, "other"), BTreeSet::new());
    assert_eq!(store.load_job(job_id(2)).expect("a read"), None);
    let reader = store.reader();
    assert_eq!(reader.idempotency(id(900), "deploy").expect("a read"), Some(key("deploy", 1)));
    assert_eq!(reader.idempotency(id(901), "deploy").expect("a read"), None, "keys of other users are others");

    // Two at once, in one batch: the first wins there too.
    let (_, mut both) = Life::draft(4, &plain(), after(4));
    let (_, fifth) = Life::draft(5, &plain(), after(5));
    both.jobs.extend(fifth.jobs);
    both.steps.extend(fifth.steps);
    both.events.extend(fifth.events);
    both.idempotency = vec![key("race", 4), key("race", 5)];
    assert_eq!(commit(store, &both).conflicts, BTreeSet::from([job_id(5)]));
    assert_eq!(reader.idempotency(id(900), "race").expect("a read"), Some(key("race", 4)));
}

pub fn committed_work_survives_a_crash(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let mut life = Life::submit(&mut *store, 1, &plain());
    life.start(&mut *store, FIRST, 1, 1);
    let log = LogAppend {
        attempt: attempt_id(1),
        first_seq: 1,
        last_seq: 2,
        blocks: vec![1, 2],
        missing: 0,
        complete: false,
    };
    commit(&mut *store, &Batch { logs: vec![log], ..Batch::default() });
    let events = store.reader().events(None, 0, 100).expect("a read");
    fixture.crash(store);

    let store = &mut *fixture.open();
    life.assert_stored(store);
    let reader = store.reader();
    assert_eq!(reader.events(None, 0, 100).expect("a read"), events);
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read").last_seq, 2);
    assert_eq!(store.held().expect("a read"), [(job_id(1), FIRST)]);
    life.apply(store, &Event::Cancel { by: "eve".to_owned(), force: true });
    life.assert_stored(store);
}

fn task_of_all_states() -> Arc<engine::definition::Definition> {
    let env = BTreeMap::from([("A".to_owned(), "{{ input.n }}".to_owned())]);
    let program = Program::Script { shell: vec!["bash".to_owned(), "-e".to_owned()], text: "echo\n".to_owned() };
    let keep = KeepRule { paths: vec!["out/*".to_owned()], when: KeepWhen::Always, optional: true };
    let cleanup = Some(Program::Command { argv: vec!["./undo".to_owned(), "{{ input.n }}".to_owned()] });
    let (workdir, artifacts) = (Some("repo".to_owned()), Some(keep));
    let body = RunBody { program, env, workdir, artifacts, cleanup, templated: true };
    let slowly = RetryPolicy { attempts: 2, delay: Duration::from_secs(3600), ..RetryPolicy::default() };
    task(
        "all",
        vec![
            needs(step("pending"), StepIx(1)),
            step("queued"),
            step("offered"),
            step("running"),
            step("recovering"),
            StepDef { timeout: Some(Duration::from_secs(5)), ..step("cancelling") },
            StepDef { protection: Protection { reviewers: 2, ..Protection::default() }, ..approval("held") },
            StepDef { retry: slowly, ..step("waiting") },
            step("success"),
            StepDef { allow_failure: true, ..step("failed") },
            approval("cancelled"),
            StepDef { condition: Condition::Expression(Arc::from("false")), ..step("skipped") },
            needs(step("skipped after a failure"), StepIx(10)),
            StepDef { work: Work::Run(Arc::new(body)), ..step("rendered") },
            fan_out("each", 3),
            needs(fan_out("unlisted", 3), StepIx(1)),
        ],
    )
}

/// A job that the engine itself brought into this state.
pub(super) fn job_in(store: &mut dyn Store, n: u64, state: JobState) -> Life {
    let definition = match state {
        JobState::Held => task("gate", vec![approval("only")]),
        _ => plain(),
    };
    let mut life = Life::submit(store, n, &definition);
    match state {
        JobState::Pending | JobState::Held => {}
        JobState::Running => drop(life.start(store, FIRST, n, 1)),
        JobState::Recovering => {
            let ticket = life.start(store, FIRST, n, 1);
            life.lose_link(store, ticket);
        }
        JobState::Cancelling => {
            life.start(store, FIRST, n, 1);
            life.apply(store, &Event::Cancel { by: "eve".to_owned(), force: false });
        }
        JobState::Success => life.run_to_end(store, n, 0),
        JobState::Failed => life.run_to_end(store, n, 1),
        JobState::Cancelled => life.apply(store, &Event::Cancel { by: "eve".to_owned(), force: false }),
    }
    assert_eq!(life.job.header.state, state, "the case itself reaches the state");
    life
}

fn outbox(n: u64, job: u64) -> OutboxRow {
    OutboxRow { id: id(n), job: job_id(job), kind: "webhook", body: "{}".to_owned(), created_at: after(1) }
}

pub(super) fn key(name: &str, job: u64) -> IdempotencyRow {
    let (key, token) = (name.to_owned(), id(900));
    IdempotencyRow { key, token, request_hash: [9; 32], job: job_id(job), created_at: after(job) }
}

fn quarantine(job: u64) -> QuarantineRow {
    QuarantineRow { job: Some(job_id(job)), at: after(1), event: "{}".to_owned(), error: "boom".to_owned() }
}

fn assert_refused(store: &mut dyn Store, batch: &Batch) {
    let error = store.commit(batch).expect_err("a batch that cannot be carried out");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}
