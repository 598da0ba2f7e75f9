//! Everything that fuzzing ever found worth keeping, through the same doors, on every test run. See fuzz/README.md.

mod frames;
mod link;

use std::path::Path;

#[test]
fn frames() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/link");
    for entry in folder.read_dir().expect("kept inputs are checked in") {
        let path = entry.expect("the folder is readable").path();
        // Shown only if the input fails.
        println!("{}", path.display());
        let data = std::fs::read(&path).expect("kept inputs are readable");
        link::drive(&data);
    }
}
