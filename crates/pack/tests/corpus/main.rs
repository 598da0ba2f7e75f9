//! Everything that fuzzing found worth keeping, and random sets besides, through the same door. See fuzz/README.md.

mod pack;

use std::path::Path;

use ::pack::{FILES_MAX, FileEntry, Manifest, ManifestError};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn packs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pack");
    for entry in folder.read_dir().expect("kept inputs are checked in") {
        let path = entry.expect("the folder is readable").path();
        // Shown only if the input fails.
        println!("{}", path.display());
        pack::drive(&std::fs::read(&path).expect("kept inputs are readable"));
    }
}

#[test]
fn a_set_of_more_files_than_may_be_is_refused_before_any_is_written() {
    let entry = |n: usize| FileEntry {
        path: format!("{n:06}"),
        size: 0,
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned(),
        executable: false,
    };
    let of = |count: usize| {
        let (text, id) = Manifest::new((0..count).map(entry).collect()).encode();
        Manifest::decode(&text, id)
    };
    assert!(of(FILES_MAX).is_ok());
    assert!(matches!(of(FILES_MAX + 1), Err(ManifestError::ManyFiles(count)) if count == FILES_MAX + 1));
}

/// Names as somebody writes them who wants out.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]",
        2 => Just("link".to_owned()),
        1 => Just("file".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        1 => Just("a\0b".to_owned()),
        1 => "\\PC{0,8}",
        1 => Just("x".repeat(300)),
    ]
}

fn path() -> impl Strategy<Value = String> {
    vec(name(), 1..5).prop_map(|names| names.join("/"))
}

fn file() -> impl Strategy<Value = serde_json::Value> {
    let size = prop_oneof![8 => 0u64..40, 1 => Just(u64::MAX), 1 => Just(1u64 << 40)];
    let hash = prop_oneof![9 => Just("?".to_owned()), 1 => "[0-9a-fG]{62,66}"];
    (path(), size, hash, any::<bool>())
        .prop_map(|(path, size, hash, executable)| json!({ "path": path, "size": size, "sha256": hash, "executable": executable }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_stay_in_their_folder(mut files in vec(file(), 0..6), sorted in any::<bool>(), bytes in vec(any::<u8>(), 0..200)) {
        if sorted {
            files.sort_by_key(|file| file["path"].as_str().map(str::to_owned));
            files.dedup_by_key(|file| file["path"].as_str().map(str::to_owned));
        }
        let mut input = serde_json::to_vec(&json!({ "format": 1, "files": files })).expect("plain data");
        input.push(0xff);
        input.extend_from_slice(&bytes);
        pack::drive(&input);
    }

    #[test]
    fn any_bytes_are_answered(input in vec(any::<u8>(), 0..300)) {
        pack::drive(&input);
    }
}
