//! What comes from another store fits, and fills all that there is.

use std::collections::BTreeSet;

use store::copy::{Kind, NOT_COPIED, TABLES};
use store_postgres::PostgresStore;
use testkit::postgres::Database;

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Id => "uuid",
        Kind::Number => "bigint",
        Kind::Small => "integer",
        Kind::Flag => "boolean",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
    }
}

#[test]
fn every_table_and_every_column_is_filled_or_named() {
    let database = Database::new();
    drop(PostgresStore::open(&database.url()).expect("a database"));
    let list = |sql: &str| -> BTreeSet<String> { database.psql(sql).lines().map(str::to_owned).collect() };
    let tables = list("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    let named = TABLES.iter().map(|table| table.name).chain(NOT_COPIED.iter().map(|(name, _)| *name));
    assert_eq!(tables, named.map(str::to_owned).collect());
    for table in TABLES {
        let name = table.name;
        let there = list(&format!(
            "SELECT column_name || ' ' || data_type FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name = '{name}'"
        ));
        let filled = table.columns.iter().map(|column| format!("{} {}", column.name, type_of(column.kind)));
        assert_eq!(there, filled.collect(), "{name}");
        let key = list(&format!(
            "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
             WHERE indrelid = '{name}'::regclass AND indisprimary"
        ));
        assert_eq!(key, table.key.iter().map(|&column| column.to_owned()).collect(), "{name}");
    }
}
