//! Jobs for the cases, made by the engine itself, and saved as the ledger saves them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::attempt::{Cleanup, CleanupCut, Loss, Outcome, Report, Usage};
use engine::deadline::Rules;
use engine::definition::{
    Concurrency, Condition, Definition, DefinitionParts, Effects, Ends, FanOut, Items, Need, OnDisconnect, Patience,
    Program, Protection, RunBody, StepDef, StopPolicy, WhenFull, Work,
};
use engine::eval::{Evaluator, Scope};
use engine::event::Ticket;
use engine::retry::RetryPolicy;
use engine::{AttemptId, Changes, Clocks, Ctx, Epoch, Event, Fence, Job, JobId, StepIx, Time, WorkerId};
use uuid::Uuid;

use crate::codec::{self, JobMeta};
use crate::rows::DefinitionRow;
use crate::{Batch, Committed, JobWrite, Store};

pub(super) const T0: Time = Time(1_780_000_000_000_000);

pub(super) const FIRST: StepIx = StepIx(0);

/// Ids in the order of their numbers, as ids made in that order would be.
pub(super) fn job_id(n: u64) -> JobId {
    JobId(id(n))
}

pub(super) fn attempt_id(n: u64) -> AttemptId {
    AttemptId(id(0x1_0000 + n))
}

pub(super) fn worker_id(n: u64) -> WorkerId {
    WorkerId(id(0x2_0000 + n))
}

pub(super) fn id(n: u64) -> Uuid {
    Uuid::from_u64_pair((0x0190_0000_0000 + n) << 16 | 0x7000, 0x8000_0000_0000_0000 | n)
}

pub(super) fn after(seconds: u64) -> Time {
    T0 + Duration::from_secs(seconds)
}

/// A job as one server knows it: every change is applied, committed, and only then believed.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) job: Job,
    pub(super) meta: JobMeta,
    pub(super) now: Time,
}

impl Life {
    pub(super) fn submit(store: &mut dyn Store, n: u64, definition: &Arc<Definition>) -> Life {
        let (life, batch) = Life::draft(n, definition, after(n));
        life.saved(store, &batch);
        life
    }

    /// A job that another server stored.
    pub(super) fn read(store: &mut dyn Store, n: u64, definition: &Arc<Definition>) -> Life {
        let stored = store.load_job(job_id(n)).expect("a read").expect("the job");
        let (job, meta) = codec::load(&stored, definition.clone()).expect("rows that can be understood");
        Life { job, meta, now: after(n) }
    }

    /// A new job and the batch that would store it.
    pub(super) fn draft(n: u64, definition: &Arc<Definition>, now: Time) -> (Life, Batch) {
        let input = serde_json::json!({ "n": n, "text": "æøå \u{1F6A2}" });
        let meta = JobMeta { definition: definition_row(definition).hash, input: Arc::from(input.to_string()) };
        let (by, rules) = (Arc::from("ada"), Rules::default());
        let group = engine::group_of(definition, &input, job_id(n), &Literal).expect("a group with a name");
        let (definition_of, input) = (definition.clone(), Arc::new(input));
        let (job, changes) = engine::submit(job_id(n), definition_of, input, group, by, &ctx(now, &rules));
        let mut batch = Batch { now, definitions: vec![definition_row(definition)], ..Batch::default() };
        let life = Life { job, meta, now };
        life.write(&mut batch, &changes, None);
        (life, batch)
    }

    /// One event, committed.
    pub(super) fn apply(&mut self, store: &mut dyn Store, event: &Event) {
        let (changes, batch) = self.change(event);
        self.saved(store, &batch);
        self.job.absorb(&changes);
    }

    /// What an event would change, and the batch that would save it; the job itself stays.
    pub(super) fn change(&mut self, event: &Event) -> (Changes, Batch) {
        self.now = self.now + Duration::from_millis(1);
        self.try_change(event).expect("a legal event")
    }

    /// The same, now, and none where the job is in no state for it.
    pub(super) fn try_change(&self, event: &Event) -> Option<(Changes, Batch)> {
        let changes = engine::apply(&self.job, event, &ctx(self.now, &Rules::default())).ok()?;
        let mut batch = Batch { now: self.now, ..Batch::default() };
        self.write(&mut batch, &changes, Some(self.job.header.version));
        Some((changes, batch))
    }

