//! `sim`: runs worlds, and shows what is wrong in one so that a person can understand it.

mod report;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use planted::Bug;
use sim::campaign::{Campaign, Totals, fresh_seed};
use sim::case::Case;
use sim::check::Finding;
use sim::faults;
use sim::plants::{self, Worlds};
use sim::setup::Scale;
use sim::story::{Listener, Story};
use sim::world::Verdict;

/// Worlds are made of small things that come and go: a sixth of all time would go to the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a long run says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Servers, workers, runners, network, disks, clocks and the database in one process, from one seed.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  sim --minutes 5 --jobs 2          fresh seeds for five minutes, on two cores
  sim --seed 42                     this seed again, exactly
  sim --seed 42 --trace             with everything that happens in it
  sim --seed 42 --until 4711        only up to that event, and what led there
  sim --seed 42 --faults            what goes wrong in it, without running it
  sim --seed 42 --only 3,17         with only these two of its faults
  sim --case target/sim/seed-42.json
                                    a case that was written down, for example a shrunk one
  sim --seed 42 --keep lost-go      write what is left after shrinking to crates/sim/seeds/lost-go.json")]
struct Arguments {
    /// The first seed; a fresh one if it is not said.
    #[arg(long)]
    seed: Option<u64>,
    /// How many servers share the database of each world; one to three, as its seed says, if it is not said.
    #[arg(long)]
    servers: Option<usize>,
    /// How many workers each world has; as many as its seed says, if it is not said.
    #[arg(long)]
    hosts: Option<usize>,
    /// Some faults of this kind in every world, whatever else it has.
    #[arg(long, value_name = "KIND")]
    with: Option<String>,
    /// How many seeds in a row.
    #[arg(long)]
    count: Option<u64>,
    /// For how long, in minutes of real time.
    #[arg(long)]
    minutes: Option<f64>,
    /// How many worlds at a time, each on a thread of its own.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Go on after a finding, and show each checker's first one.
    #[arg(long)]
    keep_going: bool,
    /// A case from a file, instead of a seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "count", "minutes"])]
    case: Option<PathBuf>,
    /// Stop before this event.
    #[arg(long, value_name = "EVENT")]
    until: Option<u64>,
    /// Tell everything that happens.
    #[arg(long)]
    trace: bool,
    /// Plant this bug, by its name, and see whether it is found; `all` looks for each of them in turn. With a seed and
    /// `--trace`: shows the world that provokes it. Wants a build with the feature `planted`.
    #[arg(long)]
    planted: Option<String>,
    /// With `--planted` and `--trace`: an ordinary world, and not one of the bug's own.
    #[arg(long, requires = "planted")]
    ordinary: bool,
    /// With `--planted all`: write docs/planted.md, and the seeds that the tests begin with.
    #[arg(long, requires = "planted")]
    write: bool,
    /// Only these faults of the schedule, by their numbers.
    #[arg(long, value_name = "I,J,…", value_delimiter = ',')]
    only: Option<Vec<usize>>,
    /// Show the schedule of faults, and run nothing.
    #[arg(long)]
    faults: bool,
    /// How long a case with a finding may be made smaller, in seconds of real time; 0: it is not.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    shrink: u64,
    /// Keep the case that shows the finding under this name, for ever.
    #[arg(long, value_name = "NAME")]
    keep: Option<String>,
    /// One JSON object for each seed, and one for all.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn case_of(&self, seed: u64) -> Case {
        Case::with(seed, self.scale(), self.with.as_deref())
    }

    fn world_of(&self, bug: Bug, seed: u64) -> Case {
        let worlds = if self.ordinary { Worlds::Ordinary } else { Worlds::Own };
        worlds.case(bug, seed)
    }

    fn explain(&self, case: &Case, finding: &Finding) {
        let budget = Duration::from_secs(self.shrink);
        report::explain(case, finding, budget, self.keep.as_deref(), self.with.as_deref());
    }

    fn scale(&self) -> Scale {
        Scale { servers: self.servers, hosts: self.hosts }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(kind) = arguments.with.as_deref().filter(|kind| !faults::is_kind(kind)) {
        eprintln!("no kind of fault is named `{kind}`");
        return ExitCode::from(2);
    }
    let mut chosen = None;
    if let Some(name) = &arguments.planted {
        let Some(bugs) = plants::named(name) else {
            eprintln!("no bug is named `{name}`, or this build has none; the names are: {}", plants::names());
            return ExitCode::FAILURE;
        };
        if bugs.len() > 1 || !arguments.trace {
            return hunt(&bugs, &arguments);
        }
        chosen = bugs.first().copied();
        planted::choose(chosen);
    }
    let seed = arguments.seed.unwrap_or_default();
    let world = || chosen.map_or_else(|| arguments.case_of(seed), |bug| arguments.world_of(bug, seed));
    let many = arguments.count.is_some() || arguments.minutes.is_some();
    let clean = match &arguments.case {
        Some(path) => match Case::read(path) {
            Ok(case) => one(case, &arguments),
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                return ExitCode::from(2);
            }
        },
        None if many || arguments.seed.is_none() => campaign(&arguments),
        None => one(world(), &arguments),
    };
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One case, looked at closely.
fn one(mut case: Case, arguments: &Arguments) -> bool {
    if let Some(only) = &arguments.only {
        let numbered = case.faults.iter().zip(1..).filter(|(_, number)| only.contains(number));
        case.faults = numbered.map(|(fault, _)| *fault).collect();
    }
    if arguments.faults {
        report::print_faults(&case);
        return true;
    }
    let listener = if arguments.trace { Listener::Stdout } else { Listener::Last(report::LAST_LINES) };
    let story = if arguments.json && !arguments.trace { Story::untold() } else { Story::told_to(listener) };
    let verdict = case.run(&story, arguments.until);
    report::print_verdict(&verdict, arguments.json);
    if arguments.until.is_some() && !arguments.json {
        story.lines().iter().for_each(|line| println!("  {line}"));
    }
    let Some(finding) = verdict.findings.first() else { return true };
    if !arguments.json && !arguments.trace && arguments.until.is_none() {
        arguments.explain(&case, finding);
    }
    false
}

