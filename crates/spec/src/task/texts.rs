//! Templates and conditions at their places in the file: checked, and what they refer to noted.

use std::collections::HashMap;

use engine::StepIx;
use engine::definition::Items;

use crate::diagnostic::{Code, Finding, Sink};
use crate::eval::constant;
use crate::lower::values;
use crate::source::Span;
use crate::template::check::{self, Checked, Names, StepNames};
use crate::template::{is_template, place};
use crate::yaml::{Node, Value};

/// What the texts of one step may name, and what they did name.
pub(super) struct Texts<'a> {
    pub(super) inputs: &'a HashMap<String, bool>,
    /// None for the texts of the task itself.
    pub(super) steps: Option<&'a StepNames<'a>>,
    /// What a step goes over that is done many times.
    pub(super) items: Option<Items>,
    /// The job is over.
    pub(super) outcome: bool,
    /// Something was noticed.
    pub(super) notice: bool,
    pub(super) uses: Vec<(StepIx, Span)>,
}

impl Texts<'_> {
    /// Whether the text has anything to fill in.
    pub(super) fn template(&mut self, node: &Node, sink: &mut Sink) -> bool {
        let Some(text) = values::raw_scalar(node).filter(|text| is_template(text)) else { return false };
        let checked = check::template(text, self.names(false, sink));
        self.note(node, checked, sink);
        true
    }

    /// Every text of a tree.
    pub(super) fn templates_within(&mut self, node: &Node, sink: &mut Sink) {
        match &node.value {
            Value::Scalar { .. } => {
                self.template(node, sink);
            }
            Value::List(items) => items.iter().for_each(|item| self.templates_within(item, sink)),
            Value::Map(entries) => entries.iter().for_each(|entry| self.templates_within(&entry.value, sink)),
        }
    }

    /// Whether the condition itself asks how its needs ended.
    pub(super) fn condition(&mut self, node: &Node, text: &str, sink: &mut Sink) -> bool {
        // It is asked once, before there is any item.
        let names = Names { items: None, before_items: self.items.is_some(), ..self.names(true, sink) };
        let checked = check::condition(text, names);
        let asks_outcome = checked.asks_outcome;
        if checked.is_constant
            && let Err(problem) = constant(text)
        {
            let hint = "compare it with something, as in `input.count == 5`, or write `true` or `false`";
            sink.add(Finding::error(Code::BadValue, node.span, problem).hint(hint).later_rule());
        }
        self.note(node, checked, sink);
        asks_outcome
    }

    fn names(&self, functions: bool, sink: &Sink) -> Names<'_> {
        let (items, outcome, notice) = (self.items.as_ref(), self.outcome, self.notice);
        Names {
            inputs: self.inputs,
            steps: self.steps,
            items,
            before_items: false,
            outcome,
            notice,
            functions,
            hints: !sink.is_full(),
        }
    }

    fn note(&mut self, node: &Node, checked: Checked, sink: &mut Sink) {
        let source = sink.sources.get(node.span).clone();
        for issue in checked.issues {
            let span = place::within(node, &source, &issue.range);
            let finding = Finding::error(issue.code, span, issue.message).hint_if(issue.hint);
            sink.add(if issue.is_later_rule { finding.later_rule() } else { finding });
        }
        for (step, range) in checked.uses {
            self.uses.push((step, place::within(node, &source, &range)));
        }
    }
}
