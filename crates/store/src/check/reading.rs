//! Values that no statement can look into: row by row they are read as servers read them.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Check, Finding, Offender};

/// How to read what this crate does not know: each says why a value cannot be read, or nothing.
#[derive(Debug, Clone, Copy)]
pub struct Readers {
    pub definition: fn(source: &str, settings: &str) -> Option<String>,
    /// A piece of a log, with the first and the last line that it should have.
    pub blocks: fn(blocks: &[u8], first_seq: u64, last_seq: u64) -> Option<String>,
}

/// A job, a step and something else, of which some may be none.
pub type Whereabouts = (Option<Uuid>, Option<i64>, Option<Uuid>);

/// One row's value.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Input {
        text: &'a str,
    },
    Definition {
        source: &'a str,
        settings: &'a str,
    },
    Blocks {
        first_seq: i64,
        last_seq: i64,
        blocks: &'a [u8],
    },
    /// It has not even the type of its column.
    Odd,
}

/// Which columns come after the three that say where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Input,
    /// Two texts.
    Definition,
    /// Two numbers and bytes.
    Blocks,
}

/// A check whose rows are read one by one.
#[derive(Debug)]
pub struct Reading {
    check: &'static str,
    pub kind: Kind,
    /// Asks for all of them: the [`Whereabouts`], and then the value.
    pub rows: &'static str,
}

const READINGS: &[Reading] = &[
    Reading {
        check: "job-input",
        kind: Kind::Input,
        rows: "SELECT id, CAST(NULL AS bigint), CAST(NULL AS uuid), input FROM jobs ORDER BY id",
    },
    Reading {
        check: "definition-text",
        kind: Kind::Definition,
        rows: "SELECT (SELECT j.id FROM jobs j WHERE j.definition = d.hash ORDER BY j.id LIMIT 1), CAST(NULL AS bigint), CAST(NULL AS uuid), \
               d.source, d.settings FROM definitions d ORDER BY d.hash",
    },
    Reading {
        check: "log-blocks",
        kind: Kind::Blocks,
        rows: "SELECT a.job_id, a.ix, c.attempt_id, c.first_seq, c.last_seq, c.blocks \
               FROM log_chunks c LEFT JOIN attempts a ON a.id = c.attempt_id ORDER BY c.attempt_id, c.first_seq",
    },
];

/// What reading comes to.
#[derive(Debug)]
pub struct Tally {
    check: Check,
    limit: usize,
    begun: Instant,
    count: u64,
    first: Vec<Offender>,
}

impl Reading {
    /// How this check is answered; none where it is a query.
    pub fn of(check: Check) -> Option<&'static Reading> {
        READINGS.iter().find(|reading| reading.check == check.name)
    }
}

impl Tally {
    /// `limit` offenders are named.
    pub fn begin(check: Check, limit: usize) -> Tally {
        Tally { check, limit, begun: Instant::now(), count: 0, first: Vec::new() }
    }

    /// One row.
    pub fn look(&mut self, (job, step, other): Whereabouts, value: Value<'_>, readers: &Readers) {
        let Some(why) = value.why_not(readers) else { return };
        self.count += 1;
        if self.first.len() < self.limit {
            self.first.push(Offender { job, step, other, what: format!("it cannot be read: {why}") });
        }
    }

    /// `stopped`: why there was no next row, if not because there are no more.
    pub fn found(mut self, stopped: Option<String>) -> Finding {
        let took: Duration = self.begun.elapsed();
        if let Some(why) = stopped {
            let Finding { first, .. } = self.check.unanswered(&why, took);
            self.count += 1;
            self.first.extend(first);
        }
        self.check.found(self.count, self.first, took)
    }
}

impl Value<'_> {
    fn why_not(self, readers: &Readers) -> Option<String> {
        match self {
            Value::Input { text } => {
                serde_json::from_str::<serde_json::Value>(text).err().map(|error| error.to_string())
            }
            Value::Definition { source, settings } => (readers.definition)(source, settings),
            Value::Blocks { first_seq, last_seq, blocks } => match (first_seq.try_into(), last_seq.try_into()) {
                (Ok(first), Ok(last)) => (readers.blocks)(blocks, first, last),
                _ => Some("its lines have no numbers".to_owned()),
            },
            Value::Odd => Some("it is something else than such a value".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHECKS;
    use super::*;

    #[test]
    fn each_reading_is_a_check() {
        for reading in READINGS {
            let check = CHECKS.iter().find(|check| check.name == reading.check).expect("a check");
            assert!(check.text.is_none(), "{}", check.name);
        }
    }
}
