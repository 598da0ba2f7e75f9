//! Webhooks that several tasks ask for: a call starts one job, so one of them has the name.

use std::collections::BTreeMap;

use super::kin::entry;
use super::{Task, Trigger};
use crate::diagnostic::{Code, Diagnostic, Finding, Sink};
use crate::source::{Source, Sources, Span};
use crate::yaml::{self, Node, Value};

/// A trigger that is never called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'a> {
    pub task: &'a str,
    pub webhook: &'a str,
    /// The task whose jobs it starts.
    pub holder: &'a str,
}

/// Of those that ask for a name the first has it.
pub fn taken<'a>(tasks: &BTreeMap<&'a str, &'a Task>) -> Vec<Taken<'a>> {
    let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (task, known) in tasks {
        for trigger in &known.triggers {
            let Trigger::Webhook { name: webhook, .. } = trigger else { continue };
            let holder = *holders.entry(webhook).or_insert(task);
            if holder != *task {
                found.push(Taken { task, webhook, holder });
            }
        }
    }
    found
}

impl Taken<'_> {
    /// At the place where the task's text names it.
    pub fn diagnostic(&self, text: &str, file: &str) -> Diagnostic {
        let sources = || Sources::of_file(Source::file(file, text));
        let root = yaml::load(text, &mut Sink::new(sources()));
        let span = root.as_ref().and_then(|root| place(root, self.webhook)).unwrap_or(Span::new(0, 0, 0));
        let message =
            format!("calls of the webhook `{}` start the task `{}`, and never this one", self.webhook, self.holder);
        let mut sink = Sink::new(sources());
        sink.add(Finding::warning(Code::Conflict, span, message).hint("give one of the two another name"));
        let (mut found, _) = sink.finish();
        found.remove(0)
    }
}

fn place(root: &Node, webhook: &str) -> Option<Span> {
    let Value::List(triggers) = &entry(root, "triggers")?.value else { return None };
    let names = triggers.iter().filter_map(|trigger| entry(trigger, "webhook"));
    let is_it = |node: &&Node| matches!(&node.value, Value::Scalar { text, .. } if text == webhook);
    names.into_iter().find(is_it).map(|node| node.span)
}
