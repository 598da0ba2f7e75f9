//! A mapping being read: each key asked for by name, unknown ones reported at once with the nearest known one.

use super::nearest::did_you_mean;
use super::shape::Shape;
use crate::diagnostic::{Code, Finding, Sink};
use crate::source::Span;
use crate::yaml::{Entry, Node};

pub(crate) struct Fields<'n> {
    shape: &'static Shape,
    entries: &'n [Entry],
    /// The mapping itself.
    pub(crate) span: Span,
    /// Bits of the shape's keys that were asked for.
    asked: u64,
}

impl<'n> Fields<'n> {
    /// None if it is no mapping; that and every unknown or missing key are reported. Nothing at all is an empty
    /// mapping: people leave a section's name and comment out what stands below it.
    pub(crate) fn open(node: &'n Node, shape: &'static Shape, sink: &mut Sink) -> Option<Fields<'n>> {
        let Some(entries) = node.entries() else {
            let message = format!("{} is a mapping, not {}", shape.title, node.describe());
            let keys: Vec<&str> = shape.names().take(3).collect();
            let hint = format!("write `key: value` pairs, with keys such as {}", super::nearest::either(keys));
            sink.add(Finding::error(Code::WrongType, node.span, message).hint(hint));
            return None;
        };
        let fields = Fields { shape, entries, span: node.span, asked: 0 };
        fields.report_unknown(sink);
        fields.report_missing(sink);
        Some(fields)
    }

    /// The value of a key, if the key is there.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<&'n Node> {
        self.entry(name).map(|entry| &*entry.value)
    }

    pub(crate) fn entry(&mut self, name: &'static str) -> Option<&'n Entry> {
        let index = self.shape.index_of(name);
        debug_assert!(index.is_some(), "`{name}` is no key of {}", self.shape.title);
        self.asked |= index.map_or(0, |index| 1 << index);
        self.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Says that all was asked for; a key in the shape that nobody reads is a lie in the schema.
    pub(crate) fn close(self) {
        let all = u64::MAX >> (64 - self.shape.keys.len());
        debug_assert_eq!(self.asked, all, "a key of {} is not read", self.shape.title);
    }

    fn report_unknown(&self, sink: &mut Sink) {
        for entry in self.entries {
            let word = entry.key.text.as_str();
            if self.shape.index_of(word).is_some() {
                continue;
            }
            let known = self.shape.synonyms.iter().find(|(theirs, _)| *theirs == word);
            let hint = match known {
                Some((_, ours)) => Some(format!("that is called `{ours}` here")),
                None if word == "<<" => Some("YAML 1.2 has no merge keys; see `defaults`".to_owned()),
                None => did_you_mean(word, self.shape.names()),
            };
            let message = format!("{} has no key `{}`", self.shape.title, crate::yaml::brief(word));
            sink.add(Finding::error(Code::UnknownKey, entry.key.span, message).hint_if(hint));
        }
    }

    fn report_missing(&self, sink: &mut Sink) {
        for key in self.shape.keys.iter().filter(|key| key.required) {
            if !self.entries.iter().any(|entry| entry.key.text == key.name) {
                let message = format!("{} needs the key `{}`", self.shape.title, key.name);
                sink.add(Finding::error(Code::MissingKey, self.span, message).hint(key.doc));
            }
        }
    }
}
