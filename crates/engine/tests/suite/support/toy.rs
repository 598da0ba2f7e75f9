//! An evaluator small enough to be right at sight.

use engine::StateName;
use engine::definition::{Program, RunBody, StepDef};
use engine::eval::{Evaluator, Scope};

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

    /// Puts the job's input in the place of `{input}`; `{bad}` is an error.
    fn render(&self, body: &RunBody, _step: &StepDef, scope: &Scope<'_>) -> Result<RunBody, String> {
        let Program::Command { argv } = &body.program else {
            return Ok(body.clone());
        };
        if argv.iter().any(|word| word.contains("{bad}")) {
            return Err("`bad` is not there".to_owned());
        }
        let argv = argv.iter().map(|word| word.replace("{input}", &scope.input.to_string())).collect();
        Ok(RunBody { program: Program::Command { argv }, ..body.clone() })
    }
}
