//! Brings the schema up to this build's, one transaction per step, and refuses what it must not touch.

use std::time::Duration;

use store::{Migrated, StoreError};
use tokio_postgres::Row;

use crate::driver::wait;
use crate::place::Place;
use crate::session::{Failure, Session};
use crate::values::{get, hash, small};
use crate::writer::ANSWER_PATIENCE;

/// The key of [`store::Store::set_meta`]'s table that belongs to the schema.
pub(crate) const MIN_READER: &str = "min_reader";

/// Whoever migrates holds this lock, so that servers may start at the same time. No other program has it by chance.
const MIGRATION_LOCK: i64 = 0x626f_776c_696e_6501;

/// For all steps together. Somebody waits for it and can end it; this is for a database that went away without a word.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct Migration {
    /// Counts from 1, without gaps.
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// The oldest build, by its newest migration, that may use a database after this one.
    pub(crate) min_reader: u32,
}

/// In order. A migration that was ever released is never edited: its checksum is in every database. Servers of the build before
/// run on while one is applied, and go on afterwards where `min_reader` lets them: so each only adds.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "schema", sql: include_str!("../migrations/0001_schema.sql"), min_reader: 1 },
    Migration { version: 2, name: "leases", sql: include_str!("../migrations/0002_leases.sql"), min_reader: 1 },
    Migration { version: 3, name: "unread", sql: include_str!("../migrations/0003_unread.sql"), min_reader: 1 },
    Migration { version: 4, name: "durations", sql: include_str!("../migrations/0004_durations.sql"), min_reader: 1 },
];

/// Brings the database at this address up to date, as opening it does. Others may do the same at the same time, and servers run.
pub fn migrate(url: &str, pooled: bool) -> Result<Migrated, StoreError> {
    let place = Place::new(url, pooled)?;
    let mut session = place.connect_first()?;
    let migrated = wait(PATIENCE, async {
        place.check(&mut session).await?;
        let from = version(&mut session, &place).await?;
        run(&mut session, &place, MIGRATIONS).await?;
        Ok(Migrated { from, to: version(&mut session, &place).await? })
    });
    match migrated {
        Some(migrated) => migrated.map_err(|failure: Failure| failure.into_store(&place.name)),
        None => Err(place.unavailable("no answer")),
    }
}

/// What [`migrate`] would do.
pub fn outlook(url: &str, pooled: bool) -> Result<Migrated, StoreError> {
    let place = Place::new(url, pooled)?;
    let mut session = place.connect_first()?;
    let outlook = wait(ANSWER_PATIENCE, async {
        place.check(&mut session).await?;
        let missing = missing(&mut session, &place, MIGRATIONS).await?;
        let from = version(&mut session, &place).await?;
        Ok(Migrated { from, to: missing.last().copied().unwrap_or(from).max(from) })
    });
    match outlook {
        Some(outlook) => outlook.map_err(|failure: Failure| failure.into_store(&place.name)),
        None => Err(place.unavailable("no answer")),
    }
}

/// The newest that it has been through.
async fn version(session: &mut Session, place: &Place) -> Result<u32, Failure> {
    Ok(applied(session, place).await?.last().map_or(0, |(version, _)| *version))
}

pub(crate) async fn run(session: &mut Session, place: &Place, migrations: &[Migration]) -> Result<(), Failure> {
    // Each step is a transaction with the lock of its own, and looks anew at what others have done.
    while session.transact(async |session| next(session, place, migrations).await).await? {}
    Ok(())
}

/// Applies the next one that is missing; false if there was none.
async fn next(session: &mut Session, place: &Place, migrations: &[Migration]) -> Result<bool, Failure> {
    session.query("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let missing = missing(session, place, migrations).await?;
    match migrations.iter().find(|migration| missing.contains(&migration.version)) {
        Some(migration) => apply(session, migration).await.map(|()| true),
        None => Ok(false),
    }
}

/// Those that the database has not been through; an error where this build must not touch it.
pub(crate) async fn missing(
    session: &mut Session,
    place: &Place,
    migrations: &[Migration],
) -> Result<Vec<u32>, Failure> {
    let path = || place.name.to_string();
    let known = migrations.last().map_or(0, |m| m.version);
    let applied = applied(session, place).await?;
    if !applied.is_empty() {
        let needs = min_reader(session, place).await?;
        if needs > known {
            return Err(StoreError::TooNew { path: path(), needs, knows: known }.into());
        }
    }
    let mut missing = Vec::new();
    for migration in migrations {
        match applied.iter().find(|(version, _)| *version == migration.version) {
            Some((_, checksum)) if *checksum == migration.checksum() => {}
            Some((version, _)) => {
                return Err(StoreError::MigrationChanged { path: path(), version: *version }.into());
            }
            None => missing.push(migration.version),
        }
    }
    Ok(missing)
}

type Applied = Vec<(u32, [u8; 32])>;

/// What this database has been through; empty for a new one.
async fn applied(session: &mut Session, place: &Place) -> Result<Applied, Failure> {
    let tables = "SELECT count(*), coalesce(bool_or(tablename = 'schema_migrations'), false)
                  FROM pg_tables WHERE schemaname = current_schema()";
    let Some(row) = session.query_opt(tables, &[]).await? else { return Ok(Applied::new()) };
    let (tables, ours): (i64, bool) = (get(&row, 0)?, get(&row, 1)?);
    if !ours && tables > 0 {
        return Err(damaged(place, "it is a database of another program"));
    }
    if !ours {
        return Ok(Applied::new());
    }
    let rows = session.query("SELECT version, checksum FROM schema_migrations ORDER BY version", &[]).await?;
    let read = |row: &Row| Ok((small(row, 0)?, hash(row, 1)?));
    rows.iter().map(read).collect::<Result<_, Failure>>()
}

async fn min_reader(session: &mut Session, place: &Place) -> Result<u32, Failure> {
    let row = session.query_opt("SELECT value FROM meta WHERE key = $1", &[&MIN_READER]).await?;
    let text: Option<String> = row.map(|row| get(&row, 0)).transpose()?;
    let number = text.as_deref().and_then(|t| t.parse().ok());
    number.ok_or_else(|| damaged(place, "it does not say which builds may read it (`min_reader`)"))
}

async fn apply(session: &mut Session, migration: &Migration) -> Result<(), Failure> {
    session.client.batch_execute(migration.sql).await.map_err(Failure::Postgres)?;
    let told = "INSERT INTO schema_migrations (version, name, checksum, applied_at)
                VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";
    let (version, checksum) = (i64::from(migration.version), migration.checksum());
    session.execute(told, &[&version, &migration.name, &checksum.as_slice()]).await?;
    let reader = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    session.execute(reader, &[&MIN_READER, &migration.min_reader.to_string()]).await?;
    tracing::info!(version = migration.version, name = migration.name, "migrated the database");
    Ok(())
}

fn damaged(place: &Place, message: &str) -> Failure {
    StoreError::Damaged { path: place.name.to_string(), message: message.to_owned() }.into()
}

impl Migration {
    fn checksum(&self) -> [u8; 32] {
        *blake3::hash(self.sql.as_bytes()).as_bytes()
    }
}
