//! What is said beside a step of the graph.

use std::collections::BTreeMap;

use super::{FanOut, Need, Step};

/// A list of a thousand needs tells people less than its length does; `--json` has them all.
const NEEDS_NAMED_MAX: usize = 5;

/// How many ends a step can have.
const ALL_ENDS: usize = 4;

/// All of it in one line; `with_needs` where no lines show them.
pub(super) fn notes(step: &Step, with_needs: bool) -> String {
    let mut notes = Vec::new();
    if with_needs && !step.needs.is_empty() {
        notes.push(format!("← {}", named(step.needs.iter())));
    }
    match step.kind {
        "approve" if step.reviewers > 1 => notes.push(format!("approve by {}", step.reviewers)),
        "approve" => notes.push("approve".to_owned()),
        _ => notes.extend(step.task.as_ref().map(|task| format!("task {task}"))),
    }
    notes.extend(step.fan_out.as_ref().map(fan_out));
    notes.extend(step.environment.as_ref().map(|name| format!("environment {name}")));
    notes.extend(edges(&step.needs));
    notes.extend(step.condition.as_ref().map(|text| format!("if {}", one_line(text))));
    if step.allow_failure {
        notes.push("may fail".to_owned());
    }
    notes.join(" · ")
}

fn fan_out(fan_out: &FanOut) -> String {
    let items = fan_out.items.map_or_else(|| "item".to_owned(), |count| format!("of {count}"));
    let at_once = fan_out.max_parallel.map(|most| format!(", {most} at a time")).unwrap_or_default();
    format!("for each {items}{at_once}")
}

/// The edges that want something else than success.
fn edges(needs: &[Need]) -> Vec<String> {
    let mut by_ends: BTreeMap<&[&str], Vec<&Need>> = BTreeMap::new();
    for need in needs.iter().filter(|need| need.on != ["success"]) {
        by_ends.entry(&need.on).or_default().push(need);
    }
    let told = |(on, needs): (&[&str], Vec<&Need>)| {
        let ends = if on.len() == ALL_ENDS { "any end".to_owned() } else { on.join(" or ") };
        format!("on {ends}: {}", named(needs.into_iter()))
    };
    let mut edges: Vec<(&[&str], Vec<&Need>)> = by_ends.into_iter().collect();
    // As the file names them.
    edges.sort_by_key(|(on, _)| needs.iter().position(|need| need.on == *on));
    edges.into_iter().map(told).collect()
}

fn named<'a>(needs: impl ExactSizeIterator<Item = &'a Need>) -> String {
    let more = needs.len().saturating_sub(NEEDS_NAMED_MAX);
    let names: Vec<&str> = needs.take(NEEDS_NAMED_MAX).map(|need| need.step.as_str()).collect();
    let names = names.join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
