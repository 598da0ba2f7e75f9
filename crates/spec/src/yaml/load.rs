//! From the parser's events to the tree, within limits: what is too large, too deep or grows by aliases is refused
//! while it is read, before it costs anything.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::node::{Entry, Key, Node, Style, Value};
use crate::diagnostic::{Code, Finding, Sink};
use crate::source::Span;

/// A task of 20,000 steps fits; a file that is larger was made by a program that should submit several.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Our files need seven levels.
const DEPTH_MAX: usize = 32;
/// Twenty for each of 20,000 steps; aliases count as what they stand for.
const NODES_MAX: usize = 400_000;
/// Aliases are for people who repeat themselves, not for programs.
const ALIASES_MAX: usize = 10_000;
/// What aliases stand for, in all: each is checked and kept like a text of its own.
const ALIAS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Scripts are the longest texts; a longer one belongs into a file of its own.
const SCALAR_BYTES_MAX: usize = 256 * 1024;
/// Keys are names.
const KEY_BYTES_MAX: usize = 1024;

/// The file's tree; none if it cannot be read, and then the sink knows why. An empty file is an empty mapping.
pub(crate) fn load(text: &str, sink: &mut Sink) -> Option<Rc<Node>> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the file has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len());
        sink.add(Finding::error(Code::Limit, Span::new(0, 0, 0), message).hint("split it into several tasks"));
        return None;
    }
    load_source(text, 0, sink)
}

/// A variable's value: the whole text is one word, unless it is written as a list or mapping.
pub(crate) fn load_variable(text: &str, source: u16, sink: &mut Sink) -> Option<Rc<Node>> {
    let span = Span::new(source, 0, text.len());
    if text.len() > SCALAR_BYTES_MAX || text.contains('\0') {
        sink.add(Finding::error(Code::Limit, span, "the value is too long or holds a NUL byte"));
        return None;
    }
    if text.starts_with(['[', '{']) {
        return load_source(text, source, sink);
    }
    Some(Rc::new(Node::scalar(text.to_owned(), Style::Plain, span)))
}

fn load_source(text: &str, source: u16, sink: &mut Sink) -> Option<Rc<Node>> {
    let mut loader = Loader::new(text, source);
    let mut parser = Parser::new_from_str(text);
    let outcome = loop {
        match parser.next_event() {
            None => break Ok(()),
            Some(Ok((event, span))) => {
                if let Err(finding) = loader.take(event, span) {
                    break Err(finding);
                }
            }
            Some(Err(error)) => break Err(loader.syntax_error(error.marker(), error.info())),
        }
    };
    loader.findings.into_iter().for_each(|finding| sink.add(finding));
    if let Err(finding) = outcome {
        sink.add(finding);
        return None;
    }
    Some(loader.root.unwrap_or_else(|| Rc::new(Node::map(Vec::new(), Span::new(source, 0, 0)))))
}

struct Loader<'t> {
    text: &'t str,
    source: u16,
    /// Byte offsets of characters, since the parser counts those; none where both are the same.
    offsets: Option<Vec<u32>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
    aliases: usize,
    alias_bytes: usize,
    documents: usize,
    root: Option<Rc<Node>>,
    /// Problems that do not end the reading.
    findings: Vec<Finding>,
}

/// A list or mapping whose end has not come yet.
struct Open {
    start: usize,
    anchor: usize,
    body: Body,
}

enum Body {
    List(Vec<Rc<Node>>),
    Map { entries: Vec<Entry>, seen: HashSet<String>, key: Option<Key> },
}

