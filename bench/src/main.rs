//! What Bowline costs on this machine: drives the release binary as separate processes with their default
//! configuration, and sets each figure beside a limit that was measured in the same run. `make bench` calls it.
//!
//! A missed target is only said. A step without its stored log or its exit record, or a wrong count, is a failure.

mod bowline;
mod checks;
mod cluster;
mod cpu;
mod figure;
mod herd;
mod jobs;
mod limits;
mod load;
mod measure;
mod memory;
mod process;
mod report;
mod simulated;
mod stats;
mod steady;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use bowline::Bowline;
use figure::Figure;
use report::Report;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Measure Bowline against the limits of this machine
#[derive(Debug, Parser)]
struct Args {
    /// The binary to measure
    #[arg(long, value_name = "FILE")]
    bowline: PathBuf,
    /// Only these measurements
    #[arg(long, value_name = "LETTERS", value_delimiter = ',')]
    only: Vec<Letter>,
    /// Also write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to make the folder for data, on the disk to measure [default: two folders above the binary]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A tenth of the work: shows that all works, its figures are rough
    #[arg(long)]
    quick: bool,
    /// The steps that wait in the long queue of (k)
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    queued: usize,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Letter {
    /// Trivial steps per second
    A,
    /// Latency of one trivial step
    B,
    /// No-op job lives per second
    C,
    /// Log lines per second
    D,
    /// Memory and start-up
    E,
    /// A chain of steps
    F,
    /// A storm of workers that come back
    G,
    /// Steps of large jobs, beside those of small ones
    H,
    /// No-op job lives per second on PostgreSQL
    I,
    /// The same with two servers on one database
    J,
    /// Lives beside a long queue
    K,
    /// The verdict on a step whose server and worker died
    L,
    /// A server's links, taken over by another
    M,
}

/// How much to do.
#[derive(Debug, Clone, Copy)]
struct Effort {
    quick: bool,
    queued: usize,
}

impl Effort {
    /// `whole`, or a tenth of it.
    fn count(self, whole: usize) -> usize {
        if self.quick { whole.div_ceil(10) } else { whole }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(run(&args)));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every measurement could be made and every check held.
async fn run(args: &Args) -> Outcome<bool> {
    let bowline = Bowline::new(&args.bowline, args.data.as_deref())?;
    let effort = Effort { quick: args.quick, queued: args.queued };
    let mut report = Report::new(&bowline, effort)?;
    for letter in Letter::value_variants() {
        if !args.only.is_empty() && !args.only.contains(letter) {
            continue;
        }
        eprintln!("({}) …", report::letter(*letter));
        match measure(*letter, &bowline, effort).await {
            Ok(figures) => report.add(*letter, figures),
            Err(error) => {
                eprintln!("({}) failed: {error}", report::letter(*letter));
                report.failed(*letter, error.to_string());
            }
        }
    }
    println!("{}", report.table());
    println!("{}", report.json());
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(report.is_whole())
}

async fn measure(letter: Letter, bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    match letter {
        Letter::A => measure::steps::measure(bowline, effort).await,
        Letter::B => measure::latency::measure(bowline, effort).await,
        Letter::C => measure::lives::measure(bowline, effort).await,
        Letter::D => measure::log_lines::measure(bowline, effort).await,
        Letter::E => measure::footprint::measure(bowline, effort).await,
        Letter::F => measure::chain::measure(bowline, effort).await,
        Letter::G => measure::storm::measure(bowline, effort).await,
        Letter::H => measure::large::measure(bowline, effort).await,
        Letter::I => measure::pg_lives::measure(bowline, effort).await,
        Letter::J => measure::two_servers::measure(bowline, effort).await,
        Letter::K => measure::queued::measure(bowline, effort).await,
        Letter::L => measure::verdict::measure(bowline, effort).await,
        Letter::M => measure::failover::measure(bowline, effort).await,
    }
}
