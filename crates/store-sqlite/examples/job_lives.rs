//! How fast batches of whole job lives go into a file: `cargo run --release -p store-sqlite --example job_lives`.
//!
//! Every job is submitted, offered, started and ended by the engine; only the commits are timed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::attempt::{Outcome, Report, Usage};
use engine::deadline::Rules;
use engine::definition::{
    Condition, Definition, DefinitionParts, Effects, Items, OnDisconnect, Patience, Program, Protection, RunBody,
    StepDef, StopPolicy, Work,
};
use engine::eval::{Evaluator, Scope};
use engine::event::Ticket;
use engine::retry::RetryPolicy;
use engine::{AttemptId, Changes, Ctx, Epoch, Event, Fence, Heard, Job, JobId, StepIx, Time, WorkerId};
use store::codec::{self, JobMeta};
use store::rows::DefinitionRow;
use store::{Batch, JobWrite, LogAppend, Store};
use store_sqlite::SqliteStore;
use uuid::Uuid;

const JOBS: usize = 40_000;
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS: usize = 8_000;

fn main() {
    // A folder on another disk, or in memory, may be named to tell the disk's share from ours.
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, std::path::PathBuf::from);
    let folder = tempfile::tempdir_in(base).expect("a folder");
    println!(
        "{:>10} {:>12} {:>12} {:>12} {:>10} {:>10}",
        "batch", "jobs/s", "rows/s", "cpu us/job", "p99 ms", "max ms"
    );
    for size in [1, 10, 50, 100, 200] {
        let jobs = if size == 1 { JOBS / 20 } else { JOBS };
        lives(&folder.path().join(format!("{size}.db")), size, jobs);
    }
    logs(&folder.path().join("logs.db"));
}

fn lives(path: &Path, size: usize, jobs: usize) {
    let mut store = SqliteStore::open(path).expect("a database");
    let mut bench = Bench::new();
    let (mut rows, mut times, mut cpu) = (0, Vec::new(), Duration::ZERO);
    for _ in 0..jobs / size {
        for batch in bench.lives(size) {
            rows += batch.jobs.len() + batch.steps.len() + batch.attempts.len() + batch.events.len() + batch.logs.len();
            let (start, cpu_start) = (Instant::now(), cpu_time());
            let committed = store.commit(&batch).expect("a good batch");
            times.push(start.elapsed());
            cpu += cpu_time() - cpu_start;
            assert!(committed.conflicts.is_empty());
        }
    }
    let total: Duration = times.iter().sum();
    let per_second = |count: usize| count as f64 / total.as_secs_f64();
    let (p99, max) = tail(&mut times);
    let (jobs_rate, rows_rate) = (per_second(jobs), per_second(rows));
    let cpu = cpu.as_secs_f64() * 1e6 / jobs as f64;
    println!("{size:>10} {jobs_rate:>12.0} {rows_rate:>12.0} {cpu:>12.1} {p99:>10.2} {max:>10.2}");
}

fn logs(path: &Path) {
    let mut store = SqliteStore::open(path).expect("a database");
    let (mut times, attempt) = (Vec::new(), AttemptId(Uuid::from_u128(1)));
    for first in (0..CHUNKS as u64).map(|n| 1 + n * 300) {
        let blocks = vec![b'x'; CHUNK_BYTES];
        let append =
            LogAppend { attempt, first_seq: first, last_seq: first + 299, blocks, missing: 0, complete: false };
        let start = Instant::now();
        store.commit(&Batch { logs: vec![append], ..Batch::default() }).expect("a good batch");
        times.push(start.elapsed());
    }
    let total: Duration = times.iter().sum();
    let rate = (CHUNKS * CHUNK_BYTES) as f64 / 1e6 / total.as_secs_f64();
    let (p99, max) = tail(&mut times);
    println!("logs, a 64 KiB chunk per commit: {rate:.0} MB/s, p99 {p99:.2} ms, max {max:.2} ms");
}

/// What this thread has used: it does not care who else is busy on the machine.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn tail(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let millis = |d: Duration| d.as_secs_f64() * 1e3;
    (millis(times[times.len() * 99 / 100]), millis(times[times.len() - 1]))
}

struct Bench {
    definition: Arc<Definition>,
    meta: JobMeta,
    next: u64,
}

