//! A job's state has one way into the database. No SQL of the project, in files or in Rust, may open a second one.

use std::fs;
use std::path::{Path, PathBuf};

/// The tables that hold states, and what only their one statement may write.
const GUARDED_TABLES: [&str; 3] = ["jobs", "steps", "attempts"];
const GUARDED_COLUMNS: [&str; 5] = ["state", "owner", "check_at", "action", "version"];

/// Each writes the states of one table, and is fed from a batch's rows.
const THE_ONES: [&str; 7] = [
    "store-postgres/sql/add_job.sql",
    "store-postgres/sql/put_attempt.sql",
    "store-postgres/sql/put_job.sql",
    "store-postgres/sql/put_step.sql",
    "store-sqlite/sql/put_attempt.sql",
    "store-sqlite/sql/put_job.sql",
    "store-sqlite/sql/put_step.sql",
];

/// What is old goes whole: the header first, and only of a job that is over; then what is left of it.
const THE_LAST_ONES: [&str; 3] = ["doom_job.sql", "drop_attempt.sql", "drop_steps.sql"];

/// Statements of older builds, which a test prepares and nobody sends.
const THE_PAST: &str = "store-postgres/past/";

#[test]
fn no_other_sql_writes_states() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let mut writers = Vec::new();
    let (mut files, mut statements) = (0, 0);
    for path in source_files(crates) {
        let text = fs::read_to_string(&path).expect("a source file");
        let is_sql = path.extension().is_some_and(|e| e == "sql");
        let texts = if is_sql { vec![text] } else { string_literals(&text) };
        files += 1;
        statements += texts.iter().filter(|text| !writes(text).is_empty()).count();
        if texts.iter().any(|text| touches_states(text)) {
            writers.push(path.strip_prefix(crates).expect("one of them").display().to_string());
        }
    }
    assert!(files > 50 && statements > 15, "the scan found next to nothing: {files} files, {statements} writes");
    writers.retain(|writer| !THE_LAST_ONES.iter().any(|last| writer.ends_with(&format!("/sql/{last}"))));
    writers.retain(|writer| !writer.starts_with(THE_PAST));
    writers.sort();
    assert_eq!(writers, THE_ONES);
}

#[test]
fn the_scan_sees_what_it_should() {
    for bad in [
        "UPDATE jobs SET state = 'failed'",
        "update steps set updated_at = 1,\n  check_at = NULL where ix = 1",
        "UPDATE OR IGNORE attempts SET state = ?1",
        "UPDATE main.jobs SET version = version + 1",
        "UPDATE \"jobs\" SET owner = 'me'",
        "UPDATE jobs AS j SET action = ''",
        "INSERT INTO steps (job_id, ix, state) VALUES (1, 2, 'x')",
        "INSERT INTO steps SELECT * FROM old",
        "INSERT INTO tokens (id) VALUES (1) -- fine\n; DELETE FROM jobs WHERE id = 1",
        "INSERT OR REPLACE INTO attempts (id) VALUES (1)",
        "REPLACE INTO jobs VALUES (1)",
        "DELETE FROM steps",
        "UPDATE {table} SET updated_at = 1",
        "WITH x AS (SELECT 1) UPDATE jobs SET state = 'x'",
        "CREATE TRIGGER t AFTER INSERT ON meta BEGIN UPDATE jobs SET state = 'x'; END",
    ] {
        assert!(touches_states(bad), "{bad}");
    }
    for good in [
        "SELECT state FROM jobs WHERE check_at < 1",
        "UPDATE attempts SET late_outcome = ?2 WHERE id = ?1 AND late_outcome IS NULL",
        "UPDATE tokens SET uses_left = 1",
        "INSERT INTO events (id, kind) VALUES (1, 'state')",
        "-- UPDATE jobs SET state = 'x'\nSELECT 1",
        "cannot update the state of this job",
    ] {
        assert!(!touches_states(good), "{good}");
    }
    let rust = r##"
        // "UPDATE jobs SET state = 1"
        /* "in /* a nested */ comment" */
        const A: &str = "one \" two";
        fn f<'a>(x: &'a str) -> char { '"' }
        const B: &str = r#"three "four""#;
        const C: &[u8] = b"five";
    "##;
    assert_eq!(string_literals(rust), ["one \\\" two", "three \"four\"", "five"]);
}

/// Whether some statement of this text writes what only [`THE_ONES`] may.
fn touches_states(text: &str) -> bool {
    writes(text).iter().any(|write| {
        // A name that is filled in later can be any table.
        let guarded = GUARDED_TABLES.contains(&write.table.as_str()) || write.table == "{";
        guarded && (write.whole_row || write.words.iter().any(|word| GUARDED_COLUMNS.contains(&word.as_str())))
    })
}

