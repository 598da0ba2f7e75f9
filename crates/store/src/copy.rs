//! Which tables move from a SQLite database to PostgreSQL, column by column, and how both sides are compared afterwards.
//!
//! `bowline db copy` reads rows of [`Cell`]s from one store and writes them to the other one. What a column holds is the same on both
//! sides; how it is stored is not, and [`Kind`] is all that either store must know. The two schemas are held against [`TABLES`] by
//! tests of the stores, so that no table and no column is forgotten.

use std::borrow::Cow;

use uuid::Uuid;

/// What a column holds, and as what: SQLite's type, PostgreSQL's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 16 bytes, `uuid`.
    Id,
    /// `INTEGER`, `bigint`.
    Number,
    /// `INTEGER`, `integer`.
    Small,
    /// 0 or 1, `boolean`.
    Flag,
    /// `TEXT`, `text`.
    Text,
    /// `BLOB`, `bytea`.
    Bytes,
}

/// One value of a row, on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    Nothing,
    Id(Uuid),
    Number(i64),
    Small(i32),
    Flag(bool),
    Text(String),
    Bytes(Vec<u8>),
}

pub type Row = Vec<Cell>;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// What SQLite is asked for it, where that is not the column of the same name.
    pub made_of: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    /// The primary key. Ids, numbers and words have the same order in both stores.
    pub key: &'static [&'static str],
    /// Which rows belong to the installation and not to its schema; none: all of them.
    pub keep: Option<&'static str>,
    /// What SQLite is asked for the rows, where that is not the table of the same name.
    pub rows: Option<&'static str>,
    pub columns: &'static [Column],
}

/// Tables that do not move, with the reason.
pub const NOT_COPIED: &[(&str, &str)] = &[(
    "schema_migrations",
    "it says what the database itself has been through, and each store counts its versions alone",
)];

/// SQLite has no column for it: it looks into the outcome.
const LATE_ARTIFACTS: &str =
    "CASE WHEN json_valid(late_outcome) THEN json_extract(late_outcome, '$.artifacts.stored.id') END";

/// Workers that were enrolled before tokens had tags.
const ALLOWED_TAGS: &str = "CASE allowed_tags WHEN '' THEN '[]' ELSE allowed_tags END";

/// PostgreSQL counts events by the counter alone, of which SQLite needs only a floor, and never makes the row of a counter.
const COUNTERS: &str = "(
    SELECT 'event' AS name, max(coalesce((SELECT max(id) FROM events), 0),
                                coalesce((SELECT value FROM counters WHERE name = 'event'), 0)) AS value
    UNION ALL SELECT 'fence', coalesce((SELECT value FROM counters WHERE name = 'fence'), 0)
    UNION ALL SELECT 'server', coalesce((SELECT value FROM counters WHERE name = 'server'), 0)
    UNION ALL SELECT name, value FROM counters WHERE name NOT IN ('event', 'fence', 'server')
)";

