//! `bowline db check`: what it takes, and how its answer reads.

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

use super::counted;
use super::place::PlaceArgs;

/// Look for anything in a database that contradicts itself
///
/// Reads a whole database and changes nothing of it, in one snapshot, while servers run on it or not: whether every job and step that
/// is not over has somebody who must move it, attempts and their fences, logs line by line, history, groups, triggers, and what
/// belongs to what.
///
/// `damage` is what must never be: the exit code is 1. A database that could not be asked is no damage: the exit code is 4. `doubt` is worth a look, and happens in a sound database.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db check --data ./bowline-data
  bowline db check --config server-config.yaml --json
  bowline db check --database postgres://bowline@db.example/bowline")]
pub struct CheckArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// How many of what a check finds are named
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub show: usize,
    /// Print all checks as JSON
    #[arg(long)]
    pub json: bool,
}

/// What all checks came to.
#[derive(Debug, Serialize)]
pub struct Checked {
    pub database: String,
    /// No damage was found.
    pub sound: bool,
    pub took_ms: u64,
    pub checks: Vec<CheckView>,
}

#[derive(Debug, Serialize)]
pub struct CheckView {
    pub name: &'static str,
    /// What must hold.
    pub says: &'static str,
    pub grade: GradeView,
    pub count: u64,
    pub took_ms: u64,
    /// Those that come first.
    pub found: Vec<FoundView>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GradeView {
    Damage,
    Doubt,
}

#[derive(Debug, Serialize)]
pub struct FoundView {
    pub job: Option<String>,
    pub step: Option<i64>,
    /// An attempt, a worker, or another job.
    pub other: Option<String>,
    pub what: String,
}

/// Says what was found; 1 if something is damaged.
pub(crate) fn show(checked: &Checked, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(checked)?;
    } else {
        show_found(checked)?;
    }
    Ok(if checked.sound { Exit::Success } else { Exit::Failed })
}

/// All that was found, and one line about it all.
pub(crate) fn show_found(checked: &Checked) -> Result<(), CliError> {
    for check in checked.checks.iter().filter(|check| check.count > 0) {
        put_check(check)?;
    }
    say(&summary(checked));
    Ok(())
}

fn put_check(check: &CheckView) -> Result<(), CliError> {
    let grade = match check.grade {
        GradeView::Damage => "damage",
        GradeView::Doubt => "doubt",
    };
    put(&format!("{grade}: {} ({}): {}", check.name, check.count, check.says))?;
    for found in &check.found {
        put(&format!("  {}", line(found)))?;
    }
    let more = check.count.saturating_sub(check.found.len() as u64);
    if more > 0 {
        put(&format!("  … and {more} more"))?;
    }
    Ok(())
}

/// `job 0192…, step 3, 0192…: it is held, and its owner is nobody`.
fn line(found: &FoundView) -> String {
    let job = found.job.as_ref().map(|job| format!("job {job}"));
    let step = found.step.map(|step| format!("step {step}"));
    let place: Vec<String> = [job, step, found.other.clone()].into_iter().flatten().collect();
    if place.is_empty() { found.what.clone() } else { format!("{}: {}", place.join(", "), found.what) }
}

fn summary(checked: &Checked) -> String {
    let of = |grade| checked.checks.iter().filter(|check| check.grade == grade && check.count > 0).count() as u64;
    let asked = counted(checked.checks.len() as u64, "check");
    let found = match (of(GradeView::Damage), of(GradeView::Doubt)) {
        (0, 0) => "all is well".to_owned(),
        (0, doubts) => format!("no damage, {}", counted(doubts, "doubt")),
        (damages, doubts) => format!("{} found damage, {doubts} only a doubt", counted(damages, "check")),
    };
    let seconds = checked.took_ms as f64 / 1_000.0;
    format!("{}: {asked} in {seconds:.1} s: {found}", checked.database)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grade: GradeView, count: u64) -> CheckView {
        CheckView { name: "a", says: "It is so.", grade, count, took_ms: 1, found: Vec::new() }
    }

    fn said(checks: Vec<CheckView>) -> String {
        summary(&Checked { database: "db".to_owned(), sound: true, took_ms: 1_234, checks })
    }

    #[test]
    fn the_last_line_says_it_all() {
        assert_eq!(said(vec![check(GradeView::Damage, 0)]), "db: 1 check in 1.2 s: all is well");
        let doubt = || check(GradeView::Doubt, 2);
        assert_eq!(said(vec![doubt(), doubt()]), "db: 2 checks in 1.2 s: no damage, 2 doubts");
        let both = vec![check(GradeView::Damage, 7), doubt()];
        assert_eq!(said(both), "db: 2 checks in 1.2 s: 1 check found damage, 1 only a doubt");
    }

    #[test]
    fn a_line_names_what_it_knows() {
        let found = FoundView { job: Some("1".to_owned()), step: Some(2), other: None, what: "it hangs".to_owned() };
        assert_eq!(line(&found), "job 1, step 2: it hangs");
        assert_eq!(line(&FoundView { job: None, step: None, other: None, what: "it hangs".to_owned() }), "it hangs");
    }
}
