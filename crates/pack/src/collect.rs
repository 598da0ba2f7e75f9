//! Finding the files that globs mean, below one folder and nowhere else, and hashing them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::glob::Glob;
use crate::manifest::{FILES_MAX, FileEntry, Manifest, PATH_BYTES_MAX, hex};

/// So many names are looked at in search of files; more is a mistake in the pattern.
const NAMES_MAX: usize = 2_000_000;
/// One read while hashing.
const READ_BYTES: usize = 256 * 1024;

/// Which files a step leaves behind for others.
#[derive(Debug, Clone)]
pub struct Rule {
    pub globs: Vec<Glob>,
    /// A glob that means no file is nothing to speak of.
    pub optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub files_max: usize,
    pub bytes_max: u64,
}

/// What is wrong goes to the job's error, and from there to everybody: it names what the task says, and no name that a step has made, in
/// which there may be a secret.
#[derive(Debug, Error)]
pub enum CollectError {
    #[error("`{0}` matches no file")]
    Nothing(String),
    #[error("there are more than {0} files")]
    ManyFiles(usize),
    #[error("they have {bytes} bytes, and a step may leave {max}")]
    Large { bytes: u64, max: u64 },
    #[error("`{0}` matches a link that leads out of the working folder")]
    Escapes(String),
    #[error("`{0}` matches a file whose name is not UTF-8, or too long")]
    BadName(String),
    #[error("the search went through more than {NAMES_MAX} names")]
    Endless,
    #[error("cannot read the folder that the step worked in, {path:?}: {source}")]
    NoFolder { path: PathBuf, source: io::Error },
    #[error("what `{glob}` matches cannot be read: {source}")]
    Io { glob: String, source: io::Error },
}

/// Looks for the files below `root` and says what they are.
pub fn collect(root: &Path, rule: &Rule, limits: Limits) -> Result<Manifest, CollectError> {
    let limits = Limits { files_max: limits.files_max.min(FILES_MAX), ..limits };
    let root = fs::canonicalize(root).map_err(|source| CollectError::NoFolder { path: root.to_owned(), source })?;
    let mut search = Search { root: &root, glob: "", found: BTreeMap::new(), names: 0, limits };
    for glob in &rule.globs {
        search.glob = glob.text();
        let before = search.found.len();
        let seen = search.look(&root, "", Some((glob, &glob.start())))?;
        if seen == 0 && search.found.len() == before && !rule.optional {
            return Err(CollectError::Nothing(glob.text().to_owned()));
        }
    }
    let total: u64 = search.found.values().fold(0, |sum, file| sum.saturating_add(file.size));
    if total > limits.bytes_max {
        return Err(CollectError::Large { bytes: total, max: limits.bytes_max });
    }
    let mut files = Vec::with_capacity(search.found.len());
    for (path, file) in search.found {
        let (size, sha256) = hash(&file.place).map_err(|source| CollectError::Io { glob: file.glob, source })?;
        files.push(FileEntry { path, size, sha256, executable: file.executable });
    }
    Ok(Manifest::new(files))
}

struct Found {
    /// What it was found by.
    glob: String,
    /// Where it really lies.
    place: PathBuf,
    size: u64,
    executable: bool,
}

struct Search<'a> {
    root: &'a Path,
    /// What is looked for at the moment.
    glob: &'a str,
    found: BTreeMap<String, Found>,
    names: usize,
    limits: Limits,
}

impl Search<'_> {
    /// How many files of the folder are meant. Without a glob all are. Folders that are links are not entered.
    fn look(&mut self, folder: &Path, inner: &str, glob: Option<(&Glob, &[usize])>) -> Result<usize, CollectError> {
        let text = self.glob;
        let failed = |source| CollectError::Io { glob: text.to_owned(), source };
        let mut seen = 0;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.names += 1;
            if self.names > NAMES_MAX {
                return Err(CollectError::Endless);
            }
            let file_name = entry.file_name();
            // Only what is meant must have a name that can be told.
            let name = file_name.to_str();
            let (meant, next) = match glob {
                None => (true, Vec::new()),
                Some((glob, places)) => {
                    let next = glob.step(places, &file_name.to_string_lossy());
                    (glob.is_end(&next), next)
                }
            };
            if !meant && next.is_empty() {
                continue;
            }
            let path = entry.path();
            let name = name.ok_or_else(|| CollectError::BadName(text.to_owned()))?;
            let inner = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
            if inner.len() > PATH_BYTES_MAX {
                return Err(CollectError::BadName(text.to_owned()));
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                let deeper = glob.filter(|_| !meant).map(|(glob, _)| (glob, next.as_slice()));
                seen += self.look(&path, &inner, deeper)?;
            } else if meant {
                seen += usize::from(self.take(path, inner, kind.is_symlink())?);
            }
        }
        Ok(seen)
    }

    /// Whether it is a file; sockets and the like are none. A link counts as what it leads to.
    fn take(&mut self, path: PathBuf, inner: String, is_link: bool) -> Result<bool, CollectError> {
        let place = if is_link { self.follow(&path)? } else { Some(path) };
        let Some(place) = place else { return Ok(false) };
        let metadata = match fs::symlink_metadata(&place) {
            Ok(metadata) => metadata,
            // Removed since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(self.cannot_read(source)),
        };
        if !metadata.is_file() {
            return Ok(false);
        }
        let found =
            Found { glob: self.glob.to_owned(), place, size: metadata.len(), executable: is_executable(&metadata) };
        self.found.insert(inner, found);
        if self.found.len() > self.limits.files_max {
            return Err(CollectError::ManyFiles(self.limits.files_max));
        }
        Ok(true)
    }

    /// Where a link leads. None: nowhere, or to a folder.
    fn follow(&self, path: &Path) -> Result<Option<PathBuf>, CollectError> {
        match fs::canonicalize(path) {
            Ok(place) if !place.starts_with(self.root) => Err(CollectError::Escapes(self.glob.to_owned())),
            Ok(place) => Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.cannot_read(source)),
        }
    }

    fn cannot_read(&self, source: io::Error) -> CollectError {
        CollectError::Io { glob: self.glob.to_owned(), source }
    }
}

