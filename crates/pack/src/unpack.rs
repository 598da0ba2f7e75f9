//! A set's files, written below a folder and never elsewhere, each whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::layout::{Layout, PackError};
use crate::manifest::{FileEntry, SetId, hex, is_inner_path};

const READ_BYTES: usize = 256 * 1024;
/// Files that this process has begun to write.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Error)]
pub enum UnpackError {
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("`{0}` is no path within a folder")]
    BadPath(String),
    #[error("`{path}` has a link in it, {link:?}: nothing is written through links")]
    Link { path: String, link: PathBuf },
    #[error("`{0}` is not what its hash says")]
    Differs(String),
    #[error("cannot write {path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Writes all files of the pack below `root`, which must be there. Says how many.
pub fn unpack(pack: &mut impl Read, id: SetId, root: &Path) -> Result<usize, UnpackError> {
    let layout = Layout::read(pack, id)?;
    for file in &layout.manifest.files {
        place_file(root, file, &mut pack.take(file.size))?;
    }
    Ok(layout.manifest.files.len())
}

/// Writes one file below `root`: under another name first, and under its own once its hash is right.
pub fn place_file(root: &Path, file: &FileEntry, bytes: &mut impl Read) -> Result<PathBuf, UnpackError> {
    if !is_inner_path(&file.path) {
        return Err(UnpackError::BadPath(file.path.clone()));
    }
    let target = root.join(&file.path);
    let folder = make_folders(root, &file.path)?;
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let short: String = name.chars().take(60).collect();
    // Nobody else writes to it, not even another attempt of this very process in the same folder.
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{short}.{}-{number}.part", std::process::id()));
    let written = write(&temporary, file, bytes);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    fs::rename(&temporary, &target).map_err(|source| {
        let _ = fs::remove_file(&temporary);
        UnpackError::Io { path: target.clone(), source }
    })?;
    Ok(target)
}

/// The folders that lead to the file. Each must be a real one.
fn make_folders(root: &Path, path: &str) -> Result<PathBuf, UnpackError> {
    let mut folder = root.to_owned();
    let names: Vec<&str> = path.split('/').collect();
    for name in &names[..names.len() - 1] {
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_symlink() => {
                return Err(UnpackError::Link { path: path.to_owned(), link: folder });
            }
            Ok(_) => {
                let source = io::ErrorKind::NotADirectory.into();
                return Err(UnpackError::Io { path: folder, source });
            }
            Err(_) => match fs::create_dir(&folder) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(UnpackError::Io { path: folder, source }),
            },
        }
    }
    Ok(folder)
}

fn write(temporary: &Path, file: &FileEntry, bytes: &mut impl Read) -> Result<(), UnpackError> {
    let failed = |source| UnpackError::Io { path: temporary.to_owned(), source };
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    set_mode(&mut options, file.executable);
    let mut output: File = options.open(temporary).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES.min(usize::try_from(file.size).unwrap_or(READ_BYTES).max(1))];
    let mut size = 0;
    loop {
        let read = bytes.read(&mut buffer).map_err(|error| UnpackError::Pack(error.into()))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        output.write_all(&buffer[..read]).map_err(failed)?;
        size += read as u64;
    }
    if size != file.size || hex(&hasher.finalize()) != file.sha256 {
        return Err(UnpackError::Differs(file.path.clone()));
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(options: &mut fs::OpenOptions, executable: bool) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(if executable { 0o755 } else { 0o644 });
}

