//! The engine's evaluator: conditions and templates, over what the engine shows of a job.
//!
//! Texts come from definitions that were checked when they were read, so what fails here depends on values: an output
//! that was not written, an input that was not given. Compiling an expression costs a few microseconds and steps are
//! queued once, so nothing is cached; the four plain conditions and texts without templates never get that far.

use std::collections::BTreeMap;
use std::io;

use engine::StepIx;
use engine::definition::{Items, KeepRule, Program, RunBody, StepDef};
use engine::eval::{Evaluator, Scope};
use minijinja::value::{Serde, Value};
use pack::Glob;
use serde_json::Value as Json;

use crate::task::leaves_its_folder;
use crate::template::budget::{self, Budget};
use crate::template::environment::{TEXT_BYTES_MAX, environment};
use crate::template::{is_template, sole_expression};
use crate::yaml::brief;

/// Evaluates with minijinja, deterministically and within bounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Templates;

impl Evaluator for Templates {
    fn holds(&self, expression: &str, step: &StepDef, scope: &Scope<'_>) -> Result<bool, String> {
        match expression {
            "success()" => Ok(scope.success),
            "failure()" => Ok(scope.failure),
            "cancelled()" => Ok(scope.cancelled),
            "always()" | "true" => Ok(true),
            "false" => Ok(false),
            _ => guarded(|| condition(expression, context(&step.uses, scope))),
        }
    }

    fn render(&self, body: &RunBody, step: &StepDef, scope: &Scope<'_>) -> Result<RunBody, String> {
        if !body.templated {
            return Ok(body.clone());
        }
        guarded(|| Filler { context: context(&step.uses, scope), bytes_left: TEXT_BYTES_MAX }.body(body))
    }

    fn fill(&self, with: &Json, uses: &[StepIx], scope: &Scope<'_>) -> Result<Json, String> {
        let mut filler = Filler { context: context(uses, scope), bytes_left: TEXT_BYTES_MAX };
        guarded(|| filler.value("with", with))
    }

    fn items(&self, items: &Items, step: &StepDef, scope: &Scope<'_>) -> Result<Vec<Json>, String> {
        match items {
            Items::Matrix(axes) => Ok(combinations(axes)),
            Items::List(list) => {
                let mut filler = Filler { context: context(&step.uses, scope), bytes_left: ITEMS_BYTES_MAX };
                guarded(|| list.iter().map(|item| filler.value("for_each", item)).collect())
            }
            Items::Text(text) => {
                let mut filler = Filler { context: context(&step.uses, scope), bytes_left: ITEMS_BYTES_MAX };
                list_of(guarded(|| filler.value("for_each", &Json::from(&**text)))?)
            }
        }
    }
}

/// All items of a list together, as JSON text.
const ITEMS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Every combination, the last axis turning fastest.
fn combinations(axes: &[(String, Vec<Json>)]) -> Vec<Json> {
    let mut combined = vec![serde_json::Map::new()];
    for (name, values) in axes {
        combined = combined
            .iter()
            .flat_map(|object| {
                values.iter().map(|value| {
                    let mut object = object.clone();
                    object.insert(name.clone(), value.clone());
                    object
                })
            })
            .collect();
    }
    combined.into_iter().map(Json::Object).collect()
}

/// A list, or a text that holds one: what a script writes with `echo` is a text.
fn list_of(value: Json) -> Result<Vec<Json>, String> {
    let found = match value {
        Json::Array(items) => return Ok(items),
        Json::String(text) => match serde_json::from_str(&text) {
            Ok(Json::Array(items)) => return Ok(items),
            Ok(_) | Err(_) => format!("the text `{}`", brief(&text)),
        },
        other => format!("`{}`", brief(&other.to_string())),
    };
    Err(format!("`for_each` wants a list, and its template gave {found}"))
}

/// A fault in the template engine fails the step whose text met it, and nothing else.
fn guarded<T>(evaluate: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What the closure touches is made within it, so nothing half-changed is left behind.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(evaluate))
        .unwrap_or_else(|_| Err("the template engine failed on this text".to_owned()))
}

fn condition(expression: &str, context: Value) -> Result<bool, String> {
    let describe =
        |error: minijinja::Error| format!("the condition `{}` failed: {}", brief(expression), reason(&error));
    let compiled = environment().compile_expression(expression).map_err(describe)?;
    let value = compiled.eval(context).map_err(describe)?;
    bool::try_from(value.clone()).map_err(|_| {
        // A text such as "false" would count as true.
        let hint = "compare it with something, as in `… == 'yes'`";
        format!(
            "the condition `{}` gave `{}`, which is neither true nor false; {hint}",
            brief(expression),
            brief(&value.to_string())
        )
    })
}

