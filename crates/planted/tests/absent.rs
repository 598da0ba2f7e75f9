//! The product has no planted bugs: nobody but the simulator can turn them on, and without that they are constants.

use planted::Bug;
use serde_json::Value;

/// The one crate that may.
const SIMULATOR: &str = "sim";

/// A branch on a constant is not compiled: this one is known before anything runs.
#[cfg(not(feature = "planted"))]
const _: () = assert!(!planted::is(Bug::OfferedToTwo));

#[test]
fn nothing_can_be_chosen_where_nothing_is_planted() {
    assert!(planted::choose(None));
    assert!(Bug::ALL.iter().all(|bug| !planted::is(*bug)), "none is chosen by itself");
    let chosen = planted::choose(Some(Bug::OfferedToTwo));
    assert_eq!((chosen, planted::is(Bug::OfferedToTwo)), (planted::POSSIBLE, planted::POSSIBLE));
    assert!(!planted::is(Bug::StaleEndCounts), "one at a time");
}

#[test]
fn only_the_simulator_turns_them_on() {
    let text = cargo(&["metadata", "--format-version=1", "--locked", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&text).expect("cargo prints JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut users = 0;
    for package in list(&metadata["packages"]).iter().filter(|package| package["name"] != SIMULATOR) {
        for dependency in list(&package["dependencies"]).iter().filter(|it| it["name"] == "planted") {
            users += 1;
            assert_eq!(dependency["features"], Value::Array(Vec::new()), "in {}", package["name"]);
        }
        let features = package["features"].to_string();
        assert!(!features.contains("planted/"), "a feature of {} turns them on", package["name"]);
    }
    assert!(users >= 4, "engine, server, worker and runner ask: {users}");
}

/// As `make build` builds it.
#[test]
fn the_binary_has_none() {
    let tree = cargo(&["tree", "--locked", "-p", "bowline", "-e", "features,normal,build", "-i", "planted"]);
    assert!(tree.contains("engine"), "the engine asks: {tree}");
    assert!(!tree.contains("planted feature \"planted\""), "{tree}");
}

#[test]
fn names_are_unique_and_found_again() {
    for bug in Bug::ALL {
        assert_eq!(Bug::by_name(bug.name()), Some(*bug));
    }
    assert!(Bug::ALL.len() < usize::from(u8::MAX), "a number of one byte tells them apart");
}

fn cargo(arguments: &[&str]) -> String {
    let path = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = std::process::Command::new(path).args(arguments).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}
