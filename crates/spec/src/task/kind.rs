//! The kinds of steps. The kind is chosen by one key, and decides which other keys mean anything.

use std::sync::Arc;

use engine::definition::{ChildBody, Program, Protection, Work};
use serde_json::{Map, Value as Json};

use super::name;
use super::shape::{APPROVE, DOCKER, POD, REVIEWERS_MAX};
use super::texts::Texts;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::json::to_json;
use crate::lower::nearest::either;
use crate::lower::{Fields, Shape, values};
use crate::yaml::{Entry, Key, Node, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Run,
    Docker,
    Pod,
    Child,
    Approve,
}

const KINDS: [(StepKind, &str); 5] = [
    (StepKind::Run, "run"),
    (StepKind::Docker, "docker"),
    (StepKind::Pod, "pod"),
    (StepKind::Child, "task"),
    (StepKind::Approve, "approve"),
];

/// Once taken by every kind.
const EXPECT: &str = "expect";

/// Keys that not every kind has, and the kinds that have them.
const PROCESS: &[StepKind] = &[StepKind::Run, StepKind::Docker, StepKind::Pod];
const ANY_WORK: &[StepKind] = &[StepKind::Run, StepKind::Docker, StepKind::Pod, StepKind::Child];
const BELONGS: [(&str, &[StepKind]); 23] = [
    ("environment", ANY_WORK),
    ("for_each", ANY_WORK),
    ("matrix", ANY_WORK),
    ("max_parallel", ANY_WORK),
    ("fail_fast", ANY_WORK),
    ("runner", &[StepKind::Run]),
    ("image", &[StepKind::Run]),
    ("shell", &[StepKind::Run]),
    ("workdir", &[StepKind::Run]),
    ("with", &[StepKind::Child]),
    ("timeout", ANY_WORK),
    (EXPECT, ANY_WORK),
    ("retry", ANY_WORK),
    ("env", PROCESS),
    ("tags", PROCESS),
    ("effects", PROCESS),
    ("unmatched", PROCESS),
    ("artifacts", PROCESS),
    ("fetch", PROCESS),
    ("secrets", PROCESS),
    ("on_disconnect", PROCESS),
    ("cancel", PROCESS),
    ("cleanup", &[StepKind::Run]),
];

/// The kind that the step's keys choose, none if they choose none or several.
pub(super) fn choose(step: &Key, node: &Node, sink: &mut Sink) -> Option<StepKind> {
    let entries = node.entries()?;
    let mut chosen = entries.iter().filter_map(|entry| {
        let (kind, _) = KINDS.iter().find(|(_, name)| *name == entry.key.text)?;
        Some((*kind, entry))
    });
    let Some((kind, first)) = chosen.next() else {
        let names = either(KINDS.iter().map(|(_, name)| *name));
        let message = format!("the step `{}` does nothing: it needs {names}", step.text);
        sink.add(Finding::error(Code::MissingKey, step.span, message).hint("as in `run: echo hello`"));
        return None;
    };
    if let Some((_, second)) = chosen.next() {
        let message = format!("a step has `{}` or `{}`, not both", first.key.text, second.key.text);
        let finding = Finding::error(Code::Conflict, second.key.span, message).related(first.key.span, "the other");
        sink.add(finding.hint("make two steps of it"));
        return None;
    }
    for entry in entries {
        let belongs = BELONGS.iter().find(|(key, _)| *key == entry.key.text);
        if let Some((key, kinds)) = belongs
            && !kinds.contains(&kind)
        {
            let message = format!("`{key}` means nothing in a step with `{}`", first.key.text);
            let finding = Finding::error(Code::Conflict, entry.key.span, message).hint("leave it out");
            sink.add(if *key == EXPECT { finding.later_rule() } else { finding });
        }
    }
    Some(kind)
}

/// The tags that a kind asks of a worker, before the step's own.
pub(super) fn required_tags(kind: StepKind, runner: &str) -> &'static [&'static str] {
    match (kind, runner) {
        (StepKind::Run, "docker") => &["script", "docker"],
        (StepKind::Run, "pod") => &["script", "kubernetes"],
        (StepKind::Run, _) => &["script"],
        (StepKind::Docker, _) => &["docker"],
        (StepKind::Pod, _) => &["kubernetes"],
        (StepKind::Child | StepKind::Approve, _) => &[],
    }
}

/// `docker` and `pod`: an image and the words to execute in it.
pub(super) fn container(entry: &Entry, kind: StepKind, texts: &mut Texts<'_>, sink: &mut Sink) -> Option<Program> {
    let shape: &'static Shape = if kind == StepKind::Pod { &POD } else { &DOCKER };
    sink.not_supported(entry.key.span, &format!("`{}`", entry.key.text));
    let mut fields = Fields::open(&entry.value, shape, sink)?;
    if let Some(image) = fields.get("image") {
        values::filled_text("image", image, sink);
    }
    let command = fields.get("command");
    if kind == StepKind::Pod
        && let Some(namespace) = fields.get("namespace")
    {
        values::filled_text("namespace", namespace, sink);
    }
    fields.close();
    let argv = match command {
        None => Vec::new(),
        Some(node) => {
            texts.templates_within(node, sink);
            values::texts("command", node, sink)?
        }
    };
    Some(Program::Command { argv })
}

/// `approve`: a person's word.
pub(super) fn approve(entry: &Entry, sink: &mut Sink) -> (Work, Protection) {
    let mut protection = Protection { reviewers: 1, ..Protection::default() };
    let Some(mut fields) = Fields::open(&entry.value, &APPROVE, sink) else { return (Work::Approve, protection) };
    if let Some(message) = fields.get("message") {
        if let Some(finding) = values::no_template("message", message) {
            sink.add(finding);
        }
        protection.message =
            values::text("message", message, sink).filter(|text| !text.trim().is_empty()).map(Arc::from);
    }
    if let Some(reviewers) =
        fields.get("reviewers").and_then(|n| values::integer("reviewers", 1..=REVIEWERS_MAX, n, sink))
    {
        protection.reviewers = u32::try_from(reviewers).unwrap_or(1);
    }
    if let Some(node) = fields.get("allow_submitter") {
        protection.four_eyes = values::boolean("allow_submitter", node, sink) == Some(false);
    }
    protection.hold_expires = fields.get("expires").and_then(|n| values::some_duration("expires", n, sink));
    fields.close();
    (Work::Approve, protection)
}

/// `task` with `with`: a child job.
pub(super) fn child(entry: &Entry, with: Option<&Node>, texts: &mut Texts<'_>, sink: &mut Sink) -> Work {
    let task = values::filled_text("task", &entry.value, sink).unwrap_or_default();
    if !task.is_empty() {
        name::task(task, entry.value.span, sink);
    }
    if let Some(with) = with {
        if !matches!(with.value, Value::Map(_)) {
            sink.add(values::mismatch("with", "a mapping", with));
        }
        texts.templates_within(with, sink);
    }
    let with = with.map_or_else(|| Json::Object(Map::new()), to_json);
    Work::Child(Arc::new(ChildBody { task: task.into(), with, bound: None }))
}
