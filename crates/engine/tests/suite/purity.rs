//! The core stays pure and the runner small: what their dependency trees may not hold, whoever adds it.
//!
//! What the engine's own code may not call is in its `clippy.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Runtimes, sockets and sources of chance. A crate that brings one of them does I/O or is not deterministic.
const RUNTIMES: [&str; 14] = [
    "async-std",
    "axum",
    "futures-executor",
    "getrandom",
    "hyper",
    "mio",
    "polling",
    "rand",
    "rand_core",
    "reqwest",
    "rusqlite",
    "smol",
    "socket2",
    "tokio",
];

/// Also out of place where nothing may touch the system at all.
const SYSTEM: [&str; 5] = ["libc", "nix", "rustix", "tempfile", "windows-sys"];

#[test]
fn the_core_is_pure() {
    let tree = Tree::load();
    for package in ["engine", "spec"] {
        tree.assert_without(package, &RUNTIMES);
        tree.assert_without(package, &SYSTEM);
    }
}

#[test]
fn the_runner_is_small() {
    Tree::load().assert_without("runner", &RUNTIMES);
}

/// A list that forbids nothing would pass as well; the server shows that it bites.
#[test]
fn the_lists_bite() {
    let tree = Tree::load();
    let found = tree.below("server");
    assert!(RUNTIMES.iter().any(|name| found.contains(*name)), "the server has a runtime: {found:?}");
}

/// The normal dependencies of every package on this platform.
struct Tree {
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn load() -> Tree {
        let host = cargo(&["-vV"]);
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo names its host");
        let text = cargo(&["metadata", "--format-version=1", "--locked", "--filter-platform", host]);
        let metadata: Value = serde_json::from_str(&text).expect("cargo prints JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let names = list(&metadata["packages"]).iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
        let is_normal = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let needs =
            |node: &Value| list(&node["deps"]).iter().filter(|d| is_normal(d)).map(|d| text(&d["pkg"])).collect();
        let edges = list(&metadata["resolve"]["nodes"]).iter().map(|n| (text(&n["id"]), needs(n))).collect();
        Tree { names, edges }
    }

    fn assert_without(&self, package: &str, forbidden: &[&str]) {
        let found = self.below(package);
        let bad: Vec<&&str> = forbidden.iter().filter(|name| found.contains(**name)).collect();
        assert!(bad.is_empty(), "{package} depends on {bad:?}; see `cargo tree -p {package} -e normal -i {}`", bad[0]);
    }

    /// The names of all packages that this one needs, near or far.
    fn below(&self, package: &str) -> BTreeSet<&str> {
        let (start, _) = self.names.iter().find(|(_, name)| *name == package).expect("a package of the workspace");
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            open.extend(self.edges[id].iter().filter(|need| seen.insert(need)));
        }
        seen.into_iter().map(|id| self.names[id].as_str()).collect()
    }
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test may ask cargo; the engine may not")]
fn cargo(arguments: &[&str]) -> String {
    let path = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = std::process::Command::new(path).args(arguments).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}
