//! A noisy program that writes straight into a file.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Outcome;
use crate::stats::rate;

/// Lines per second of a program whose output goes to a new file in `folder`, synced at the end.
pub(crate) fn lines_per_second(folder: &Path, argv: &[&str], lines: usize) -> Outcome<f64> {
    let (program, arguments) = argv.split_first().ok_or("no program to run")?;
    let file = File::create(folder.join("lines"))?;
    let begin = Instant::now();
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(file.try_clone()?).status()?;
    file.sync_all()?;
    if !status.success() {
        return Err(format!("{program} ended with {status}").into());
    }
    Ok(rate(lines, begin.elapsed()))
}
