//! What stands around the steps: triggers, concurrency.

use std::sync::Arc;
use std::time::Duration;

use engine::GROUP_NAME_MAX;
use engine::definition::{Concurrency, WhenFull};
use serde_json::Value as Json;

use super::bind::{self, BODY_INPUT};
use super::input::{self, Input};
use super::name;
use super::shape::{CONCURRENCY, CONCURRENCY_MAX, MISSED, TRIGGER, WHEN_FULL};
use super::texts::Texts;
use crate::cron::{Cron, CronError, nearest_zone};
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::json::to_json;
use crate::lower::{Fields, values};
use crate::yaml::{Entry, Node, Value, brief};

/// More would be a program.
const LIST_MAX: usize = 100;

/// Beyond a day nobody could say which run is which.
const JITTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// What starts a job by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    Cron {
        expression: String,
        timezone: String,
        missed: Missed,
        jitter: Duration,
        with: Option<Json>,
    },
    /// `secret` is the name of what signs its calls.
    Webhook {
        name: String,
        secret: String,
        with: Option<Json>,
    },
}

/// An expression that is good, to look at the zone alone.
const ANY_TIME: &str = "* * * * *";

/// What happens to times that passed unheard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    Skip,
    Once,
}

pub(super) fn triggers(fields: &mut Fields<'_>, task: &str, inputs: &[Input], sink: &mut Sink) -> Vec<Trigger> {
    let Some(entry) = fields.entry("triggers") else { return Vec::new() };
    bounded_list(entry, sink).into_iter().filter_map(|item| trigger(item, task, inputs, sink)).collect()
}

fn trigger(node: &Node, task: &str, inputs: &[Input], sink: &mut Sink) -> Option<Trigger> {
    let mut fields = Fields::open(node, &TRIGGER, sink)?;
    let (cron, webhook) = (fields.entry("cron"), fields.entry("webhook"));
    let of_cron = [fields.entry("timezone"), fields.entry("missed"), fields.entry("jitter")];
    let (secret, with) = (fields.entry("secret"), fields.entry("with"));
    fields.close();
    match (cron, webhook) {
        (Some(entry), None) => {
            secret.into_iter().for_each(|e| belongs_not(e, "cron", sink));
            let with = input_of(with, entry, task, inputs, sink);
            cron_trigger(entry, of_cron, with, sink)
        }
        (None, Some(entry)) => {
            of_cron.into_iter().flatten().for_each(|e| belongs_not(e, "webhook", sink));
            let with = input_of(with, entry, task, inputs, sink);
            webhook_trigger(entry, secret, with, sink)
        }
        (Some(cron), Some(webhook)) => {
            let message = "a trigger has `cron` or `webhook`, not both";
            sink.add(Finding::error(Code::Conflict, webhook.key.span, message).related(cron.key.span, "the other"));
            None
        }
        (None, None) => {
            sink.add(Finding::error(Code::MissingKey, node.span, "a trigger needs `cron` or `webhook`"));
            None
        }
    }
}

fn cron_trigger(
    entry: &Entry,
    [timezone, missed, jitter]: [Option<&Entry>; 3],
    with: Option<Json>,
    sink: &mut Sink,
) -> Option<Trigger> {
    let timezone_node = timezone.map(|e| &*e.value);
    let timezone = timezone_node.and_then(|n| values::filled_text("timezone", n, sink)).unwrap_or("UTC").to_owned();
    let missed = missed.and_then(|e| values::word("missed", MISSED, &e.value, sink));
    let missed = if missed == Some("once") { Missed::Once } else { Missed::Skip };
    let jitter = jitter.and_then(|e| {
        let jitter = values::duration("jitter", &e.value, sink)?;
        if jitter > JITTER_MAX {
            sink.add(Finding::error(Code::Limit, e.value.span, "`jitter` can be at most 24h"));
        }
        Some(jitter)
    });
    if let Err(CronError::Zone(zone)) = Cron::read(ANY_TIME, &timezone) {
        let span = timezone_node.map_or(entry.value.span, |node| node.span);
        let hint = match nearest_zone(&zone) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "as in `Europe/Oslo` or `UTC`".to_owned(),
        };
        let message = format!("there is no time zone `{}`", brief(&zone));
        sink.add(Finding::error(Code::BadValue, span, message).hint(hint));
    }
    let expression = values::filled_text("cron", &entry.value, sink)?.to_owned();
    match Cron::read(&expression, &timezone) {
        Ok(cron) if cron.after(engine::Time(0)).is_none() => {
            let message = format!("`{expression}` never comes");
            sink.add(Finding::error(Code::BadValue, entry.value.span, message).hint("no month has such a day"));
        }
        // The zone is told already.
        Ok(_) | Err(CronError::Zone(_)) => {}
        Err(CronError::Expression(problem)) => {
            let message = format!("`cron` cannot be read: {problem}");
            let hint = "minute, hour, day, month, weekday, as in `0 3 * * *`";
            sink.add(Finding::error(Code::BadValue, entry.value.span, message).hint(hint));
        }
    }
    Some(Trigger::Cron { expression, timezone, missed, jitter: jitter.unwrap_or_default(), with })
}

fn webhook_trigger(entry: &Entry, secret: Option<&Entry>, with: Option<Json>, sink: &mut Sink) -> Option<Trigger> {
    let hook = values::filled_text("webhook", &entry.value, sink)?;
    name::webhook(hook, entry.value.span, sink);
    let Some(secret) = secret else {
        let message = "a webhook needs `secret`, the name of what signs its calls";
        let hint = "without one, anybody who reaches the server could start this task";
        sink.add(Finding::error(Code::MissingKey, entry.key.span, message).hint(hint));
        return None;
    };
    let name = values::filled_text("secret", &secret.value, sink)?;
    name::secret(name, secret.value.span, sink);
    Some(Trigger::Webhook { name: hook.to_owned(), secret: name.to_owned(), with })
}

