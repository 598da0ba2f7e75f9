//! What the tests here need of the testkit.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

pub(crate) use testkit::process::signal;
pub(crate) use testkit::{House, PATIENCE, Ran, Role, await_that, finish, no_sqlite_here, states, step_of};

/// Whether a process lives, by the number that a script printed.
pub(crate) fn lives(pid: &str) -> bool {
    testkit::process::lives(pid.trim().parse().expect("a process number"))
}

/// Sets a secret as people do; its value is no argument.
pub(crate) fn set_secret(house: &House, name: &str, value: &str) -> Ran {
    let mut command = house.command(&["secret", "set", name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    child.stdin.take().expect("piped").write_all(value.as_bytes()).expect("it reads");
    finish(child)
}

/// A token of somebody's own.
pub(crate) fn person(house: &House, name: &str) -> String {
    house.bowline(&["token", "create", "--kind", "api", "--name", name]).ok().out.trim().to_owned()
}

/// What followed on a job.
pub(crate) fn hooks(house: &House, id: &str) -> Vec<Value> {
    house.job(id)["hooks"].as_array().cloned().unwrap_or_default()
}

/// A program in a folder of the house.
pub(crate) fn program(house: &House, name: &str, text: &str) -> PathBuf {
    let path = house.write(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    path
}

/// The most memory that a process ever had.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