fn hash(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut size = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((size, hex(&hasher.finalize())));
        }
        hasher.update(&buffer[..read]);
        size += read as u64;
    }
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const LIMITS: Limits = Limits { files_max: 100, bytes_max: 1000 };

    fn rule(globs: &[&str]) -> Rule {
        Rule { globs: globs.iter().map(|glob| Glob::parse(glob).expect("good")).collect(), optional: false }
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        root
    }

    fn paths(manifest: &Manifest) -> Vec<&str> {
        manifest.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn files_are_found_and_hashed() {
        let root = tree(&[("out/app", "abc"), ("out/sub/x.txt", ""), ("other", "")]);
        fs::set_permissions(root.path().join("out/app"), fs::Permissions::from_mode(0o755)).expect("mine");
        let manifest = collect(root.path(), &rule(&["out", "out/*.txt", "**/*.txt"][..1]), LIMITS).expect("good");
        assert_eq!(paths(&manifest), ["out/app", "out/sub/x.txt"]);
        assert!(manifest.files[0].executable && !manifest.files[1].executable);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((manifest.files[0].size, manifest.files[0].sha256.as_str()), (3, abc));
        // One that another glob has already found counts for both.
        let both = collect(root.path(), &rule(&["**/*.txt", "out/sub"]), LIMITS).expect("good");
        assert_eq!(paths(&both), ["out/sub/x.txt"]);
    }

    #[test]
    fn a_glob_that_means_nothing_is_told_unless_it_may() {
        let root = tree(&[("a", "")]);
        let error = collect(root.path(), &rule(&["a", "b/*"]), LIMITS).expect_err("b is not there");
        assert_eq!(error.to_string(), "`b/*` matches no file");
        let optional = Rule { optional: true, ..rule(&["b/*"]) };
        assert!(collect(root.path(), &optional, LIMITS).expect("good").files.is_empty());
    }

    #[test]
    fn links_are_followed_within_the_folder_and_not_out_of_it() {
        let root = tree(&[("real/file", "x")]);
        symlink("real/file", root.path().join("inside")).expect("writable");
        symlink("real", root.path().join("folder")).expect("writable");
        symlink("nowhere", root.path().join("dangling")).expect("writable");
        let manifest = collect(root.path(), &rule(&["*"]), LIMITS).expect("good");
        assert_eq!(paths(&manifest), ["inside", "real/file"]);
        symlink("/etc/passwd", root.path().join("outside")).expect("writable");
        let error = collect(root.path(), &rule(&["out*"]), LIMITS).expect_err("it leads out");
        assert_eq!(error.to_string(), "`out*` matches a link that leads out of the working folder");
    }

    /// A step may have put a secret into a name.
    #[test]
    fn no_error_tells_a_name_that_the_step_made() {
        use std::os::unix::ffi::OsStrExt;
        let root = tree(&[("made/s3cret/closed", "x")]);
        symlink("/etc/passwd", root.path().join("made/s3cret/link")).expect("writable");
        let told = |root: &Path| collect(root, &rule(&["made"]), LIMITS).expect_err("it cannot be kept").to_string();
        assert!(!told(root.path()).contains("s3cret"), "{}", told(root.path()));
        fs::remove_file(root.path().join("made/s3cret/link")).expect("mine");
        fs::write(root.path().join("made").join(std::ffi::OsStr::from_bytes(b"s3cret\xff")), "").expect("writable");
        assert!(!told(root.path()).contains("s3cret"), "{}", told(root.path()));
    }

    #[test]
    fn what_goes_while_it_is_looked_for_is_not_there() {
        let root = tree(&[("a", "1")]);
        let mut search = Search { root: root.path(), glob: "*", found: BTreeMap::new(), names: 0, limits: LIMITS };
        let taken = search.take(root.path().join("gone"), "gone".to_owned(), false);
        assert!(matches!(taken, Ok(false)), "{taken:?}");
    }

    #[test]
    fn limits_hold_before_anything_is_read() {
        let root = tree(&[("a", "12345"), ("b", "12345")]);
        let few = Limits { files_max: 1, ..LIMITS };
        assert!(matches!(collect(root.path(), &rule(&["*"]), few), Err(CollectError::ManyFiles(1))));
        let small = Limits { bytes_max: 9, ..LIMITS };
        let error = collect(root.path(), &rule(&["*"]), small).expect_err("too large");
        assert_eq!(error.to_string(), "they have 10 bytes, and a step may leave 9");
    }
}
