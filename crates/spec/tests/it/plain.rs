//! YAML as plain JSON, by the parser's events and nothing of ours, so that what our readers understand is not taken for what was written.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// What parts of a text are called, for those that say them again.
type Anchors = BTreeMap<usize, Value>;

/// A text that was found to be good.
pub(crate) fn read(text: &str) -> Value {
    let mut events = Parser::new_from_str(text).map(|event| event.expect("a good text").0);
    let mut anchors = Anchors::new();
    loop {
        match events.next().expect("a document") {
            Event::StreamStart | Event::DocumentStart(_) => {}
            event => return node(event, &mut events, &mut anchors),
        }
    }
}

fn node<'t>(event: Event<'t>, events: &mut impl Iterator<Item = Event<'t>>, anchors: &mut Anchors) -> Value {
    let (anchor, value) = match event {
        Event::Alias(anchor) => return anchors.get(&anchor).expect("what it stands for").clone(),
        Event::Scalar(text, ScalarStyle::Plain, anchor, _) => (anchor, scalar(&text)),
        Event::Scalar(text, _, anchor, _) => (anchor, Value::String(text.into_owned())),
        Event::SequenceStart(anchor, _) => (anchor, list(events, anchors)),
        Event::MappingStart(anchor, _) => (anchor, mapping(events, anchors)),
        other => panic!("{other:?} in a text"),
    };
    // Zero is none.
    if anchor != 0 {
        anchors.insert(anchor, value.clone());
    }
    value
}

fn list<'t>(events: &mut impl Iterator<Item = Event<'t>>, anchors: &mut Anchors) -> Value {
    let mut items = Vec::new();
    loop {
        match events.next().expect("the end of a list") {
            Event::SequenceEnd => return Value::Array(items),
            event => items.push(node(event, events, anchors)),
        }
    }
}

fn mapping<'t>(events: &mut impl Iterator<Item = Event<'t>>, anchors: &mut Anchors) -> Value {
    let mut entries = Map::new();
    loop {
        match events.next().expect("the end of a mapping") {
            Event::MappingEnd => return Value::Object(entries),
            Event::Scalar(key, ..) => {
                let value = events.next().expect("a value");
                entries.insert(key.into_owned(), node(value, events, anchors));
            }
            other => panic!("{other:?} is no key"),
        }
    }
}

/// JSON writes numbers and `true`, `false` and `null` in the same way.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" => Value::Null,
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
