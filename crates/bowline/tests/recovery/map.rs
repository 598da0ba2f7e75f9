//! The table in docs/testing.md names tests. They exist.

use std::path::Path;

#[test]
fn every_test_that_the_docs_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/testing.md")).expect("the page");
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