    pub(super) fn offer(&mut self, store: &mut dyn Store, ix: StepIx, attempt: u64, worker: u64) -> Ticket {
        let ticket = Ticket { step: ix, attempt: attempt_id(attempt), fence: Fence(attempt) };
        self.apply(store, &Event::Offer { ticket, worker: worker_id(worker), epoch: Epoch(1) });
        ticket
    }

    pub(super) fn start(&mut self, store: &mut dyn Store, ix: StepIx, attempt: u64, worker: u64) -> Ticket {
        let ticket = self.offer(store, ix, attempt, worker);
        self.apply(store, &Event::Accepted { ticket, epoch: Epoch(1) });
        ticket
    }

    pub(super) fn end(&mut self, store: &mut dyn Store, ticket: Ticket, exit_code: i32) {
        self.apply(store, &Event::Ended { ticket, report: report(exit_code) });
    }

    pub(super) fn run_to_end(&mut self, store: &mut dyn Store, attempt: u64, exit_code: i32) {
        let ticket = self.start(store, FIRST, attempt, 1);
        self.end(store, ticket, exit_code);
    }

    pub(super) fn lose_link(&mut self, store: &mut dyn Store, ticket: Ticket) {
        self.apply(store, &Event::LinkLost { ticket, epoch: Epoch(1) });
    }

    pub(super) fn lose(&mut self, store: &mut dyn Store, ticket: Ticket) {
        self.apply(store, &Event::Gone { ticket, epoch: Epoch(1), loss: Loss::RunnerLost });
    }

    fn saved(&self, store: &mut dyn Store, batch: &Batch) {
        let committed = store.commit(batch).expect("a good batch");
        assert!(committed.conflicts.is_empty(), "nobody else writes job {}", self.job.id);
        assert!(committed.event_ids.iter().all(Option::is_some));
        assert_eq!(committed.event_ids.len(), batch.events.len());
    }

    fn write(&self, batch: &mut Batch, changes: &Changes, expected: Option<u64>) {
        let mut next = self.job.clone();
        next.absorb(changes);
        batch.jobs.push(JobWrite { row: codec::job_row(&next, &self.meta), expected });
        for (ix, step) in &changes.steps {
            let name = &next.name(*ix);
            batch.steps.push(codec::step_row(next.id, *ix, name, step));
        }
        batch.attempts.extend(changes.attempts.iter().map(|a| codec::attempt_row(next.id, a)));
        batch.events.extend(changes.notes.iter().map(|note| codec::event_row(next.id, note)));
    }

    /// Writer and reader both give the job back just as it is here.
    pub(super) fn assert_stored(&self, store: &mut dyn Store) {
        let written = store.load_job(self.job.id).expect("a read").expect("the job");
        let read = store.reader().job(self.job.id).expect("a read").expect("the job");
        assert_eq!(written, read);
        assert_eq!(written.definition, definition_row(&self.job.definition));
        let (job, meta) = codec::load(&written, self.job.definition.clone()).expect("rows that can be understood");
        assert_eq!(job.header, self.job.header);
        assert_eq!(job.steps, self.job.steps);
        assert_eq!((job.id, job.parent, job.created_at), (self.job.id, self.job.parent, self.job.created_at));
        assert_eq!((&job.input, &job.submitted_by), (&self.job.input, &self.job.submitted_by));
        assert_eq!((meta.definition, &meta.input), (self.meta.definition, &self.meta.input));
    }
}

pub(super) fn commit(store: &mut dyn Store, batch: &Batch) -> Committed {
    store.commit(batch).expect("a good batch")
}

pub(super) fn task(name: &str, steps: Vec<StepDef>) -> Arc<Definition> {
    let expires = Some(Duration::from_secs(86_400));
    let (name, hooks) = (Arc::from(name), Vec::new());
    let parts =
        DefinitionParts { name, timeout: None, expires, expect: None, priority: 3, concurrency: None, hooks, steps };
    Arc::new(Definition::new(parts).expect("a graph without faults"))
}

/// A task of one plain step, of which one job runs at once.
pub(super) fn grouped(group: &str, priority: i32) -> Arc<Definition> {
    let concurrency = Concurrency { group: Arc::from(group), templated: false, limit: 1, when_full: WhenFull::Queue };
    let parts = DefinitionParts {
        name: Arc::from(format!("{group} {priority}")),
        timeout: None,
        expires: None,
        expect: None,
        priority,
        concurrency: Some(concurrency),
        hooks: Vec::new(),
        steps: vec![step("only")],
    };
    Arc::new(Definition::new(parts).expect("a graph without faults"))
}