impl Bench {
    fn new() -> Bench {
        let program = Program::Command { argv: vec!["true".to_owned()] };
        let step = StepDef {
            name: Arc::from("run"),
            needs: Vec::new(),
            condition: Condition::Success,
            uses: Vec::new(),
            fan_out: None,
            work: Work::Run(Arc::new(RunBody {
                program,
                env: BTreeMap::new(),
                workdir: None,
                artifacts: None,
                cleanup: None,
                templated: false,
            })),
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
        };
        let parts = DefinitionParts {
            name: Arc::from("noop"),
            timeout: None,
            expires: None,
            expect: None,
            priority: 0,
            concurrency: None,
            hooks: Vec::new(),
            steps: vec![step],
        };
        let definition = Arc::new(Definition::new(parts).expect("a graph without faults"));
        let meta = JobMeta { definition: [7; 32], input: Arc::from("{}") };
        Bench { definition, meta, next: 0 }
    }

    /// The batches of `count` jobs that live side by side: submit, offer, start, end.
    fn lives(&mut self, count: usize) -> [Batch; 4] {
        let mut batches: [Batch; 4] = Default::default();
        for _ in 0..count {
            self.next += 1;
            self.life(self.next, &mut batches);
        }
        let [first, ..] = &mut batches;
        let (source, settings) = ("name: noop\n".to_owned(), "{}".to_owned());
        first.definitions.push(DefinitionRow { hash: [7; 32], source, settings });
        batches
    }

    fn life(&self, n: u64, batches: &mut [Batch; 4]) {
        let [submit, offer, accept, end] = batches;
        let now = Time(1_780_000_000_000_000 + i64::try_from(n).unwrap_or(0));
        let rules = Rules::default();
        let (heard, verdicts_from) = (Heard(now.0), Heard::MIN);
        let ctx = Ctx { now, heard, verdicts_from, random: n, rules: &rules, workers: &(), evaluator: &Nothing };
        let input = Arc::new(serde_json::json!({}));
        let (mut job, changes) =
            engine::submit(JobId(id(n, 1)), self.definition.clone(), input, None, Arc::from("admin"), &ctx);
        self.write(submit, &job, &changes, None);
        let ticket = Ticket { step: StepIx(0), attempt: AttemptId(id(n, 2)), fence: Fence(n) };
        let (worker, epoch) = (WorkerId(id(n % 8, 3)), Epoch(1));
        let report = Report {
            outcome: Outcome::Exited(0),
            stopped: None,
            output: serde_json::Value::Null,
            output_error: None,
            artifacts: None,
            usage: Usage { duration_ms: Some(2), cpu_ms: 1, memory_bytes_max: 1 << 20 },
            cleanup: None,
        };
        let events = [
            (offer, Event::Offer { ticket, worker, epoch }),
            (accept, Event::Accepted { ticket, epoch }),
            (end, Event::Ended { ticket, report }),
        ];
        for (batch, event) in events {
            let expected = job.header.version;
            let changes = engine::apply(&job, &event, &ctx).expect("a legal event");
            job.absorb(&changes);
            self.write(batch, &job, &changes, Some(expected));
        }
        let [.., end] = batches;
        let attempt = ticket.attempt;
        end.logs.push(LogAppend { attempt, first_seq: 1, last_seq: 0, blocks: Vec::new(), missing: 0, complete: true });
    }

    fn write(&self, batch: &mut Batch, job: &Job, changes: &Changes, expected: Option<u64>) {
        batch.jobs.push(JobWrite { row: codec::job_row(job, &self.meta), expected });
        batch.steps.extend(changes.steps.iter().map(|(ix, step)| codec::step_row(job.id, *ix, "run", step)));
        batch.attempts.extend(changes.attempts.iter().map(|a| codec::attempt_row(job.id, a)));
        batch.events.extend(changes.notes.iter().map(|note| codec::event_row(job.id, note)));
    }
}

/// In the order of `n`, as ids made one after the other are.
fn id(n: u64, kind: u64) -> Uuid {
    Uuid::from_u64_pair((0x0190_0000_0000 + n) << 16 | 0x7000, 0x8000_0000_0000_0000 | n << 4 | kind)
}

struct Nothing;

impl Evaluator for Nothing {
    fn holds(&self, _: &str, _: &StepDef, _: &Scope<'_>) -> Result<bool, String> {
        Ok(true)
    }

    fn render(&self, body: &RunBody, _: &StepDef, _: &Scope<'_>) -> Result<RunBody, String> {
        Ok(body.clone())
    }

    fn fill(&self, with: &serde_json::Value, _: &[StepIx], _: &Scope<'_>) -> Result<serde_json::Value, String> {
        Ok(with.clone())
    }

    fn items(&self, _: &Items, _: &StepDef, _: &Scope<'_>) -> Result<Vec<serde_json::Value>, String> {
        Ok(Vec::new())
    }
}
