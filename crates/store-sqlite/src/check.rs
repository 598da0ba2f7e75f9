//! Asking for all that must hold, beside a server or without one: a connection that only reads, and one snapshot for all questions.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::Time;
use rusqlite::{Connection, OptionalExtension, Row, Transaction};
use store::StoreError;
use store::check::{
    self, CHECKS, Check, Dialect, Finding, Kind, Known, Offender, Readers, Reading, SCHEMA, TEXTS, Tally, Unreadable,
    Value,
};

use crate::error::translate;
use crate::place::Place;
use crate::{migrate, values};

/// Whole tables are read, some of them several times.
const CACHE_KIB: i64 = 64 * 1024;

const DIALECT: Dialect = Dialect {
    columns: "job, ix, other, what",
    id: |id| format!("x'{}'", id.simple()),
    schema: "main.",
    own: &[
        ("file", include_str!("../checks/file.sql")),
        ("job-counts", include_str!("../checks/job_counts.sql")),
        ("job-data", include_str!("../checks/job_data.sql")),
        ("step-data", include_str!("../checks/step_data.sql")),
    ],
};

/// Every check, of the database in this file. `limit` offenders of each are named. `clock`: what time it is, if not what this
/// machine says.
pub fn check(path: &Path, clock: Option<Time>, limit: usize, readers: &Readers) -> Result<Vec<Finding>, StoreError> {
    let place = Place::file(path);
    let mut connection = place.open_reader()?;
    let begun = Instant::now();
    let ask = |connection: &mut Connection| -> rusqlite::Result<Vec<Finding>> {
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        let tx = connection.transaction()?;
        if let Some(why) = wrong_schema(&tx, &place.name) {
            return Ok(vec![SCHEMA.unanswered(&why, begun.elapsed())]);
        }
        let clock = clock.unwrap_or_else(machines_clock);
        let known = Known { clock, marked: marked(&tx)?, deleted: deleted(&tx)? };
        let schema = SCHEMA.found(0, Vec::new(), begun.elapsed());
        let rest = CHECKS.iter().filter_map(|check| match Reading::of(*check) {
            Some(reading) => Some(read(&tx, *check, reading, limit, readers)),
            None => Some(found(&tx, *check, check.text(&DIALECT)?, &known, limit)),
        });
        Ok(std::iter::once(schema).chain(rest).collect())
    };
    ask(&mut connection).map_err(|e| translate(&place.name, &e))
}

fn machines_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Why nothing else can be asked; none if all is well.
fn wrong_schema(tx: &Transaction<'_>, name: &str) -> Option<String> {
    match migrate::missing(tx, name, migrate::MIGRATIONS) {
        Ok(missing) if missing.is_empty() => None,
        Ok(missing) => Some(check::behind(&missing)),
        Err(error) => Some(error.to_string()),
    }
}

fn marked(tx: &Transaction<'_>) -> rusqlite::Result<Option<Time>> {
    tx.query_row("SELECT mark_at FROM hearing", [], |row| values::time(row, 0)).optional()
}

fn deleted(tx: &Transaction<'_>) -> rusqlite::Result<Option<Time>> {
    let asked = "SELECT value FROM meta WHERE key = ?1";
    let text: Option<String> = tx.query_row(asked, [check::RETENTION_KEY], |row| row.get(0)).optional()?;
    Ok(text.as_deref().and_then(check::deleted_before))
}

/// A value that cannot be read ends the statement, and says not which it is. Then the rows themselves are read, and asked for without those.
fn found(tx: &Transaction<'_>, check: Check, text: &str, known: &Known, limit: usize) -> Finding {
    let begun = Instant::now();
    let asked = |unreadable: &Unreadable| offenders(tx, &check::statement(text, known, &DIALECT, limit, unreadable));
    let why = match asked(&Unreadable::default()) {
        Ok((count, first)) => return check.found(count, first, begun.elapsed()),
        Err(error) => error.to_string(),
    };
    // A file that is broken in this place as well is told by the check of the file.
    let unreadable = unreadable(tx).unwrap_or_default();
    let mut rest = check.unanswered(&why, begun.elapsed());
    if unreadable.can_be_left_out()
        && let Ok((count, first)) = asked(&unreadable)
    {
        rest = check.found(count, first, begun.elapsed());
    }
    unreadable.beside(rest, limit)
}

fn read(tx: &Transaction<'_>, check: Check, reading: &Reading, limit: usize, readers: &Readers) -> Finding {
    let mut tally = Tally::begin(check, limit);
    let mut look = || -> rusqlite::Result<()> {
        let mut asked = tx.prepare(reading.rows)?;
        let mut rows = asked.query([])?;
        while let Some(row) = rows.next()? {
            let at = (values::maybe_uuid(row, 0)?, row.get(1)?, values::maybe_uuid(row, 2)?);
            // A column may hold anything here, whatever its type says.
            tally.look(at, value(row, reading.kind)?.unwrap_or(Value::Odd), readers);
        }
        Ok(())
    };
    let stopped = look().err().map(|error| error.to_string());
    tally.found(stopped)
}

fn value<'a>(row: &'a Row<'_>, kind: Kind) -> rusqlite::Result<Option<Value<'a>>> {
    let text = |place: usize| row.get_ref(place).map(|value| value.as_str().ok());
    Ok(match kind {
        Kind::Input => text(3)?.map(|text| Value::Input { text }),
        Kind::Definition => text(3)?.zip(text(4)?).map(|(source, settings)| Value::Definition { source, settings }),
        Kind::Blocks => {
            let (first_seq, last_seq) = (row.get(3)?, row.get(4)?);
            row.get_ref(5)?.as_blob().ok().map(|blocks| Value::Blocks { first_seq, last_seq, blocks })
        }
    })
}

fn unreadable(tx: &Transaction<'_>) -> rusqlite::Result<Unreadable> {
    let mut unreadable = Unreadable::default();
    for of in TEXTS {
        let mut asked = tx.prepare(of.rows)?;
        let mut rows = asked.query([])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(2)?.as_str().ok();
            unreadable.look(of, values::uuid(row, 0)?, row.get(1)?, text);
        }
    }
    Ok(unreadable)
}

fn offenders(tx: &Transaction<'_>, statement: &str) -> rusqlite::Result<(u64, Vec<Offender>)> {
    let mut asked = tx.prepare(statement)?;
    let (mut rows, mut count, mut first) = (asked.query([])?, 0, Vec::new());
    while let Some(row) = rows.next()? {
        count = values::unsigned(row, 4)?;
        first.push(offender(row)?);
    }
    Ok((count, first))
}

fn offender(row: &Row<'_>) -> rusqlite::Result<Offender> {
    let (job, other) = (values::maybe_uuid(row, 0)?, values::maybe_uuid(row, 2)?);
    Ok(Offender { job, step: row.get(1)?, other, what: row.get(3)? })
}
