//! What there was to see, for people.

use std::fmt::Write as _;
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
             | length | {} s |\n\
             | executions of steps | {} |\n\
             | log lines, each once and in order | {lines} |\n\
             | longest time until a verdict on a step that was cut off, deaf time included | {:.1} s |\n\
             | longest time until some server took a job | {:.1} s |\n\
             | until every job was final, from the last repair on | {:.1} s |\n",
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

fn table(text: &mut String, title: &str, head: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<String> = rows.collect();
    write!(text, "\n## {title}\n\n{head}\n{}\n", rows.join("\n")).expect("a text takes all");
}
