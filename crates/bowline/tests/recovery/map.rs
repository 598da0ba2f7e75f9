//! The table in docs/testing.md names tests. They exist, and it has every case that was collected.

use std::path::{Path, PathBuf};

/// So many bugs of others were collected.
const CASES: u32 = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/testing.md")).expect("the page")
}

#[test]
fn every_case_has_its_row_and_each_row_a_test() {
    let page = page();
    let rows: Vec<(u32, &str)> = page
        .lines()
        .filter_map(|line| {
            let (number, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
            Some((number.parse().ok()?, rest))
        })
        .collect();
    assert!(rows.iter().map(|(number, _)| *number).eq(1..=CASES), "{rows:?}");
    for (number, rest) in rows {
        let (_, tests) = rest.split_once(" | ").expect("a column of tests");
        assert!(tests.contains("::"), "case {number} has no test: {tests}");
    }
}

#[test]
fn every_test_that_the_docs_name_exists() {
    let (root, page) = (root(), page());
    let named: Vec<(&str, &str)> = page.split('`').filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() > 60, "the table is there");
    for (krate, test) in named.into_iter().filter(|(krate, _)| *krate != "crate") {
        let folder = root.join("crates").join(krate);
        assert!(holds(&folder, &format!("fn {test}(")), "no test {test} in {krate}");
    }
}

fn holds(folder: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("readable").path()).any(|path| match path.is_dir() {
        true => holds(&path, text),
        false => {
            path.extension().is_some_and(|e| e == "rs")
                && std::fs::read_to_string(&path).is_ok_and(|s| s.contains(text))
        }
    })
}
