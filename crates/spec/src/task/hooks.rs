//! What follows on a job's end: other jobs, and words to somebody outside.

use std::collections::HashMap;
use std::sync::Arc;

use engine::definition::{ChildBody, Hook, HookWork, Occasion, Webhook};
use serde_json::{Map, Value as Json};

use super::around::bounded_list;
use super::name;
use super::shape::HOOK;
use super::texts::Texts;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::json::to_json;
use crate::lower::{Fields, values};
use crate::template::check::StepNames;
use crate::yaml::{Entry, Node, Value};

/// All hooks of the task, in the order of occasions, then of the file.
pub(super) fn hooks(
    fields: &mut Fields<'_>,
    inputs: &HashMap<String, bool>,
    steps: &StepNames<'_>,
    sink: &mut Sink,
) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for on in Occasion::ALL {
        let Some(entry) = fields.entry(on.word()) else { continue };
        for item in bounded_list(entry, sink) {
            let mut texts = Texts { inputs, steps: Some(steps), fan_out: false, outcome: true, uses: Vec::new() };
            if let Some(work) = hook(item, &mut texts, sink) {
                let mut uses: Vec<_> = texts.uses.into_iter().map(|(step, _)| step).collect();
                uses.sort_unstable();
                uses.dedup();
                hooks.push(Hook { on, work, uses });
            }
        }
    }
    hooks
}

fn hook(node: &Node, texts: &mut Texts<'_>, sink: &mut Sink) -> Option<HookWork> {
    let mut fields = Fields::open(node, &HOOK, sink)?;
    let (task, with) = (fields.entry("task"), fields.entry("with"));
    let (webhook, secret) = (fields.entry("webhook"), fields.entry("secret"));
    fields.close();
    match (task, webhook) {
        (Some(task), None) => {
            belongs_not(secret, "task", sink);
            let task_name = values::filled_text("task", &task.value, sink)?;
            name::task(task_name, task.value.span, sink);
            let with = with.map_or_else(|| Json::Object(Map::new()), |entry| given(entry, texts, sink));
            Some(HookWork::Task(Arc::new(ChildBody { task: task_name.into(), with, bound: None })))
        }
        (None, Some(webhook)) => {
            belongs_not(with, "webhook", sink);
            let url = address(&webhook.value, sink)?.to_owned();
            let secret = secret.and_then(|entry| values::filled_text("secret", &entry.value, sink)).map(str::to_owned);
            Some(HookWork::Webhook(Arc::new(Webhook { url, secret })))
        }
        (Some(task), Some(webhook)) => {
            let message = "a hook has `task` or `webhook`, not both";
            sink.add(Finding::error(Code::Conflict, webhook.key.span, message).related(task.key.span, "the other"));
            None
        }
        (None, None) => {
            sink.add(Finding::error(Code::MissingKey, node.span, "a hook needs `task` or `webhook`"));
            None
        }
    }
}

fn given(entry: &Entry, texts: &mut Texts<'_>, sink: &mut Sink) -> Json {
    if !matches!(entry.value.value, Value::Map(_)) {
        sink.add(values::mismatch("with", "a mapping", &entry.value));
    }
    texts.templates_within(&entry.value, sink);
    to_json(&entry.value)
}

/// Where a word is sent: known when the task is read, so that no job can choose it.
fn address<'n>(node: &'n Node, sink: &mut Sink) -> Option<&'n str> {
    if let Some(finding) = values::no_template("webhook", node) {
        sink.add(finding);
    }
    let url = values::filled_text("webhook", node, sink)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let good = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace);
    if !rest.is_some_and(good) {
        let message = "`webhook` must be an address that begins with https:// or http://";
        sink.add(Finding::error(Code::BadValue, node.span, message));
    }
    Some(url)
}

fn belongs_not(entry: Option<&Entry>, kind: &str, sink: &mut Sink) {
    if let Some(entry) = entry {
        let message = format!("`{}` means nothing in a hook with `{kind}`", entry.key.text);
        sink.add(Finding::error(Code::Conflict, entry.key.span, message).hint("leave it out"));
    }
}
