//! `run`, `shell` and `env`: the program of a step.

use std::collections::BTreeMap;

use engine::definition::Program;

use super::name;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::values;
use crate::yaml::{Node, Value};

/// A script stops at its first failing command unless it says otherwise.
const SHELL_DEFAULT: [&str; 2] = ["bash", "-e"];
/// A program and its options; the script is `run`. Every step has a copy.
const SHELL_BYTES_MAX: usize = 4 * 1024;
/// Enough for every real command line, far below what a kernel takes.
const WORDS_MAX: usize = 1_000;
/// Enough for every real step.
const VARIABLES_MAX: usize = 1_000;

/// Variables with the nodes of their values, for the templates in them.
pub(super) type Env<'n> = BTreeMap<&'n str, &'n Node>;

/// A script or a list of words, as `what` says; with the nodes that may hold templates.
pub(super) fn program<'n>(
    what: &str,
    run: &'n Node,
    shell: Option<Vec<String>>,
    sink: &mut Sink,
) -> Option<(Program, Vec<&'n Node>)> {
    if let Value::List(items) = &run.value {
        if items.is_empty() {
            let finding = Finding::error(Code::BadValue, run.span, format!("`{what}` is an empty list"));
            sink.add(finding.hint("give the program and its arguments, as in [git, status]"));
            return None;
        }
        if items.len() > WORDS_MAX {
            sink.add(Finding::error(Code::Limit, run.span, format!("`{what}` has more than {WORDS_MAX} words")));
            return None;
        }
        let argv: Vec<Option<&str>> = items.iter().map(|item| values::any_scalar(what, item, sink)).collect();
        let argv: Option<Vec<String>> = argv.into_iter().map(|word| word.map(str::to_owned)).collect();
        return Some((Program::Command { argv: argv? }, items.iter().map(|item| &**item).collect()));
    }
    let text = values::filled_text(what, run, sink)?.to_owned();
    let shell = shell.unwrap_or_else(|| SHELL_DEFAULT.map(str::to_owned).to_vec());
    Some((Program::Script { shell, text }, vec![run]))
}

/// `bash -eu`, or a list of words.
pub(super) fn shell(node: &Node, sink: &mut Sink) -> Option<Vec<String>> {
    let words = match &node.value {
        Value::List(_) => values::texts("shell", node, sink)?,
        _ => values::filled_text("shell", node, sink)?.split_whitespace().map(str::to_owned).collect(),
    };
    if words.is_empty() {
        sink.add(Finding::error(Code::BadValue, node.span, "`shell` is empty"));
        return None;
    }
    if words.iter().map(String::len).sum::<usize>() > SHELL_BYTES_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("`shell` has more than {SHELL_BYTES_MAX} bytes")));
        return None;
    }
    // The default shell keeps its default care.
    if words == ["bash"] || words == ["sh"] {
        return Some(vec![words[0].clone(), "-e".to_owned()]);
    }
    Some(words)
}

pub(super) fn env<'n>(node: &'n Node, sink: &mut Sink) -> Env<'n> {
    let mut env = Env::new();
    let Some(entries) = node.entries() else {
        sink.add(values::mismatch("env", "a mapping", node).hint("write `NAME: value` pairs"));
        return env;
    };
    if entries.len() > VARIABLES_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("`env` has more than {VARIABLES_MAX} variables")));
        return env;
    }
    for entry in entries {
        let named = name::variable(&entry.key.text, entry.key.span, sink);
        if named && values::any_scalar(&entry.key.text, &entry.value, sink).is_some() {
            env.insert(&entry.key.text, &entry.value);
        }
    }
    env
}
