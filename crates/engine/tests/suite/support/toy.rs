//! An evaluator small enough to be right at sight.

use engine::definition::{Items, Program, RunBody, StepDef};
use engine::eval::{Evaluator, Scope};
use engine::{StateName, StepIx};
use serde_json::Value;

/// Knows the four functions, `state NAME WORD`, `true`, `false`; everything else is an error.
pub(crate) struct Toy;

impl Evaluator for Toy {
    fn holds(&self, expression: &str, step: &StepDef, scope: &Scope<'_>) -> Result<bool, String> {
        Ok(match expression {
            "success()" => scope.success,
            "failure()" => scope.failure,
            "cancelled()" => scope.cancelled,
            "always()" | "true" => true,
            "false" => false,
            // Whether the first step that this one uses ended well.
            "used()" => step.uses.first().is_some_and(|&ix| (scope.steps)(ix).state == StateName::Success),
            other => return Err(format!("`{other}` means nothing here")),
        })
    }

    /// Puts the job's input in the place of `{input}`, the item in that of `{item}`; `{bad}` is an error, and so is `{odd}`
    /// for an odd item.
    fn render(&self, body: &RunBody, _step: &StepDef, scope: &Scope<'_>) -> Result<RunBody, String> {
        let Program::Command { argv } = &body.program else {
            return Ok(body.clone());
        };
        if argv.iter().any(|word| word.contains("{bad}")) {
            return Err("`bad` is not there".to_owned());
        }
        if argv.iter().any(|word| word.contains("{odd}"))
            && scope.item.and_then(Value::as_u64).is_some_and(|n| n % 2 == 1)
        {
            return Err("`odd` is not there".to_owned());
        }
        let item = scope.item.unwrap_or(&Value::Null).to_string();
        let fill = |word: &String| word.replace("{input}", &scope.input.to_string()).replace("{item}", &item);
        let argv = argv.iter().map(fill).collect();
        Ok(RunBody { program: Program::Command { argv }, ..body.clone() })
    }

    /// The same places as in a program, and what is known of the job's end; the input alone stays what it is.
    fn fill(&self, with: &Value, _uses: &[StepIx], scope: &Scope<'_>) -> Result<Value, String> {
        let Value::String(text) = with else { return Ok(with.clone()) };
        if text.contains("{bad}") {
            return Err("`bad` is not there".to_owned());
        }
        if text == "{input}" {
            return Ok(scope.input.clone());
        }
        let text = text.replace("{input}", &scope.input.to_string());
        let item = scope.item.unwrap_or(&Value::Null).to_string();
        let functions = [(scope.success, "success()"), (scope.failure, "failure()"), (scope.cancelled, "cancelled()")];
        let holds: Vec<&str> = functions.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect();
        let text = text.replace("{holds}", &holds.join(" "));
        let state = scope.outcome.map_or("", |outcome| outcome.state.word());
        let error = scope.outcome.and_then(|outcome| outcome.error).map_or("", |error| error.kind.code());
        let step = scope.outcome.and_then(|outcome| outcome.step).unwrap_or_default();
        let text = text.replace("{state}", state).replace("{error}", error).replace("{step}", step);
        let notice = scope.notice.map_or(String::new(), |notice| {
            format!("{} {} {}", notice.kind.word(), notice.step.unwrap_or("-"), notice.text)
        });
        Ok(Value::from(text.replace("{item}", &item).replace("{notice}", &notice)))
    }

    /// A list as it is; of texts `used`, the output of the first step that this one uses, is known.
    fn items(&self, items: &Items, step: &StepDef, scope: &Scope<'_>) -> Result<Vec<Value>, String> {
        match items {
            Items::List(list) => Ok(list.to_vec()),
            Items::Text(text) if &**text == "used" => {
                let output = step.uses.first().map(|&ix| (scope.steps)(ix).output);
                output.and_then(Value::as_array).cloned().ok_or_else(|| "it is not a list".to_owned())
            }
            Items::Text(_) | Items::Matrix(_) => Err("it means nothing here".to_owned()),
        }
    }
}
