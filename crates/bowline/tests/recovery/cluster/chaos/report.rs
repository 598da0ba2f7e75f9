//! What there was to see, for people.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use super::checks::Seen;
use super::faults::Counts;

/// Where it goes, besides what the test prints.
const FILE_VARIABLE: &str = "BOWLINE_CHAOS_REPORT";

pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) length: Duration,
    pub(super) faults: Counts,
    pub(super) seen: Seen,
    pub(super) lines: usize,
    /// From when all were well until every job was final.
    pub(super) settled: Duration,
    /// The longest that a job was asked for until some server took it.
    pub(super) taken: Duration,
    /// The longest that a step was `recovering`.
    pub(super) verdict: Duration,
}

impl Report {
    pub(super) fn publish(&self) {
        let text = self.text();
        println!("{text}");
        if let Ok(path) = std::env::var(FILE_VARIABLE) {
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    fn text(&self) -> String {
        let Report { seed, length, faults, seen, lines, settled, taken, verdict } = self;
        let mut text = format!(
            "# Chaos with several servers on one PostgreSQL\n\n\
             | | |\n|---|---|\n\
             | seed | {seed} |\n\
             | commit | {} |\n\
             | day | {} |\n\
             | length | {} s |\n\
             | executions of steps | {} |\n\
             | log lines, each once and in order | {lines} |\n\
             | longest time until a verdict on a step that was cut off, deaf time included | {:.1} s |\n\
             | longest time until some server took a job | {:.1} s |\n\
             | until every job was final, from the last repair on | {:.1} s |\n",
            said("git", &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]),
            said("date", &["-u", "+%F"]),
            length.as_secs(),
            seen.starts,
            verdict.as_secs_f64(),
            taken.as_secs_f64(),
            settled.as_secs_f64(),
        );
        let rows = faults.iter().map(|(fault, count)| format!("| {fault} | {count} |"));
        table(&mut text, "Faults", "| fault | times |\n|---|---|", rows);
        let rows = seen.jobs.iter().map(|(state, count)| format!("| {state} | {count} |"));
        table(&mut text, "Jobs", "| end | jobs |\n|---|---|", rows);
        let rows = seen.steps.iter().map(|((kind, end), count)| format!("| `{}` | {end} | {count} |", kind.words()));
        table(&mut text, "Steps", "| step | end | steps |\n|---|---|---|", rows);
        let rows = seen.repeated.iter().map(|(kind, count)| format!("| `{}` | {count} |", kind.words()));
        table(&mut text, "Repeated steps", "| step | executed more than once |\n|---|---|", rows);
        text
    }
}

/// One line of a program that may not be here, or not know.
fn said(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let line = ran.ok().filter(|ran| ran.status.success()).and_then(|ran| String::from_utf8(ran.stdout).ok());
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn table(text: &mut String, title: &str, head: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<String> = rows.collect();
    write!(text, "\n## {title}\n\n{head}\n{}\n", rows.join("\n")).expect("a text takes all");
}
