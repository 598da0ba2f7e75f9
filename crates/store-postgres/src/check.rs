//! Asking for all that must hold, while servers run or not: one transaction that only reads, and one snapshot for all questions.

use std::pin::pin;
use std::time::{Duration, Instant};

use engine::Time;
use futures_util::TryStreamExt;
use store::StoreError;
use store::check::{
    self, CHECKS, Check, Dialect, Finding, Kind, Known, Offender, Readers, Reading, SCHEMA, TEXTS, Tally, Unreadable,
    Value,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::driver::wait;
use crate::error::{is_fatal, words};
use crate::place::{Place, Purpose};
use crate::session::{BEGIN_LOOK, Failure, Session};
use crate::values::get;
use crate::{migrate, sql};

/// For all of them together. Somebody waits for it and can end it; this is for a database that went away without a word.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

const DIALECT: Dialect = Dialect {
    columns: "job::uuid, ix::bigint, other::uuid, what::text",
    id: |id| format!("'{id}'::uuid"),
    schema: "",
    own: &[
        ("event-number", include_str!("../checks/event_number.sql")),
        ("job-counts", include_str!("../checks/job_counts.sql")),
        ("job-data", include_str!("../checks/job_data.sql")),
        ("step-data", include_str!("../checks/step_data.sql")),
    ],
};

/// Every check, of the database at this address. `limit` offenders of each are named. `clock`: what time it is, if not what
/// the database says.
pub fn check(url: &str, clock: Option<Time>, limit: usize, readers: &Readers) -> Result<Vec<Finding>, StoreError> {
    let place = Place::new(url, false)?;
    let mut session = place.connect(Purpose::Check)?;
    let asked = wait(PATIENCE, ask(&mut session, &place, clock, limit, readers));
    match asked {
        Some(found) => found.map_err(|failure| failure.into_store(&place.name)),
        None => Err(place.unavailable("no answer")),
    }
}

async fn ask(
    session: &mut Session,
    place: &Place,
    clock: Option<Time>,
    limit: usize,
    readers: &Readers,
) -> Result<Vec<Finding>, Failure> {
    let begun = Instant::now();
    session.query(BEGIN_LOOK, &[]).await?;
    if let Some(why) = wrong_schema(session, place).await? {
        return Ok(vec![SCHEMA.unanswered(&why, begun.elapsed())]);
    }
    let known = known(session, clock).await?;
    let mut findings = vec![SCHEMA.found(0, Vec::new(), begun.elapsed())];
    for check in CHECKS {
        if let Some(reading) = Reading::of(*check) {
            findings.push(read(session, *check, reading, limit, readers).await?);
        } else if let Some(text) = check.text(&DIALECT) {
            findings.push(found(session, *check, text, &known, limit).await?);
        }
    }
    Ok(findings)
}

/// Why nothing else can be asked; none if all is well.
async fn wrong_schema(session: &mut Session, place: &Place) -> Result<Option<String>, Failure> {
    match migrate::missing(session, place, migrate::MIGRATIONS).await {
        Ok(missing) if missing.is_empty() => Ok(None),
        Ok(missing) => Ok(Some(check::behind(&missing))),
        Err(Failure::Store(error)) => Ok(Some(error.to_string())),
        Err(failure) => Err(failure),
    }
}

async fn known(session: &mut Session, clock: Option<Time>) -> Result<Known, Failure> {
    let databases = session.query_opt(sql::CLOCK, &[]).await?;
    let databases = databases.map(|row| get(&row, 0)).transpose()?.map(Time);
    let clock = clock.or(databases).unwrap_or_default();
    let marked = session.query_opt("SELECT mark_at FROM hearing", &[]).await?;
    let marked = marked.map(|row| get(&row, 0)).transpose()?.map(Time);
    let deleted = session.query_opt(sql::META, &[&check::RETENTION_KEY]).await?;
    let deleted: Option<String> = deleted.map(|row| get(&row, 0)).transpose()?;
    Ok(Known { clock, marked, deleted: deleted.as_deref().and_then(check::deleted_before) })
}

/// A value that cannot be read ends the statement, and says not which it is. Then the rows themselves are read, and asked for without those.
async fn found(
    session: &mut Session,
    check: Check,
    text: &str,
    known: &Known,
    limit: usize,
) -> Result<Finding, Failure> {
    let begun = Instant::now();
    let mut unreadable = Unreadable::default();
    let statement = check::statement(text, known, &DIALECT, limit, &unreadable);
    let why = match offenders(session, &statement).await? {
        Ok((count, first)) => return Ok(check.found(count, first, begun.elapsed())),
        Err(why) => why,
    };
    for of in TEXTS {
        let none: [&(dyn ToSql + Sync); 0] = [];
        let rows = session.client.query_raw(of.rows, none).await.map_err(Failure::Postgres)?;
        let mut rows = pin!(rows);
        while let Some(row) = rows.as_mut().try_next().await.map_err(Failure::Postgres)? {
            let (job, step): (Uuid, Option<i64>) = (get(&row, 0)?, get(&row, 1)?);
            unreadable.look(of, job, step, Some(get(&row, 2)?));
        }
    }
    let mut rest = check.unanswered(&why, begun.elapsed());
    if unreadable.can_be_left_out() {
        let statement = check::statement(text, known, &DIALECT, limit, &unreadable);
        if let Ok((count, first)) = offenders(session, &statement).await? {
            rest = check.found(count, first, begun.elapsed());
        }
    }
    Ok(unreadable.beside(rest, limit))
}

async fn read(
    session: &mut Session,
    check: Check,
    reading: &Reading,
    limit: usize,
    readers: &Readers,
) -> Result<Finding, Failure> {
    let mut tally = Tally::begin(check, limit);
    let none: [&(dyn ToSql + Sync); 0] = [];
    let rows = session.client.query_raw(reading.rows, none).await.map_err(Failure::Postgres)?;
    let mut rows = pin!(rows);
    while let Some(row) = rows.as_mut().try_next().await.map_err(Failure::Postgres)? {
        let at = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let value = match reading.kind {
            Kind::Input => Value::Input { text: get(&row, 3)? },
            Kind::Definition => Value::Definition { source: get(&row, 3)?, settings: get(&row, 4)? },
            Kind::Blocks => Value::Blocks { first_seq: get(&row, 3)?, last_seq: get(&row, 4)?, blocks: get(&row, 5)? },
        };
        tally.look(at, value, readers);
    }
    Ok(tally.found(None))
}

/// How many there are, and the first of them; or why nobody knows. That would be the end of the transaction, were it not for the savepoint.
async fn offenders(session: &mut Session, statement: &str) -> Result<Result<(u64, Vec<Offender>), String>, Failure> {
    session.query("SAVEPOINT asked", &[]).await?;
    let answer = match session.client.query(statement, &[]).await {
        Ok(rows) => {
            let count: i64 = rows.first().map(|row| get(row, 4)).transpose()?.unwrap_or(0);
            Ok((count.unsigned_abs(), rows.iter().map(offender).collect::<Result<_, Failure>>()?))
        }
        Err(error) if is_fatal(&error) => return Err(Failure::Postgres(error)),
        Err(error) => Err(words(&error)),
    };
    session.query("ROLLBACK TO SAVEPOINT asked", &[]).await?;
    Ok(answer)
}

fn offender(row: &Row) -> Result<Offender, Failure> {
    let (job, other): (Option<Uuid>, Option<Uuid>) = (get(row, 0)?, get(row, 2)?);
    Ok(Offender { job, step: get(row, 1)?, other, what: get(row, 3)? })
}
