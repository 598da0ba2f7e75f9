//! Figures for operators, in the Prometheus text format at `/metrics`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use store::read::OutboxCounts;
use store::{Batch, TriggerWrite};

use crate::artifacts::Stored;
use crate::retention::Progress;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub jobs_submitted: Counter,
    pub jobs_finished: Counter,
    pub attempts_written: Counter,
    pub log_bytes: Counter,
    pub commits: Counter,
    pub commit_retries: Counter,
    pub quarantined: Counter,
    pub stale: Counter,
    pub sweeps: Counter,
    pub sweep_failures: Counter,
    /// When the last sweep was, in milliseconds since the epoch, and how long its round took; 0 before the first.
    pub last_sweep_ms: Gauge,
    pub sweep_took_ms: Gauge,
    pub log_frames_dropped: Counter,
    pub deaf_ms: Counter,
    pub unsettled: Counter,
    pub silent_links: Counter,
    pub duplicate_identities: Counter,
    pub mass_losses: Counter,
    pub strangers: Counter,
    pub amnesia: Counter,
    pub undeliverable: Counter,
    /// Words to the outside, as of the last look at the figures.
    pub outbox_waiting: Gauge,
    pub outbox_dead: Gauge,
    pub triggers_fired: Counter,
    pub triggers_missed: Counter,
    pub jobs_deleted: Counter,
    pub log_lines_deleted: Counter,
    pub log_bytes_deleted: Counter,
    pub workers_deleted: Counter,
    /// When the last run of retention ended, in milliseconds since the epoch; 0 before the first.
    pub last_retention_ms: Gauge,
    pub retention_failures: Counter,
    /// How far retention has got.
    pub retention: Mutex<Progress>,
    /// The ledger is not sure of its rows: nothing is to be deleted by what they say.
    in_doubt: AtomicBool,
    pub slots_in_doubt: Gauge,
    pub notices: Counter,
    /// Of stored sets of artifacts, and those that are coming; asked of the depot when somebody looks.
    pub artifact_bytes: Gauge,
    pub artifact_sets: Gauge,
    pub artifacts_refused: Counter,
    pub queued: Gauge,
    pub connected: Gauge,
    pub batch_rows: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("bowline");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let jobs_submitted = counter("jobs_submitted", "Jobs that were accepted");
        let jobs_finished = counter("jobs_finished", "Jobs that became final");
        let attempts_written = counter("attempt_changes", "Changes of attempts that were committed");
        let log_bytes = counter("log_bytes", "Bytes of log blocks that were stored");
        let commits = counter("ledger_commits", "Transactions of the ledger");
        let commit_retries = counter("ledger_commit_retries", "Transactions that had to wait for the database");
        let quarantined = counter("ledger_quarantined", "Events that could not be handled and were set aside");
        let stale = counter("stale_dispatch", "Messages from attempts that were no longer current");
        let log_frames_dropped =
            counter("log_frames_dropped", "Log frames that found no room and had to be sent again");
        let deaf_ms = counter("deaf_milliseconds", "Time in which nobody could be heard, and nobody is judged for");
        let unsettled = counter("unsettled_alarms", "Times that silence was judged without a long stretch of hearing");
        let silent_links = counter("silent_links", "Links that were dropped for want of heartbeats");
        let duplicate_identities =
            counter("duplicate_identities", "Workers that were refused since another uses their identity");
        let mass_losses = counter("mass_losses", "Times that most workers were lost at once");
        let strangers = counter("unknown_attempts", "Attempts that workers have and the database does not know");
        let amnesia = counter("lost_commits", "Times that commits were found to be lost");
        let undeliverable = counter("undeliverable", "Words to the outside that were never taken and are given up");
        let jobs_deleted = counter("jobs_deleted", "Jobs that retention deleted");
        let log_lines_deleted = counter("log_lines_deleted", "Lines of logs that retention deleted");
        let log_bytes_deleted = counter("log_bytes_deleted", "Bytes of logs that retention deleted");
        let workers_deleted = counter("workers_deleted", "Workers that retention deleted");
        let retention_failures = counter("retention_failures", "Steps of retention that failed and are tried again");
        let triggers_fired = counter("triggers_fired", "Jobs that triggers made, by time or by a call");
        let triggers_missed = counter("triggers_missed", "Times of triggers that passed without a job of their own");
        let notices = counter("notices", "Notices that something takes too long, or did not happen");
        let artifacts_refused = counter("artifacts_refused", "Sets of artifacts that were refused for a quota");
        let sweeps = counter("sweeps", "Sweeps over everything that is open");
        let sweep_failures = counter("sweep_failures", "Phases of sweeps that failed and are tried again");
        let last_sweep_ms = Gauge::default();
        registry.register("last_sweep_ms", "When the last sweep was, in Unix milliseconds", last_sweep_ms.clone());
        let last_retention_ms = Gauge::default();
        registry.register(
            "last_retention_ms",
            "When the last run of retention ended, in Unix milliseconds",
            last_retention_ms.clone(),
        );
        let sweep_took_ms = Gauge::default();
        registry.register("sweep_took_ms", "How long the last sweep took, with its commit", sweep_took_ms.clone());
        let slots_in_doubt = Gauge::default();
        registry.register(
            "slots_in_doubt",
            "Jobs that are over and hold a concurrency slot by an attempt that may still run",
            slots_in_doubt.clone(),
        );
        let artifact_bytes = Gauge::default();
        registry.register("artifact_bytes", "Bytes of artifacts that are stored", artifact_bytes.clone());
        let artifact_sets = Gauge::default();
        registry.register("artifact_sets", "Sets of artifacts that are stored", artifact_sets.clone());
        let outbox_waiting = Gauge::default();
        registry.register(
            "outbox_waiting",
            "Webhooks and mails that are still to be delivered",
            outbox_waiting.clone(),
        );
        let outbox_dead = Gauge::default();
        registry.register(
            "outbox_dead",
            "Webhooks and mails that were given up; `bowline outbox`",
            outbox_dead.clone(),
        );
        let queued = Gauge::default();
        registry.register("steps_queued", "Steps that wait for a worker", queued.clone());
        let connected = Gauge::default();
        registry.register("workers_connected", "Workers with a link to this server", connected.clone());
        let batch_rows = Histogram::new(exponential_buckets(1.0, 2.0, 14));
        registry.register(
            "ledger_batch_rows",
            "Rows of jobs, steps and attempts in one transaction",
            batch_rows.clone(),
        );
        Metrics {
            registry,
            jobs_submitted,
            jobs_finished,
            attempts_written,
            log_bytes,
            commits,
            commit_retries,
            quarantined,
            stale,
            sweeps,
            sweep_failures,
            last_sweep_ms,
            sweep_took_ms,
            log_frames_dropped,
            deaf_ms,
            unsettled,
            silent_links,
            duplicate_identities,
            mass_losses,
            strangers,
            amnesia,
            undeliverable,
            outbox_waiting,
            outbox_dead,
            triggers_fired,
            triggers_missed,
            jobs_deleted,
            log_lines_deleted,
            log_bytes_deleted,
            workers_deleted,
            last_retention_ms,
            retention_failures,
            retention: Mutex::default(),
            in_doubt: AtomicBool::default(),
            slots_in_doubt,
            notices,
            artifact_bytes,
            artifact_sets,
            artifacts_refused,
            queued,
            connected,
            batch_rows,
        }
    }
}