/// Every other one.
pub const TABLES: &[Table] = &[
    Table {
        name: "meta",
        key: &["key"],
        keep: Some("key <> 'min_reader'"),
        rows: None,
        columns: &[text("key"), text("value")],
    },
    Table {
        name: "counters",
        key: &["name"],
        keep: None,
        rows: Some(COUNTERS),
        columns: &[text("name"), number("value")],
    },
    Table {
        name: "definitions",
        key: &["hash"],
        keep: None,
        rows: None,
        columns: &[bytes("hash"), text("source"), text("settings")],
    },
    Table {
        name: "jobs",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            number("version"),
            text("state"),
            text("owner"),
            number("check_at"),
            text("action"),
            text("task"),
            bytes("definition"),
            text("input"),
            small("priority"),
            text("submitted_by"),
            number("created_at"),
            number("started_at"),
            number("ended_at"),
            number("expires_at"),
            text("error_code"),
            text("error_message"),
            text("error_step"),
            text("data"),
            id("parent_job"),
            number("parent_step"),
            id("hook_of"),
            text("slot_group"),
            number("admitted_at"),
            flag("strays"),
        ],
    },
    Table {
        name: "steps",
        key: &["job_id", "ix"],
        keep: None,
        rows: None,
        columns: &[
            id("job_id"),
            number("ix"),
            text("name"),
            text("state"),
            text("owner"),
            number("check_at"),
            text("action"),
            id("worker_id"),
            id("attempt_id"),
            number("fence"),
            number("dispatch_attempts"),
            text("error_code"),
            text("error_message"),
            number("queued_at"),
            number("disconnected_at"),
            number("recovery_deadline"),
            number("updated_at"),
            text("data"),
            text("artifacts"),
        ],
    },
    Table {
        name: "attempts",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            id("job_id"),
            number("ix"),
            number("number"),
            number("fence"),
            id("worker_id"),
            number("epoch"),
            text("state"),
            flag("confirmed"),
            flag("begun"),
            number("started_at"),
            number("ended_at"),
            small("exit_code"),
            small("signal"),
            text("error_code"),
            text("error_message"),
            number("cpu_ms"),
            number("memory_bytes_max"),
            text("cleanup"),
            number("duration_ms"),
            text("late_outcome"),
            number("late_at"),
            text("late_artifacts").made_of(LATE_ARTIFACTS),
        ],
    },
    Table {
        name: "events",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            number("id"),
            id("job_id"),
            number("ix"),
            number("at"),
            text("kind"),
            text("verb"),
            text("from"),
            text("to"),
            id("worker_id"),
            text("reason"),
        ],
    },
    Table {
        name: "outbox",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            id("job_id"),
            text("kind"),
            text("body"),
            number("created_at"),
            number("tries"),
            number("next_at"),
            number("delivered_at"),
            text("error"),
        ],
    },
    Table {
        name: "idempotency",
        key: &["token_id", "key"],
        keep: None,
        rows: None,
        columns: &[id("token_id"), text("key"), bytes("request_hash"), id("job_id"), number("created_at")],
    },
    Table {
        name: "quarantine",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[number("id"), id("job_id"), number("at"), text("event"), text("error")],
    },
    Table {
        name: "logs",
        key: &["attempt_id"],
        keep: None,
        rows: None,
        columns: &[
            id("attempt_id"),
            number("last_seq"),
            flag("complete"),
            flag("closed"),
            number("close_at"),
            number("end_seq"),
        ],
    },
    Table {
        name: "log_chunks",
        key: &["attempt_id", "first_seq"],
        keep: None,
        rows: None,
        columns: &[id("attempt_id"), number("first_seq"), number("last_seq"), bytes("blocks")],
    },
    Table {
        name: "log_marks",
        key: &["attempt_id", "after_seq", "sub"],
        keep: None,
        rows: None,
        columns: &[
            id("attempt_id"),
            number("after_seq"),
            number("sub"),
            number("at"),
            number("missing"),
            flag("closing"),
            text("text"),
        ],
    },
    Table {
        name: "workers",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            text("name"),
            bytes("credential_hash"),
            number("epoch"),
            number("used_epoch"),
            flag("draining"),
            text("kind"),
            text("tags"),
            number("slots"),
            id("session_id"),
            text("boot_id"),
            id("state_id"),
            text("machine"),
            text("version"),
            text("platform"),
            text("hostname"),
            number("pid"),
            number("created_at"),
            number("started_at"),
            number("last_seen_at"),
            number("removed_at"),
            number("left_heard"),
            flag("no_reconnect"),
            text("allowed_tags").made_of(ALLOWED_TAGS),
            id("server_id"),
            flag("unwilling"),
            text("features"),
            flag("unread"),
            number("after_loss"),
        ],
    },
    Table {
        name: "departed",
        key: &["worker_id"],
        keep: None,
        rows: None,
        columns: &[id("worker_id"), bytes("credential_hash"), number("at")],
    },
    Table {
        name: "tokens",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            text("kind"),
            text("role"),
            text("name"),
            bytes("hash"),
            text("tags"),
            number("uses_left"),
            number("created_at"),
            number("expires_at"),
            number("revoked_at"),
        ],
    },
    Table {
        name: "tasks",
        key: &["name"],
        keep: None,
        rows: None,
        columns: &[text("name"), text("source"), number("pushed_at"), text("pushed_by")],
    },
    Table {
        name: "secrets",
        key: &["name"],
        keep: None,
        rows: None,
        columns: &[text("name"), bytes("sealed"), number("set_at"), text("set_by")],
    },
    Table {
        name: "triggers",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            text("id"),
            number("version"),
            text("task"),
            text("kind"),
            text("definition"),
            number("paused_at"),
            text("paused_by"),
            number("planned_at"),
            number("next_at"),
            number("last_at"),
            id("last_job"),
            text("last_error"),
            number("missed"),
            text("notice"),
            number("notice_at"),
        ],
    },
    Table {
        name: "slot_groups",
        key: &["name"],
        keep: None,
        rows: None,
        columns: &[text("name"), id("last_admitted"), number("admitted_at")],
    },
    Table {
        name: "lineage",
        key: &["job_id"],
        keep: None,
        rows: None,
        columns: &[
            id("job_id"),
            id("continues"),
            id("root"),
            number("number"),
            flag("resolves"),
            text("how"),
            text("by"),
            number("at"),
        ],
    },
    Table { name: "doomed", key: &["job_id"], keep: None, rows: None, columns: &[id("job_id"), number("at")] },
    Table {
        name: "beats",
        key: &["attempt_id", "sender_id", "role"],
        keep: None,
        rows: None,
        columns: &[
            id("attempt_id"),
            id("sender_id"),
            text("role"),
            text("hostname"),
            number("pid"),
            number("first_at"),
            number("last_at"),
            number("count"),
            number("longest_gap"),
        ],
    },
    Table {
        name: "beat_history",
        key: &["attempt_id", "sender_id", "role", "first_at"],
        keep: None,
        rows: None,
        columns: &[
            id("attempt_id"),
            id("sender_id"),
            text("role"),
            text("hostname"),
            number("pid"),
            number("first_at"),
            number("last_at"),
            number("count"),
            number("longest_gap"),
        ],
    },
    Table {
        name: "hearing",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            number("id"),
            number("mark_at"),
            number("deaf_us"),
            number("stretch_from"),
            number("unsettled_since"),
            number("verdicts_from"),
            flag("alarmed"),
        ],
    },
    Table {
        name: "breaker",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[number("id"), number("tripped_at"), number("lost"), number("connected"), number("ended_at")],
    },
    Table {
        name: "servers",
        key: &["id"],
        keep: None,
        rows: None,
        columns: &[
            id("id"),
            number("generation"),
            text("address"),
            number("started_at"),
            number("beat_at"),
            number("beat_heard"),
            number("left_at"),
        ],
    },
    Table {
        name: "leases",
        key: &["name"],
        keep: None,
        rows: None,
        columns: &[text("name"), id("holder"), number("epoch"), number("until_heard")],
    },
];

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, made_of: None }
}