/// What a condition that names nothing is, whatever happens; or why it is no condition.
pub(crate) fn constant(expression: &str) -> Result<bool, String> {
    let evaluated = guarded(|| {
        let context = Value::from_pairs([(budget::NAME, Budget::full())]);
        let evaluated = environment().compile_expression(expression).and_then(|compiled| compiled.eval(context));
        evaluated.map_err(|error| format!("the condition always fails: {}", reason(&error)))
    })?;
    bool::try_from(evaluated)
        .map_err(|_| format!("the condition is always `{}`, which is neither true nor false", brief(expression.trim())))
}

/// What expressions see: `input`, `steps` (those that the step uses), `job`, `task`, `notice` where there is one, and the four functions.
fn context(uses: &[StepIx], scope: &Scope<'_>) -> Value {
    let steps = Value::from_pairs(uses.iter().map(|&ix| step_value(scope, ix)));
    let Scope { success, failure, cancelled, .. } = *scope;
    Value::from_pairs([
        ("input", Value::from(Serde(scope.input))),
        ("steps", steps),
        ("job", job_value(scope)),
        ("task", Value::from_pairs([("name", Value::from(scope.task))])),
        ("success", Value::from_function(move || success)),
        ("failure", Value::from_function(move || failure)),
        ("cancelled", Value::from_function(move || cancelled)),
        ("always", Value::from_function(|| true)),
        ("item", scope.item.map_or(Value::UNDEFINED, |item| Value::from(Serde(item)))),
        ("notice", notice_value(scope)),
        (budget::NAME, Budget::full()),
    ])
}

/// `job.id`; and once it is over `job.state` and `job.error`, which is nothing where all went well.
fn job_value(scope: &Scope<'_>) -> Value {
    let mut fields = vec![("id", Value::from(scope.job.to_string()))];
    if let Some(outcome) = &scope.outcome {
        let error = outcome.error.map(|error| {
            Value::from_pairs([
                ("code", Value::from(error.kind.code())),
                ("message", Value::from(error.message.as_str())),
                ("step", outcome.step.map_or(Value::from(()), Value::from)),
            ])
        });
        fields.push(("state", Value::from(outcome.state.word())));
        fields.push(("error", error.unwrap_or(Value::from(()))));
    }
    Value::from_pairs(fields)
}

/// `notice.kind`, `notice.text` and `notice.step`, in what follows on one.
fn notice_value(scope: &Scope<'_>) -> Value {
    let Some(notice) = &scope.notice else { return Value::UNDEFINED };
    Value::from_pairs([
        ("kind", Value::from(notice.kind.word())),
        ("text", Value::from(notice.text)),
        ("step", notice.step.map_or(Value::from(()), Value::from)),
    ])
}

fn step_value(scope: &Scope<'_>, ix: StepIx) -> (String, Value) {
    let view = (scope.steps)(ix);
    let fields = Value::from_pairs([
        ("state", Value::from(view.state.word())),
        ("output", Value::from(Serde(view.output))),
        ("error", view.error_code.map_or(Value::from(()), Value::from)),
    ]);
    (view.name.to_string(), fields)
}

/// Fills in the texts of one step; together they may not grow without bounds.
struct Filler {
    context: Value,
    bytes_left: usize,
}

impl Filler {
    fn body(mut self, body: &RunBody) -> Result<RunBody, String> {
        let program = self.program("run", &body.program)?;
        let cleanup = body.cleanup.as_ref().map(|cleanup| self.program("cleanup", cleanup)).transpose()?;
        let mut env = BTreeMap::new();
        for (name, value) in &body.env {
            env.insert(name.clone(), self.text(name, value)?);
        }
        let workdir = body.workdir.as_deref().map(|folder| self.workdir(folder)).transpose()?;
        let artifacts = body.artifacts.as_ref().map(|keep| self.keep(keep)).transpose()?;
        Ok(RunBody { program, env, workdir, artifacts, cleanup, templated: false })
    }

