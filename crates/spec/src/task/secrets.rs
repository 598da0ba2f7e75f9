//! `secrets`: what a step is given besides its `env`, by name. The values are the server's, and never in a text. Only the server
//! knows which it has: [`missing`] tells of the others, for the tasks that it lists.

use std::sync::Arc;

use engine::definition::{Definition, HookWork, Occasion, Outside, STEP_SECRETS_MAX, Work};

use super::kin::entry;
use super::{Task, Trigger, name};
use crate::diagnostic::{Code, Diagnostic, Finding, Sink};
use crate::lower::{Fields, values};
use crate::source::{Source, Sources};
use crate::yaml::{self, Node, Value, brief};

/// Every secret that a task names itself: for its steps, its hooks and its triggers.
pub fn names(task: &Task) -> impl Iterator<Item = &str> {
    let steps = task.definition.steps().iter().flat_map(|step| &step.secrets).map(|name| &**name);
    let triggers = task.triggers.iter().filter_map(|trigger| match trigger {
        Trigger::Webhook { secret, .. } => Some(secret.as_str()),
        Trigger::Cron { .. } => None,
    });
    steps.chain(of_hooks(&task.definition).map(|(_, name)| name)).chain(triggers)
}

/// What signs the words of its hooks, with their occasions.
pub fn of_hooks(definition: &Definition) -> impl Iterator<Item = (Occasion, &str)> {
    definition.hooks.iter().filter_map(|hook| match &hook.work {
        HookWork::Tell(Outside::Webhook(webhook)) => Some((hook.on, webhook.secret.as_deref()?)),
        HookWork::Tell(Outside::Mail(_)) | HookWork::Task(_) => None,
    })
}

/// A warning at each place of a task's text that names a secret which `problem` knows something about: what, and what to do.
pub fn missing(text: &str, file: &str, problem: &dyn Fn(&str) -> Option<(String, String)>) -> Vec<Diagnostic> {
    let sources = || Sources::of_file(Source::file(file, text));
    let Some(root) = yaml::load(text, &mut Sink::new(sources())) else { return Vec::new() };
    let mut sink = Sink::new(sources());
    for node in places(&root) {
        if let Some((message, hint)) = values::raw_scalar(node).and_then(problem) {
            sink.add(Finding::warning(Code::MissingSecret, node.span, message).hint(hint));
        }
    }
    sink.finish().0
}

fn places(root: &Node) -> Vec<&Node> {
    let steps = entry(root, "steps").and_then(Node::entries).unwrap_or_default();
    let of_steps = steps.iter().filter_map(|step| entry(&step.value, "secrets")).flat_map(items);
    let lists = Occasion::ALL.into_iter().map(Occasion::word).chain(["triggers"]);
    let of_lists = lists.filter_map(|key| entry(root, key)).flat_map(items).filter_map(|item| entry(item, "secret"));
    of_steps.chain(of_lists).collect()
}

fn items(node: &Node) -> impl Iterator<Item = &Node> {
    let items = if let Value::List(items) = &node.value { items.as_slice() } else { &[] };
    items.iter().map(|item| &**item)
}

/// Their names, each once.
pub(super) fn read(fields: &mut Fields<'_>, work: &Work, sink: &mut Sink) -> Vec<Arc<str>> {
    let Some(node) = fields.get("secrets") else { return Vec::new() };
    let Some(items) = values::list("secrets", node, sink) else { return Vec::new() };
    if items.len() > STEP_SECRETS_MAX {
        let message = format!("a step may have {STEP_SECRETS_MAX} secrets, these are {}", items.len());
        sink.add(Finding::error(Code::BadValue, node.span, message));
        return Vec::new();
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for item in items {
        let Some(text) = values::filled_text("secrets", item, sink) else { continue };
        if !name::step_secret(text, item.span, sink) {
            continue;
        }
        if names.iter().any(|known| **known == *text) {
            let message = format!("the secret `{}` is named twice", brief(text));
            sink.add(Finding::error(Code::Conflict, item.span, message));
            continue;
        }
        if let Work::Run(body) = work
            && body.env.contains_key(text)
        {
            let message = format!("`{}` is a secret and a variable of `env` at once", brief(text));
            let hint = "the step gets the secret in a variable of that name; take it out of `env`".to_owned();
            sink.add(Finding::error(Code::Conflict, item.span, message).hint(hint));
            continue;
        }
        names.push(Arc::from(text));
    }
    names
}
