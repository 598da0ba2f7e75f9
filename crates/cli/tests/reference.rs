//! The checked-in reference is the one that the program gives.

use std::path::Path;

#[test]
fn the_checked_in_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let current = cli::reference::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("make docs");
        std::fs::write(&path, &current).expect("write docs/cli.md");
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == current,
        "docs/cli.md is not what the program says; run the tests once with UPDATE_DOCS=1 and look at the difference"
    );
}
