//! Brings the schema up to this build's, one transaction per step, and refuses what it must not touch.

use std::time::{Duration, Instant};

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

/// For one step, and for all tries. Somebody waits for it and can end it; this is for a database that went away without a word.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A step takes the time that it needs: an index over a table that has grown may be an hour's work. But whoever wants a table for which a
/// step waits stands in line behind it, and servers run meanwhile. So it waits for a moment only where somebody has the table for long,
/// a backup for instance, and lets those in line go first before it tries again.
const TUNING: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'";

/// Between two tries.
const LOCKED_PAUSE_FIRST: Duration = Duration::from_secs(1);
const LOCKED_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often somebody who waits is told why.
const REMIND_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
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
    Migration { version: 5, name: "reports", sql: include_str!("../migrations/0005_reports.sql"), min_reader: 1 },
];

/// Brings the database at this address up to date, as opening it does. Others may do the same at the same time, and servers run.
/// `tell`: what somebody who waits for it should know.
pub fn migrate(url: &str, pooled: bool, tell: &dyn Fn(&str)) -> Result<Migrated, StoreError> {
    let place = Place::new(url, pooled)?;
    let mut session = place.connect_first()?;
    let has = |session: &mut Session| {
        let asked = answer(session, &place, ANSWER_PATIENCE, async |session| {
            place.check(session).await?;
            version(session, &place).await
        });
        asked.map_err(|failure| failure.into_store(&place.name))
    };
    let from = has(&mut session)?;
    open(&mut session, &place, tell)?;
    Ok(Migrated { from, to: has(&mut session)? })
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

/// Has the database, if it is one that can be used, and all that this build needs in it.
pub(crate) fn open(session: &mut Session, place: &Place, tell: &dyn Fn(&str)) -> Result<(), StoreError> {
    let checked = answer(session, place, ANSWER_PATIENCE, async |session| place.check(session).await);
    let opened = checked.and_then(|()| run(session, place, MIGRATIONS, tell));
    opened.map_err(|failure| failure.into_store(&place.name))
}

/// For whoever has a log and nobody to tell.
pub(crate) fn log(why: &str) {
    tracing::warn!("{why}");
}

pub(crate) fn run(
    session: &mut Session,
    place: &Place,
    migrations: &[Migration],
    tell: &dyn Fn(&str),
) -> Result<(), Failure> {
    let (begun, mut pause, mut told) = (Instant::now(), LOCKED_PAUSE_FIRST, None::<Instant>);
    // Each step is a transaction with the lock of its own, and looks anew at what others have done.
    while !answer(session, place, ANSWER_PATIENCE, async |s| missing(s, place, migrations).await)?.is_empty() {
        let step = async |session: &mut Session| session.transact(async |s| next(s, place, migrations).await).await;
        match answer(session, place, PATIENCE, step) {
            Err(failure) if failure.is_locked_out() && begun.elapsed() < PATIENCE => {
                if told.is_none_or(|at| at.elapsed() >= REMIND_EVERY) {
                    tell(
                        "the database is to be migrated, and somebody has its tables: a backup, a long transaction, or another server that migrates it; it is tried again until they are free",
                    );
                    told = Some(Instant::now());
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(LOCKED_PAUSE_MAX);
            }
            Err(failure) => return Err(failure),
            Ok(()) => pause = LOCKED_PAUSE_FIRST,
        }
    }
    let (has, known) =
        (answer(session, place, ANSWER_PATIENCE, async |s| version(s, place).await)?, newest(migrations));
    if has > known {
        tracing::info!(version = has, known, "a newer build has migrated the database, and this one may use it");
    }
    Ok(())
}

/// Waits for what the session is asked. One that does not answer in time must not be used again.
fn answer<T>(
    session: &mut Session,
    place: &Place,
    patience: Duration,
    ask: impl AsyncFnOnce(&mut Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    wait(patience, ask(session)).unwrap_or_else(|| {
        session.give_up();
        Err(place.unavailable(&format!("no answer within {} s", patience.as_secs())).into())
    })
}

/// What the first statement of every batch says ([`crate::sql::LOCK_WRITER`]): a newer build may have migrated the database since this one
/// opened it.
pub(crate) fn check_still_known(rows: &[Row]) -> Result<(), Failure> {
    let needs: Option<String> = rows.first().map(|row| get(row, 1)).transpose()?.flatten();
    let (needs, knows) = (needs.and_then(|text| text.parse().ok()).unwrap_or(0), newest(MIGRATIONS));
    if needs > knows { Err(Failure::Outgrown { needs, knows }) } else { Ok(()) }
}

fn newest(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Applies the next one that is missing, unless others were faster.
async fn next(session: &mut Session, place: &Place, migrations: &[Migration]) -> Result<(), Failure> {
    session.client.batch_execute(TUNING).await.map_err(Failure::Postgres)?;
    session.query("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let missing = missing(session, place, migrations).await?;
    match migrations.iter().find(|migration| missing.contains(&migration.version)) {
        Some(migration) => apply(session, migration).await,
        None => Ok(()),
    }
}

/// Those that the database has not been through; an error where this build must not touch it.
pub(crate) async fn missing(
    session: &mut Session,
    place: &Place,
    migrations: &[Migration],
) -> Result<Vec<u32>, Failure> {
    let path = || place.name.to_string();
    let known = newest(migrations);
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

#[cfg(test)]
#[path = "../../store/tests/support/additive.rs"]
mod additive;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use engine::{AttemptId, Fence};
    use store::{Batch, Store};
    use testkit::postgres::Database;
    use testkit::{PgBouncer, await_that};
    use tokio_postgres::Client;
    use tokio_postgres::types::Type;

    use super::additive::{Catalog, Column, Rule};
    use super::*;
    use crate::place::Purpose;
    use crate::{Options, PostgresStore};

    const COLUMNS: &str = "SELECT table_name::text, column_name::text, concat_ws(' ', data_type, collation_name),
            is_nullable = 'NO', column_default IS NOT NULL OR is_identity = 'YES'
        FROM information_schema.columns WHERE table_schema = current_schema()";

    const RULES: &str = "SELECT tablename::text, indexdef, indexdef LIKE 'CREATE UNIQUE %' FROM pg_indexes WHERE schemaname = current_schema()
        UNION ALL SELECT relname::text, relname || ': ' || pg_get_constraintdef(c.oid), true
            FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid WHERE t.relnamespace = current_schema()::regnamespace
        UNION ALL SELECT relname::text, pg_get_triggerdef(g.oid), true
            FROM pg_trigger g JOIN pg_class t ON t.oid = tgrelid WHERE NOT tgisinternal";

    /// A database, and one connection to it.
    struct Bench {
        database: Database,
        place: Place,
        session: Session,
    }

    impl Bench {
        fn migrated(migrations: &[Migration]) -> Bench {
            let database = Database::new();
            let place = Place::new(&database.url(), false).expect("an address");
            let session = place.connect(Purpose::Write).expect("a connection");
            let mut bench = Bench { database, place, session };
            bench.migrate(migrations);
            bench
        }

        fn migrate(&mut self, migrations: &[Migration]) {
            run(&mut self.session, &self.place, migrations, &log).expect("a good migration");
        }

        fn ask<T>(&self, ask: impl AsyncFnOnce(&Client) -> T) -> T {
            wait(ANSWER_PATIENCE, ask(&self.session.client)).expect("an answer")
        }

        fn catalog(&self) -> Catalog {
            let rows = |text: &'static str| self.ask(async |client| client.query(text, &[]).await.expect("rows"));
            let column = |row: &Row| Column { kind: row.get(2), required: row.get(3), filled: row.get(4) };
            Catalog {
                columns: rows(COLUMNS).iter().map(|row| ((row.get(0), row.get(1)), column(row))).collect(),
                rules: rows(RULES)
                    .iter()
                    .map(|row| Rule { table: row.get(0), text: row.get(1), refuses: row.get(2) })
                    .collect(),
            }
        }

        /// What a statement wants and gives.
        fn manner(&self, text: &str) -> (Vec<Type>, Vec<(String, Type)>) {
            self.ask(async |client| {
                let statement = client.prepare(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
                let columns =
                    statement.columns().iter().map(|column| (column.name().to_owned(), column.type_().clone()));
                (statement.params().to_vec(), columns.collect())
            })
        }
    }

    /// Servers of the build before are there while it happens, and after it.
    #[test]
    fn migrations_only_add() {
        let mut bench = Bench::migrated(&MIGRATIONS[..1]);
        for (place, migration) in (1..).zip(MIGRATIONS) {
            assert_eq!(usize::try_from(migration.version), Ok(place), "versions count up without gaps");
            assert_eq!(migration.min_reader, 1, "{}: servers of the build before could not go on", migration.name);
            let before = bench.catalog();
            bench.migrate(&MIGRATIONS[..place]);
            let harms = before.harmed_by(&bench.catalog());
            assert!(harms.is_empty(), "{}: {harms:#?}", migration.name);
        }
    }

    #[test]
    fn a_migration_that_does_more_is_noticed() {
        for bad in [
            "ALTER TABLE tasks DROP COLUMN pushed_by",
            "ALTER TABLE tasks RENAME COLUMN pushed_by TO by",
            "ALTER TABLE tasks RENAME TO definitions_of_tasks",
            "ALTER TABLE tasks ALTER pushed_at TYPE numeric",
            "ALTER TABLE tasks ADD COLUMN folder text NOT NULL",
            "ALTER TABLE jobs ALTER owner SET NOT NULL",
            "ALTER TABLE workers ALTER epoch DROP DEFAULT",
            "ALTER TABLE tasks ADD CHECK (source <> '')",
            "CREATE UNIQUE INDEX ON tasks (source)",
            "ALTER TABLE lineage ADD FOREIGN KEY (job_id) REFERENCES jobs",
            "DROP INDEX steps_due",
            "DROP TABLE tasks",
            "DROP VIEW heartbeats",
        ] {
            let bench = Bench::migrated(MIGRATIONS);
            let before = bench.catalog();
            bench.database.psql(bad);
            assert!(!before.harmed_by(&bench.catalog()).is_empty(), "{bad}");
            assert!(bench.catalog().harmed_by(&bench.catalog()).is_empty());
        }
    }

    /// Somebody reads a table for long, as a backup does. Servers beside the migration go on, and it comes through when the table is free.
    fn waits_for_a_table_and_nobody_behind_it(url: &str, database: &Database, pooled: bool) {
        let options = Options { pooled, ..Options::default() };
        let mut sibling = PostgresStore::open_with(url, &options).expect("a database");
        let sql = "DO $$ BEGIN ASSERT current_setting('statement_timeout') = '0', 'it has no time'; END $$;
                   ALTER TABLE attempts ADD COLUMN later text";
        let later = Migration { version: newest(MIGRATIONS) + 1, name: "later", sql, min_reader: 1 };
        let migrations: Vec<Migration> = MIGRATIONS.iter().copied().chain([later]).collect();
        let reading = database.hold("BEGIN; SELECT count(*) FROM attempts");
        let said = AtomicUsize::new(0);
        let tell = |_: &str| {
            said.fetch_add(1, Ordering::SeqCst);
        };
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                     AND query LIKE '%ADD COLUMN later%'";
        std::thread::scope(|scope| {
            let migrating = scope.spawn(|| {
                let place = Place::new(url, pooled).expect("an address");
                let mut session = place.connect(Purpose::Write).expect("a connection");
                run(&mut session, &place, &migrations, &tell).map_err(|failure| failure.into_store(&place.name))
            });
            for _ in 0..2 {
                await_that("it waits for the table", || (database.psql(waits) == "1").then_some(()));
                let asked = Instant::now();
                let confirmed = vec![(AttemptId(uuid::Uuid::nil()), Fence(1))];
                sibling.commit(&Batch { confirmed, ..Batch::default() }).expect("a commit");
                assert!(asked.elapsed() < Duration::from_secs(2), "it stood in line for {:?}", asked.elapsed());
            }
            assert!(!migrating.is_finished());
            drop(reading);
            migrating.join().expect("no panic").expect("it comes through");
        });
        assert_eq!(said.load(Ordering::SeqCst), 1, "whoever waits is told once");
        assert_eq!(database.psql("SELECT count(later) FROM attempts"), "0");
        sibling.set_meta("who", "goes on").expect("a write");
    }

    #[test]
    fn a_migration_waits_for_a_table_and_nobody_for_the_migration() {
        let database = Database::new();
        waits_for_a_table_and_nobody_behind_it(&database.url(), &database, false);
    }

    #[test]
    fn so_it_is_through_a_pooler() {
        let database = Database::new();
        let pooler = PgBouncer::with_sessions(&database.url(), 6);
        waits_for_a_table_and_nobody_behind_it(&pooler.url(), &database, true);
    }

    /// Statements of builds before this one, where ours differ. Each file is named by the last migration that such builds know.
    fn past() -> Vec<Past> {
        let mut past: Vec<Past> = std::fs::read_dir(past_folder())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "sql"))
            .map(|path| {
                let file = path.file_stem().and_then(|name| name.to_str()).expect("a name");
                let (version, name) = file.split_once('_').expect("a version and a name");
                let version = version.parse().expect("a number");
                Past { version, name: name.to_owned(), text: std::fs::read_to_string(&path).expect("a text") }
            })
            .collect();
        past.sort_by(|one, other| (one.version, &one.name).cmp(&(other.version, &other.name)));
        past
    }

    struct Past {
        version: usize,
        name: String,
        text: String,
    }

    fn past_folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("past")
    }

    fn line(name: &str, text: &str) -> String {
        format!("{name} {}", blake3::hash(text.as_bytes()).to_hex())
    }

    #[test]
    fn statements_of_older_builds_mean_what_they_meant() {
        let now = Bench::migrated(MIGRATIONS);
        let thens: Vec<Bench> = (1..MIGRATIONS.len()).map(|version| Bench::migrated(&MIGRATIONS[..version])).collect();
        for Past { version, name, text } in past() {
            assert_eq!(now.manner(&text), thens[version - 1].manner(&text), "{name} of schema {version}");
        }
    }

    /// A statement changes, and servers of the build before still send what it was: that is kept, and asked of every later schema.
    ///
    /// `past/texts` has a line for each text that a statement ever had, the newest last. So whoever changes one comes by here.
    #[test]
    fn a_statement_that_changes_is_kept_as_it_was() {
        let list = past_folder().join("texts");
        let mut lines = std::fs::read_to_string(&list).unwrap_or_default();
        let kept: Vec<String> = past().iter().map(|past| line(&past.name, &past.text)).collect();
        let ours: Vec<(&str, String)> = crate::sql::ALL.iter().map(|(name, text)| (*name, line(name, text))).collect();
        let is_changed = |lines: &str, name: &str, line: &str| {
            lines.lines().rfind(|known| known.split(' ').next() == Some(name)).is_none_or(|known| known != line)
        };
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let unknown = kept.iter().filter(|kept| !lines.lines().any(|line| line == *kept));
            let before: String = unknown.map(|line| format!("{line}\n")).collect();
            let changed = ours.iter().filter(|(name, line)| is_changed(&lines, name, line));
            let after: String = changed.map(|(_, line)| format!("{line}\n")).collect();
            lines = before + &lines + &after;
            std::fs::write(&list, &lines).expect("written");
        }
        let changed = ours.iter().filter(|(name, line)| is_changed(&lines, name, line));
        let changed: Vec<&str> = changed.map(|(name, _)| *name).collect();
        assert!(
            changed.is_empty(),
            "{changed:?}: not what they were. Servers of the build before send the texts that they know, beside ours. Keep each of those: \
             `git show HEAD:./sql/NAME.sql > past/000N_NAME.sql`, where N is the newest migration of builds that send it; \
             then `UPDATE_DOCS=1` takes the new ones into past/texts. Only of a text that never left this folder the line may go instead"
        );
        for line in lines.lines() {
            let is_ours = ours.iter().any(|(_, ours)| ours == line);
            assert!(
                is_ours || kept.iter().any(|kept| kept == line),
                "there was another text, and past/ lacks it: {line}"
            );
        }
        for kept in kept {
            assert!(
                lines.lines().any(|line| line == kept),
                "past/texts does not know what is kept (`UPDATE_DOCS=1`): {kept}"
            );
        }
    }

    /// A server has all of its statements prepared when a newer one changes the tables under it.
    #[test]
    fn a_later_migration_leaves_every_prepared_statement_good() {
        let bench = Bench::migrated(MIGRATIONS);
        let all = crate::sql::ALL;
        let manners: Vec<_> = all.iter().map(|(_, text)| bench.manner(text)).collect();
        bench.ask(async |client| {
            for (name, text) in all {
                client.batch_execute(&format!("PREPARE \"{name}\" AS {text}")).await.expect(name);
            }
        });
        bench.database.psql(testkit::postgres::LATER);
        for ((name, text), (params, columns)) in all.iter().zip(manners) {
            assert_eq!(bench.manner(text), (params.clone(), columns), "{name}");
            let nulls = vec!["NULL"; params.len()].join(", ");
            let nulls = if nulls.is_empty() { nulls } else { format!("({nulls})") };
            let asked = format!("EXPLAIN EXECUTE \"{name}\" {nulls}");
            bench
                .ask(async |client| client.batch_execute(&asked).await)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
}
