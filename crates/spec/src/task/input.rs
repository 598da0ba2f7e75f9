//! The `input` section: which inputs a job may be given, and what each must be.

use std::collections::HashMap;

use regex_lite::{Regex, RegexBuilder};
use serde_json::Value as Json;

use super::bind::{self, variable_name};
use super::name;
use super::shape::{INPUT, INPUT_TYPES};
use crate::diagnostic::{Code, Finding, Sink};
use crate::lower::json::to_json;
use crate::lower::{Fields, values};
use crate::yaml::{Entry, Node, Value};

/// Each becomes an environment variable of every step.
const INPUTS_MAX: usize = 200;
/// Compiled, in bytes: more than any readable pattern needs. Matching takes time by this times the value's length.
const PATTERN_BYTES_MAX: usize = 16 * 1024;

/// One declared input.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: String,
    pub kind: InputKind,
    pub description: Option<String>,
    pub required: bool,
    pub default: Option<Json>,
    pub pattern: Option<Regex>,
    /// Of a number itself; of a string's characters or a list's items.
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// What an enum may be.
    pub options: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    String,
    Number,
    Integer,
    Boolean,
    Enum,
    List,
    Object,
}

impl InputKind {
    pub fn word(self) -> &'static str {
        match self {
            InputKind::String => "string",
            InputKind::Number => "number",
            InputKind::Integer => "integer",
            InputKind::Boolean => "boolean",
            InputKind::Enum => "enum",
            InputKind::List => "list",
            InputKind::Object => "object",
        }
    }

    fn from_word(word: &str) -> Option<InputKind> {
        use InputKind::{Boolean, Enum, Integer, List, Number, Object, String};
        [String, Number, Integer, Boolean, Enum, List, Object].into_iter().find(|kind| kind.word() == word)
    }

    fn is_number(self) -> bool {
        matches!(self, InputKind::Number | InputKind::Integer)
    }

    /// Whether `min` and `max` say anything.
    fn has_bounds(self) -> bool {
        self.is_number() || matches!(self, InputKind::String | InputKind::List)
    }
}

/// In the order of the file.
pub(super) fn inputs(node: &Node, sink: &mut Sink) -> Vec<Input> {
    let Some(entries) = node.entries() else {
        sink.add(values::mismatch("input", "a mapping", node).hint("as in `input: { version: { type: string } }`"));
        return Vec::new();
    };
    if entries.len() > INPUTS_MAX {
        sink.add(Finding::error(Code::Limit, node.span, format!("a task has at most {INPUTS_MAX} inputs")));
        return Vec::new();
    }
    let mut variables = HashMap::new();
    for entry in entries {
        if let Some(first) = variables.insert(variable_name(&entry.key.text), entry.key.span) {
            let message = format!("two inputs would both be `{}`", variable_name(&entry.key.text));
            sink.add(Finding::error(Code::Conflict, entry.key.span, message).related(first, "the other"));
        }
    }
    entries.iter().filter_map(|entry| input(entry, sink)).collect()
}

/// Declared names, and which of them hold numbers: what templates need to know.
pub(super) fn names(inputs: &[Input]) -> HashMap<String, bool> {
    inputs.iter().map(|input| (input.name.clone(), input.kind.is_number())).collect()
}

fn input(entry: &Entry, sink: &mut Sink) -> Option<Input> {
    name::input(&entry.key.text, entry.key.span, sink);
    let mut fields = Fields::open(&entry.value, &INPUT, sink)?;
    let kind =
        fields.get("type").and_then(|n| values::word("type", INPUT_TYPES, n, sink)).and_then(InputKind::from_word);
    let kind = kind.unwrap_or(InputKind::String);
    let description = fields.get("description").and_then(|n| values::text("description", n, sink)).map(str::to_owned);
    let required = fields.get("required").and_then(|n| values::boolean("required", n, sink)).unwrap_or(false);
    let pattern = fields.entry("pattern");
    let bounds = [fields.entry("min"), fields.entry("max")];
    let options = fields.entry("options");
    let default = fields.entry("default");
    fields.close();

    for bound in bounds.into_iter().flatten().filter(|_| !kind.has_bounds()) {
        belongs_not(bound, kind, sink);
    }
    if let Some(entry) = pattern.filter(|_| kind != InputKind::String) {
        belongs_not(entry, kind, sink);
    }
    if let Some(entry) = options.filter(|_| kind != InputKind::Enum) {
        belongs_not(entry, kind, sink);
    }
    let bound = |entry: Option<&Entry>, sink: &mut Sink| {
        entry.and_then(|e| values::number(&e.key.text, f64::MIN..=f64::MAX, &e.value, sink))
    };
    let mut input = Input {
        name: entry.key.text.clone(),
        kind,
        description,
        required,
        default: None,
        pattern: pattern.and_then(|e| regex(&e.value, sink)),
        min: bound(bounds[0], sink),
        max: bound(bounds[1], sink),
        options: options.map(|e| enum_options(&e.value, sink)).unwrap_or_default(),
    };
    check_whole(&input, entry, bounds[1], options, sink);
    if let Some(default) = default {
        input.default = checked_default(&input, default, sink);
    }
    Some(input)
}

fn check_whole(input: &Input, entry: &Entry, max: Option<&Entry>, options: Option<&Entry>, sink: &mut Sink) {
    if input.kind == InputKind::Enum && options.is_none() {
        let message = format!("the enum `{}` needs `options`", input.name);
        sink.add(Finding::error(Code::MissingKey, entry.key.span, message).hint("as in `options: [debug, release]`"));
    }
    if let (Some(least), Some(most), Some(max)) = (input.min, input.max, max)
        && least > most
    {
        sink.add(Finding::error(
            Code::Conflict,
            max.value.span,
            format!("`max` ({most}) is less than `min` ({least})"),
        ));
    }
}

fn checked_default(input: &Input, default: &Entry, sink: &mut Sink) -> Option<Json> {
    if input.required {
        let message = format!("`{}` is required, so its default is never used", input.name);
        sink.add(Finding::error(Code::Conflict, default.key.span, message).hint("leave out `required` or `default`"));
    }
    match bind::value(input, to_json(&default.value)) {
        Ok(value) => Some(value),
        Err(problem) => {
            let message = format!("the default of `{}` does not fit: {}", input.name, problem.message);
            sink.add(Finding::error(Code::BadValue, default.value.span, message).hint_if(problem.hint));
            None
        }
    }
}

fn belongs_not(entry: &Entry, kind: InputKind, sink: &mut Sink) {
    let message = format!("`{}` means nothing for an input of type {}", entry.key.text, kind.word());
    sink.add(Finding::error(Code::Conflict, entry.key.span, message).hint("leave it out"));
}

fn regex(node: &Node, sink: &mut Sink) -> Option<Regex> {
    let text = values::filled_text("pattern", node, sink)?;
    match RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build() {
        Ok(regex) => Some(regex),
        Err(error) => {
            let message = format!("`pattern` is no regular expression: {error}");
            sink.add(Finding::error(Code::BadValue, node.span, message));
            None
        }
    }
}

fn enum_options(node: &Node, sink: &mut Sink) -> Vec<String> {
    let items = values::list("options", node, sink).unwrap_or_default();
    if items.is_empty() && matches!(node.value, Value::List(_)) {
        sink.add(Finding::error(Code::BadValue, node.span, "`options` is empty"));
    }
    items.into_iter().filter_map(|item| values::any_scalar("options", item, sink)).map(str::to_owned).collect()
}
