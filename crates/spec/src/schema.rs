//! JSON Schemas of the three files, made from the same shapes that the readers use. Checked in under `schemas/`, so that
//! editors find them; a test keeps those copies true.

use serde_json::{Map, Value, json};

use crate::config::shape::{SERVER, WORKER};
use crate::lower::{Kind, Shape};
use crate::task::shape::TASK;

/// What durations look like, for editors; the readers say more.
const DURATION_PATTERN: &str = "^([0-9]+(ms|[wdhms]))+$";
const SIZE_PATTERN: &str = "^[0-9]+ *([kKMGT]i?)?[bB]?$";

pub fn task() -> Value {
    root("Bowline task", &TASK)
}

pub fn server() -> Value {
    root("Bowline server configuration", &SERVER)
}

pub fn worker() -> Value {
    root("Bowline worker configuration", &WORKER)
}

fn root(title: &str, shape: &'static Shape) -> Value {
    let mut schema = object(shape);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(title));
    Value::Object(schema)
}

fn object(shape: &'static Shape) -> Map<String, Value> {
    let mut properties = Map::new();
    for key in shape.keys {
        let mut value = of(&key.kind);
        value.insert("description".to_owned(), json!(key.doc));
        properties.insert(key.name.to_owned(), Value::Object(value));
    }
    let required: Vec<&str> = shape.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut schema = entries(json!({ "type": "object", "additionalProperties": false, "properties": properties }));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn of(kind: &'static Kind) -> Map<String, Value> {
    entries(match kind {
        Kind::Any => json!({}),
        Kind::Null => json!({ "type": "null" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::AnyScalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } if *min == f64::MIN && *max == f64::MAX => json!({ "type": "number" }),
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Duration => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Kind::Size => {
            json!({ "anyOf": [{ "type": "string", "pattern": SIZE_PATTERN }, { "type": "integer", "minimum": 0 }] })
        }
        Kind::Words(words) => json!({ "enum": words }),
        Kind::List(item) => json!({ "type": "array", "items": of(item) }),
        Kind::Map(value) => json!({ "type": "object", "additionalProperties": of(value) }),
        Kind::Shape(shape) => return object(shape),
        Kind::OneOf(kinds) => json!({ "anyOf": kinds.iter().map(of).collect::<Vec<_>>() }),
    })
}

fn entries(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}
