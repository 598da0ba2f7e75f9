//! Everything that fuzzing ever found worth keeping, through the same doors, on every test run. See fuzz/README.md.

mod task;
mod template;

use std::path::Path;

#[test]
fn tasks() {
    replay("corpus/task", task::drive);
}

#[test]
fn templates() {
    replay("corpus/template", template::drive);
    replay("regressions/template", template::drive);
}

fn replay(inputs: &str, drive: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(inputs);
    for entry in folder.read_dir().expect("kept inputs are checked in") {
        let path = entry.expect("the folder is readable").path();
        // Shown only if the input fails.
        println!("{}", path.display());
        drive(&std::fs::read(&path).expect("kept inputs are readable"));
    }
}
