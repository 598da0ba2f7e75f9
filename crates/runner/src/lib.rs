//! The runner: the small process that owns one attempt on a worker's machine.
//!
//! A worker has it forked by a [`nursery`], and from then on needs it only through files and a socket. The runner
//! outlives its worker: it holds the lock, reads the step's output, keeps its deadlines, kills what must be killed, and
//! leaves an exit record. One thread, one `poll` loop, no async runtime: there is one for every step, so what it costs
//! is what a step costs.
//!
//! ```text
//!  worker ──socketpair or sock──► control ─┐
//!  deadlines ─────────────────────────────►├─ watch ──► exit record ──► `ended`
//!  SIGCHLD ── signals ────────────────────►│
//!  step ──stdout, stderr──► mask ► lines ► spool ─┘
//! ```
//!
//! Decisions are in [`life`], which does nothing. In reading order of those who do: `prepare`, then `watch`, which is the
//! loop around them, with `start`, `step` and `end`. Where a step must end with its lease, a `guard` sees to it even if
//! the runner is killed or frozen. [`folder_io`], [`cgroup`], [`clock`] and [`remains`] are for the worker as well.

mod alarm;
mod caretaker;
pub mod cgroup;
mod child;
pub mod clock;
mod control;
mod end;
pub mod fence;
pub mod folder_io;
mod guard;
pub mod launch;
pub mod life;
mod lines;
mod mask;
mod notes;
pub mod nursery;
mod output;
mod poll;
mod prepare;
mod pressure;
mod proc_stat;
mod program;
mod record;
pub mod remains;
mod spool;
mod start;
mod step;
mod sys;
mod tree;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use folder_io::FolderError;
use prepare::Desk;
use protocol::folder::Claim;

/// Runs the attempt in `folder` from `ready` to its end. Call it before any thread is started.
pub fn main(folder: &Path) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| notes::write(&panic.to_string())));
    match Desk::prepare(folder) {
        Ok(desk) => {
            watch::watch(desk);
            ExitCode::SUCCESS
        }
        Err(error) => {
            notes::write(&error.to_string());
            if never_starts(folder, &error) {
                control::refuse_on_stdin(&error.to_string());
            }
            ExitCode::FAILURE
        }
    }
}

/// A refusal says that the step never ran. Where another runner was or is at work, that is not ours to say.
fn never_starts(folder: &Path, error: &FolderError) -> bool {
    let taken = matches!(error, FolderError::Locked);
    !taken && !matches!(folder_io::read_claim(folder), Ok(Some(Claim::Intent)))
}
