//! A disk that is soon full.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skipped::skipped;

/// A small tmpfs, until it is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// `None`, and a printed reason, where mounting is not allowed.
    pub fn mount(at: &Path, kibibytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).expect("made");
        let size = format!("size={kibibytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { at: at.to_owned() }),
            Ok(output) => {
                skipped(&format!("no tmpfs can be mounted here: {}", String::from_utf8_lossy(&output.stderr).trim()));
                None
            }
            Err(error) => {
                skipped(&format!("no tmpfs can be mounted here: {error}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a runner that is about to end may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}
