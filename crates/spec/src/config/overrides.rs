//! Settings from the environment: `BOWLINE_RECOVERY__HEARTBEAT_TIMEOUT_SECS=5` is `recovery.heartbeat_timeout_secs`.
//!
//! Two underscores stand between levels. Worker variables begin with `BOWLINE_WORKER__`; each side leaves the other's
//! alone. A name with `__` that neither knows is a typing error and is reported.

use std::rc::Rc;

use super::secrets::hidden;
use super::shape::{SERVER, WORKER};
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::nearest::nearest;
use crate::lower::{Kind, Shape};
use crate::source::{Source, Span};
use crate::yaml::{self, Entry, Key, Node, Value};

const PREFIX: &str = "BOWLINE_";
const WORKER_SECTION: &str = "worker";

/// Whose variables to take.
pub(super) enum Scope {
    Server,
    Worker,
}

/// A variable that means a key of ours.
struct Setting {
    path: Vec<String>,
    name: String,
    value: String,
}

pub(super) fn apply<E>(root: &Rc<Node>, variables: E, scope: &Scope, sink: &mut Sink) -> Rc<Node>
where
    E: IntoIterator<Item = (String, String)>,
{
    let mut settings: Vec<Setting> =
        variables.into_iter().filter_map(|(name, value)| setting(name, value, scope, sink)).collect();
    // The order of the environment must not matter, where a variable sets a whole section and another a part of it.
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings.into_iter().fold(root.clone(), |root, setting| put(&root, &setting, sink))
}

fn setting(name: String, value: String, scope: &Scope, sink: &mut Sink) -> Option<Setting> {
    let rest = name.strip_prefix(PREFIX)?;
    let parts: Vec<String> = rest.to_ascii_lowercase().split("__").map(str::to_owned).collect();
    let is_worker = parts.len() > 1 && parts[0] == WORKER_SECTION;
    let is_server = SERVER.index_of(&parts[0]).is_some();
    // Without `__` only keys of the file are ours; BOWLINE_TOKEN and others belong to the command line.
    let is_mine = match scope {
        Scope::Server => !is_worker && (is_server || parts.len() > 1),
        Scope::Worker => is_worker || (!is_server && parts.len() > 1),
    };
    if !is_mine {
        return None;
    }
    let (shape, skipped) = if is_worker { (&WORKER, 1) } else { (&SERVER, 0) };
    match unknown_part(shape, &parts[skipped..]) {
        None => Some(Setting { path: parts[skipped..].to_vec(), name, value }),
        Some((at, meant)) => {
            let hint = meant.map(|meant| {
                let mut parts = parts.clone();
                meant.clone_into(&mut parts[at + skipped]);
                format!("did you mean `{PREFIX}{}`?", parts.join("__").to_ascii_uppercase())
            });
            report_unknown(&name, &value, hint, sink);
            None
        }
    }
}

/// None if the shape has this path; otherwise the first part that it has not, and what may have been meant.
fn unknown_part(shape: &'static Shape, path: &[String]) -> Option<(usize, Option<&'static str>)> {
    let mut level = Some(shape);
    for (depth, part) in path.iter().enumerate() {
        let Some(shape) = level else { return Some((depth, None)) };
        let Some(index) = shape.index_of(part) else {
            let sections = (depth == 0 && path.len() > 1).then_some(WORKER_SECTION);
            return Some((depth, nearest(part, shape.names().chain(sections))));
        };
        level = match &shape.keys[index].kind {
            Kind::Shape(inner) => Some(inner),
            // Names of one's own: the next part is one of them, and the reader looks at what follows.
            Kind::Map(Kind::Shape(_)) => return None,
            _ => None,
        };
    }
    None
}

fn report_unknown(name: &str, value: &str, hint: Option<String>, sink: &mut Sink) {
    let Some(source) = sink.sources.add(Source::variable(name, &hidden(value))) else { return };
    let message = format!("the environment variable {name} sets nothing that exists");
    let finding = Finding::error(Code::UnknownVariable, Span::new(source, 0, value.len()), message);
    sink.add(finding.hint_if(hint));
}

fn put(root: &Rc<Node>, setting: &Setting, sink: &mut Sink) -> Rc<Node> {
    let Some(source) = sink.sources.add(Source::variable(&setting.name, &hidden(&setting.value))) else {
        return root.clone();
    };
    let Some(value) = yaml::load_variable(&setting.value, source, sink) else { return root.clone() };
    with(root, &setting.path, value, Span::new(source, 0, setting.value.len()))
}

/// The tree with one value replaced or added.
fn with(node: &Node, path: &[String], value: Rc<Node>, span: Span) -> Rc<Node> {
    let Some((first, rest)) = path.split_first() else { return value };
    let old: &[Entry] = match &node.value {
        Value::Map(entries) => entries,
        Value::Scalar { .. } | Value::List(_) => &[],
    };
    let mut entries: Vec<Entry> = old
        .iter()
        .map(|e| Entry { key: Key { text: e.key.text.clone(), span: e.key.span }, value: e.value.clone() })
        .collect();
    match entries.iter_mut().find(|entry| entry.key.text.eq_ignore_ascii_case(first)) {
        Some(entry) => entry.value = with(&entry.value, rest, value, span),
        None => {
            let inner = with(&Node::map(Vec::new(), span), rest, value, span);
            entries.push(Entry { key: Key { text: first.clone(), span }, value: inner });
        }
    }
    Rc::new(Node::map(entries, node.span))
}
