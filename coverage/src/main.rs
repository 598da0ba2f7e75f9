//! Which regions of what decides were reached by a run of the simulator: `make sim-coverage`.
//!
//! `coverage OBJECT FOLDER [--missed]`: the program that ran, the folder with its profiles, and whether to show what was
//! not reached. The figures are those of `cargo llvm-cov`, read without LLVM's own tools, which not every machine has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use llvm_profparser::coverage::coverage_mapping::CoverageMapping;
use llvm_profparser::coverage::reporting::CoverageResult;
use llvm_profparser::merge_profiles;

/// What decides: engine, ledger, dispatch, explanations, links, agent, adoption, shipping, the runner's life.
const DECIDING: [&str; 13] = [
    "engine/src/",
    "server/src/ledger/",
    "server/src/dispatch/",
    "server/src/explain.rs",
    "server/src/link/machine.rs",
    "worker/src/agent/",
    "worker/src/adopt/examine.rs",
    "worker/src/adopt/look.rs",
    "worker/src/lines.rs",
    "worker/src/link/backoff.rs",
    "worker/src/link/search.rs",
    "worker/src/ship/shipper.rs",
    "runner/src/life/",
];

/// The ledger's own shells: its thread, and the feed of live changes, which nobody in a simulated world listens to.
const SHELLS: [&str; 2] = ["server/src/ledger/thread.rs", "server/src/ledger/publish.rs"];

/// Wrong decisions that are there on purpose, and never taken in an ordinary world.
const PLANTED: &str = "planted::is(";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [object, folder, rest @ ..] = &arguments[..] else {
        anyhow::bail!("usage: coverage OBJECT FOLDER [--missed]");
    };
    let show_missed = rest.iter().any(|word| word == "--missed");
    let profile = merge_profiles(&profiles(Path::new(folder))?).context("the profiles cannot be read")?;
    let objects = [PathBuf::from(object)];
    let report = CoverageMapping::new(&objects, &profile, false)?.generate_report()?;
    let mut all = Share::default();
    for (path, result) in &report.files {
        let Some(name) = deciding(path) else { continue };
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let lines: Vec<&str> = text.lines().collect();
        let (share, missed) = count(result, &lines);
        println!("{share}  {name}");
        if show_missed {
            missed.iter().for_each(|line| println!("{line}"));
        }
        all = Share { reached: all.reached + share.reached, regions: all.regions + share.regions };
    }
    println!("{all}  all");
    Ok(())
}

fn profiles(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            found.push(path);
        }
    }
    Ok(found)
}

fn deciding(path: &Path) -> Option<&str> {
    let (_, name) = path.to_str()?.rsplit_once("/crates/")?;
    (DECIDING.iter().any(|start| name.starts_with(start)) && !SHELLS.contains(&name)).then_some(name)
}

/// The share of the regions that was reached, and a line for each that was not. A function that was compiled more than once
/// counts once.
fn count(result: &CoverageResult, lines: &[&str]) -> (Share, Vec<String>) {
    let mut share = Share::default();
    let mut missed = Vec::new();
    for (at, hits) in &result.hits {
        let text = lines.get(at.line_start - 1).map_or("", |line| line.trim());
        if text.contains(PLANTED) {
            continue;
        }
        share.regions += 1;
        if *hits > 0 {
            share.reached += 1;
        } else {
            missed.push(format!("{:>17}:{}  {text}", at.line_start, at.column_start));
        }
    }
    (share, missed)
}

#[derive(Debug, Clone, Copy, Default)]
struct Share {
    reached: usize,
    regions: usize,
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Share { reached, regions } = self;
        let percent = *reached as f64 * 100.0 / (*regions).max(1) as f64;
        write!(f, "{percent:5.1} %  {reached:5} of {regions:5}")
    }
}
