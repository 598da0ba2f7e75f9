//! The runner as a program of its own: `worker-runner FOLDER`, or `worker-runner --nursery`. The tests of this crate have
//! their steps run by it.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(word) if word == runner::nursery::FLAG => runner::nursery::main(),
        Some(folder) => runner::main(Path::new(&folder)),
        None => ExitCode::from(2),
    }
}
