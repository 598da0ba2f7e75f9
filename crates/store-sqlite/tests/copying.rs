//! What moves to another store is all that there is.

use rusqlite::Connection;
use store::copy::{NOT_COPIED, TABLES};
use store_sqlite::SqliteStore;

#[test]
fn every_table_and_every_column_is_copied_or_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.db");
    drop(SqliteStore::open(&path).expect("a database"));
    let connection = Connection::open(&path).expect("a database");
    let list = |sql: &str| -> Vec<String> {
        let mut asked = connection.prepare(sql).expect("a query");
        asked.query_map([], |row| row.get(0)).expect("rows").collect::<rusqlite::Result<_>>().expect("names")
    };
    let mut named: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    named.extend(NOT_COPIED.iter().map(|(name, _)| *name));
    named.sort_unstable();
    assert_eq!(list("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"), named);
    for table in TABLES {
        let there = list(&format!("SELECT name FROM pragma_table_info('{}')", table.name));
        let copied = |name: &String| table.columns.iter().any(|column| column.name == name);
        assert!(there.iter().all(copied), "{}: {there:?}", table.name);
        let known = |name: &str| there.iter().any(|other| other == name);
        let unknown: Vec<&str> = table.columns.iter().map(|column| column.name).filter(|name| !known(name)).collect();
        // The other store has a column for what this one looks for in another.
        let only_there: &[&str] = if table.name == "attempts" { &["late_artifacts"] } else { &[] };
        assert_eq!(unknown, only_there, "{}", table.name);
        let key = list(&format!("SELECT name FROM pragma_table_info('{}') WHERE pk > 0 ORDER BY pk", table.name));
        assert_eq!(key, table.key, "{}", table.name);
        connection.prepare(&table.sqlite_query()).expect("a query that can be asked");
    }
}
