//! `artifacts` and `fetch`: the files that a step leaves, and those of earlier steps that it finds in its folder.

use std::sync::Arc;

use engine::StepIx;
use engine::definition::{Fetch, KeepRule, KeepWhen, Work};
use pack::Glob;

use super::shape::{ARTIFACTS, FETCH, KEEP_WHEN};
use super::step::StepRead;
use super::texts::Texts;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::nearest::did_you_mean;
use crate::lower::{Fields, values};
use crate::source::Span;
use crate::template::check::StepNames;
use crate::template::is_template;
use crate::yaml::{Node, Value, brief};

/// More globs than this are better said as folders.
const GLOBS_MAX: usize = 100;
const FETCHES_MAX: usize = 100;

/// A step of which another one wants the files, and where that is said.
pub(super) struct FetchRead {
    pub(super) fetch: Fetch,
    pub(super) span: Span,
}

/// The rule, and whether a glob has something to fill in.
pub(super) fn rule(fields: &mut Fields<'_>, texts: &mut Texts<'_>, sink: &mut Sink) -> Option<(KeepRule, bool)> {
    let node = fields.get("artifacts")?;
    let (paths, when, optional) = match &node.value {
        Value::Map(_) => {
            let mut keys = Fields::open(node, &ARTIFACTS, sink)?;
            let (paths, when) = (keys.get("paths"), keys.get("when"));
            let when = when.and_then(|when| values::word("when", KEEP_WHEN, when, sink));
            let optional = keys.get("optional").and_then(|node| values::boolean("optional", node, sink));
            keys.close();
            (paths?, when, optional)
        }
        _ => (node, None, None),
    };
    let globs: Vec<&Node> = match &paths.value {
        Value::Scalar { .. } => vec![paths],
        _ => values::list("artifacts", paths, sink)?,
    };
    if globs.is_empty() || globs.len() > GLOBS_MAX {
        let message = format!("`artifacts` names between 1 and {GLOBS_MAX} files, folders or globs");
        sink.add(Finding::error(Code::Limit, paths.span, message));
        return None;
    }
    let mut templated = false;
    let mut read = Vec::with_capacity(globs.len());
    for glob in globs {
        let Some(text) = values::filled_text("artifacts", glob, sink) else { continue };
        templated |= texts.template(glob, sink);
        // What a template gives is looked at when it is known.
        if !is_template(text)
            && let Err(error) = Glob::parse(text)
        {
            let message = format!("`{}` cannot be searched for: {error}", brief(text));
            let hint = "globs are relative to the folder that the step starts in, as in `target/release/app` or `reports/**/*.xml`";
            sink.add(Finding::error(Code::BadValue, glob.span, message).hint(hint));
        }
        read.push(text.to_owned());
    }
    let when = if when == Some("always") { KeepWhen::Always } else { KeepWhen::Success };
    Some((KeepRule { paths: read, when, optional: optional.unwrap_or(false) }, templated))
}

/// The steps whose files it wants. That they are over by then is for the graph to check.
pub(super) fn fetches(fields: &mut Fields<'_>, names: &StepNames<'_>, sink: &mut Sink) -> Vec<FetchRead> {
    let Some(node) = fields.get("fetch") else { return Vec::new() };
    let items: Vec<&Node> = match &node.value {
        Value::List(_) => values::list("fetch", node, sink).unwrap_or_default(),
        Value::Scalar { .. } | Value::Map(_) => vec![node],
    };
    if items.len() > FETCHES_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("`fetch` names more than {FETCHES_MAX} steps")));
        return Vec::new();
    }
    items.into_iter().filter_map(|item| fetch(item, names, sink)).collect()
}

/// A name, or `{ from, to }`.
fn fetch(item: &Node, names: &StepNames<'_>, sink: &mut Sink) -> Option<FetchRead> {
    let (from, to) = match &item.value {
        Value::Map(_) => {
            let mut keys = Fields::open(item, &FETCH, sink)?;
            let (from, to) = (keys.get("from"), keys.get("to"));
            keys.close();
            (from?, to)
        }
        _ => (item, None),
    };
    let name = values::filled_text("fetch", from, sink)?;
    let to = match to {
        Some(node) => Some(folder(node, sink)?),
        None => None,
    };
    let Some(step) = names.find(name) else {
        let hint = if sink.is_full() { None } else { did_you_mean(name, names.in_order()) };
        let message = format!("`fetch` names the step `{}`, which is not there", brief(name));
        sink.add(Finding::error(Code::UnknownStep, from.span, message).hint_if(hint));
        return None;
    };
    Some(FetchRead { fetch: Fetch { step, to }, span: from.span })
}

/// A folder below the step's own.
fn folder(node: &Node, sink: &mut Sink) -> Option<Arc<str>> {
    let text = values::filled_text("to", node, sink)?;
    if let Some(finding) = values::no_template("to", node) {
        sink.add(finding);
        return None;
    }
    let inner = text.trim_start_matches("./").trim_end_matches('/');
    if inner == "." || inner.is_empty() {
        return Some(Arc::from("."));
    }
    if !pack::manifest::is_inner_path(inner) {
        let message = format!("`to` must be a folder below the one that the step starts in, not `{}`", brief(text));
        sink.add(Finding::error(Code::BadValue, node.span, message).hint("as in `to: dist`"));
        return None;
    }
    Some(Arc::from(inner))
}

/// Whoever is named in a `fetch` must leave something.
pub(super) fn check(steps: &[StepRead], sink: &mut Sink) {
    let leaves = |step: StepIx| match &steps[step.get()].definition.work {
        Work::Run(body) => body.artifacts.is_some(),
        Work::Approve | Work::Child(_) => false,
    };
    for step in steps {
        for (fetch, span) in step.definition.fetch.iter().zip(&step.fetch_spans) {
            if leaves(fetch.step) {
                continue;
            }
            let from = &steps[fetch.step.get()];
            let name = &from.definition.name;
            let (message, hint) = match from.definition.work {
                Work::Run(_) => (
                    format!("the step `{name}` leaves no artifacts to fetch"),
                    format!("say in `{name}` which files it leaves, as in `artifacts: [ dist ]`"),
                ),
                Work::Child(_) => (
                    format!("the step `{name}` is a job of its own, whose artifacts stay with it"),
                    "fetch them in that task, or let it hand on what it made by other means".to_owned(),
                ),
                Work::Approve => (format!("the step `{name}` leaves no artifacts"), "leave it out".to_owned()),
            };
            let finding = Finding::error(Code::UnknownReference, *span, message).hint(hint);
            sink.add(finding.related(from.name_span, "this one"));
        }
    }
}
