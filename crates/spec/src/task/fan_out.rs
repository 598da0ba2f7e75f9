//! `for_each` and `matrix`: what a step that is done many times goes over.

use std::sync::Arc;

use engine::definition::{Condition, FanOut, ITEMS_MAX, Items, STEPS_MAX, StepDef};

use super::input::{Input, InputKind};
use super::shape::PARALLEL_MAX;
use super::step::StepRead;
use super::texts::Texts;
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::json::to_json;
use crate::lower::{Fields, values};
use crate::template::sole_expression;
use crate::yaml::{Entry, Node, Value};

/// None for an ordinary step, and for one whose list cannot be read: then the sink knows why.
pub(super) fn read(
    fields: &mut Fields<'_>,
    inputs: &[Input],
    texts: &mut Texts<'_>,
    sink: &mut Sink,
) -> Option<FanOut> {
    let for_each = fields.entry("for_each");
    let matrix = fields.entry("matrix");
    let (max_parallel, fail_fast) = (fields.entry("max_parallel"), fields.entry("fail_fast"));
    if let (Some(first), Some(second)) = (for_each, matrix) {
        let message = "a step has `for_each` or `matrix`, not both";
        sink.add(Finding::error(Code::Conflict, second.key.span, message).related(first.key.span, "the other"));
    }
    if for_each.is_none() && matrix.is_none() {
        for entry in [max_parallel, fail_fast].into_iter().flatten() {
            let message = format!("`{}` means nothing without `for_each` or `matrix`", entry.key.text);
            sink.add(Finding::error(Code::Conflict, entry.key.span, message));
        }
    }
    let most = max_parallel.and_then(|e| values::integer("max_parallel", 1..=PARALLEL_MAX, &e.value, sink));
    let fail_fast = fail_fast.and_then(|e| values::boolean("fail_fast", &e.value, sink));
    // Both are looked at, whatever is wrong with one.
    let (of_list, of_axes) =
        (for_each.and_then(|entry| list(entry, inputs, texts, sink)), matrix.and_then(|entry| axes(entry, sink)));
    let max_parallel = most.and_then(|n| u32::try_from(n).ok());
    Some(FanOut { items: of_list.or(of_axes)?, max_parallel, fail_fast: fail_fast.unwrap_or(false) })
}

fn list(entry: &Entry, inputs: &[Input], texts: &mut Texts<'_>, sink: &mut Sink) -> Option<Items> {
    let node = &entry.value;
    texts.templates_within(node, sink);
    match &node.value {
        Value::List(items) => {
            bounded(entry, items.len(), sink)?;
            Some(Items::List(Arc::new(items.iter().map(|item| to_json(item)).collect())))
        }
        Value::Scalar { text, .. } if let Some(expression) = sole_expression(text) => {
            never_a_list(expression, inputs, node, sink);
            Some(Items::Text(text.as_str().into()))
        }
        Value::Scalar { .. } | Value::Map(_) => {
            let hint = "as in `for_each: [a, b]` or `for_each: \"{{ input.targets }}\"`";
            sink.add(values::mismatch("for_each", "a list, or one template that gives a list", node).hint(hint));
            None
        }
    }
}

/// An input whose type says that it is none. A text may hold a list as JSON.
fn never_a_list(expression: &str, inputs: &[Input], node: &Node, sink: &mut Sink) {
    let Some(name) = expression.strip_prefix("input.") else { return };
    let Some(input) = inputs.iter().find(|input| input.name == name) else { return };
    if matches!(input.kind, InputKind::Integer | InputKind::Number | InputKind::Boolean) {
        let kind = input.kind.word();
        let message = format!("`for_each` goes over a list, and the input `{name}` is declared `type: {kind}`");
        let hint = format!("say `type: list` there, or name another input than `{name}` here");
        sink.add(Finding::error(Code::WrongType, node.span, message).hint(hint).later_rule());
    }
}

fn axes(entry: &Entry, sink: &mut Sink) -> Option<Items> {
    let node = &entry.value;
    let Value::Map(entries) = &node.value else {
        sink.add(
            values::mismatch("matrix", "a mapping of lists", node).hint("as in `matrix: { os: [debian, alpine] }`"),
        );
        return None;
    };
    let mut axes = Vec::with_capacity(entries.len());
    let mut count: usize = 1;
    for axis in entries {
        let items = axis_values(&axis.key.text, &axis.value, sink);
        count = count.saturating_mul(items.len());
        axes.push((axis.key.text.clone(), items));
    }
    if axes.is_empty() {
        sink.add(Finding::error(Code::BadValue, node.span, "`matrix` has no axis"));
        return None;
    }
    bounded(entry, count, sink)?;
    Some(Items::Matrix(Arc::new(axes)))
}

fn axis_values(name: &str, node: &Node, sink: &mut Sink) -> Vec<serde_json::Value> {
    let Value::List(items) = &node.value else {
        let hint = if values::no_template(name, node).is_some() {
            format!("an axis is written out, as in `{name}: [a, b]`; for a list that a template gives use `for_each`")
        } else {
            format!("as in `{name}: [a, b]`")
        };
        sink.add(values::mismatch(name, "a list", node).hint(hint));
        return Vec::new();
    };
    for finding in items.iter().filter_map(|item| values::no_template(name, item)) {
        sink.add(finding.hint("for values that templates give use `for_each`").later_rule());
    }
    items.iter().filter(|item| values::any_scalar(name, item, sink).is_some()).map(|item| to_json(item)).collect()
}

/// The items that are written out: how many there will be for certain. A step with `if` may have none.
fn written_out(step: &StepDef) -> usize {
    match step.fan_out.as_ref().map(|fan_out| &fan_out.items) {
        _ if step.condition != Condition::Success => 0,
        Some(Items::List(items)) => items.len(),
        Some(Items::Matrix(axes)) => axes.iter().map(|(_, values)| values.len()).product(),
        Some(Items::Text(_)) | None => 0,
    }
}

/// What all lists together make of a job.
pub(super) fn check_all(steps: &[StepRead], sink: &mut Sink) {
    let mut all = steps.len();
    let mut first_over = None;
    for step in steps {
        all += written_out(&step.definition);
        if all > STEPS_MAX && first_over.is_none() {
            first_over = Some(step.name_span);
        }
    }
    if let Some(span) = first_over {
        let message = format!("with the items of its lists a job of this task has {all} steps, more than {STEPS_MAX}");
        sink.add(
            Finding::error(Code::Limit, span, message)
                .hint("make tasks of their own of some, and begin them with `task`")
                .later_rule(),
        );
    }
}

fn bounded(entry: &Entry, count: usize, sink: &mut Sink) -> Option<()> {
    if count <= ITEMS_MAX {
        return Some(());
    }
    let message = format!("`{}` has {count} items, and a step has at most {ITEMS_MAX}", entry.key.text);
    sink.add(Finding::error(Code::Limit, entry.key.span, message));
    None
}
