//! The runner as a program of its own, for the tests of this crate: `runner FOLDER`, `runner --nursery`, or
//! `runner --worker FOLDER`, which has a runner started for the folder, passes on its
//! first word, and then waits to be killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use runner::nursery::{self, Nursery};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(word), None) if word == nursery::FLAG => nursery::main(),
        (Some(folder), None) => runner::main(Path::new(&folder)),
        (Some(word), Some(folder)) if word == "--worker" => worker(Path::new(&folder)),
        _ => ExitCode::from(2),
    }
}

fn worker(folder: &Path) -> ExitCode {
    let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
    let nursery = Nursery::new::<&str>(&program, &[]);
    let Ok(mut line) = nursery.launch(folder).map(BufReader::new) else { return ExitCode::FAILURE };
    let mut word = String::new();
    if line.read_line(&mut word).is_err() {
        return ExitCode::FAILURE;
    }
    print!("{word}");
    loop {
        std::thread::park();
    }
}
