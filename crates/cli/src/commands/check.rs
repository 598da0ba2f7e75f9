//! `bowline check`: are these files good? Needs no server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};
use api::{Diagnostic, Page, Severity};
use clap::Args;
use engine::definition::Definition;
use serde::Serialize;
use spec::FileKind;
use spec::task::calls::{self, Misfit};
use spec::task::{Input, Options, Sketch, Task, kin, webhooks};

use super::run::read_text;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

/// Check task and config files
///
/// Prints every problem with its place. Task files, server and worker configs are told apart by their keys.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline check tasks/*.yaml\n  bowline check server-config.yaml --json")]
pub struct CheckArgs {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print the problems as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a task file is called.
const TASK: &str = "task";

/// What was found in one file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    kind: &'static str,
    ok: bool,
    diagnostics: Vec<Diagnostic>,
    /// What a good task file says.
    #[serde(skip)]
    task: Option<Task>,
    #[serde(skip)]
    text: String,
}

pub(crate) fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    let colour = !args.json && AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let mut checked = Vec::new();
    for path in &args.files {
        checked.push(check(path, colour));
    }
    refuse_circles(&mut checked, colour);
    refuse_deadlocks(&mut checked, colour);
    refuse_depths(&mut checked, colour);
    refuse_misfits(&mut checked, colour);
    warn_of_webhooks(&mut checked, colour);
    warn_of_names(&mut checked);
    if !args.json {
        checked.iter().try_for_each(show)?;
    }
    let exit = if checked.iter().all(|found| found.ok) { Exit::Success } else { Exit::Usage };
    if args.json {
        put_json(&Page::whole(checked))?;
    }
    Ok(exit)
}

fn check(path: &Path, colour: bool) -> Checked {
    let file = path.display().to_string();
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) => return unreadable(file, &error),
    };
    let (kind, diagnostics) = spec::check(&text, &file);
    let task = (kind == FileKind::Task).then(|| spec::task::parse(&text, &file, &Options::default()).0).flatten();
    Checked {
        task,
        kind: match kind {
            FileKind::Task => TASK,
            FileKind::Server => "server config",
            FileKind::Worker => "worker config",
        },
        ok: !diagnostics.iter().any(spec::Diagnostic::is_error),
        diagnostics: diagnostics.iter().map(|diagnostic| converted(diagnostic, colour)).collect(),
        text,
        file,
    }
}

/// One that cannot be read is a problem like any other: the rest is looked at all the same.
fn unreadable(file: String, error: &CliError) -> Checked {
    let diagnostic = whole_file(&file, "unreadable", error.to_string(), error.hint());
    Checked { file, kind: "file", ok: false, diagnostics: vec![diagnostic], task: None, text: String::new() }
}

/// A problem that has no place of its own.
fn whole_file(file: &str, code: &str, message: String, hint: Option<String>) -> Diagnostic {
    let (file, code) = (file.to_owned(), code.to_owned());
    Diagnostic { file, line: 1, column: 1, severity: Severity::Error, code, message, hint, rendered: None }
}

/// Tasks that begin each other in a circle, as far as they are known here: each told once, at the step that closes it.
fn refuse_circles(checked: &mut [Checked], colour: bool) {
    let tasks = checked.iter().filter_map(|found| found.task.as_ref());
    let mut by_name: BTreeMap<&str, &Definition> =
        tasks.map(|task| (&*task.definition.name, &*task.definition)).collect();
    let mut problems: Vec<(usize, Diagnostic)> = Vec::new();
    while let Some(circle) = kin::circle(&by_name) {
        let [.., last, first] = &circle[..] else { break };
        let is_last = |found: &Checked| found.task.as_ref().is_some_and(|task| &*task.definition.name == *last);
        if let (Some(at), Some(definition)) = (checked.iter().rposition(is_last), by_name.get(last)) {
            let Checked { text, file, .. } = &checked[at];
            let problem = kin::circle_diagnostic(definition, first, &circle, text, file);
            problems.push((at, converted(&problem, colour)));
        }
        by_name.retain(|name, _| !circle.contains(name));
    }
    for (at, problem) in problems {
        checked[at].ok = false;
        checked[at].diagnostics.push(problem);
    }
}

/// Steps that could never end, since what they begin wants a slot that their own job has; as far as it is known here.
fn refuse_deadlocks(checked: &mut [Checked], colour: bool) {
    let tasks = checked.iter().filter_map(|found| found.task.as_ref());
    let by_name: BTreeMap<&str, &Definition> = tasks.map(|task| (&*task.definition.name, &*task.definition)).collect();
    let deadlock = |found: &Checked| {
        let definition = by_name.get(&*found.task.as_ref()?.definition.name)?;
        kin::deadlock(definition, &|body| by_name.get(&*body.task).copied())
    };
    let deadlocks: Vec<Option<kin::Deadlock>> = checked.iter().map(deadlock).collect();
    for (found, deadlock) in checked.iter_mut().zip(deadlocks) {
        let Some(deadlock) = deadlock else { continue };
        found.ok = false;
        found
            .diagnostics
            .push(converted(&deadlock.diagnostic(spec::Severity::Error, &found.text, &found.file), colour));
    }
}

