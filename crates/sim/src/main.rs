//! `sim`: runs worlds, and shows the first one in which something is wrong.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use sim::faults;
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
