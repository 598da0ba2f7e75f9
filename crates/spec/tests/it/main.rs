//! What users write, and what they are told. Most tests are data: a text, and everything that is said about it.

mod config;
mod evaluate;
mod examples;
mod inputs;
mod limits;
mod pages;
mod plain;
mod robust;
mod schema;
mod task_bad;
mod task_good;
mod templates;

use expect_test::Expect;
use spec::task::{Options, Task};

/// The task of a text that has no errors.
fn task(text: &str) -> Task {
    let (task, diagnostics) = spec::task::parse(text, "task.yaml", &Options::default());
    let task = task.unwrap_or_else(|| panic!("{}", spec::render(&diagnostics, false)));
    schema::fits(text);
    task
}

/// Everything that is said about a task file, one line per problem.
fn check(text: &str, expect: &Expect) {
    let (kind, diagnostics) = spec::check(text, "t.yaml");
    expect.assert_eq(&lines(&diagnostics));
    if kind == spec::FileKind::Task && diagnostics.iter().all(|d| d.severity != spec::Severity::Error) {
        schema::fits(text);
    }
}

/// The same for a step: what stands under its name.
fn check_step(step: &str, expect: &Expect) {
    let indented: String = step.lines().map(|line| format!("    {line}\n")).collect();
    check(&format!("name: t\nsteps:\n  s:\n{indented}"), expect);
}

fn lines(diagnostics: &[spec::Diagnostic]) -> String {
    let mut text = String::new();
    for d in diagnostics {
        let place = format!("{}:{}:{}", d.file(), d.line(), d.column());
        text += &format!("{place} {} {}: {}\n", d.severity.word(), d.code.word(), d.message);
        if let Some(hint) = &d.hint {
            text += &format!("    {hint}\n");
        }
    }
    text
}