/// Many seeds, until something is wrong or the time is over.
fn campaign(arguments: &Arguments) -> bool {
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    let time = arguments.minutes.map_or(Duration::MAX, |minutes| Duration::from_secs_f64(minutes * 60.0));
    // Without a word on how many, one will do.
    let count = arguments.count.unwrap_or(if arguments.minutes.is_some() { u64::MAX } else { 1 });
    eprintln!("seeds from {first}");
    let mut shown: Vec<&'static str> = Vec::new();
    let mut progress = Instant::now();
    let (threads, scale, with) = (arguments.jobs, arguments.scale(), arguments.with.as_deref());
    let totals = Campaign { first, count, time, threads, scale, with }.run(|verdict, totals| {
        if arguments.json {
            report::print_verdict(verdict, true);
        }
        if progress.elapsed() >= PROGRESS_EVERY {
            progress = Instant::now();
            tell_progress(totals);
        }
        let Some(finding) = verdict.findings.first() else { return ControlFlow::Continue(()) };
        show(verdict, finding.checker, &mut shown, arguments);
        if arguments.keep_going { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    report::print_totals(first, &totals, arguments.json);
    totals.with_findings == 0
}

fn show(verdict: &Verdict, checker: &'static str, shown: &mut Vec<&'static str>, arguments: &Arguments) {
    if arguments.json {
        return;
    }
    report::print_verdict(verdict, false);
    if !shown.contains(&checker) {
        shown.push(checker);
        let case = arguments.case_of(verdict.seed);
        arguments.explain(&case, &verdict.findings[0]);
    }
}

fn tell_progress(totals: &Totals) {
    let Totals { seeds, with_findings, .. } = totals;
    let (hours, speed) = (totals.hours(), totals.hours_a_minute());
    eprintln!("{seeds} seeds, {hours:.0} hours simulated, {speed:.0} a minute, {with_findings} with findings");
}

/// Looks for each of these bugs from the same seed on, and tells how each was found.
fn hunt(bugs: &[Bug], arguments: &Arguments) -> ExitCode {
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let count = arguments.count.unwrap_or(plants::SEEDS_MAX);
    let mut found = Vec::new();
    for &bug in bugs {
        let started = Instant::now();
        let caught = plants::hunt(bug, seed, count);
        let told = caught
            .as_ref()
            .map_or_else(|| format!("not found in {count} worlds of its own from {seed}"), ToString::to_string);
        println!("{}: {told} ({:.1} s)", bug.name(), started.elapsed().as_secs_f64());
        found.push((bug, caught));
    }
    if arguments.write
        && let Err(error) = plants::write(&found, seed)
    {
        eprintln!("the page could not be written: {error}");
        return ExitCode::FAILURE;
    }
    if found.iter().all(|(_, caught)| caught.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
