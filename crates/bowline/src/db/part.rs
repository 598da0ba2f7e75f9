//! A file that stands under its name only when it is whole: written beside it, synced, and then moved there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::Failed;

/// Not whole yet; gone if nobody keeps it. The lock tells one that somebody writes from one that a killed process left.
#[derive(Debug)]
pub(super) struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    replace: bool,
    kept: bool,
}

impl Part {
    /// `replace`: a file of that name may be there, and is replaced in the end.
    pub(super) fn beside(target: &Path, replace: bool) -> Result<Part, Failed> {
        let of_target = |e: io::Error| Failed::usage(format!("cannot write {}: {e}", target.display()));
        let target = std::path::absolute(target).map_err(of_target)?;
        if !replace && target.symlink_metadata().is_ok() {
            return Err(there_already(&target));
        }
        // A folder, or a device, which must not be replaced by a file.
        if target.metadata().is_ok_and(|there| !there.is_file()) || target.file_name().is_none() {
            return Err(Failed::usage(format!(
                "{} is not a file; name one, which need not be there",
                target.display()
            )));
        }
        let mut name = target.clone().into_os_string();
        name.push(".part");
        let path = PathBuf::from(name);
        let of_part = |e: io::Error| {
            Failed::usage(format!(
                "cannot write {}: {e}; its folder must exist, and be yours to write to",
                path.display()
            ))
        };
        // For nobody else: it holds what jobs were given, and what they printed. Emptied only when it is certain that nobody writes it.
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(of_part)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failed::usage(format!("{} is being written by another process", path.display())));
            }
            Err(TryLockError::Error(e)) => return Err(of_part(e)),
        }
        file.set_len(0).map_err(of_part)?;
        Ok(Part { file, path, target, replace, kept: false })
    }

    /// Where it is written.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Has it on the disk, under its own name.
    pub(super) fn keep(mut self) -> Result<u64, Failed> {
        let failed = |e: io::Error| Failed::other(format!("cannot write {}: {e}", self.target.display()));
        // By its name: whoever wrote it may have made it anew.
        let written = File::open(&self.path).map_err(failed)?;
        written.sync_all().map_err(failed)?;
        let bytes = written.metadata().map_err(failed)?.len();
        if self.replace {
            std::fs::rename(&self.path, &self.target).map_err(failed)?;
        } else {
            self.move_without_replacing().map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => there_already(&self.target),
                _ => failed(e),
            })?;
        }
        self.kept = true;
        if let Some(folder) = self.target.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(bytes)
    }

    fn move_without_replacing(&self) -> io::Result<()> {
        match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            // Not every file system can do that; a second name for the same file is never made over another one either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                std::fs::hard_link(&self.path, &self.target)?;
                std::fs::remove_file(&self.path)
            }
            moved => moved.map_err(io::Error::from),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %self.path.display(), %error, "cannot remove a file that was not finished");
        }
        // Only now: whoever waits for it must not find a file that is about to go.
        let _ = self.file.unlock();
    }
}

fn there_already(target: &Path) -> Failed {
    Failed::usage(format!("{} is there already; name another file, or replace it with `--force`", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_under_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("file");
        let part = Part::beside(&target, false).unwrap_or_else(|failed| panic!("{}", failed.message));
        assert!(Part::beside(&target, true).is_err(), "somebody writes it");
        std::fs::write(part.path(), "whole").expect("written");
        assert!(!target.exists());
        assert_eq!(part.keep().unwrap_or_else(|failed| panic!("{}", failed.message)), 5);
        assert_eq!(std::fs::read_to_string(&target).expect("a file"), "whole");
        assert!(Part::beside(&target, false).is_err_and(|failed| failed.message.contains("--force")));
        for other in [folder.path(), Path::new("/dev/null")] {
            assert!(Part::beside(other, true).is_err_and(|failed| failed.message.contains("is not a file")));
        }
    }

    #[test]
    fn nothing_is_left_of_one_that_nobody_keeps_and_none_is_replaced_by_chance() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("file");
        let names = || std::fs::read_dir(folder.path()).expect("a folder").count();
        drop(Part::beside(&target, false).ok());
        assert_eq!(names(), 0);
        let part = Part::beside(&target, false).unwrap_or_else(|failed| panic!("{}", failed.message));
        std::fs::write(&target, "somebody else's").expect("written");
        assert!(part.keep().is_err());
        assert_eq!((names(), std::fs::read_to_string(&target).expect("a file").as_str()), (1, "somebody else's"));
    }
}