/// What the trigger's jobs are given. What they lack is known now, and not when nobody looks.
fn input_of(with: Option<&Entry>, trigger: &Entry, task: &str, inputs: &[Input], sink: &mut Sink) -> Option<Json> {
    let span = with.map_or(trigger.key.span, |with| with.key.span);
    let given = with.and_then(|entry| given(entry, sink));
    with.into_iter().for_each(|with| as_written(&with.value, sink));
    let object = given.as_ref().and_then(Json::as_object).cloned().unwrap_or_default();
    // A call brings its body.
    let brings_body = trigger.key.text == "webhook" && !object.contains_key(BODY_INPUT);
    let asked: Vec<&Input> = inputs.iter().filter(|input| !(brings_body && input.name == BODY_INPUT)).collect();
    let lacks = |name: &str| inputs.iter().any(|input| input.name == name) && !object.contains_key(name);
    let entries = with.and_then(|with| with.value.entries()).unwrap_or_default();
    let place = |name: &str| entries.iter().find(|entry| entry.key.text == name).map(|entry| entry.key.span);
    for problem in bind::problems(task, &asked, object.clone()) {
        if !inputs.iter().any(|input| input.name == problem.input) {
            let span = place(&problem.input).unwrap_or(span);
            sink.add(Finding::error(Code::UnknownKey, span, problem.message).hint_if(problem.hint));
            continue;
        }
        // What is not given may come to have a default; until then each of its times says that it made no job.
        let finding = match lacks(&problem.input) {
            true => {
                let hint = format!("give it in `with`, as in `with: {{ {}: … }}`", problem.input);
                Finding::warning(Code::BadValue, span, problem.message).hint(hint)
            }
            false => Finding::error(Code::BadValue, span, problem.message).hint_if(problem.hint),
        };
        sink.add(finding);
    }
    given
}

/// Nothing is there yet that a template could name.
fn as_written(node: &Node, sink: &mut Sink) {
    match &node.value {
        Value::Map(entries) => entries.iter().for_each(|entry| as_written(&entry.value, sink)),
        Value::List(items) => items.iter().for_each(|item| as_written(item, sink)),
        Value::Scalar { .. } => {
            values::no_template("with", node).into_iter().for_each(|finding| sink.add(finding.later_rule()));
        }
    }
}

fn belongs_not(entry: &Entry, kind: &str, sink: &mut Sink) {
    let message = format!("`{}` means nothing in a trigger with `{kind}`", entry.key.text);
    sink.add(Finding::error(Code::Conflict, entry.key.span, message).hint("leave it out"));
}

/// The group of the task's jobs; it has the task's name unless it says another.
pub(super) fn concurrency(
    fields: &mut Fields<'_>,
    task: &str,
    inputs: &[Input],
    sink: &mut Sink,
) -> Option<Concurrency> {
    let entry = fields.entry("concurrency")?;
    let mut fields = Fields::open(&entry.value, &CONCURRENCY, sink)?;
    let group = match fields.get("group") {
        Some(node) => group(node, inputs, sink),
        None => Some((Arc::from(task), false)),
    };
    let limit = fields.get("limit").and_then(|n| values::integer("limit", 1..=CONCURRENCY_MAX, n, sink)).unwrap_or(1);
    let when_full = match fields.get("when_full").and_then(|n| values::word("when_full", WHEN_FULL, n, sink)) {
        Some("reject") => WhenFull::Reject,
        Some("cancel_oldest") => WhenFull::CancelOldest,
        _ => WhenFull::Queue,
    };
    fields.close();
    let (group, templated) = group?;
    Some(Concurrency { group, templated, limit: u32::try_from(limit).unwrap_or(1), when_full })
}

/// Its name, and whether inputs are to be filled in.
fn group(node: &Node, inputs: &[Input], sink: &mut Sink) -> Option<(Arc<str>, bool)> {
    let name = values::filled_text("group", node, sink)?.trim();
    let names = input::names(inputs);
    let mut texts = Texts { inputs: &names, steps: None, items: None, outcome: false, notice: false, uses: Vec::new() };
    let templated = texts.template(node, sink);
    if !templated && name.len() > GROUP_NAME_MAX {
        let message = format!("`group` can have at most {GROUP_NAME_MAX} bytes, and has {}", name.len());
        sink.add(Finding::error(Code::Limit, node.span, message));
    }
    if name.chars().any(char::is_control) {
        let message = "`group` has a line break or another control character in it";
        sink.add(Finding::error(Code::BadValue, node.span, message));
    }
    Some((Arc::from(name), templated))
}

/// `with`: an object.
fn given(entry: &Entry, sink: &mut Sink) -> Option<Json> {
    if matches!(entry.value.value, Value::Map(_)) {
        return Some(to_json(&entry.value));
    }
    sink.add(values::mismatch("with", "a mapping", &entry.value));
    None
}

pub(super) fn bounded_list<'n>(entry: &'n Entry, sink: &mut Sink) -> Vec<&'n Node> {
    let items = values::list(&entry.key.text, &entry.value, sink).unwrap_or_default();
    if items.len() > LIST_MAX {
        let message = format!("`{}` has more than {LIST_MAX} items", entry.key.text);
        sink.add(Finding::error(Code::Limit, entry.key.span, message));
        return Vec::new();
    }
    items
}
