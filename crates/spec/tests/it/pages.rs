//! What the documentation shows is what the parser takes, and what the parser takes is in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::plain;

fn text_of(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn blocks(page: &str) -> Vec<String> {
    let text = text_of(page);
    let mut blocks = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once("```yaml\n") {
        let (block, tail) = after.split_once("```").expect("a block that ends");
        blocks.push(block.to_owned());
        rest = tail;
    }
    blocks
}

fn check_task(page: &str, text: &str) {
    let (task, problems) = spec::task::parse(text, page, &spec::task::Options::default());
    assert!(problems.is_empty(), "{}", spec::render(&problems, false));
    let task = task.expect("a task");
    assert!(task.not_supported.is_empty(), "{page} shows what does not work yet: {:?}", task.not_supported);
}

#[test]
fn every_task_on_the_pages_is_good_and_works_now() {
    let mut count = 0;
    for page in ["README.md", "docs/tasks.md"] {
        for block in blocks(page) {
            check_task(page, &block);
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} examples were found");
}

#[test]
fn every_config_on_the_pages_is_good() {
    let found = blocks("docs/operations.md");
    assert_eq!(found.len(), 6);
    let none = || std::iter::empty::<(String, String)>();
    for text in [&found[0], &found[2], &found[3], &found[4], &found[5]] {
        let (server, problems) = spec::config::server::parse(text, "server", none());
        assert!(server.is_some() && problems.is_empty(), "{}", spec::render(&problems, false));
    }
    let (worker, problems) = spec::config::worker::parse(&found[1], "worker", none());
    assert!(worker.is_some() && problems.is_empty(), "{}", spec::render(&problems, false));
}

/// Where the tables of each shape's keys stand in docs/tasks.md. A shape is called as the key that holds it.
const TABLES: [(&str, &[&str]); 14] = [
    ("task", &["## The task"]),
    ("defaults", &["### Defaults"]),
    ("input", &["## Inputs"]),
    ("steps", &["## Steps", "### One step for each item", "### A job of its own"]),
    ("cancel", &["### Stopping and cleaning up"]),
    ("retry", &["### Retry"]),
    ("needs", &["### Needs and conditions"]),
    ("approve", &["### Approvals and environments"]),
    ("artifacts", &["### Artifacts"]),
    ("fetch", &["### Artifacts"]),
    ("hook", &["## Hooks"]),
    ("triggers", &["### By time", "### By a call"]),
    ("concurrency", &["## Concurrency groups"]),
    // Containers are not supported yet, so no example may show them; the table of steps says what there will be.
    ("docker pod", &[]),
];

/// For the same reason.
const WITHOUT_EXAMPLE: [(&str, &str); 3] = [("steps", "docker"), ("steps", "pod"), ("steps", "image")];

#[test]
fn every_key_of_a_task_has_a_row_with_its_default_and_an_example() {
    let schema = spec::schema::task();
    let mut keys = BTreeMap::new();
    collect("task", &schema, &mut keys);
    let mut shown = BTreeSet::new();
    for block in blocks("docs/tasks.md") {
        walk("task", &schema, &plain::read(&block), &mut shown);
    }
    let page = text_of("docs/tasks.md");
    let mut missing = Vec::new();
    for (shape, keys) in &keys {
        let (_, sections) =
            TABLES.iter().find(|(names, _)| names.split(' ').any(|name| name == shape)).expect("its place");
        if sections.is_empty() {
            continue;
        }
        let rows: BTreeSet<&str> = sections.iter().flat_map(|section| rows_of(&page, section)).collect();
        for key in keys {
            if !rows.contains(key.as_str()) {
                missing.push(format!("`{key}` of {shape} has no row with a default under {sections:?}"));
            }
            let has_none = WITHOUT_EXAMPLE.contains(&(shape.as_str(), key.as_str()));
            if shown.contains(&(shape.clone(), key.clone())) == has_none {
                missing.push(format!("`{key}` of {shape} should be in {} example", if has_none { "no" } else { "an" }));
            }
        }
    }
    for word in words(&schema["properties"]["input"]["additionalProperties"]["properties"]["type"]) {
        if !blocks("docs/tasks.md").iter().any(|block| block.contains(&format!("type: {word}"))) {
            missing.push(format!("no example has an input of the type `{word}`"));
        }
    }
    assert!(missing.is_empty(), "docs/tasks.md:\n{}", missing.join("\n"));
}

/// The keys of every shape, by its name.
fn collect(shape: &str, schema: &Value, keys: &mut BTreeMap<String, BTreeSet<String>>) {
    for (key, value) in properties(schema) {
        keys.entry(shape.to_owned()).or_default().insert(key.clone());
        collect(shape_of(key), value, keys);
    }
    below(schema).into_iter().for_each(|schema| collect(shape, schema, keys));
}

/// The keys that a text uses, each with the shape that it is of.
fn walk(shape: &str, schema: &Value, text: &Value, shown: &mut BTreeSet<(String, String)>) {
    match text {
        Value::Object(entries) => {
            for (key, value) in entries {
                match properties(schema).find(|(name, _)| *name == key) {
                    Some((_, schema)) => {
                        shown.insert((shape.to_owned(), key.clone()));
                        walk(shape_of(key), schema, value, shown);
                    }
                    None => walk(shape, &schema["additionalProperties"], value, shown),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(shape, &schema["items"], item, shown)),
        _ => {}
    }
    let ways = schema["anyOf"].as_array().into_iter().flatten();
    ways.for_each(|way| walk(shape, way, text, shown));
}

/// The shape of what a key holds.
fn shape_of(key: &str) -> &str {
    if key.starts_with("on_") { "hook" } else { key }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// What a list, a mapping of names, or one of several ways holds.
fn below(schema: &Value) -> Vec<&Value> {
    let parts = ["items", "additionalProperties"].into_iter().filter_map(|part| schema.get(part));
    parts.chain(schema["anyOf"].as_array().into_iter().flatten()).collect()
}

fn words(schema: &Value) -> Vec<&str> {
    let words: Vec<&str> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(!words.is_empty(), "{schema}");
    words
}

/// What stands in the first cells of a section's tables that say defaults.
fn rows_of<'p>(page: &'p str, section: &str) -> Vec<&'p str> {
    let (_, rest) = page.split_once(&format!("\n{section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let lines = rest.lines().take_while(|line| !line.starts_with("## ") && !line.starts_with("### "));
    let mut found = Vec::new();
    let mut counts = false;
    for line in lines {
        let Some(row) = line.strip_prefix("| ") else {
            counts &= line.starts_with("|---");
            continue;
        };
        counts |= row.starts_with("key") && row.ends_with("| default |");
        let first = row.split(" | ").next().unwrap_or_default();
        if counts {
            found.extend(first.split('`').skip(1).step_by(2));
        }
    }
    found
}
