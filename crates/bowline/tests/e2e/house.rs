//! What the tests here need of the testkit.

pub(crate) use testkit::process::signal;
pub(crate) use testkit::{House, PATIENCE, Ran, Role, await_that, finish, no_sqlite_here, states, step_of};

/// Whether a process lives, by the number that a script printed.
pub(crate) fn lives(pid: &str) -> bool {
    testkit::process::lives(pid.trim().parse().expect("a process number"))
}
