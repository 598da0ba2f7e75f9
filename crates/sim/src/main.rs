//! `sim`: runs worlds, and shows the first one in which something is wrong.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use planted::Bug;
use sim::faults;
use sim::plants;
use sim::setup::Setup;
use sim::world::World;

#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Stop before this event.
    #[arg(long)]
    until: Option<u64>,
    /// Tell what happens.
    #[arg(long)]
    trace: bool,
    /// Plant this bug, by its name, and see whether it is found; `all` looks for each of them in turn. Wants a build with
    /// the feature `planted`.
    #[arg(long)]
    planted: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.planted {
        let Some(bugs) = plants::named(name) else {
            eprintln!("no bug is named `{name}`, or this build has none; the names are: {}", plants::names());
            return ExitCode::FAILURE;
        };
        if bugs.len() > 1 || !arguments.trace {
            return hunt(&bugs, arguments.seed, arguments.count);
        }
        planted::choose(bugs.first().copied());
    }
    let started = Instant::now();
    let mut simulated = 0.0;
    for seed in arguments.seed..arguments.seed + arguments.count {
        let setup = Setup::of(seed);
        let faults = faults::roll(seed, &setup);
        let world = World::new(seed, setup, faults);
        let world = if arguments.trace { world.telling() } else { world };
        let (verdict, story) = world.run(arguments.until);
        simulated += verdict.simulated.as_secs_f64() / 3600.0;
        print!("{story}");
        println!(
            "seed {seed}: {} jobs, {} faults, {} events, {:?} simulated",
            verdict.jobs, verdict.faults_fired, verdict.events, verdict.simulated
        );
        for finding in &verdict.findings {
            println!("seed {seed}: {finding}");
        }
        if !verdict.findings.is_empty() {
            return ExitCode::FAILURE;
        }
    }
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    println!("{simulated:.1} hours simulated in {minutes:.2} minutes, {:.0} hours a minute", simulated / minutes);
    ExitCode::SUCCESS
}

/// Looks for each of these bugs from the same seed on, and tells how each was found.
fn hunt(bugs: &[Bug], seed: u64, count: u64) -> ExitCode {
    let mut found = true;
    for &bug in bugs {
        let started = Instant::now();
        let told = match plants::hunt(bug, seed..seed.saturating_add(count)) {
            Some(caught) => caught.to_string(),
            None => format!("not found in {count} seeds from {seed}"),
        };
        found &= !told.starts_with("not");
        println!("{}: {told} ({:.1} s)", bug.name(), started.elapsed().as_secs_f64());
    }
    if found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
