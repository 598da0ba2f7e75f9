//! One input of the `template` fuzz target: parts with a byte 0xFF between them, which no UTF-8 text holds.
//!
//! ```text
//! how the needs ended (any of the letters s, f, c) | condition | script | a variable's value | input as JSON | output as JSON
//! ```

use engine::definition::{Condition, Program, RunBody, StepDef, Work};
use engine::eval::{Evaluator, Scope, StepView};
use engine::{JobId, StateName, StepIx};
use serde_json::{Map, Value, json};
use spec::eval::Templates;
use spec::task::{Options, Task};
use uuid::Uuid;

/// What the texts of one step may come to, by the rules of the template layer.
const RENDERED_BYTES_MAX: usize = 1024 * 1024;
/// A problem is a line for people.
const PROBLEM_BYTES_MAX: usize = 4 * 1024;

const INPUTS: &str = "
  text: {}
  number: { type: number }
  count: { type: integer, default: 3 }
  flag: { type: boolean }
  list: { type: list }
  object: { type: object }
";

pub(crate) fn drive(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0xff).map(|part| str::from_utf8(part).unwrap_or_default());
    let mut next = || parts.next().unwrap_or_default();
    let (ends, condition, script, variable) = (next(), next(), next(), next());
    let (input, output) = (object(next()), Value::Object(object(next())));
    if let Some(task) = task(&format!("if: {}, run: x", json!(condition))) {
        evaluate(&task, ends, input.clone(), &output);
    }
    if let Some(task) = task(&format!("run: {}, env: {{ V: {} }}", json!(script), json!(variable))) {
        evaluate(&task, ends, input, &output);
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// The step `s` with these keys, after a step that it may ask about.
fn task(keys: &str) -> Option<Task> {
    let text = format!(
        "name: t\ninput:{INPUTS}steps:\n  build: {{ run: x }}\n  s: {{ needs: [build], timeout: 1h, {keys} }}\n"
    );
    let (task, diagnostics) = spec::task::parse(&text, "t.yaml", &Options::default());
    spec::render(&diagnostics, false);
    task
}

fn evaluate(task: &Task, ends: &str, input: Map<String, Value>, output: &Value) {
    let input = task.bind(input).or_else(|_| task.bind(Map::new())).expect("no input is required");
    let steps = task.definition.steps();
    let view = |ix: StepIx| StepView {
        name: &steps[ix.get()].name,
        state: StateName::Failed,
        output,
        error_code: Some("exit_code"),
    };
    let scope = Scope {
        job: JobId(Uuid::nil()),
        task: &task.definition.name,
        input: &input,
        success: ends.contains('s'),
        failure: ends.contains('f'),
        cancelled: ends.contains('c'),
        steps: &view,
        item: None,
        outcome: None,
        notice: None,
    };
    let step = &steps[1];
    if let Condition::Expression(expression) = &step.condition {
        let holds = || Templates.holds(expression, step, &scope);
        let answer = holds();
        assert_eq!(answer, holds(), "a condition has one answer");
        assert!(answer.err().is_none_or(|problem| problem.len() <= PROBLEM_BYTES_MAX), "a problem is a line");
    }
    if let Work::Run(body) = &step.work {
        render(body, step, &scope);
    }
}

fn render(body: &RunBody, step: &StepDef, scope: &Scope<'_>) {
    let rendered = Templates.render(body, step, scope);
    assert_eq!(rendered, Templates.render(body, step, scope), "a template has one answer");
    let (text, env) = match rendered {
        Ok(RunBody { program: Program::Script { text, .. }, env, .. }) => (text, env),
        Ok(other) => panic!("a script becomes {other:?}"),
        Err(problem) => return assert!(problem.len() <= PROBLEM_BYTES_MAX, "a problem is a line"),
    };
    let filled = || env.values().chain([&text]);
    assert!(filled().map(String::len).sum::<usize>() <= RENDERED_BYTES_MAX, "texts are bounded");
    assert!(!filled().any(|text| text.contains('\0')), "a program can be given them");
}
