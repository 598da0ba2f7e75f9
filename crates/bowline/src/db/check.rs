//! `bowline db check`: every check of the store, by a connection that only reads.

use std::process::ExitCode;
use std::time::Instant;

use cli::db::{CheckArgs, CheckView, Checked, FoundView, GradeView};
use server::stored::READERS;
use store::check::{Finding, Grade, Offender};

use crate::Failed;

use super::place::Place;

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    match checked(args) {
        Ok(checked) => cli::show_checked(&checked, args.json).into(),
        Err(failed) => failed.tell(),
    }
}

fn checked(args: &CheckArgs) -> Result<Checked, Failed> {
    check(&Place::of(&args.place)?, args.show)
}

/// `show`: how many of what a check finds are named.
pub(super) fn check(place: &Place, show: usize) -> Result<Checked, Failed> {
    let begun = Instant::now();
    let findings = match place {
        Place::Sqlite(path) => store_sqlite::check(path, None, show, &READERS),
        Place::Postgres(url) => store_postgres::check(url, None, show, &READERS),
    };
    let findings = findings.map_err(Failed::of_store)?;
    let sound = findings.iter().all(|finding| finding.count == 0 || finding.check.grade == Grade::Doubt);
    let checks = findings.into_iter().map(view).collect();
    Ok(Checked { database: place.to_string(), sound, took_ms: millis(begun.elapsed()), checks })
}

fn view(finding: Finding) -> CheckView {
    let Finding { check, count, first, took } = finding;
    let grade = match check.grade {
        Grade::Damage => GradeView::Damage,
        Grade::Doubt => GradeView::Doubt,
    };
    let found = first.into_iter().map(|Offender { job, step, other, what }| FoundView {
        job: job.map(|id| id.to_string()),
        step,
        other: other.map(|id| id.to_string()),
        what,
    });
    CheckView { name: check.name, says: check.says, grade, count, took_ms: millis(took), found: found.collect() }
}

pub(super) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