    fn program(&mut self, what: &str, program: &Program) -> Result<Program, String> {
        Ok(match program {
            Program::Script { shell, text } => Program::Script { shell: shell.clone(), text: self.text(what, text)? },
            Program::Command { argv } => {
                let words: Result<Vec<String>, String> = argv.iter().map(|word| self.text(what, word)).collect();
                Program::Command { argv: words? }
            }
        })
    }

    /// The folder that it starts in, which must still be below the attempt's own or be absolute.
    fn workdir(&mut self, folder: &str) -> Result<String, String> {
        let filled = self.text("workdir", folder)?;
        if leaves_its_folder(&filled) {
            let hint = "use a folder without `..`, or an absolute path";
            return Err(format!("`workdir`: `{}` leads out of the attempt's own folder; {hint}", brief(&filled)));
        }
        Ok(filled)
    }

    /// The files that it leaves, which must still be below its folder.
    fn keep(&mut self, keep: &KeepRule) -> Result<KeepRule, String> {
        let mut paths = Vec::with_capacity(keep.paths.len());
        for path in &keep.paths {
            let filled = self.text("artifacts", path)?;
            Glob::parse(&filled)
                .map_err(|error| format!("`artifacts`: `{}` cannot be searched for: {error}", brief(&filled)))?;
            paths.push(filled);
        }
        Ok(KeepRule { paths, ..keep.clone() })
    }

    /// A value with the templates in its texts filled in. A text that is one template keeps the type of what it gives.
    fn value(&mut self, what: &str, value: &Json) -> Result<Json, String> {
        Ok(match value {
            Json::String(text) => match sole_expression(text) {
                Some(expression) => self.expression(what, expression)?,
                None => Json::String(self.text(what, text)?),
            },
            Json::Array(items) => {
                Json::Array(items.iter().map(|item| self.value(what, item)).collect::<Result<_, String>>()?)
            }
            Json::Object(fields) => {
                let mut filled = serde_json::Map::new();
                for (name, field) in fields {
                    filled.insert(name.clone(), self.value(what, field)?);
                }
                Json::Object(filled)
            }
            plain => plain.clone(),
        })
    }

    fn expression(&mut self, what: &str, expression: &str) -> Result<Json, String> {
        let describe = |error: minijinja::Error| format!("the template in `{what}` failed: {}", reason(&error));
        let compiled = environment().compile_expression(expression).map_err(describe)?;
        let value = compiled.eval(self.context.clone()).map_err(describe)?;
        if value.is_undefined() {
            return Err(format!("the template in `{what}` failed: there is no such value, at `{}`", brief(expression)));
        }
        let json = serde_json::to_value(&value)
            .map_err(|_| format!("the value of the template in `{what}` has no JSON form"))?;
        self.spend(what, json.to_string().len())?;
        Ok(json)
    }

    fn spend(&mut self, what: &str, bytes: usize) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| format!("the values of the step grow too large at `{what}`"))?;
        Ok(())
    }

    fn text(&mut self, what: &str, text: &str) -> Result<String, String> {
        if !is_template(text) {
            return Ok(text.to_owned());
        }
        let describe = |error: minijinja::Error| format!("the template in `{what}` failed: {}", reason(&error));
        let template = environment().template_from_str(text).map_err(describe)?;
        let mut filled = Bounded { bytes: Vec::new(), left: self.bytes_left };
        let outcome = template.render_captured_to(self.context.clone(), &mut filled).map(drop);
        if filled.left == 0 {
            return Err(format!("the templates of the step grow beyond {TEXT_BYTES_MAX} bytes at `{what}`"));
        }
        outcome.map_err(describe)?;
        self.bytes_left = filled.left;
        let filled = String::from_utf8(filled.bytes).map_err(|_| format!("`{what}` is not valid UTF-8"))?;
        if filled.contains('\0') {
            return Err(format!("`{what}` holds a NUL character, which no program can be given"));
        }
        Ok(filled)
    }
}

/// Takes so much and no more.
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self.left.checked_sub(buffer.len()).filter(|&left| left > 0) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
        }
        self.bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error in one line: what, and at which piece of the text.
fn reason(error: &minijinja::Error) -> String {
    let piece = error.template_source().zip(error.range()).and_then(|(source, range)| source.get(range)).map(brief);
    let what = match (error.kind(), error.detail()) {
        (minijinja::ErrorKind::UndefinedError, _) => "there is no such value".to_owned(),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    };
    match piece {
        Some(piece) if !piece.is_empty() => format!("{what}, at `{piece}`"),
        _ => what,
    }
}
