//! The tree. Nodes are shared, so that an alias costs a pointer and not a copy.

use std::rc::Rc;

use super::scalar::Scalar;
use crate::source::Span;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
    /// Nodes in this subtree, shared ones counted each time: what a walk over it costs.
    pub(super) size: usize,
    /// Levels below and including this one.
    pub(super) height: usize,
    /// The bytes of all its texts, shared ones counted each time.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(crate) enum Value {
    Scalar { text: String, style: Style },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Rc<Node>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
    /// `|`: lines as they are.
    Literal,
    /// `>`: lines joined.
    Folded,
}

impl Node {
    pub(super) fn scalar(text: String, style: Style, span: Span) -> Node {
        let bytes = text.len();
        Node { value: Value::Scalar { text, style }, span, size: 1, height: 1, bytes }
    }

    pub(super) fn list(items: Vec<Rc<Node>>, span: Span) -> Node {
        let size = 1 + items.iter().map(|n| n.size).sum::<usize>();
        let height = 1 + items.iter().map(|n| n.height).max().unwrap_or(0);
        let bytes = items.iter().map(|n| n.bytes).sum();
        Node { value: Value::List(items), span, size, height, bytes }
    }

    pub(crate) fn map(entries: Vec<Entry>, span: Span) -> Node {
        let size = 1 + entries.iter().map(|e| 1 + e.value.size).sum::<usize>();
        let height = 1 + entries.iter().map(|e| e.value.height).max().unwrap_or(0);
        let bytes = entries.iter().map(|e| e.key.text.len() + e.value.bytes).sum();
        Node { value: Value::Map(entries), span, size, height, bytes }
    }

    /// What a scalar means; none for lists and mappings.
    pub(crate) fn as_scalar(&self) -> Option<Scalar<'_>> {
        match &self.value {
            Value::Scalar { text, style: Style::Plain } => Some(Scalar::resolve(text)),
            Value::Scalar { text, .. } => Some(Scalar::Text(text)),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The pairs of a mapping; none where nothing was written.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            Value::Scalar { .. } if self.is_null() => Some(&[]),
            Value::Scalar { .. } | Value::List(_) => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.as_scalar() == Some(Scalar::Null)
    }

    /// What it is, in words, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
            Value::Scalar { text, .. } => match self.as_scalar() {
                None | Some(Scalar::Null) => "nothing".to_owned(),
                Some(Scalar::Bool(_)) => format!("the boolean {}", brief(text)),
                Some(Scalar::Int(_) | Scalar::Float(_)) => format!("the number {}", brief(text)),
                Some(Scalar::Text(_)) => format!("the text `{}`", brief(text)),
            },
        }
    }
}

/// The beginning of a text, short enough for a message.
pub(crate) fn brief(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.trim_end().len() {
        shown.push('…');
    }
    shown
}
