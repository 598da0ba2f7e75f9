//! Single values, each read as what it must be. `what` is the key's name, for the message.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::nearest::{did_you_mean, either};
use super::{duration as durations, size as sizes};
use crate::diagnostic::{Code, Finding, Sink};
use crate::yaml::{Node, Scalar, Value};

pub(crate) fn text<'n>(what: &str, node: &'n Node, sink: &mut Sink) -> Option<&'n str> {
    let raw = raw_scalar(node);
    match node.as_scalar() {
        Some(Scalar::Text(text)) => Some(text),
        Some(Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_)) if is_variable(node, sink) => raw,
        Some(Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_)) => {
            let hint = format!("put it into quotes: \"{}\"", raw.unwrap_or_default());
            sink.add(mismatch(what, "a text", node).hint(hint));
            None
        }
        Some(Scalar::Null) | None => {
            sink.add(mismatch(what, "a text", node));
            None
        }
    }
}

/// A text that says something.
pub(crate) fn filled_text<'n>(what: &str, node: &'n Node, sink: &mut Sink) -> Option<&'n str> {
    let found = text(what, node, sink)?;
    if found.trim().is_empty() {
        sink.add(Finding::error(Code::BadValue, node.span, format!("`{what}` is empty")));
        return None;
    }
    Some(found)
}

/// What is wrong with a template where a text is taken as it is written.
pub(crate) fn no_template(what: &str, node: &Node) -> Option<Finding> {
    let is_template = raw_scalar(node).is_some_and(crate::template::is_template);
    let message = format!("`{what}` is taken as it is written, and cannot hold a template");
    is_template.then(|| Finding::error(Code::BadValue, node.span, message))
}

/// Text, number or boolean, as it was written.
pub(crate) fn any_scalar<'n>(what: &str, node: &'n Node, sink: &mut Sink) -> Option<&'n str> {
    if node.is_null() && !is_variable(node, sink) {
        sink.add(mismatch(what, "a text", node).hint("for an empty one write \"\""));
        return None;
    }
    let raw = raw_scalar(node);
    if raw.is_none() {
        sink.add(mismatch(what, "a text", node));
    }
    raw
}

pub(crate) fn boolean(what: &str, node: &Node, sink: &mut Sink) -> Option<bool> {
    match node.as_scalar() {
        Some(Scalar::Bool(value)) => Some(value),
        Some(Scalar::Text(text)) => {
            let meant = match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" => Some("did you mean `true`?".to_owned()),
                "no" | "off" | "false" => Some("did you mean `false`?".to_owned()),
                _ => None,
            };
            sink.add(mismatch(what, "true or false", node).hint_if(meant));
            None
        }
        Some(Scalar::Null | Scalar::Int(_) | Scalar::Float(_)) | None => {
            sink.add(mismatch(what, "true or false", node));
            None
        }
    }
}

pub(crate) fn integer(what: &str, range: RangeInclusive<i64>, node: &Node, sink: &mut Sink) -> Option<i64> {
    let value = match node.as_scalar() {
        Some(Scalar::Int(value)) => value,
        _ => {
            sink.add(mismatch(what, "a whole number", node));
            return None;
        }
    };
    if !range.contains(&value) {
        let message = format!("`{what}` must be between {} and {}, not {value}", range.start(), range.end());
        sink.add(Finding::error(Code::BadValue, node.span, message));
        return None;
    }
    Some(value)
}

pub(crate) fn number(what: &str, range: RangeInclusive<f64>, node: &Node, sink: &mut Sink) -> Option<f64> {
    let value = match node.as_scalar() {
        #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^53")]
        Some(Scalar::Int(value)) => value as f64,
        Some(Scalar::Float(value)) => value,
        _ => {
            sink.add(mismatch(what, "a number", node));
            return None;
        }
    };
    if !range.contains(&value) {
        let message = format!("`{what}` must be between {} and {}, not {value}", range.start(), range.end());
        sink.add(Finding::error(Code::BadValue, node.span, message));
        return None;
    }
    Some(value)
}

pub(crate) fn duration(what: &str, node: &Node, sink: &mut Sink) -> Option<Duration> {
    if matches!(node.as_scalar(), None | Some(Scalar::Null | Scalar::Bool(_))) {
        sink.add(mismatch(what, "a duration", node).hint("as in `90s`, `45m` or `1h30m`"));
        return None;
    }
    match durations::parse(raw_scalar(node)?) {
        Ok(duration) => Some(duration),
        Err(problem) => {
            let message = format!("`{what}` is no duration: {}", node.describe());
            sink.add(Finding::error(Code::BadValue, node.span, message).hint(problem));
            None
        }
    }
}

/// A duration that is longer than nothing.
pub(crate) fn some_duration(what: &str, node: &Node, sink: &mut Sink) -> Option<Duration> {
    let found = duration(what, node, sink)?;
    if found.is_zero() {
        let finding = Finding::error(Code::BadValue, node.span, format!("`{what}` must be longer than zero"));
        sink.add(finding.hint("leave it out for no limit"));
        return None;
    }
    Some(found)
}

pub(crate) fn size(what: &str, node: &Node, sink: &mut Sink) -> Option<u64> {
    let Some(raw) = raw_scalar(node) else {
        sink.add(mismatch(what, "a size", node));
        return None;
    };
    match sizes::parse(raw) {
        Ok(bytes) => Some(bytes),
        Err(problem) => {
            let message = format!("`{what}` is no size: {}", node.describe());
            sink.add(Finding::error(Code::BadValue, node.span, message).hint(problem));
            None
        }
    }
}

/// One of a few words.
pub(crate) fn word(what: &str, words: &[&'static str], node: &Node, sink: &mut Sink) -> Option<&'static str> {
    let found = raw_scalar(node);
    if let Some(known) = words.iter().find(|known| Some(**known) == found) {
        return Some(known);
    }
    let message = format!("`{what}` must be {}, not {}", either(words.iter().copied()), node.describe());
    let hint = found.and_then(|found| did_you_mean(found, words.iter().copied()));
    sink.add(Finding::error(Code::BadValue, node.span, message).hint_if(hint));
    None
}

/// The items of a list; a variable may also name them with commas between.
pub(crate) fn list<'n>(what: &str, node: &'n Node, sink: &mut Sink) -> Option<Vec<&'n Node>> {
    match &node.value {
        Value::List(items) => Some(items.iter().map(|item| &**item).collect()),
        _ => {
            let hint = raw_scalar(node)
                .filter(|raw| !raw.is_empty())
                .map(|raw| format!("write [{}]", crate::yaml::brief(raw)));
            sink.add(mismatch(what, "a list", node).hint_if(hint));
            None
        }
    }
}

/// A list of texts that say something.
pub(crate) fn texts(what: &str, node: &Node, sink: &mut Sink) -> Option<Vec<String>> {
    if is_variable(node, sink)
        && let Some(raw) = raw_scalar(node)
    {
        return Some(raw.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect());
    }
    let items = list(what, node, sink)?;
    let read: Vec<Option<&str>> = items.into_iter().map(|item| filled_text(what, item, sink)).collect();
    read.into_iter().map(|item| item.map(str::to_owned)).collect()
}

pub(crate) fn mismatch(what: &str, wanted: &str, node: &Node) -> Finding {
    Finding::error(Code::WrongType, node.span, format!("`{what}` must be {wanted}, not {}", node.describe()))
}

pub(crate) fn raw_scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        Value::List(_) | Value::Map(_) => None,
    }
}

fn is_variable(node: &Node, sink: &Sink) -> bool {
    sink.sources.get(node.span).is_variable
}
