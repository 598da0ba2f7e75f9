//! The examples of the project are right, and use only what works.

use std::path::PathBuf;

use crate::lines;

#[test]
fn every_example_is_free_of_warnings() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the examples are there") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|ext| ext != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the example can be read");
        let (kind, diagnostics) = spec::check(&text, &path.display().to_string());
        assert_eq!(kind, spec::FileKind::Task);
        assert_eq!(lines(&diagnostics), "");
        names.push(path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned());
    }
    for name in ["hello.yaml", "nightly-backup.yaml", "build-and-release.yaml", "etl.yaml", "disk-report.yaml"] {
        assert!(names.iter().any(|found| found == name), "{name}");
    }
}
