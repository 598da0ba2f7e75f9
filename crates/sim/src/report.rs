//! What `sim` prints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use sim::campaign::Totals;
use sim::case::Case;
use sim::check::Finding;
use sim::shrink::shrink;
use sim::story::{Listener, Story};
use sim::world::Verdict;

/// As much of a story as a person reads to its end.
pub(crate) const LAST_LINES: usize = 40;

pub(crate) fn print_verdict(verdict: &Verdict, as_json: bool) {
    let Verdict { seed, jobs, faults_fired, events, simulated, findings, fired } = verdict;
    if as_json {
        let findings: Vec<_> = findings.iter().map(|f| json!({ "checker": f.checker, "what": f.what })).collect();
        let simulated_secs = simulated.as_secs();
        println!(
            "{}",
            json!({ "seed": seed, "jobs": jobs, "faults": faults_fired, "fired": fired, "events": events,
                    "simulated_secs": simulated_secs, "findings": findings })
        );
        return;
    }
    let hours = simulated.as_secs_f64() / 3600.0;
    println!("seed {seed}: {jobs} jobs, {faults_fired} faults, {events} events, {hours:.2} hours");
    for finding in findings {
        println!("seed {seed}: {finding}");
    }
}

pub(crate) fn print_totals(first: u64, totals: &Totals, as_json: bool) {
    let Totals { seeds, jobs, events, took, fired, with_findings, .. } = totals;
    let (hours, speed) = (totals.hours(), totals.hours_a_minute());
    if as_json {
        println!(
            "{}",
            json!({ "seeds": seeds, "first": first, "jobs": jobs, "events": events, "hours": hours,
                    "took_secs": took.as_secs_f64(), "hours_a_minute": speed, "fired": fired,
                    "with_findings": with_findings })
        );
        return;
    }
    println!("faults that hit something:");
    for (name, times) in fired {
        println!("  {times:>8}  {name}");
    }
    println!(
        "{seeds} seeds from {first}, {jobs} jobs, {events} events: {hours:.1} hours simulated in {:.1} s, {speed:.0} a minute",
        took.as_secs_f64()
    );
    println!("{with_findings} of them with findings");
}

pub(crate) fn print_faults(case: &Case) {
    for (number, fault) in (1..).zip(&case.faults) {
        println!("{number:>4}  {fault}");
    }
}

/// Makes the case small, and says what is left of it, how to see it again, and how its story ended. `with`: what went wrong
/// in it beyond what its seed alone brings.
pub(crate) fn explain(case: &Case, finding: &Finding, budget: Duration, keep: Option<&str>, with: Option<&str>) {
    let seed = case.seed;
    let shrunk = shrink(case, finding.checker, budget);
    let small = Case { what: finding.to_string(), ..shrunk.case };
    let path = keep.map_or_else(|| scratch(seed), |name| Path::new("crates/sim/seeds").join(format!("{name}.json")));
    println!(
        "\nAfter {} runs with less: {} of {} faults, {} of {} jobs, {} of {} hosts.",
        shrunk.runs,
        small.faults.len(),
        case.faults.len(),
        small.jobs.len(),
        case.jobs.len(),
        small.hosts.len(),
        case.hosts.len()
    );
    print_faults(&small);
    let story = Story::told_to(Listener::Last(LAST_LINES));
    let verdict = small.run(&story, None);
    println!("\nThe end of its story:");
    story.lines().iter().for_each(|line| println!("  {line}"));
    verdict.findings.iter().for_each(|finding| println!("  {}", story.named(&finding.to_string())));
    let only: Vec<String> = shrunk.only.iter().map(usize::to_string).collect();
    let with = with.map(|kind| format!(" --with {kind}")).unwrap_or_default();
    let world = format!("--servers {}{with}", case.servers);
    println!("\nAgain:  make sim SEED={seed} SIM=\"{world}\"");
    println!("        make sim SEED={seed} SIM=\"{world} --only {} --trace\"", only.join(","));
    match small.write(&path) {
        Ok(()) => println!("        make sim SIM=\"--case {} --trace\"", path.display()),
        Err(error) => println!("        ({} was not written: {error})", path.display()),
    }
}

fn scratch(seed: u64) -> PathBuf {
    Path::new("target/sim").join(format!("seed-{seed}.json"))
}
