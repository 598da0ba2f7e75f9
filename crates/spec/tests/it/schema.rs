//! The JSON Schemas: checked in, and telling the same story as the readers. What the readers take must fit them: the files of the
//! project and the blocks on its pages here, and every good text of the other tests there.

use std::path::PathBuf;

use serde_json::Value;

use crate::pages::blocks;
use crate::plain;

/// The checked-in texts, which name inputs and tasks that nobody declares, but are of the right form.
const CONTRACT: [(&str, &str); 3] = [
    ("task", include_str!("data/contract-task.yaml")),
    ("server", include_str!("data/contract-server.yaml")),
    ("worker", include_str!("data/contract-worker.yaml")),
];

/// Editors must not underline what the readers take.
pub(crate) fn fits(text: &str) {
    fits_as(&spec::schema::task(), text);
}

fn fits_as(schema: &Value, text: &str) {
    assert_eq!(misfits(schema, &plain::read(text), "$"), Vec::<String>::new(), "the schema has it otherwise:\n{text}");
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

#[test]
fn the_checked_in_files_are_current() {
    let schemas =
        [("task", spec::schema::task()), ("server", spec::schema::server()), ("worker", spec::schema::worker())];
    for (name, schema) in schemas {
        let path = folder().join(format!("{name}.schema.json"));
        let text = format!("{schema:#}\n");
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &text).expect("the schema can be written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} is not current; run the tests with UPDATE_SCHEMAS=1", path.display());
    }
}

/// Documented files, as JSON, written by hand so that nothing of ours translates them.
#[test]
fn good_files_fit() {
    let task: Value = serde_json::json!({
        "name": "t", "timeout": "45m", "env": { "A": 1, "B": "x" }, "priority": 0,
        "input": { "v": { "type": "string", "required": true, "pattern": "^v" } },
        "steps": {
            "a": { "run": "x", "retry": { "attempts": 3, "on": ["failure", "exit:75"], "delay": "5s", "backoff": 2 } },
            "b": { "run": ["ls", "-l"], "needs": ["a", { "step": "a", "on": ["success"] }], "if": "always()", "unmatched": "wait" },
            "c": { "docker": { "image": "alpine:3", "command": ["sh"] }, "timeout": null, "cancel": { "signal": 15, "grace": "1s" } }
        }
    });
    assert_eq!(misfits(&spec::schema::task(), &task, "$"), Vec::<String>::new());
    let worker =
        serde_json::json!({ "servers": ["http://a"], "slots": 4, "ca_file": null, "spool": { "log_bytes": "1GiB" } });
    assert_eq!(misfits(&spec::schema::worker(), &worker, "$"), Vec::<String>::new());
    let server =
        serde_json::json!({ "recovery": { "link_ping_secs": 0.5, "caretaker_after_secs": null }, "scalers": [] });
    assert_eq!(misfits(&spec::schema::server(), &server, "$"), Vec::<String>::new());
}

#[test]
fn what_the_project_shows_fits() {
    let pages = ["README.md", "docs/tasks.md"].into_iter().flat_map(blocks);
    pages.for_each(|block| fits(&block));
    for (name, text) in CONTRACT {
        let schema = match name {
            "server" => spec::schema::server(),
            "worker" => spec::schema::worker(),
            _ => spec::schema::task(),
        };
        fits_as(&schema, text);
    }
    for (number, block) in blocks("docs/operations.md").iter().enumerate() {
        fits_as(&if number == 1 { spec::schema::worker() } else { spec::schema::server() }, block);
    }
}

/// Some ways of saying a thing that no page shows.
#[test]
fn all_that_a_key_may_be_fits() {
    let step = |text: &str| crate::task(&format!("name: t\nsteps:\n  a: {{ run: x, artifacts: x }}\n  b: {text}\n"));
    step("{ run: [sleep, 5, 0.5, true], cleanup: [kill, -9, 1] }");
    step("{ run: x, needs: [{ step: a, on: failure }] }");
    step("{ run: x, needs: [{ step: a, on: [skipped, failed] }] }");
    step("{ run: x, needs: a, shell: [sh, -e], artifacts: x, fetch: a, cancel: { signal: 9 } }");
    step("{ run: x, needs: a, fetch: { from: a }, artifacts: { paths: x }, if: true, unmatched: wait, timeout: null }");
    step("{ run: x, matrix: { a: [1, b, true, 0.5] }, env: { A: 1, B: true, C: 0.5, D: d } }");
    step("{ task: x, for_each: [1, [a], { b: c }, null], with: { a: null } }");
}

#[test]
fn bad_files_do_not_fit() {
    let bad = serde_json::json!({ "steps": { "a": { "rnu": "x", "effects": "some", "timeout": "5", "retry": 0 } } });
    assert_eq!(
        misfits(&spec::schema::task(), &bad, "$"),
        ["$.steps.a.effects", "$.steps.a.retry", "$.steps.a.rnu", "$.steps.a.timeout", "$.name"]
    );
}

/// As much of JSON Schema as ours use: where a value does not fit.
fn misfits(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(choices) = schema["anyOf"].as_array() {
        if choices.iter().all(|choice| !misfits(choice, value, at).is_empty()) {
            found.push(at.to_owned());
        }
        return found;
    }
    let bounds = |n: f64| {
        schema["minimum"].as_f64().is_none_or(|min| n >= min) && schema["maximum"].as_f64().is_none_or(|max| n <= max)
    };
    let in_words = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let pattern = schema["pattern"].as_str().and_then(|p| regex_lite::Regex::new(p).ok());
    let matches = value.as_str().zip(pattern).is_none_or(|(text, pattern)| pattern.is_match(text));
    if !has_type(schema, value) || !in_words || !matches || !value.as_f64().is_none_or(bounds) {
        return vec![at.to_owned()];
    }
    for item in value.as_array().into_iter().flatten() {
        found.extend(misfits(&schema["items"], item, &format!("{at}[]")));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(property), _) => found.extend(misfits(property, inner, &at)),
            (None, Some(Value::Bool(false))) => found.push(at),
            (None, Some(other)) => found.extend(misfits(other, inner, &at)),
            (None, None) => {}
        }
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            found.push(format!("{at}.{key}"));
        }
    }
    found
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let fits = |name: &str| match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schemas know no type {other}"),
    };
    match &schema["type"] {
        Value::String(name) => fits(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(fits),
        _ => true,
    }
}