#[cfg(not(unix))]
fn set_mode(_: &mut fs::OpenOptions, _: bool) {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::{Contents, Glob, Limits, Rule, collect, verify};

    fn packed(root: &Path) -> (Vec<u8>, SetId) {
        let rule = Rule { globs: vec![Glob::parse("**").expect("good")], optional: false };
        let manifest = collect(root, &rule, Limits { files_max: 100, bytes_max: 1 << 20 }).expect("good");
        let (text, id) = manifest.encode();
        let mut pack = Layout::head(&text);
        Contents::new(root, &manifest, 0).and_then(|mut c| c.read_to_end(&mut pack)).expect("readable");
        (pack, id)
    }

    fn some_files() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("bin/deep")).expect("writable");
        fs::write(root.path().join("bin/app"), "#!/bin/sh").expect("writable");
        fs::set_permissions(root.path().join("bin/app"), fs::Permissions::from_mode(0o755)).expect("mine");
        fs::write(root.path().join("bin/deep/empty"), "").expect("writable");
        root
    }

    #[test]
    fn what_was_packed_comes_out_again() {
        let (from, to) = (some_files(), tempfile::tempdir().expect("a folder"));
        let (pack, id) = packed(from.path());
        assert_eq!(unpack(&mut pack.as_slice(), id, to.path()).expect("good"), 2);
        assert_eq!(packed(to.path()), (pack.clone(), id), "the same set");
        let mut reader = pack.as_slice();
        let layout = Layout::read(&mut reader, id).expect("good");
        assert_eq!(layout.bytes(), pack.len() as u64);
        verify(&layout.manifest, &mut reader).expect("right");
    }

    #[test]
    fn changed_bytes_and_short_packs_are_noticed_and_leave_nothing() {
        let from = some_files();
        let (mut pack, id) = packed(from.path());
        *pack.last_mut().expect("it has some") ^= 1;
        let to = tempfile::tempdir().expect("a folder");
        assert!(matches!(unpack(&mut pack.as_slice(), id, to.path()), Err(UnpackError::Differs(_))));
        pack.pop();
        assert!(unpack(&mut pack.as_slice(), id, to.path()).is_err());
        assert_eq!(fs::read_dir(to.path().join("bin")).expect("there").count(), 0, "nothing half-written stays");
    }

    #[test]
    fn nothing_is_written_through_links() {
        let from = some_files();
        let (pack, id) = packed(from.path());
        let (to, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        symlink(elsewhere.path(), to.path().join("bin")).expect("writable");
        assert!(matches!(unpack(&mut pack.as_slice(), id, to.path()), Err(UnpackError::Link { .. })));
        assert_eq!(fs::read_dir(elsewhere.path()).expect("there").count(), 0);
        // A link in the place of the file itself is replaced, not followed.
        fs::remove_file(to.path().join("bin")).expect("mine");
        fs::create_dir(to.path().join("bin")).expect("writable");
        fs::write(elsewhere.path().join("victim"), "kept").expect("writable");
        symlink(elsewhere.path().join("victim"), to.path().join("bin/app")).expect("writable");
        unpack(&mut pack.as_slice(), id, to.path()).expect("good");
        assert_eq!(fs::read_to_string(elsewhere.path().join("victim")).expect("there"), "kept");
        assert_eq!(fs::read_to_string(to.path().join("bin/app")).expect("there"), "#!/bin/sh");
    }

    /// In a folder that is not their own, two attempts may fetch the same files at once.
    #[test]
    fn two_that_write_the_same_file_at_once_do_not_meet() {
        let from = some_files();
        let (pack, id) = packed(from.path());
        let layout = Layout::read(&mut pack.as_slice(), id).expect("good");
        let app = &layout.manifest.files[0];
        let to = tempfile::tempdir().expect("a folder");
        /// Another one comes and goes while the first has read half.
        struct Half<'a> {
            bytes: &'a [u8],
            meanwhile: Option<Box<dyn FnOnce() + 'a>>,
        }
        impl Read for Half<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if let Some(meanwhile) = self.meanwhile.take() {
                    let read = self.bytes.read(&mut buffer[..4])?;
                    meanwhile();
                    return Ok(read);
                }
                self.bytes.read(buffer)
            }
        }
        let other = || drop(place_file(to.path(), app, &mut &b"#!/bin/sh"[..]).expect("good"));
        let mut first = Half { bytes: b"#!/bin/sh", meanwhile: Some(Box::new(other)) };
        place_file(to.path(), app, &mut first).expect("nobody took it away");
        assert_eq!(fs::read_to_string(to.path().join("bin/app")).expect("there"), "#!/bin/sh");
        assert_eq!(fs::read_dir(to.path().join("bin")).expect("there").count(), 1);
    }
}
