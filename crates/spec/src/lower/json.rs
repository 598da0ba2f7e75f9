//! Free values of a file as JSON: defaults of inputs, what a child task is given.

use serde_json::{Map, Number, Value as Json};

use crate::yaml::{Node, Scalar, Value};

/// The tree as JSON. Depth and size were bounded when it was read.
pub(crate) fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::List(items) => Json::Array(items.iter().map(|item| to_json(item)).collect()),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|entry| (entry.key.text.clone(), to_json(&entry.value)));
            Json::Object(pairs.collect::<Map<String, Json>>())
        }
        Value::Scalar { .. } => match node.as_scalar() {
            None | Some(Scalar::Null) => Json::Null,
            Some(Scalar::Bool(value)) => Json::Bool(value),
            Some(Scalar::Int(value)) => Json::from(value),
            Some(Scalar::Float(value)) => Number::from_f64(value).map_or(Json::Null, Json::Number),
            Some(Scalar::Text(text)) => Json::from(text),
        },
    }
}
