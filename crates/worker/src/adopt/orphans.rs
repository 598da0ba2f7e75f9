//! Runners and steps whose attempt's folder was deleted under them: they live, and no folder tells.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the kernel adds to the path of a current folder that is no more.
const DELETED: &[u8] = b" (deleted)";

/// Whether any process has a deleted folder under `attempts` as its current one.
pub(super) fn live_under(attempts: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lost = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    let mut lost =
        lost.filter(|folder| folder.starts_with(attempts) && folder.as_os_str().as_bytes().ends_with(DELETED));
    match lost.next() {
        Some(folder) => {
            tracing::warn!(folder = %folder.display(), "a process lives on in an attempt's folder that was deleted");
            true
        }
        None => false,
    }
}
