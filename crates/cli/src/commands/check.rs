//! `bowline check`: are these files good? Needs no server.

use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};
use api::{Diagnostic, Page, Severity};
use clap::Args;
use serde::Serialize;
use spec::FileKind;

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

/// What was found in one file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    kind: &'static str,
    ok: bool,
    diagnostics: Vec<Diagnostic>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    let colour = !args.json && AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let mut checked = Vec::new();
    for path in &args.files {
        let found = check(path, colour)?;
        if !args.json {
            show(&found)?;
        }
        checked.push(found);
    }
    let exit = if checked.iter().all(|found| found.ok) { Exit::Success } else { Exit::Usage };
    if args.json {
        put_json(&Page::whole(checked))?;
    }
    Ok(exit)
}

fn check(path: &Path, colour: bool) -> Result<Checked, CliError> {
    let text = read_text(path)?;
    let file = path.display().to_string();
    let (kind, diagnostics) = spec::check(&text, &file);
    Ok(Checked {
        kind: match kind {
            FileKind::Task => "task",
            FileKind::Server => "server config",
            FileKind::Worker => "worker config",
        },
        ok: !diagnostics.iter().any(spec::Diagnostic::is_error),
        diagnostics: diagnostics.iter().map(|diagnostic| converted(diagnostic, colour)).collect(),
        file,
    })
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
    fn every_problem_has_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.yaml");
        std::fs::write(&path, "name: t\nsteps:\n  a:\n    run: x\n    retyr: 3\n  b:\n    needs: [c]\n    run: y\n")
            .expect("written");
        let found = check(&path, false).expect("readable");
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
        assert_eq!(run(&args).expect_err("missing").exit(), Exit::Usage);
    }
}