/// Tasks that lead to more levels of each other than there may be; as far as they are known here, and in no circle.
fn refuse_depths(checked: &mut [Checked], colour: bool) {
    let tasks = checked.iter().filter_map(|found| found.task.as_ref());
    let mut by_name: BTreeMap<&str, &Definition> =
        tasks.map(|task| (&*task.definition.name, &*task.definition)).collect();
    while let Some(circle) = kin::circle(&by_name) {
        by_name.retain(|name, _| !circle.contains(name));
    }
    let too_deep = |found: &Checked| -> Vec<Diagnostic> {
        let Some(task) = &found.task else { return Vec::new() };
        placed(calls::too_deep(&task.definition, &|name| by_name.get(name).copied()), found, colour)
    };
    let problems = checked.iter().map(too_deep).collect();
    refuse(checked, problems);
}

/// What tasks are given that cannot take it; as far as they are known here. Files with other errors are looked at as well.
fn refuse_misfits(checked: &mut [Checked], colour: bool) {
    let sketch =
        |found: &Checked| Some(found).filter(|found| found.kind == TASK).and_then(|found| Sketch::of(&found.text));
    let sketches: Vec<Option<Sketch>> = checked.iter().map(sketch).collect();
    let known = sketches.iter().flatten().filter_map(|task| Some((task.name.as_deref()?, task.inputs.as_deref()?)));
    let by_name: BTreeMap<&str, &[Input]> = known.collect();
    let misfits = |(found, sketch): (&Checked, &Option<Sketch>)| -> Vec<Diagnostic> {
        let misfits = sketch.as_ref().map(|sketch| sketch.misfits(&|name| by_name.get(name).copied()));
        placed(misfits.unwrap_or_default(), found, colour)
    };
    let problems = checked.iter().zip(&sketches).map(misfits).collect();
    refuse(checked, problems);
}

fn placed(misfits: Vec<Misfit<'_>>, found: &Checked, colour: bool) -> Vec<Diagnostic> {
    let problems = calls::diagnostics(misfits, spec::Severity::Error, &found.text, &found.file);
    problems.iter().map(|problem| converted(problem, colour)).collect()
}

fn refuse(checked: &mut [Checked], problems: Vec<Vec<Diagnostic>>) {
    for (found, problems) in checked.iter_mut().zip(problems) {
        found.ok &= problems.is_empty();
        found.diagnostics.extend(problems);
    }
}

/// Webhooks that another task has. The files need not be for one server, so it is no error.
fn warn_of_webhooks(checked: &mut [Checked], colour: bool) {
    let tasks = checked.iter().filter_map(|found| found.task.as_ref());
    let by_name: BTreeMap<&str, &Task> = tasks.map(|task| (&*task.definition.name, task)).collect();
    let taken = webhooks::taken(&by_name);
    let warnings = |found: &Checked| -> Vec<Diagnostic> {
        let name = found.task.as_ref().map(|task| &*task.definition.name);
        let own = taken.iter().filter(|taken| Some(taken.task) == name);
        own.map(|taken| converted(&taken.diagnostic(&found.text, &found.file), colour)).collect()
    };
    let warnings: Vec<Vec<Diagnostic>> = checked.iter().map(warnings).collect();
    checked.iter_mut().zip(warnings).for_each(|(found, warnings)| found.diagnostics.extend(warnings));
}

/// Of two files of one server only the first would be used. They need not be for one.
fn warn_of_names(checked: &mut [Checked]) {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for found in checked {
        let Some(name) = found.task.as_ref().map(|task| task.definition.name.to_string()) else { continue };
        if let Some(first) = files.get(&name) {
            let message = format!("{}: the task `{name}` is also in {first}", found.file);
            let hint = Some("a server uses the first by the order of their paths; rename one of the two".to_owned());
            let problem = whole_file(&found.file, "duplicate_task", message, hint);
            found.diagnostics.push(Diagnostic { severity: Severity::Warning, ..problem });
        } else {
            files.insert(name, found.file.clone());
        }
    }
}

