//! Brings the schema up to this build's, one transaction per step, and refuses what it must not touch.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use store::{Migrated, StoreError};

use crate::error::translate;
use crate::lock::ServerLock;
use crate::place::Place;

/// The key of [`store::Store::set_meta`]'s table that belongs to the schema.
pub(crate) const MIN_READER: &str = "min_reader";

pub(crate) struct Migration {
    /// Counts from 1, without gaps.
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// The oldest build, by its newest migration, that may use a database after this one.
    pub(crate) min_reader: u32,
}

/// In order. A migration that was ever released is never edited: its checksum is in every database.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../migrations/0001_init.sql"), min_reader: 1 },
    // An older build would take a log that was closed without its last lines for a whole one.
    Migration {
        version: 2,
        name: "signs_of_life",
        sql: include_str!("../migrations/0002_signs_of_life.sql"),
        min_reader: 2,
    },
    // An older build would take deadlines in hearing time for wall time.
    Migration { version: 3, name: "hearing", sql: include_str!("../migrations/0003_hearing.sql"), min_reader: 3 },
    Migration { version: 4, name: "identity", sql: include_str!("../migrations/0004_identity.sql"), min_reader: 3 },
    Migration { version: 5, name: "lineage", sql: include_str!("../migrations/0005_lineage.sql"), min_reader: 3 },
    // An older build would give a worker any tag that it claims.
    Migration {
        version: 6,
        name: "allowed_tags",
        sql: include_str!("../migrations/0006_allowed_tags.sql"),
        min_reader: 6,
    },
    Migration { version: 7, name: "servers", sql: include_str!("../migrations/0007_servers.sql"), min_reader: 6 },
    // An older build would write rows without a place in their family.
    Migration { version: 8, name: "families", sql: include_str!("../migrations/0008_families.sql"), min_reader: 8 },
    // An older build would end a child job and not tell its parent.
    Migration { version: 9, name: "children", sql: include_str!("../migrations/0009_children.sql"), min_reader: 9 },
    Migration { version: 10, name: "triggers", sql: include_str!("../migrations/0010_triggers.sql"), min_reader: 9 },
    // An older build would end a job and forget what follows on that.
    Migration { version: 11, name: "hooks", sql: include_str!("../migrations/0011_hooks.sql"), min_reader: 11 },
    // An older build would take what is left of a job that goes for a job.
    Migration { version: 12, name: "retention", sql: include_str!("../migrations/0012_retention.sql"), min_reader: 12 },
    Migration { version: 13, name: "cleanup", sql: include_str!("../migrations/0013_cleanup.sql"), min_reader: 12 },
    // An older build would run steps without their secrets.
    Migration { version: 14, name: "secrets", sql: include_str!("../migrations/0014_secrets.sql"), min_reader: 14 },
    // An older build would let jobs run that wait for their group.
    Migration { version: 15, name: "groups", sql: include_str!("../migrations/0015_groups.sql"), min_reader: 15 },
    // An older build would not know what is due where a notice is.
    Migration { version: 16, name: "notices", sql: include_str!("../migrations/0016_notices.sql"), min_reader: 16 },
    // An older build would write steps without the files that they left.
    Migration { version: 17, name: "artifacts", sql: include_str!("../migrations/0017_artifacts.sql"), min_reader: 17 },
    Migration { version: 18, name: "begun", sql: include_str!("../migrations/0018_begun.sql"), min_reader: 17 },
    Migration { version: 19, name: "leases", sql: include_str!("../migrations/0019_leases.sql"), min_reader: 17 },
    Migration { version: 20, name: "unread", sql: include_str!("../migrations/0020_unread.sql"), min_reader: 17 },
    Migration { version: 21, name: "durations", sql: include_str!("../migrations/0021_durations.sql"), min_reader: 17 },
    Migration { version: 22, name: "reports", sql: include_str!("../migrations/0022_reports.sql"), min_reader: 17 },
];

/// Brings the database in this file up to date, as opening it does. Nobody else may have it.
pub fn migrate(path: &Path) -> Result<Migrated, StoreError> {
    let path = crate::writer::canonical(path)?;
    let _lock = ServerLock::take(&path)?;
    let place = Place::file(&path);
    let mut connection = place.open_writer()?;
    let from = version(&connection, &place.name)?;
    run(&mut connection, &place.name, MIGRATIONS)?;
    Ok(Migrated { from, to: version(&connection, &place.name)? })
}

/// What [`migrate`] would do, asked beside whoever has the database.
pub fn outlook(path: &Path) -> Result<Migrated, StoreError> {
    let place = Place::file(path);
    let connection = place.open_reader()?;
    let missing = missing(&connection, &place.name, MIGRATIONS)?;
    let from = version(&connection, &place.name)?;
    Ok(Migrated { from, to: missing.last().copied().unwrap_or(from).max(from) })
}

