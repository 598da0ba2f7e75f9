//! `make demo` is a promise in the README: it must work, and must notice if it does not.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Ran, finish};

#[test]
fn the_demo_shows_every_line_once() {
    let ran = demo(env!("CARGO_BIN_EXE_bowline").as_ref()).ok();
    assert!(ran.out.contains("yes: 24 lines, in order, none missing, none doubled"), "{}", ran.out);
}

#[test]
fn the_demo_fails_if_a_line_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let forgetful = folder.path().join("bowline");
    let real = env!("CARGO_BIN_EXE_bowline");
    let script = format!("#!/bin/sh\n[ \"$1\" = logs ] || exec {real} \"$@\"\n{real} \"$@\" | sed '/^line 7$/d'\n");
    std::fs::write(&forgetful, script).expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&forgetful, executable).expect("set");
    let ran = demo(&forgetful).code(1);
    assert!(ran.err.contains("lines are missing or doubled"), "{}", ran.err);
}

fn demo(bowline: &Path) -> Ran {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo.sh");
    let mut command = Command::new(script);
    command.env("BOWLINE", bowline).env("NO_COLOR", "1").stdin(Stdio::null());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started"))
}
