//! What follows on a job's end, or on a notice: other jobs, and words to somebody outside.

use std::collections::HashMap;
use std::sync::Arc;

use engine::definition::{ChildBody, Hook, HookWork, Mail, Occasion, Outside, Webhook};
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
            let (steps, notice) = (Some(steps), on == Occasion::Notice);
            let mut texts = Texts { inputs, steps, items: None, outcome: true, notice, uses: Vec::new() };
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

/// What the server's own configuration lets follow on every notice: there are neither inputs nor steps to name.
pub(crate) fn of_server(entry: &Entry, sink: &mut Sink) -> Vec<HookWork> {
    let inputs = HashMap::new();
    let mut texts = Texts { inputs: &inputs, steps: None, items: None, outcome: true, notice: true, uses: Vec::new() };
    bounded_list(entry, sink).into_iter().filter_map(|item| hook(item, &mut texts, sink)).collect()
}

fn hook(node: &Node, texts: &mut Texts<'_>, sink: &mut Sink) -> Option<HookWork> {
    let mut fields = Fields::open(node, &HOOK, sink)?;
    let (task, with) = (fields.entry("task"), fields.entry("with"));
    let (webhook, secret) = (fields.entry("webhook"), fields.entry("secret"));
    let mail = fields.entry("mail");
    fields.close();
    match (task, webhook, mail) {
        (Some(task), None, None) => {
            belongs_not(secret, "task", sink);
            let task_name = values::filled_text("task", &task.value, sink)?;
            name::task(task_name, task.value.span, sink);
            let with = with.map_or_else(|| Json::Object(Map::new()), |entry| given(entry, texts, sink));
            Some(HookWork::Task(Arc::new(ChildBody { task: task_name.into(), with, bound: None })))
        }
        (None, Some(webhook), None) => {
            belongs_not(with, "webhook", sink);
            let url = address(&webhook.value, sink)?.to_owned();
            let secret = secret.and_then(|entry| {
                let name = values::filled_text("secret", &entry.value, sink)?;
                name::hook_secret(name, entry.value.span, sink);
                Some(name.to_owned())
            });
            Some(HookWork::Tell(Outside::Webhook(Arc::new(Webhook { url, secret }))))
        }
        (None, None, Some(mail)) => {
            belongs_not(with, "mail", sink);
            belongs_not(secret, "mail", sink);
            Some(HookWork::Tell(Outside::Mail(Arc::new(Mail { to: recipients(&mail.value, sink)? }))))
        }
        (None, None, None) => {
            sink.add(Finding::error(Code::MissingKey, node.span, "a hook needs `task`, `webhook` or `mail`"));
            None
        }
        (task, webhook, mail) => {
            let mut said = [task, webhook, mail].into_iter().flatten();
            if let (Some(first), Some(second)) = (said.next(), said.next()) {
                let message = "a hook has `task`, `webhook` or `mail`, and only one of them";
                let finding = Finding::error(Code::Conflict, second.key.span, message);
                sink.add(finding.related(first.key.span, "the other"));
            }
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
    let url = values::filled_text("webhook", node, sink)?;
    if let Some(finding) = values::no_template("webhook", node) {
        sink.add(finding);
        return Some(url);
    }
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let good = |rest: &str| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !host.is_empty() && host.contains('[') == host.contains(']') && !rest.contains(char::is_whitespace)
    };
    if !rest.is_some_and(good) {
        let message = "`webhook` must be an address that begins with https:// or http://";
        sink.add(Finding::error(Code::BadValue, node.span, message));
    }
    Some(url)
}

/// More would be a mailing list, and have an address of its own.
const RECIPIENTS_MAX: usize = 20;

/// One address, or a list of them.
fn recipients(node: &Node, sink: &mut Sink) -> Option<Vec<String>> {
    let nodes: Vec<&Node> = match &node.value {
        Value::Scalar { .. } => vec![node],
        _ => values::list("mail", node, sink)?,
    };
    if nodes.is_empty() || nodes.len() > RECIPIENTS_MAX {
        let message = format!("`mail` takes between 1 and {RECIPIENTS_MAX} addresses");
        sink.add(Finding::error(Code::Limit, node.span, message));
        return None;
    }
    nodes.into_iter().map(|node| mail_address("mail", node, sink)).collect()
}

/// An address as it stands in a mail's head: nothing in it can end a line there, or begin another address.
pub(crate) fn mail_address(what: &str, node: &Node, sink: &mut Sink) -> Option<String> {
    if let Some(finding) = values::no_template(what, node) {
        sink.add(finding);
        return None;
    }
    let text = values::filled_text(what, node, sink)?;
    if !is_mail_address(text) {
        let message = format!("`{}` is no mail address", crate::yaml::brief(text));
        sink.add(Finding::error(Code::BadValue, node.span, message).hint("as in `ops@example.com`"));
        return None;
    }
    Some(text.to_owned())
}

/// The plain kind, `local@domain`, without quotes and comments.
fn is_mail_address(text: &str) -> bool {
    /// The most that a path of SMTP may have, and the most of its first part.
    const BYTES_MAX: usize = 254;
    const LOCAL_MAX: usize = 64;
    let is_local = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_label = |label: &str| {
        let inner = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        !label.is_empty() && label.len() <= 63 && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let dots = !local.starts_with('.') && !local.ends_with('.') && !local.contains("..");
    // Who begins with `-` could be taken for an option.
    let local_is_good = !local.is_empty() && local.len() <= LOCAL_MAX && dots && !local.starts_with('-');
    text.len() <= BYTES_MAX && local_is_good && local.chars().all(is_local) && domain.split('.').all(is_label)
}

fn belongs_not(entry: Option<&Entry>, kind: &str, sink: &mut Sink) {
    if let Some(entry) = entry {
        let message = format!("`{}` means nothing in a hook with `{kind}`", entry.key.text);
        sink.add(Finding::error(Code::Conflict, entry.key.span, message).hint("leave it out"));
    }
}
