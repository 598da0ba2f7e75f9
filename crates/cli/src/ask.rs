//! Asking a person for the inputs that a task requires and nobody gave.
//!
//! Only on a terminal: a script must never hang on a question. There the server's refusal names all that is missing.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::{Map, Value};
use spec::task::{Input, InputKind, Task};

use crate::error::CliError;

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Completes what is given. What is wrong otherwise is not asked about: the server then tells all of it.
pub(crate) fn for_missing(task: &Task, given: &mut Map<String, Value>) -> Result<(), CliError> {
    let missing = missing(task, given);
    let problems = task.bind(given.clone()).err().unwrap_or_default();
    if missing.is_empty() || problems.len() > missing.len() {
        return Ok(());
    }
    let mut dialogue = Dialogue { answers: io::stdin().lock(), questions: anstream::stderr() };
    given.extend(dialogue.ask(&task.definition.name, &missing)?);
    Ok(())
}

fn missing<'a>(task: &'a Task, given: &Map<String, Value>) -> Vec<&'a Input> {
    let is_given = |input: &Input| given.get(&input.name).is_some_and(|value| !value.is_null());
    task.inputs.iter().filter(|input| input.required && !is_given(input)).collect()
}

struct Dialogue<R, W> {
    answers: R,
    questions: W,
}

impl<R: BufRead, W: Write> Dialogue<R, W> {
    fn ask(&mut self, task: &str, missing: &[&Input]) -> Result<Map<String, Value>, CliError> {
        let many =
            if missing.len() == 1 { "1 more input".to_owned() } else { format!("{} more inputs", missing.len()) };
        writeln!(self.questions, "The task `{task}` needs {many}.")?;
        let mut answers = Map::new();
        for (at, input) in missing.iter().enumerate() {
            let Some(answer) = self.one(input)? else {
                writeln!(self.questions)?;
                return Err(unanswered(&missing[at..]));
            };
            answers.insert(input.name.clone(), answer);
        }
        Ok(answers)
    }

    /// Until there is a good answer; none if there will be no more answers.
    fn one(&mut self, input: &Input) -> Result<Option<Value>, CliError> {
        let described = input.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        writeln!(self.questions, "{} ({}){described}", input.name, kind(input))?;
        loop {
            write!(self.questions, "> ")?;
            self.questions.flush()?;
            let mut line = Vec::new();
            let read = self.answers.read_until(b'\n', &mut line);
            if read.map_err(|source| CliError::Unreadable { path: "stdin".into(), source })? == 0 {
                return Ok(None);
            }
            let problem = match String::from_utf8(line) {
                Err(_) => "that is no text in UTF-8".to_owned(),
                // Whoever means the empty text says so with `-i name=`.
                Ok(line) if line.trim().is_empty() => format!("`{}` is required", input.name),
                Ok(line) => match input.take(Value::String(line.trim_end_matches(['\r', '\n']).to_owned())) {
                    Ok(value) => return Ok(Some(value)),
                    Err(problem) => problem.message,
                },
            };
            writeln!(self.questions, "{problem}")?;
        }
    }
}

fn kind(input: &Input) -> String {
    match input.kind {
        InputKind::Enum => format!("one of {}", input.options.join(", ")),
        InputKind::Boolean => "true or false".to_owned(),
        InputKind::List => "list, with commas between or as JSON".to_owned(),
        InputKind::Object => "object, as JSON".to_owned(),
        InputKind::String | InputKind::Number | InputKind::Integer => input.kind.word().to_owned(),
    }
}

fn unanswered(missing: &[&Input]) -> CliError {
    let list = |before: &str, after: &str, between: &str| {
        let names = missing.iter().map(|input| format!("{before}{}{after}", input.name));
        names.collect::<Vec<String>>().join(between)
    };
    let (noun, pronoun) = if missing.len() == 1 { ("input", "it") } else { ("inputs", "them") };
    CliError::usage_hint(
        format!("required {noun} not given: {}", list("`", "`", ", ")),
        format!("give {pronoun} with `{}`", list("-i ", "=…", " ")),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use spec::task::{Options, parse};

    use super::*;

    const TASK: &str = "
name: report
input:
  title: { required: true, pattern: '^[A-Z]', description: the heading }
  days: { type: integer, default: 7 }
  hosts: { type: list, required: true }
  mode: { type: enum, options: [fast, slow], required: true }
steps: { a: { run: x } }
";

    fn task() -> Task {
        parse(TASK, "t.yaml", &Options::default()).0.expect("a good task")
    }

    fn talk(given: &Value, typed: &[u8]) -> (Result<Value, String>, String) {
        let task = task();
        let given = given.as_object().expect("an object");
        let mut dialogue = Dialogue { answers: typed, questions: Vec::new() };
        let answers = dialogue.ask("report", &missing(&task, given));
        let questions = String::from_utf8(dialogue.questions).expect("text");
        (answers.map(Value::Object).map_err(|error| error.to_string()), questions)
    }

    #[test]
    fn each_is_asked_until_it_is_good() {
        let (answers, questions) = talk(&json!({ "mode": "slow", "hosts": null }), b"disks\n\n\xff\nDisks\r\na, b\n");
        assert_eq!(answers, Ok(json!({ "title": "Disks", "hosts": ["a", "b"] })));
        let expected = "\
The task `report` needs 2 more inputs.
title (string): the heading
> `title` must match ^[A-Z], not `disks`
> `title` is required
> that is no text in UTF-8
> hosts (list, with commas between or as JSON)
> ";
        assert_eq!(questions, expected);
    }

    #[test]
    fn the_end_of_the_answers_names_all_that_is_missing() {
        let (answers, questions) = talk(&json!({}), b"Disks\n");
        assert_eq!(answers, Err("required inputs not given: `hosts`, `mode`".to_owned()));
        assert!(questions.ends_with("> \n"), "{questions}");
    }

    #[test]
    fn nothing_is_asked_while_something_else_is_wrong() {
        let mut given = json!({ "titel": "Disks" }).as_object().cloned().expect("an object");
        for_missing(&task(), &mut given).expect("left to the server");
        assert_eq!(given.len(), 1);
    }
}
