//! The nursery's own life: wait, fork, answer.

use std::io;
use std::process::ExitCode;

use protocol::folder::Tally;
use rustix::io::Errno;
use rustix::stdio::stdin;

use super::wire::{self, Request};
use crate::{control, sys};

/// What `ps` and `top` show; without it all runners would look like the nursery. The kernel keeps 15 bytes.
const RUNNER_NAME: &std::ffi::CStr = c"bowline-runner";

/// Forks runners for the worker at standard input until that is gone. Call it before any thread is started.
///
/// It returns in every runner as well, with that runner's exit code.
pub fn main() -> ExitCode {
    // Out of the reach of a terminal's signals. Fails only for one who leads a session already.
    let _ = rustix::process::setsid();
    // The worker's current folder is not ours to keep busy.
    let _ = std::env::set_current_dir("/");
    // Whoever started the worker may have left some open.
    sys::keep_descriptors_to_ourselves();
    sys::leave_children_to_the_kernel();
    warm_up();
    match serve() {
        Ok(Leave::WorkerGone) => ExitCode::SUCCESS,
        Ok(Leave::AsRunner(code)) => code,
        // Nobody listens any more. The worker finds the socket closed, and starts another nursery.
        Err(_) => ExitCode::FAILURE,
    }
}

enum Leave {
    WorkerGone,
    AsRunner(ExitCode),
}

/// Libraries ask the processor once what it can do. On a virtual machine each question costs microseconds, and a runner
/// inherits the answers.
fn warm_up() {
    std::hint::black_box(Tally::default().encode());
    std::hint::black_box(memchr::memchr(b'\n', b"bowline"));
}

fn serve() -> io::Result<Leave> {
    while let Some(request) = wire::receive_request(stdin())? {
        // SAFETY: the nursery has one thread: nothing starts another.
        let forked = match unsafe { sys::fork() } {
            Ok(0) => return Ok(Leave::AsRunner(become_runner(request))),
            Ok(_) => Ok(()),
            Err(error) => Err(error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error)),
        };
        drop(request);
        wire::send_answer(stdin(), forked)?;
    }
    Ok(Leave::WorkerGone)
}

/// In the child: everything as it would be after [`launch`](crate::launch::launch).
fn become_runner(Request { folder, socket }: Request) -> ExitCode {
    sys::keep_children();
    let _ = rustix::thread::set_name(RUNNER_NAME);
    // The nursery's socket was here, and nowhere else: it is closed by this.
    if rustix::stdio::dup2_stdin(&socket).is_err() {
        return ExitCode::FAILURE;
    }
    drop(socket);
    if let Err(error) = std::env::set_current_dir(&folder) {
        control::refuse_on_stdin(&format!("cannot enter the attempt folder: {error}"));
        return ExitCode::FAILURE;
    }
    crate::main(&folder)
}