impl Metrics {
    pub fn committed(&self, batch: &Batch, finished: usize) {
        if batch.is_empty() {
            return;
        }
        self.commits.inc();
        self.jobs_submitted.inc_by(batch.jobs.iter().filter(|j| j.expected.is_none()).count() as u64);
        self.jobs_finished.inc_by(finished as u64);
        self.attempts_written.inc_by(batch.attempts.len() as u64);
        self.notices.inc_by(batch.events.iter().filter(|event| event.kind == "notice").count() as u64);
        let fired = |write: &&TriggerWrite| write.row.last_job.is_some_and(|job| write.jobs.contains(&job));
        self.triggers_fired.inc_by(batch.triggers.iter().filter(fired).count() as u64);
        self.quarantined.inc_by(batch.quarantine.len() as u64);
        self.log_bytes.inc_by(batch.logs.iter().map(|l| l.blocks.len() as u64).sum());
        self.batch_rows.observe((batch.jobs.len() + batch.steps.len() + batch.attempts.len()) as f64);
    }

    /// What the depot holds at this moment.
    pub fn depot(&self, stored: Stored) {
        self.artifact_bytes.set(i64::try_from(stored.bytes).unwrap_or(i64::MAX));
        self.artifact_sets.set(i64::try_from(stored.sets).unwrap_or(i64::MAX));
    }

    /// What is in the outbox now.
    pub fn outbox(&self, counts: OutboxCounts) {
        self.outbox_waiting.set(i64::try_from(counts.waiting).unwrap_or(i64::MAX));
        self.outbox_dead.set(i64::try_from(counts.dead).unwrap_or(i64::MAX));
    }

    /// How far retention has got.
    pub fn retention(&self) -> Progress {
        // A panic while it was held cannot have left it half-changed.
        *self.retention.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    pub fn set_in_doubt(&self, in_doubt: bool) {
        self.in_doubt.store(in_doubt, Ordering::Relaxed);
    }

    /// A step of retention has got this far.
    pub fn retained(&self, progress: Progress) {
        let before = std::mem::replace(&mut *self.retention.lock().unwrap_or_else(PoisonError::into_inner), progress);
        let before = if before.started_at == progress.started_at { before.tally } else { Default::default() };
        self.jobs_deleted.inc_by(progress.tally.jobs.saturating_sub(before.jobs));
        self.log_lines_deleted.inc_by(progress.tally.log_lines.saturating_sub(before.log_lines));
        self.log_bytes_deleted.inc_by(progress.tally.log_bytes.saturating_sub(before.log_bytes));
        self.workers_deleted.inc_by(progress.tally.workers.saturating_sub(before.workers));
        if let Some(at) = progress.ended_at {
            self.last_retention_ms.set(at.millis());
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
