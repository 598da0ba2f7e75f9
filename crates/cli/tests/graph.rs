//! `bowline graph` as a process, where it needs no server; and the picture in the documentation.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const TASK: &str = "
name: t
steps:
  a: { run: x, for_each: [1, 2] }
  b: { task: other, needs: [{ step: a, on: failure }] }
";

const DRAWN: &str = "\
t: 2 steps in 2 layers
1  ●── a  for each of 2
2  ╰─▶ b  task other · on failed: a
";

/// Nobody listens here; who asks anyway fails.
const NO_SERVER: &str = "http://127.0.0.1:9";

fn graph(words: &[&str]) -> (i32, String, String) {
    let deps = std::env::current_exe().expect("we run");
    let program: PathBuf = deps.parent().and_then(Path::parent).expect("target/…/deps").join("examples/client");
    let mut command = Command::new(program);
    command.arg("graph").args(words).env_clear().env("BOWLINE_SERVER", NO_SERVER).env("BOWLINE_TOKEN", "t");
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.yaml");
    std::fs::write(&path, text).expect("written");
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn a_file_needs_no_server_and_a_pipe_gets_no_colours() {
    let (_folder, path) = written(TASK);
    assert_eq!(graph(&[&path]), (0, DRAWN.to_owned(), String::new()));
    let (code, json, _) = graph(&[&path, "--json"]);
    assert_eq!(code, 0);
    let graph: Value = serde_json::from_str(&json).expect("JSON");
    let expected = json!({ "task": "t", "layers": 2, "steps": [
        { "name": "a", "layer": 1, "kind": "run", "task": null, "if": null, "environment": null, "reviewers": 0,
          "fan_out": { "items": 2, "max_parallel": null, "fail_fast": false }, "allow_failure": false, "needs": [] },
        { "name": "b", "layer": 2, "kind": "task", "task": "other", "if": null, "environment": null, "reviewers": 0,
          "fan_out": null, "allow_failure": false, "needs": [{ "step": "a", "on": ["failed"] }] },
    ] });
    assert_eq!(graph, expected);
}

#[test]
fn every_problem_of_a_bad_file_is_told() {
    let (_folder, path) = written("name: t\nsteps:\n  a: { run: x, needs: [b] }\n  c: { rnu: x }\n");
    let (code, out, err) = graph(&[&path]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("t.yaml:3:") && err.contains("t.yaml:4:") && err.contains("has errors"), "{err}");
}

#[test]
fn the_documentation_shows_what_is_drawn() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let block = |fence: &str, begins: &str| {
        page.split("\n```")
            .filter_map(|part| part.strip_prefix(fence))
            .find(|text| text.starts_with(begins))
            .unwrap_or_else(|| panic!("a block that begins with {begins}"))
            .to_owned()
    };
    let (_folder, path) = written(&block("yaml\n", "name: conditions"));
    let (_, drawn, _) = graph(&[&path]);
    assert_eq!(block("text\n", "conditions: "), drawn.trim_end());
}