/// The newest that it has been through.
fn version(connection: &Connection, path: &str) -> Result<u32, StoreError> {
    Ok(applied(connection, path)?.last().map_or(0, |(version, _)| *version))
}

pub(crate) fn run(connection: &mut Connection, path: &str, migrations: &[Migration]) -> Result<(), StoreError> {
    let missing = missing(connection, path, migrations)?;
    for migration in migrations.iter().filter(|migration| missing.contains(&migration.version)) {
        apply(connection, migration).map_err(|e| translate(path, &e))?;
    }
    let (has, known) = (version(connection, path)?, newest(migrations));
    if has > known {
        tracing::info!(version = has, known, "a newer build has migrated the database, and this one may use it");
    }
    Ok(())
}

fn newest(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Those that the database has not been through; an error where this build must not touch it.
pub(crate) fn missing(connection: &Connection, path: &str, migrations: &[Migration]) -> Result<Vec<u32>, StoreError> {
    let applied = applied(connection, path)?;
    let known = newest(migrations);
    if let Some(needs) = min_reader(connection, path, applied.is_empty())?
        && needs > known
    {
        return Err(StoreError::TooNew { path: path.to_owned(), needs, knows: known });
    }
    let mut missing = Vec::new();
    for migration in migrations {
        match applied.iter().find(|(version, _)| *version == migration.version) {
            Some((_, checksum)) if *checksum == migration.checksum() => {}
            Some((version, _)) => {
                return Err(StoreError::MigrationChanged { path: path.to_owned(), version: *version });
            }
            None => missing.push(migration.version),
        }
    }
    Ok(missing)
}

type Applied = Vec<(u32, [u8; 32])>;

/// What this database has been through; empty for a new one.
fn applied(connection: &Connection, path: &str) -> Result<Applied, StoreError> {
    let read = || -> rusqlite::Result<Option<Applied>> {
        let (tables, ours): (u32, bool) = connection.query_row(
            "SELECT count(*), coalesce(max(name = 'schema_migrations'), 0) FROM sqlite_schema WHERE type = 'table'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if !ours {
            return Ok((tables == 0).then(Vec::new));
        }
        let mut statement = connection.prepare("SELECT version, checksum FROM schema_migrations ORDER BY version")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<Applied>>().map(Some)
    };
    read().map_err(|e| translate(path, &e))?.ok_or_else(|| StoreError::Damaged {
        path: path.to_owned(),
        message: "it is a database of another program".to_owned(),
    })
}

fn min_reader(connection: &Connection, path: &str, new: bool) -> Result<Option<u32>, StoreError> {
    if new {
        return Ok(None);
    }
    let text: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = ?1", [MIN_READER], |row| row.get(0))
        .optional()
        .map_err(|e| translate(path, &e))?;
    let number = text.as_deref().and_then(|t| t.parse().ok());
    number.map(Some).ok_or_else(|| StoreError::Damaged {
        path: path.to_owned(),
        message: "it does not say which builds may read it (`min_reader`)".to_owned(),
    })
}

fn apply(connection: &mut Connection, migration: &Migration) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration.sql)?;
    transaction.execute(
        "INSERT INTO schema_migrations (version, name, checksum, applied_at)
         VALUES (?1, ?2, ?3, CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
        params![migration.version, migration.name, migration.checksum()],
    )?;
    transaction.execute(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        params![MIN_READER, migration.min_reader.to_string()],
    )?;
    transaction.commit()?;
    tracing::info!(version = migration.version, name = migration.name, "migrated the database");
    Ok(())
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
    use rusqlite::Row;

    use super::additive::{Catalog, Column, Rule};
    use super::*;

    const FIRST: Migration =
        Migration { version: 1, name: "first", sql: include_str!("../migrations/0001_init.sql"), min_reader: 1 };
    const GOOD: Migration = Migration { version: 2, name: "good", sql: "CREATE TABLE more (x)", min_reader: 2 };

    fn migrated(migrations: &[Migration]) -> Connection {
        let mut connection = Connection::open_in_memory().expect("an empty database");
        run(&mut connection, "test", migrations).expect("a new schema");
        connection
    }

    fn tables(connection: &Connection) -> Vec<String> {
        let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("a query");
        names.query_map([], |row| row.get(0)).expect("rows").collect::<rusqlite::Result<_>>().expect("names")
    }

    /// Builds that may use a database after a migration that they do not know find all that they know of in it.
    #[test]
    fn a_migration_that_older_builds_may_use_only_adds() {
        for (place, migration) in MIGRATIONS.iter().enumerate().skip(1) {
            if migration.min_reader == migration.version {
                continue;
            }
            let harms = catalog(&migrated(&MIGRATIONS[..place])).harmed_by(&catalog(&migrated(&MIGRATIONS[..=place])));
            assert!(harms.is_empty(), "{}: {harms:#?}", migration.name);
        }
        let newest = catalog(&migrated(MIGRATIONS));
        assert!(newest.harmed_by(&newest).is_empty());
        for bad in [
            "ALTER TABLE tasks DROP COLUMN pushed_by",
            "DROP INDEX steps_due",
            "CREATE UNIQUE INDEX u ON tasks (source)",
        ] {
            let connection = migrated(MIGRATIONS);
            connection.execute_batch(bad).expect("changed");
            assert_eq!(newest.harmed_by(&catalog(&connection)).len(), 1, "{bad}");
        }
    }

    fn catalog(connection: &Connection) -> Catalog {
        fn rows<T>(connection: &Connection, sql: &str, read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
            let mut statement = connection.prepare(sql).expect("a query");
            statement.query_map([], read).expect("rows").collect::<rusqlite::Result<_>>().expect("rows")
        }
        let columns = "SELECT s.name, c.name, c.type, c.\"notnull\", c.dflt_value IS NOT NULL
                       FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type IN ('table', 'view')";
        let column = |row: &Row<'_>| -> rusqlite::Result<Column> {
            Ok(Column { kind: row.get(2)?, required: row.get(3)?, filled: row.get(4)? })
        };
        let rules = "SELECT tbl_name, sql, sql NOT LIKE 'CREATE INDEX %' FROM sqlite_schema
                     WHERE type IN ('index', 'trigger') AND sql IS NOT NULL";
        Catalog {
            columns: rows(connection, columns, |row| Ok(((row.get(0)?, row.get(1)?), column(row)?)))
                .into_iter()
                .collect(),
            rules: rows(connection, rules, |row| {
                Ok(Rule { table: row.get(0)?, text: row.get(1)?, refuses: row.get(2)? })
            })
            .into_iter()
            .collect(),
        }
    }

    #[test]
    fn versions_count_up_without_gaps() {
        for (place, migration) in (1..).zip(MIGRATIONS) {
            assert_eq!(migration.version, place);
            assert!(migration.min_reader <= migration.version);
        }
    }

    #[test]
    fn what_was_applied_is_not_applied_again() {
        let mut connection = migrated(&[FIRST]);
        run(&mut connection, "test", &[FIRST]).expect("nothing to do");
        run(&mut connection, "test", &[FIRST, GOOD]).expect("one to do");
        run(&mut connection, "test", &[FIRST, GOOD]).expect("nothing to do");
        assert!(tables(&connection).contains(&"more".to_owned()));
        let old = run(&mut connection, "test", &[FIRST]).expect_err("an old build");
        assert!(matches!(old, StoreError::TooNew { needs: 2, knows: 1, .. }), "{old}");
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_old_version() {
        let broken = Migration { sql: "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)", ..GOOD };
        let mut connection = migrated(&[FIRST]);
        let before = tables(&connection);
        run(&mut connection, "test", &[FIRST, broken]).expect_err("a broken migration");
        assert_eq!(tables(&connection), before);
        assert_eq!(applied(&connection, "test").expect("its history").len(), 1);
        assert_eq!(min_reader(&connection, "test", false).expect("its word"), Some(1));
        run(&mut connection, "test", &[FIRST, GOOD]).expect("a mended migration");
    }

    #[test]
    fn jobs_that_went_on_before_get_their_families() {
        let (before, _) = MIGRATIONS.split_at(7);
        let mut connection = migrated(before);
        // 2 and 4 went on for 1, 3 for 2; 6 for 5.
        let old = "INSERT INTO lineage (job_id, continues, resolves, how, by, at) VALUES
            (x'02', x'01', 0, 'retry', 'ann', 10), (x'03', x'02', 1, 'rerun', 'ann', 20),
            (x'04', x'01', 0, 'retry', 'ann', 30), (x'06', x'05', 0, 'retry', 'ann', 15)";
        connection.execute_batch(old).expect("rows of an older build");
        run(&mut connection, "test", MIGRATIONS).expect("the newest schema");
        let mut rows = connection.prepare("SELECT hex(job_id), hex(root), number FROM lineage").expect("a query");
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
        let rows: Vec<(String, String, u32)> = rows.collect::<rusqlite::Result<_>>().expect("families");
        let expected = [("02", "01", 1), ("03", "01", 2), ("04", "01", 3), ("06", "05", 1)];
        assert_eq!(rows, expected.map(|(job, root, number)| (job.to_owned(), root.to_owned(), number)));
    }

    #[test]
    fn the_time_of_a_migration_is_in_microseconds() {
        let connection = migrated(&[FIRST]);
        let at: i64 =
            connection.query_row("SELECT applied_at FROM schema_migrations", [], |row| row.get(0)).expect("the time");
        let year_2020 = 1_577_836_800_000_000;
        assert!((year_2020..year_2020 * 10).contains(&at), "{at}");
    }
}