const fn id(name: &'static str) -> Column {
    column(name, Kind::Id)
}

const fn number(name: &'static str) -> Column {
    column(name, Kind::Number)
}

const fn small(name: &'static str) -> Column {
    column(name, Kind::Small)
}

const fn flag(name: &'static str) -> Column {
    column(name, Kind::Flag)
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text)
}

const fn bytes(name: &'static str) -> Column {
    column(name, Kind::Bytes)
}

impl Column {
    const fn made_of(self, expression: &'static str) -> Column {
        Column { made_of: Some(expression), ..self }
    }
}

impl Table {
    /// Its columns, as a list between commas. Some of them are named as words of SQL are.
    pub fn names(&self) -> String {
        listed(self.columns.iter().map(|column| column.name))
    }

    /// What SQLite is asked for all of it, in the order of its key.
    pub fn sqlite_query(&self) -> String {
        let column = |column: &Column| match column.made_of {
            Some(expression) => expression.to_owned(),
            None => format!("\"{}\"", column.name),
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        self.query(&columns.join(", "), self.rows.unwrap_or(self.name), &listed(self.key.iter().copied()))
    }

    /// The same for PostgreSQL, where words have the order of their bytes only if that is asked for.
    pub fn postgres_query(&self) -> String {
        let is_text = |name: &str| self.columns.iter().any(|column| column.name == name && column.kind == Kind::Text);
        let key = |name: &&str| match is_text(name) {
            true => format!("\"{name}\" COLLATE \"C\""),
            false => format!("\"{name}\""),
        };
        self.query(&self.names(), self.name, &self.key.iter().map(key).collect::<Vec<String>>().join(", "))
    }

    fn query(&self, columns: &str, rows: &str, key: &str) -> String {
        let keep = self.keep.map(|keep| format!(" WHERE {keep}")).unwrap_or_default();
        format!("SELECT {columns} FROM {rows}{keep} ORDER BY {key}")
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("\"{name}\"")).collect::<Vec<String>>().join(", ")
}

/// PostgreSQL's text cannot hold the character NUL. It becomes what a server on PostgreSQL would have written for it.
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

impl Cell {
    /// About how much room it takes on its way.
    pub fn size(&self) -> usize {
        match self {
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
            Cell::Nothing | Cell::Id(_) | Cell::Number(_) | Cell::Small(_) | Cell::Flag(_) => 16,
        }
    }
}

/// What a table came to: how many rows, and a hash of all of them in order.
#[derive(Debug, Clone, Default)]
pub struct Digest {
    pub rows: u64,
    hasher: blake3::Hasher,
}

impl Digest {
    pub fn add(&mut self, row: &[Cell]) {
        self.rows += 1;
        for cell in row {
            self.add_cell(cell);
        }
    }