/// A task of one plain step.
pub(super) fn plain() -> Arc<Definition> {
    task("plain", vec![step("only")])
}

pub(super) fn step(name: &str) -> StepDef {
    let program = Program::Command { argv: vec!["true".to_owned()] };
    StepDef {
        name: Arc::from(name),
        needs: Vec::new(),
        condition: Condition::Success,
        uses: Vec::new(),
        work: Work::Run(Arc::new(RunBody {
            program,
            env: BTreeMap::new(),
            workdir: None,
            artifacts: None,
            cleanup: None,
            templated: false,
        })),
        fan_out: None,
        tags: vec![Arc::from("script")],
        effects: Effects::Writes,
        on_disconnect: OnDisconnect::Keep,
        timeout: None,
        expect: None,
        retry: RetryPolicy::default(),
        unmatched: Patience::Default,
        allow_failure: false,
        stop: StopPolicy { signal: 15, grace: Duration::from_secs(10), cleanup: Duration::from_secs(30) },
        secrets: Vec::new(),
        protection: Protection::default(),
        fetch: Vec::new(),
    }
}

pub(super) fn needs(mut step: StepDef, other: StepIx) -> StepDef {
    step.needs.push(Need { step: other, on: Ends::SUCCESS });
    step
}

/// A step that is done so often, one after the other.
pub(super) fn fan_out(name: &str, count: u64) -> StepDef {
    let items = Items::List(Arc::new((0..count).map(serde_json::Value::from).collect()));
    StepDef { fan_out: Some(FanOut { items, max_parallel: Some(1), fail_fast: false }), ..step(name) }
}

pub(super) fn approval(name: &str) -> StepDef {
    StepDef { work: Work::Approve, ..step(name) }
}

pub(super) fn definition_row(definition: &Definition) -> DefinitionRow {
    let name = definition.name.replace(' ', "-");
    let source = format!("name: {name}\nsteps: {{ a: {{ run: 'true' }} }}\n");
    DefinitionRow { hash: *blake3::hash(source.as_bytes()).as_bytes(), source, settings: "{}".to_owned() }
}

pub(super) fn report(exit_code: i32) -> Report {
    Report {
        outcome: Outcome::Exited(exit_code),
        stopped: None,
        output: serde_json::json!({ "sha": "c0ffee", "nested": [1, null, "two"] }),
        output_error: None,
        artifacts: None,
        usage: Usage { duration_ms: Some(1_234), cpu_ms: 12, memory_bytes_max: 34_567_890 },
        cleanup: Some(cleaned_up()),
    }
}

pub(super) fn cleaned_up() -> Cleanup {
    Cleanup { outcome: Outcome::Signaled { signal: 9, oom: false }, cut: Some(CleanupCut::Budget), duration_ms: 30_000 }
}

fn ctx(now: Time, rules: &Rules) -> Ctx<'_> {
    let Clocks { heard, verdicts_from, .. } = Clocks::never_deaf(now);
    Ctx { now, heard, verdicts_from, random: 7, rules, workers: &(), evaluator: &Literal }
}

/// Conditions are `true` or anything else, and templates stand for themselves.
struct Literal;

impl Evaluator for Literal {
    fn holds(&self, expression: &str, _: &StepDef, _: &Scope<'_>) -> Result<bool, String> {
        Ok(expression == "true")
    }

    fn render(&self, body: &RunBody, _: &StepDef, _: &Scope<'_>) -> Result<RunBody, String> {
        Ok(RunBody { templated: false, ..body.clone() })
    }

    fn fill(&self, with: &serde_json::Value, _: &[StepIx], _: &Scope<'_>) -> Result<serde_json::Value, String> {
        Ok(with.clone())
    }

    fn items(&self, items: &Items, _: &StepDef, _: &Scope<'_>) -> Result<Vec<serde_json::Value>, String> {
        match items {
            Items::List(list) => Ok(list.to_vec()),
            Items::Text(_) | Items::Matrix(_) => Err("only lists are known here".to_owned()),
        }
    }
}
