//! Job lives as a queue on bare SQLite has them: one row, and one durable transaction for each of its three changes.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::{Effort, Outcome};

/// Long enough for several checkpoints.
const SECONDS: f64 = 2.0;

const SCHEMA: &str = "
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, worker TEXT, task TEXT NOT NULL, exit_code INTEGER);
    CREATE INDEX jobs_queued ON jobs (id) WHERE state = 'queued';";
const INSERT: &str = "INSERT INTO jobs (state, task) VALUES ('queued', ?1)";
const CLAIM: &str = "
    UPDATE jobs SET state = 'running', worker = ?1
    WHERE id = (SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1) RETURNING id";
const COMPLETE: &str = "UPDATE jobs SET state = 'success', exit_code = 0 WHERE id = ?1 AND state = 'running'";

/// Lives per second, one after the other, in a new database in `folder`.
pub(crate) fn lives_per_second(folder: &Path, effort: Effort) -> Outcome<f64> {
    let connection = Connection::open(folder.join("bare.sqlite"))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("SQLite uses the journal mode {mode} and not wal").into());
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(SCHEMA)?;
    let seconds = Duration::from_secs_f64(if effort.quick { SECONDS / 4.0 } else { SECONDS });
    let begin = Instant::now();
    let mut lives: u32 = 0;
    while begin.elapsed() < seconds {
        live(&connection)?;
        lives += 1;
    }
    let time = begin.elapsed();
    let done: u32 = connection.query_row("SELECT count(*) FROM jobs WHERE state = 'success'", [], |row| row.get(0))?;
    if done != lives {
        return Err(format!("bare SQLite has {done} finished rows and not {lives}").into());
    }
    Ok(f64::from(lives) / time.as_secs_f64())
}

fn live(connection: &Connection) -> Outcome<()> {
    connection.prepare_cached(INSERT)?.execute(params!["bench"])?;
    let id: i64 = connection.prepare_cached(CLAIM)?.query_row(params!["worker-1"], |row| row.get(0))?;
    connection.prepare_cached(COMPLETE)?.execute(params![id])?;
    Ok(())
}