fn show(found: &Checked) -> Result<(), CliError> {
    for diagnostic in &found.diagnostics {
        put(&format!("{}\n", diagnostic.rendered.as_deref().unwrap_or(&diagnostic.message)))?;
    }
    let count = |severity| found.diagnostics.iter().filter(|d| d.severity == severity).count();
    let counts = [(count(Severity::Error), "error"), (count(Severity::Warning), "warning")];
    let counts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(*n, what)).collect();
    let Checked { file, kind, .. } = found;
    if counts.is_empty() {
        say(&format!("{file}: a good {kind}"));
    } else {
        say(&format!("{file}: a {kind} with {}", counts.join(" and ")));
    }
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn converted(diagnostic: &spec::Diagnostic, colour: bool) -> Diagnostic {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Diagnostic {
        file: diagnostic.file().to_owned(),
        line: number(diagnostic.line()),
        column: number(diagnostic.column()),
        severity: match diagnostic.severity {
            spec::Severity::Error => Severity::Error,
            spec::Severity::Warning => Severity::Warning,
        },
        code: diagnostic.code.word().to_owned(),
        message: diagnostic.message.clone(),
        hint: diagnostic.hint.clone(),
        rendered: Some(spec::render(std::slice::from_ref(diagnostic), colour)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_begin_each_other_are_refused_once_where_the_circle_closes() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, begins: &str| {
            let path = folder.path().join(name);
            let text = format!("name: {name}\nsteps:\n  a: {{ run: x }}\n  b: {{ task: {begins} }}\n");
            std::fs::write(&path, text).expect("written");
            check(&path, false)
        };
        let mut checked = [file("one", "two"), file("two", "three"), file("three", "two"), file("four", "elsewhere")];
        assert!(checked.iter().all(|found| found.ok));
        refuse_circles(&mut checked, false);
        assert_eq!(checked.each_ref().map(|found| found.ok), [true, true, false, true]);
        let problem = &checked[2].diagnostics[0];
        assert_eq!(problem.message, "these tasks begin each other in a circle: `two` → `three` → `two`");
        assert_eq!((problem.line, problem.column, problem.code.as_str()), (4, 14, "task_cycle"));
        let rendered = problem.rendered.as_deref().expect("rendered");
        assert!(rendered.contains("three:4:14"), "{rendered}");
    }

    #[test]
    fn a_task_that_waits_for_itself_is_refused_at_its_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, limit: u32, step: &str| {
            let path = folder.path().join(name);
            let group = format!("concurrency: {{ group: db, limit: {limit} }}");
            std::fs::write(&path, format!("name: {name}\n{group}\nsteps:\n  a:\n    {step}\n")).expect("written");
            check(&path, false)
        };
        let mut checked = [file("one", 1, "task: two"), file("two", 1, "run: x"), file("three", 2, "task: four")];
        refuse_deadlocks(&mut checked, false);
        assert_eq!(checked.each_ref().map(|found| found.ok), [false, true, true]);
        let problem = &checked[0].diagnostics[0];
        assert_eq!((problem.line, problem.column, problem.code.as_str()), (5, 11, "group_deadlock"));
        assert!(problem.message.contains("`one` → `two`"), "{}", problem.message);
        assert!(problem.hint.as_deref().is_some_and(|hint| hint.contains("`two`")), "{:?}", problem.hint);
    }

    fn checked(folder: &Path, name: &str, text: &str) -> Checked {
        let path = folder.join(name);
        std::fs::write(&path, format!("name: {name}\n{text}\n")).expect("written");
        check(&path, false)
    }

    #[test]
    fn what_a_task_cannot_take_is_refused_where_it_is_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| checked(folder.path(), name, text);
        let mut checked = [
            file("one", "steps: { a: { task: two, with: { n: some } } }\non_error: [ { task: two, with: { m: 1 } } ]"),
            file("two", "input: { n: { type: integer } }\nsteps: { a: { run: x } }"),
            file("three", "steps: { a: { task: elsewhere, with: { n: some } } }"),
        ];
        refuse_misfits(&mut checked, false);
        assert_eq!(checked.each_ref().map(|found| found.ok), [false, true, true]);
        let told: Vec<(u32, u32, &str)> =
            checked[0].diagnostics.iter().map(|d| (d.line, d.column, d.message.as_str())).collect();
        let value = "the task `two` cannot take this: `n` must be a whole number, not `some`";
        assert_eq!(told, [(2, 37, value), (3, 34, "the task `two` has no input `m`")]);
        assert!(checked[0].diagnostics[0].rendered.as_deref().is_some_and(|text| text.contains("one:2:37")));
    }

    /// Whoever repairs what is told first should not be told the rest only then.
    #[test]
    fn other_errors_of_a_file_hide_nothing_of_what_it_gives() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| checked(folder.path(), name, text);
        let mut checked = [
            file("one", "steps: { a: { task: two, with: { n: some } }, b: { rum: x }, c: { needs: [d], run: x } }"),
            file("two", "input: { n: { type: integer } }\nsteps: { a: { run: x, retyr: 1 } }"),
            file("three", "steps: { a: { task: four, with: { n: 1 } } }"),
            file("four", "input: { m: { type: integr } }\nsteps: { a: { run: x } }"),
        ];
        refuse_misfits(&mut checked, false);
        let codes = |found: &Checked| found.diagnostics.iter().map(|d| d.code.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(codes(&checked[0]), "missing_key unknown_key unknown_step bad_value");
        assert_eq!((codes(&checked[2]).as_str(), checked[2].ok), ("", true), "nobody knows what `four` is to take");
    }

    #[test]
    fn levels_and_webhooks_are_told_where_they_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |number: usize, rest: &str| {
            let path = folder.path().join(format!("t{number}"));
            let next = format!("name: t{number}\nsteps:\n  a: {{ task: t{} }}\n{rest}", number + 1);
            std::fs::write(&path, next).expect("written");
            check(&path, false)
        };
        let hook = "triggers: [ { webhook: ship, secret: S } ]\n";
        let mut checked: Vec<Checked> =
            (0..9).map(|number| file(number, if number % 4 == 0 { hook } else { "" })).collect();
        refuse_depths(&mut checked, false);
        warn_of_webhooks(&mut checked, false);
        let deep = &checked[0].diagnostics[0];
        assert_eq!((deep.line, deep.column, deep.code.as_str()), (3, 14, "limit"));
        assert!(deep.message.starts_with("tasks begin each other more than 8 levels deep: `t0` → `t1` → "), "{deep:?}");
        let ok: Vec<bool> = checked.iter().map(|found| found.ok).collect();
        assert_eq!(ok, [[false].as_slice(), &[true; 8]].concat(), "from `t1` there are eight");
        let taken = &checked[8].diagnostics[0];
        assert_eq!((taken.line, taken.column, taken.severity), (4, 24, Severity::Warning));
        assert_eq!(taken.message, "calls of the webhook `ship` start the task `t0`, and never this one");
        assert_eq!(checked.iter().filter(|found| !found.diagnostics.is_empty()).count(), 3);
    }

    #[test]
    fn two_files_of_one_name_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |file: &str| {
            let path = folder.path().join(file);
            std::fs::write(&path, "name: t\nsteps: { a: { run: x } }\n").expect("written");
            check(&path, false)
        };
        let mut checked = [file("a.yaml"), file("b.yaml")];
        warn_of_names(&mut checked);
        let [first, second] = &checked;
        assert!(first.ok && second.ok && first.diagnostics.is_empty());
        let told = &second.diagnostics[0];
        assert!(told.message.ends_with(&format!("the task `t` is also in {}", first.file)), "{told:?}");
        assert_eq!((told.severity, told.code.as_str()), (Severity::Warning, "duplicate_task"));
    }

    #[test]
    fn every_problem_has_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.yaml");
        std::fs::write(&path, "name: t\nsteps:\n  a:\n    run: x\n    retyr: 3\n  b:\n    needs: [c]\n    run: y\n")
            .expect("written");
        let found = check(&path, false);
        assert!(!found.ok && found.kind == "task");
        let places: Vec<(u32, u32)> = found.diagnostics.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(5, 5), (7, 13)]);
        let rendered = found.diagnostics[0].rendered.as_deref().expect("rendered");
        assert!(rendered.contains("t.yaml:5:5") && rendered.contains("retry"), "{rendered}");
        assert_eq!(run(&CheckArgs { files: vec![path], json: true }).expect("readable"), Exit::Usage);
    }

    #[test]
    fn a_missing_file_is_bad_input() {
        let args = CheckArgs { files: vec!["/nowhere/at/all.yaml".into()], json: false };
        assert_eq!(run(&args).expect("told like any other problem"), Exit::Usage);
    }

    fn found(files: &[(&str, &str)], also: &str) -> Vec<(bool, Vec<String>)> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut paths = vec![folder.path().join(also)];
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            paths.push(path);
        }
        let mut checked: Vec<Checked> = paths.iter().map(|path| check(path, false)).collect();
        refuse_circles(&mut checked, false);
        let codes = |found: Checked| (found.ok, found.diagnostics.into_iter().map(|d| d.code).collect());
        checked.into_iter().map(codes).collect()
    }

    #[test]
    fn one_that_cannot_be_read_and_several_circles_are_all_told() {
        let task = |name: &str, begins: &str| format!("name: {name}\nsteps:\n  a: {{ task: {begins} }}\n");
        let files = [("one", "two"), ("two", "one"), ("own", "own"), ("good", "elsewhere")];
        let texts = files.map(|(name, begins)| (name, task(name, begins)));
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let (good, bad) = (|| (true, Vec::new()), |code: &str| (false, vec![code.to_owned()]));
        // The circle of two is told once, at the one that closes it.
        let expected = [bad("unreadable"), good(), bad("task_cycle"), bad("task_cycle"), good()];
        assert_eq!(found(&texts, "not-there"), expected);
    }
}
