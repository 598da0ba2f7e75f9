//! `retry` and `cancel`: how a step is tried again, and how it is asked to end.

use std::time::Duration;

use engine::definition::StopPolicy;
use engine::retry::{ATTEMPTS_MAX, RetryOn, RetryPolicy};

use super::shape::{BACKOFF_MAX, CANCEL, RETRY};
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::nearest::did_you_mean;
use crate::lower::{Fields, signal, values};
use crate::source::Span;
use crate::yaml::{Entry, Node, Value};

/// TERM, ten seconds, KILL.
pub(super) const STOP_DEFAULT: StopPolicy =
    StopPolicy { signal: 15, grace: Duration::from_secs(10), cleanup: CLEANUP_DEFAULT };
/// How long a cleanup has if nothing is said.
const CLEANUP_DEFAULT: Duration = Duration::from_secs(30);
/// A step that needs longer to end should save its work while it runs.
const GRACE_MAX: Duration = Duration::from_secs(3600);
/// All that time somebody waits for the step to be cancelled.
const CLEANUP_MAX: Duration = Duration::from_secs(3600);

/// A policy, with the place of `worker_lost` if it names it.
#[derive(Debug, Clone, Default)]
pub(super) struct Retry {
    pub(super) policy: RetryPolicy,
    pub(super) worker_lost: Option<Span>,
    /// Somebody said how many attempts there are.
    counted: bool,
}

/// A policy is one thought: a step's own stands for the task's default as a whole. A plain number is `attempts`.
pub(super) fn retry(node: &Node, sink: &mut Sink) -> Retry {
    let mut retry = Retry::default();
    let attempts_range = 1..=i64::from(ATTEMPTS_MAX);
    if matches!(node.value, Value::Scalar { .. }) {
        if let Some(attempts) = values::integer("retry", attempts_range, node, sink) {
            retry.policy.attempts = attempts_of(attempts);
        }
        retry.counted = true;
        return retry;
    }
    let Some(mut fields) = Fields::open(node, &RETRY, sink) else { return retry };
    if let Some(node) = fields.get("attempts") {
        retry.counted = true;
        if let Some(attempts) = values::integer("attempts", attempts_range, node, sink) {
            retry.policy.attempts = attempts_of(attempts);
        }
    }
    if let Some(on) = fields.get("on") {
        (retry.policy.on, retry.worker_lost) = retry_on(on, sink);
    }
    if let Some(delay) = fields.get("delay").and_then(|n| values::duration("delay", n, sink)) {
        retry.policy.delay = delay;
    }
    if let Some(backoff) = fields.get("backoff").and_then(|n| values::number("backoff", 1.0..=BACKOFF_MAX, n, sink)) {
        retry.policy.backoff = backoff;
    }
    let max_delay = fields.get("max_delay");
    if let Some(max) = max_delay.and_then(|n| values::duration("max_delay", n, sink)) {
        retry.policy.max_delay = Some(max);
    }
    if let Some(jitter) = fields.get("jitter").and_then(|n| values::boolean("jitter", n, sink)) {
        retry.policy.jitter = jitter;
    }
    if let Some(node) = max_delay
        && retry.policy.max_delay.is_some_and(|max| max < retry.policy.delay)
    {
        let message = "`max_delay` is shorter than `delay`";
        sink.add(
            Finding::error(Code::Conflict, node.span, message)
                .hint("every wait would be `max_delay`; say so in `delay`"),
        );
    }
    fields.close();
    retry
}

/// A policy that changes nothing, since there is one attempt unless somebody says otherwise.
pub(super) fn must_count(entry: &Entry, retry: &Retry, sink: &mut Sink) {
    if !retry.counted {
        let message = "`retry` without `attempts` tries nothing again: there is one attempt";
        let hint = "say how many there are in all, as in `attempts: 3`";
        sink.add(Finding::warning(Code::MissingKey, entry.key.span, message).hint(hint));
    }
}

fn attempts_of(attempts: i64) -> u32 {
    u32::try_from(attempts).unwrap_or(ATTEMPTS_MAX)
}

fn retry_on(node: &Node, sink: &mut Sink) -> (RetryOn, Option<Span>) {
    let mut on = RetryOn { failure: false, timeout: false, ..RetryOn::default() };
    let mut worker_lost = None;
    let items = values::list("on", node, sink).unwrap_or_default();
    if items.is_empty() && matches!(node.value, Value::List(_)) {
        let finding = Finding::error(Code::BadValue, node.span, "`on` names nothing to retry on");
        sink.add(finding.hint("leave it out for [failure, timeout], or leave out `retry`"));
    }
    for item in items {
        let Some(word) = values::filled_text("on", item, sink) else { continue };
        match word {
            "failure" => on.failure = true,
            "timeout" => on.timeout = true,
            "worker_lost" => {
                on.worker_lost = true;
                worker_lost = Some(item.span);
            }
            _ => numbered(word, item, &mut on, sink),
        }
    }
    (on, worker_lost)
}

/// `exit:75` and `signal:9`.
fn numbered(word: &str, node: &Node, on: &mut RetryOn, sink: &mut Sink) {
    const WORDS: [&str; 5] = ["failure", "timeout", "worker_lost", "exit:N", "signal:N"];
    let hint = match word.split_once(':') {
        Some(("exit", code)) => match code.trim().parse::<i32>() {
            Ok(code @ 1..=255) => return on.exit_codes.push(code),
            Ok(0) => "0 is success, which is not retried".to_owned(),
            _ => "exit codes are numbers from 1 to 255".to_owned(),
        },
        Some(("signal", name)) => match signal::parse(name.trim()) {
            Some(number) => return on.signals.push(number),
            None => "signals are numbers from 1 to 64 or names such as KILL".to_owned(),
        },
        _ => did_you_mean(word, WORDS).unwrap_or_else(|| format!("the words are {}", WORDS.join(", "))),
    };
    let message = format!("`on` cannot be `{}`", crate::yaml::brief(word));
    sink.add(Finding::error(Code::BadValue, node.span, message).hint(hint));
}

pub(super) fn cancel(node: &Node, base: StopPolicy, sink: &mut Sink) -> StopPolicy {
    let mut stop = base;
    let Some(mut fields) = Fields::open(node, &CANCEL, sink) else { return stop };
    if let Some(node) = fields.get("signal") {
        match values::raw_scalar(node).and_then(signal::parse) {
            Some(number) => stop.signal = number,
            None => {
                let word = values::raw_scalar(node).unwrap_or_default();
                let hint = did_you_mean(word, signal::names())
                    .unwrap_or_else(|| "a name such as TERM, or a number from 1 to 64".to_owned());
                let message = format!("`signal` must be a signal, not {}", node.describe());
                sink.add(Finding::error(Code::BadValue, node.span, message).hint(hint));
            }
        }
    }
    if let Some(node) = fields.get("grace")
        && let Some(grace) = values::duration("grace", node, sink)
    {
        if grace > GRACE_MAX {
            sink.add(Finding::error(Code::BadValue, node.span, "`grace` is at most 1h"));
        }
        stop.grace = grace.min(GRACE_MAX);
    }
    if let Some(node) = fields.get("cleanup")
        && let Some(time) = values::duration("cleanup", node, sink)
    {
        if time.is_zero() || time > CLEANUP_MAX {
            let message = "`cleanup` within `cancel` is longer than zero, and at most 1h";
            let finding = Finding::error(Code::BadValue, node.span, message);
            sink.add(finding.hint("without a `cleanup` of the step itself nothing is cleaned up"));
        }
        stop.cleanup = time.min(CLEANUP_MAX);
    }
    fields.close();
    stop
}