impl<'t> Loader<'t> {
    fn new(text: &'t str, source: u16) -> Loader<'t> {
        let offsets = (!text.is_ascii())
            .then(|| text.char_indices().map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX)).collect());
        Loader {
            text,
            source,
            offsets,
            open: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            aliases: 0,
            alias_bytes: 0,
            documents: 0,
            root: None,
            findings: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>, at: saphyr_parser::Span) -> Result<(), Finding> {
        let span = self.span(at);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.start_document(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                self.scalar(text.into_owned(), style, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                self.start(Body::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                let body = Body::Map { entries: Vec::new(), seen: HashSet::new(), key: None };
                self.start(body, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
        }
    }

    fn start_document(&mut self, span: Span) -> Result<(), Finding> {
        self.documents += 1;
        if self.documents > 1 {
            let message = "a file holds one document, here a second one begins";
            return Err(Finding::error(Code::Syntax, span, message).hint("put it into a file of its own"));
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, anchor: usize, span: Span) -> Result<(), Finding> {
        if text.len() > SCALAR_BYTES_MAX {
            let message = format!("this text has {} bytes, the limit is {SCALAR_BYTES_MAX}", text.len());
            return Err(Finding::error(Code::Limit, span, message).hint("put it into a file of its own"));
        }
        if text.contains('\0') {
            let message = "this text holds a NUL character, which no program can be given";
            return Err(Finding::error(Code::BadValue, span, message));
        }
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        self.place(Rc::new(Node::scalar(text, style, span)), anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Finding> {
        self.aliases += 1;
        if self.aliases > ALIASES_MAX {
            return Err(Finding::error(Code::Limit, span, format!("more than {ALIASES_MAX} aliases")));
        }
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Finding::error(Code::Syntax, span, "this alias stands within what it names"));
        };
        if self.open.len() + node.height > DEPTH_MAX {
            return Err(too_deep(span));
        }
        self.alias_bytes += node.bytes;
        if self.alias_bytes > ALIAS_BYTES_MAX {
            let message = format!("aliases stand for more than {ALIAS_BYTES_MAX} bytes of text");
            return Err(Finding::error(Code::Limit, span, message).hint("put long scripts into files of their own"));
        }
        self.place(node, 0)
    }

    fn start(&mut self, body: Body, anchor: usize, span: Span) -> Result<(), Finding> {
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(span));
        }
        if let Some(Open { body: Body::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(self.not_a_key(span));
        }
        self.open.push(Open { start: span.start as usize, anchor, body });
        Ok(())
    }

    fn end(&mut self, end: Span) -> Result<(), Finding> {
        let Some(open) = self.open.pop() else {
            return Err(Finding::error(Code::Syntax, end, "this ends what never began"));
        };
        let span = Span::new(self.source, open.start, end.end as usize);
        let node = match open.body {
            Body::List(items) => Node::list(items, span),
            Body::Map { entries, .. } => Node::map(entries, span),
        };
        // Its own nodes were counted when they came; only the container is new.
        self.nodes -= node.size - 1;
        self.place(Rc::new(node), open.anchor)
    }

    /// Puts a finished node where it belongs: as a key, as a value, as an item, or as the root.
    fn place(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), Finding> {
        self.nodes += node.size;
        if self.nodes > NODES_MAX {
            let message = format!("more than {NODES_MAX} values, aliases counted as what they stand for");
            return Err(Finding::error(Code::Limit, node.span, message));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.body) {
            None => self.root = Some(node),
            Some(Body::List(items)) => items.push(node),
            Some(Body::Map { entries, seen, key }) => match key.take() {
                Some(name) if seen.contains(&name.text) => {
                    let first = entries.iter().find(|e| e.key.text == name.text).map(|e| e.key.span);
                    let message = format!("the key `{}` stands here twice", name.text);
                    let finding = Finding::error(Code::DuplicateKey, name.span, message);
                    self.findings.push(match first {
                        Some(first) => finding.related(first, "first here"),
                        None => finding,
                    });
                }
                Some(name) => {
                    seen.insert(name.text.clone());
                    entries.push(Entry { key: name, value: node });
                }
                None => match as_key(&node) {
                    Some(name) => *key = Some(name),
                    None => return Err(self.not_a_key(node.span)),
                },
            },
        }
        Ok(())
    }

    fn not_a_key(&self, span: Span) -> Finding {
        let before = self.text[..span.start as usize].ends_with('{');
        let finding = Finding::error(Code::Syntax, span, "a key must be a word");
        if before || self.text[span.start as usize..].starts_with("{{") {
            finding.hint("a value that begins with `{{` must be in quotes: \"{{ … }}\"")
        } else {
            finding
        }
    }

    fn syntax_error(&self, at: &Marker, info: &str) -> Finding {
        let start = self.byte(at.index());
        let span = Span::new(self.source, start, start);
        let finding = Finding::error(Code::Syntax, span, format!("this is not valid YAML: {info}"));
        let line_start = self.text[..start].rfind('\n').map_or(0, |b| b + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        if line.starts_with('\t') {
            finding.hint("indent with spaces, not with tabs")
        } else if line.contains("{{") {
            finding.hint("a value that begins with `{{` must be in quotes: \"{{ … }}\"")
        } else {
            finding
        }
    }

    fn span(&self, at: saphyr_parser::Span) -> Span {
        Span::new(self.source, self.byte(at.start.index()), self.byte(at.end.index()))
    }

    fn byte(&self, character: usize) -> usize {
        let byte = match &self.offsets {
            None => character,
            Some(offsets) => offsets.get(character).map_or(self.text.len(), |&byte| byte as usize),
        };
        byte.min(self.text.len())
    }
}

fn as_key(node: &Node) -> Option<Key> {
    match &node.value {
        Value::Scalar { text, .. } if !text.is_empty() && text.len() <= KEY_BYTES_MAX => {
            Some(Key { text: text.clone(), span: node.span })
        }
        _ => None,
    }
}

fn too_deep(span: Span) -> Finding {
    Finding::error(Code::Limit, span, format!("values are nested more than {DEPTH_MAX} deep"))
}

fn refuse_tag(tagged: bool, span: Span) -> Result<(), Finding> {
    if tagged {
        let finding = Finding::error(Code::Syntax, span, "YAML tags (`!…`) mean nothing here");
        return Err(finding.hint("leave the tag out; put a text into quotes"));
    }
    Ok(())
}
