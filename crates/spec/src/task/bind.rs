//! What a caller gave, against what the task declares: every problem at once, values in their declared type.

use engine::definition::Inputs;
use serde_json::{Map, Number, Value as Json};

use super::Task;
use super::input::{Input, InputKind};
use crate::lower::nearest::{did_you_mean, either};
use crate::yaml::brief;

/// The input that a webhook's call is put into, where its task has it.
pub const BODY_INPUT: &str = "body";

/// One environment variable holds at most 128 KiB on Linux, its name included.
const VALUE_BYTES_MAX: usize = 120 * 1024;
/// All of them share the kernel's room for arguments and environment.
const TOTAL_BYTES_MAX: usize = 1024 * 1024;

/// One thing wrong with the inputs of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputProblem {
    pub input: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Task {
    /// The job's input: one object with every declared name, `null` where nothing was given and nothing is default.
    ///
    /// Texts given for other types are converted where they can be read as such, so that a command line needs no
    /// types of its own.
    pub fn bind(&self, given: Map<String, Json>) -> Result<Json, Vec<InputProblem>> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        bind(&self.definition.name, &inputs, given)
    }
}

/// Everything that is wrong with what a job with these inputs is given.
pub(super) fn problems(task: &str, inputs: &[&Input], given: Map<String, Json>) -> Vec<InputProblem> {
    bind(task, inputs, given).err().unwrap_or_default()
}

fn bind(task: &str, inputs: &[&Input], mut given: Map<String, Json>) -> Result<Json, Vec<InputProblem>> {
    let mut problems = Vec::new();
    for name in given.keys().filter(|name| !inputs.iter().any(|input| input.name == **name)) {
        problems.push(unknown(task, inputs.iter().copied(), name));
    }
    let mut bound = Map::new();
    let mut bytes = 0;
    for input in inputs {
        match one(input, given.remove(&input.name)) {
            Ok(value) => {
                bytes += text_of(&value).map_or(0, |text| text.len());
                bound.insert(input.name.clone(), value);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if bytes > TOTAL_BYTES_MAX {
        let message = format!("all inputs together have {bytes} bytes, the limit is {TOTAL_BYTES_MAX}");
        let hint = Some("pass the name of a file instead".to_owned());
        problems.push(InputProblem { input: String::new(), message, hint });
    }
    if problems.is_empty() { Ok(Json::Object(bound)) } else { Err(problems) }
}

pub(super) fn unknown<'a>(task: &str, inputs: impl Iterator<Item = &'a Input>, name: &str) -> InputProblem {
    let names: Vec<&str> = inputs.map(|input| input.name.as_str()).collect();
    let hint = did_you_mean(name, names.iter().copied()).or_else(|| {
        let known = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", either(names)) };
        Some(known)
    });
    let message = format!("the task `{task}` has no input `{}`", brief(name));
    InputProblem { input: name.to_owned(), message, hint }
}

impl Input {
    /// One value for it, in its own type; [`Task::bind`] takes what this takes.
    pub fn take(&self, given: Json) -> Result<Json, InputProblem> {
        value(self, given)
    }
}

/// What a task declares that it wants, for jobs that other jobs begin.
impl Inputs for Task {
    fn bind(&self, given: Json) -> Result<Json, String> {
        let Json::Object(given) = given else { return Err("it is no object".to_owned()) };
        let told = |problems: Vec<InputProblem>| {
            problems.into_iter().map(|problem| problem.message).collect::<Vec<String>>().join("; ")
        };
        Task::bind(self, given).map_err(told)
    }
}

/// The environment variables that show a job's input to its steps: `BOWLINE_INPUT_<NAME>`; `null` is left out.
pub fn input_variables(input: &Json) -> Vec<(String, String)> {
    let Json::Object(values) = input else { return Vec::new() };
    values.iter().filter_map(|(name, value)| Some((variable_name(name), text_of(value)?))).collect()
}

pub(super) fn variable_name(input: &str) -> String {
    format!("BOWLINE_INPUT_{}", input.to_ascii_uppercase().replace('-', "_"))
}

fn one(input: &Input, given: Option<Json>) -> Result<Json, InputProblem> {
    match given.filter(|value| !value.is_null()) {
        Some(value) => self::value(input, value),
        None if input.required => {
            let message = format!("the input `{}` is required", input.name);
            let hint = Some(format!("give it with `-i {}=…`", input.name));
            Err(InputProblem { input: input.name.clone(), message, hint })
        }
        None => Ok(input.default.clone().unwrap_or(Json::Null)),
    }
}

/// A value in the input's own type and within its bounds.
pub(super) fn value(input: &Input, given: Json) -> Result<Json, InputProblem> {
    let problem = |message: String, hint: Option<String>| InputProblem { input: input.name.clone(), message, hint };
    let shown = shown(&given);
    let value = of_its_kind(input, given)?;
    let text = text_of(&value).unwrap_or_default();
    if text.len() > VALUE_BYTES_MAX {
        let message = format!("`{}` has {} bytes, the limit is {VALUE_BYTES_MAX}", input.name, text.len());
        return Err(problem(message, Some("pass the name of a file instead".to_owned())));
    }
    if text.contains('\0') {
        return Err(problem(format!("`{}` holds a NUL character, which no program can be given", input.name), None));
    }
    if input.kind == InputKind::Enum && !input.options.contains(&text) {
        let message =
            format!("`{}` must be {}, not `{shown}`", input.name, either(input.options.iter().map(String::as_str)));
        return Err(problem(message, did_you_mean(&text, input.options.iter().map(String::as_str))));
    }
    if let Some(pattern) = input.pattern.as_ref().filter(|pattern| !pattern.is_match(&text)) {
        return Err(problem(
            format!("`{}` must match {pattern}, not `{shown}`", input.name),
            input.description.clone(),
        ));
    }
    check_bounds(input, &value).map_err(|message| problem(message, None))?;
    Ok(value)
}

/// A value in the input's own type, whatever else it must be.
pub(super) fn of_its_kind(input: &Input, given: Json) -> Result<Json, InputProblem> {
    let shown = shown(&given);
    converted(input.kind, given).ok_or_else(|| {
        let hint = (input.kind == InputKind::List).then(|| "as JSON, or words with commas between".to_owned());
        let message = format!("`{}` must be {}, not `{shown}`", input.name, article(input.kind));
        InputProblem { input: input.name.clone(), message, hint }
    })
}

fn shown(value: &Json) -> String {
    brief(&text_of(value).unwrap_or_else(|| "null".to_owned()))
}

fn converted(kind: InputKind, given: Json) -> Option<Json> {
    match (kind, given) {
        (InputKind::String | InputKind::Enum, Json::String(text)) => Some(Json::String(text)),
        // An enum's options may be written as numbers or booleans in the file.
        (InputKind::Enum, value @ (Json::Number(_) | Json::Bool(_))) => Some(Json::String(value.to_string())),
        (InputKind::Boolean, value @ Json::Bool(_))
        | (InputKind::Number, value @ Json::Number(_))
        | (InputKind::List, value @ Json::Array(_))
        | (InputKind::Object, value @ Json::Object(_)) => Some(value),
        (InputKind::Integer, Json::Number(number)) => whole(&number).map(Json::from),
        (InputKind::List, Json::String(text)) => match serde_json::from_str(&text) {
            Ok(value @ Json::Array(_)) => Some(value),
            _ if text.trim_start().starts_with(['[', '{']) => None,
            _ => Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Json::from).collect()),
        },
        (InputKind::Number | InputKind::Integer | InputKind::Boolean | InputKind::Object, Json::String(text)) => {
            let parsed: Json = serde_json::from_str(text.trim()).ok()?;
            // Once: a text within a text is no value of these types.
            if parsed.is_string() { None } else { converted(kind, parsed) }
        }
        _ => None,
    }
}

fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        // Beyond 2^53 a float no longer names one whole number.
        #[expect(clippy::cast_possible_truncation, reason = "whole and small, as the filter says")]
        (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
    })
}

fn check_bounds(input: &Input, value: &Json) -> Result<(), String> {
    let (measure, what) = match value {
        Json::Number(number) => (number.as_f64().unwrap_or(f64::NAN), ""),
        #[expect(clippy::cast_precision_loss, reason = "lengths are bounded far below 2^53")]
        Json::String(text) => (text.chars().count() as f64, " characters"),
        #[expect(clippy::cast_precision_loss, reason = "lengths are bounded far below 2^53")]
        Json::Array(items) => (items.len() as f64, " items"),
        Json::Null | Json::Bool(_) | Json::Object(_) => return Ok(()),
    };
    if let Some(min) = input.min.filter(|&min| measure < min) {
        return Err(format!("`{}` must be at least {min}{what}, not {measure}", input.name));
    }
    if let Some(max) = input.max.filter(|&max| measure > max) {
        return Err(format!("`{}` must be at most {max}{what}, not {measure}", input.name));
    }
    Ok(())
}

/// As an environment variable shows it: texts as they are, the rest as JSON, `null` not at all.
fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn article(kind: InputKind) -> &'static str {
    match kind {
        InputKind::String | InputKind::Enum => "a string",
        InputKind::Number => "a number",
        InputKind::Integer => "a whole number",
        InputKind::Boolean => "true or false",
        InputKind::List => "a list",
        InputKind::Object => "an object",
    }
}
