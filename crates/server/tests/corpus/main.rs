//! The kept inputs of the `link` fuzz target, as sessions of the server's end. See fuzz/README.md.

#[path = "../../../protocol/tests/corpus/frames.rs"]
mod frames;
mod session;

use std::path::Path;

// The fuzz target has the file itself, under the same name.
use server::link as machine;

#[test]
fn sessions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/link");
    for entry in folder.read_dir().expect("kept inputs are checked in") {
        let path = entry.expect("the folder is readable").path();
        // Shown only if the input fails.
        println!("{}", path.display());
        let data = std::fs::read(&path).expect("kept inputs are readable");
        session::drive(frames::frames(&data));
    }
}
