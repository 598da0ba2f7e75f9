//! What a store says of rows that may be old enough to go, and what became of those that went.
//!
//! A job goes in two steps. [`Store::doom`](crate::Store::doom) takes its header off the record, and from then on there is no
//! such job, for anybody. What is left of it (steps, attempts, events, logs) is taken away piece by piece by
//! [`Store::clear_doomed`](crate::Store::clear_doomed): a job can have more rows than one transaction should delete, and
//! whoever dies in between leaves a row that says what is still to do.

use std::time::Duration;

use engine::{AttemptId, JobId, Time};

/// A job of the past, with all that may speak against its going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldJob {
    pub id: JobId,
    pub version: u64,
    /// It is not over.
    pub open: bool,
    pub ended_at: Option<Time>,
    /// The last thing in its history; evidence may come long after its end.
    pub last_event_at: Option<Time>,
    /// An attempt of it was given up without proof that nothing of it runs.
    pub in_doubt: bool,
    /// Lines of one of its logs are still waited for.
    pub log_open: bool,
    /// Somebody outside is still to hear of it.
    pub undelivered: bool,
    /// The job that it goes on for, while that is on record.
    pub continues: Option<JobId>,
    /// A job that goes on in its line is not over.
    pub carried_on: bool,
}

/// A log with lines, of an attempt that is on record or once was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldLog {
    pub attempt: AttemptId,
    /// None where nobody knows the attempt any more.
    pub job: Option<JobId>,
    /// When its job ended; none while it has not.
    pub ended_at: Option<Time>,
    /// Nothing more is waited for.
    pub complete: bool,
}

/// Rows that are gone, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    pub steps: u64,
    pub attempts: u64,
    pub events: u64,
    pub log_lines: u64,
    pub log_bytes: u64,
    /// There is more of the same to take away.
    pub more: bool,
}

impl Cleared {
    pub fn add(&mut self, other: Cleared) {
        self.steps += other.steps;
        self.attempts += other.attempts;
        self.events += other.events;
        self.log_lines += other.log_lines;
        self.log_bytes += other.log_bytes;
        self.more = other.more;
    }
}

/// Rows that belong to no job on record, and are gone, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strays {
    /// Words to the outside: of what a trigger had to say there never was a job.
    pub words: u64,
    /// Events that were set aside.
    pub quarantined: u64,
    /// There may be more to take away.
    pub more: bool,
}

/// How much one transaction takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub rows: usize,
    /// Of stored log; at least one chunk goes.
    pub log_bytes: u64,
}

impl Piece {
    /// What is left of it after so much has gone.
    #[must_use]
    pub fn less(self, rows: usize, log_bytes: u64) -> Piece {
        Piece { rows: self.rows.saturating_sub(rows), log_bytes: self.log_bytes.saturating_sub(log_bytes) }
    }

    pub fn is_used_up(self) -> bool {
        self.rows == 0 || self.log_bytes == 0
    }
}

/// That there was a worker is remembered for so long after it was deleted. Afterwards its credential is one that nobody knows.
pub const DEPARTED_KEPT: Duration = Duration::from_secs(365 * 24 * 3600);

/// What stands where a log began, so that no line is gone without a word.
pub fn removed_word(last: u64) -> String {
    match last {
        1 => "--- log line 1 was removed by retention. ---".to_owned(),
        _ => format!("--- log lines 1 to {last} were removed by retention. ---"),
    }
}