/// One writing statement.
struct Write {
    table: String,
    /// It needs no column's name to change or remove a state.
    whole_row: bool,
    /// The words between the table and the end of what is written.
    words: Vec<String>,
}

fn writes(text: &str) -> Vec<Write> {
    let words = sql_words(text);
    let mut found = Vec::new();
    for (place, verb) in words.iter().enumerate() {
        let (on_conflict, rest) = match &words[place + 1..] {
            [or, how, rest @ ..] if or == "or" => (how.as_str(), rest),
            rest => ("", rest),
        };
        let replaces = verb == "replace" || on_conflict == "replace";
        let rest = match (verb.as_str(), rest) {
            ("update", rest) => rest,
            ("insert" | "replace", [into, rest @ ..]) if into == "into" => rest,
            ("delete", [from, rest @ ..]) if from == "from" => rest,
            _ => continue,
        };
        // A schema may stand before the table.
        let (table, rest) = match rest {
            [_, dot, table, rest @ ..] if dot == "." => (table, rest),
            [table, rest @ ..] => (table, rest),
            [] => continue,
        };
        if verb == "update" && !rest.iter().take(3).any(|word| word == "set") && table != "{" {
            continue; // Prose.
        }
        let named = verb == "insert" && rest.first().is_some_and(|word| word == "(");
        let whole_row = verb == "delete" || replaces || (verb == "insert" && !named) || table == "{";
        let ends = if verb == "insert" { [";", "values"] } else { [";", "where"] };
        let words = rest.iter().take_while(|word| !ends.contains(&word.as_str())).cloned().collect();
        found.push(Write { table: table.clone(), whole_row, words });
    }
    found
}

/// Names, numbers and signs, in lower case; without comments, quoted text and the quotes of names.
fn sql_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let code = line.split("--").next().unwrap_or_default();
        let mut word = String::new();
        let mut quoted = false;
        for c in code.chars().chain([' ']) {
            if c == '\'' {
                quoted = !quoted;
            }
            if !quoted && (c.is_ascii_alphanumeric() || c == '_') {
                word.push(c.to_ascii_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !quoted && matches!(c, '(' | ')' | ';' | '.' | ',' | '{') {
                words.push(c.to_string());
            }
        }
    }
    words
}

/// The insides of all string literals of a Rust file, as they stand there.
fn string_literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = after_block_comment(rest);
        } else if let Some((literal, after)) = raw_string(rest).or_else(|| plain_string(rest)) {
            found.push(literal.to_owned());
            rest = after;
        } else if c == '\'' {
            rest = after_char(rest);
        } else {
            // A whole name at a time, so that the `r` at the end of one begins no raw string.
            let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest = &rest[name.max(c.len_utf8())..];
        }
    }
    found
}

fn raw_string(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let body = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close)?;
    Some((&body[..end], &body[end + close.len()..]))
}

fn plain_string(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("b\"").or_else(|| text.strip_prefix('"'))?;
    let mut escaped = false;
    for (place, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((&body[..place], &body[place + 1..])),
            _ => {}
        }
    }
    None
}

fn after_block_comment(text: &str) -> &str {
    let (mut depth, mut rest) = (0, text);
    loop {
        if let Some(after) = rest.strip_prefix("/*") {
            (depth, rest) = (depth + 1, after);
        } else if let Some(after) = rest.strip_prefix("*/") {
            (depth, rest) = (depth - 1, after);
        } else {
            let Some(c) = rest.chars().next() else { return rest };
            rest = &rest[c.len_utf8()..];
        }
        if depth == 0 {
            return rest;
        }
    }
}

/// Past a character's literal; past only the quote where it begins a lifetime.
fn after_char(text: &str) -> &str {
    let body = &text[1..];
    let Some(first) = body.chars().next() else { return body };
    if first == '\\' {
        return body[2.min(body.len())..].find('\'').map_or("", |end| &body[2 + end + 1..]);
    }
    body[first.len_utf8()..].strip_prefix('\'').unwrap_or(body)
}

/// Every `.rs` under a crate's `src`, and every `.sql` of a crate.
fn source_files(crates: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![crates.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let extension = path.extension().and_then(|e| e.to_str());
            let in_source = path.strip_prefix(crates).is_ok_and(|p| p.components().any(|c| c.as_os_str() == "src"));
            if path.is_dir() {
                folders.push(path);
            } else if extension == Some("sql") || (extension == Some("rs") && in_source) {
                files.push(path);
            }
        }
    }
    files
}