    /// No two rows that differ can come to the same bytes: each value says what it is, and how long where that is not known.
    fn add_cell(&mut self, cell: &Cell) {
        let mut put = |tag: u8, bytes: &[u8]| {
            self.hasher.update(&[tag]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        match cell {
            Cell::Nothing => put(0, &[]),
            Cell::Id(id) => put(1, id.as_bytes()),
            Cell::Number(number) => put(2, &number.to_le_bytes()),
            Cell::Small(number) => put(3, &number.to_le_bytes()),
            Cell::Flag(flag) => put(4, &[u8::from(*flag)]),
            Cell::Text(text) => put(5, text.as_bytes()),
            Cell::Bytes(bytes) => put(6, bytes),
        }
    }

    pub fn hash(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        self.rows == other.rows && self.hasher.finalize() == other.hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[&[Cell]]) -> Digest {
        let mut digest = Digest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn whatever_differs_is_seen() {
        let word = |text: &str| Cell::Text(text.to_owned());
        let cases: [&[&[Cell]]; 7] = [
            &[],
            &[&[Cell::Nothing]],
            &[&[word("")]],
            &[&[word("ab"), word("c")]],
            &[&[word("a"), word("bc")]],
            &[&[Cell::Number(1)]],
            &[&[Cell::Flag(true)]],
        ];
        for (n, one) in cases.iter().enumerate() {
            for (m, other) in cases.iter().enumerate() {
                assert_eq!(digest(one) == digest(other), n == m, "{one:?} and {other:?}");
            }
        }
        let (a, b): (&[Cell], &[Cell]) = (&[Cell::Number(1)], &[Cell::Number(2)]);
        assert_ne!(digest(&[a, b]).hash(), digest(&[b, a]).hash(), "the order counts");
    }

    #[test]
    fn no_table_stands_twice_and_each_has_its_key() {
        for (n, table) in TABLES.iter().enumerate() {
            assert!(TABLES.iter().skip(n + 1).all(|other| other.name != table.name), "{}", table.name);
            assert!(NOT_COPIED.iter().all(|(name, _)| *name != table.name), "{}", table.name);
            for key in table.key {
                assert!(table.columns.iter().any(|column| column.name == *key), "{}.{key}", table.name);
            }
        }
    }
}
