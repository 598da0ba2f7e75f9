//! What a piece of code asks of the disk, in order, with `strace`: a sync leaves no other trace that a test could see.

use std::path::Path;
use std::process::Command;

use crate::skipped::skipped;

/// Says to the traced process where to act.
const ROOT: &str = "BOWLINE_TRACED_ROOT";

const CALLS: &str = "trace=symlink,symlinkat,rename,renameat,renameat2,fsync,fdatasync";

/// Runs this test, which has this whole name, once more in a process of its own that is traced. There `act` is done in
/// `root`, and this returns none, as it does where nothing can be traced; else the calls, each with its last path.
pub fn disk_calls(test: &str, root: &Path, act: impl FnOnce(&Path)) -> Option<Vec<String>> {
    if let Some(root) = std::env::var_os(ROOT) {
        act(Path::new(&root));
        return None;
    }
    let trace = tempfile::NamedTempFile::new().expect("a temporary file");
    let program = std::env::current_exe().expect("a test is a program");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "4096", "-e", CALLS, "-o"]).arg(trace.path());
    let traced = strace.arg(program).args(["--exact", test]).env(ROOT, root).output();
    match traced {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with("strace:"), "the traced test failed: {said}");
            skipped(&format!("nothing can be traced here: {}", said.trim()));
            return None;
        }
        Err(error) => {
            skipped(&format!("no strace here: {error}"));
            return None;
        }
    }
    let lines = std::fs::read_to_string(trace.path()).expect("strace has written it");
    Some(lines.lines().filter_map(|line| call(line, &root.display().to_string())).collect())
}

/// `123 fsync(3</root/a/b>) = 0` is `fsync a/b`; what is not about anything in `root` is nothing.
fn call(line: &str, root: &str) -> Option<String> {
    let name = line.split('(').next()?.split_whitespace().last()?.trim_end_matches("at2").trim_end_matches("at");
    let path = line.rsplit_once(root)?.1;
    let path = path.split(['>', '"']).next()?.trim_start_matches('/');
    Some(format!("{name} {path}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::call;

    #[test]
    fn a_call_is_its_name_and_its_last_path() {
        let renamed = r#"7 renameat2(AT_FDCWD</r>, "/r/a/b", AT_FDCWD</r>, "/r/c/b", 0) = 0"#;
        let cases = [
            ("7 fsync(3</r/a/b>) = 0", Some("fsync a/b")),
            ("7 fsync(3</r>) = 0", Some("fsync")),
            (renamed, Some("rename c/b")),
            ("7 fsync(3</elsewhere>) = 0", None),
            ("+++ exited with 0 +++", None),
        ];
        for (line, expected) in cases {
            assert_eq!(call(line, "/r").as_deref(), expected, "{line}");
        }
    }
}
