//! Where sets of artifacts lie: one file each, in a folder that all servers of an installation share.
//!
//! ```text
//! ab/abcd….pack      a set that is stored: all of it, on disk, with the right hashes
//! ab/abcd….part      one that is coming: its manifest, and the bytes so far
//! ```
//!
//! A set is named by the hash of its manifest, so the same files are stored once, whoever leaves them. A part becomes a pack
//! by being renamed when its bytes are verified and synced. Nothing here changes a job: a step names its set in its row, with
//! its end, and what no row names for a day is swept away ([`sweep`]).
//!
//! Called by the HTTP side, on threads that may wait for the disk.

mod sweep;
mod upload;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, FileTimes};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use pack::{Layout, Manifest, ManifestError, PackError, SetId};
use protocol::artifacts::Have;

pub use sweep::{SWEEP_EVERY, Swept, keep_swept};
pub use upload::Upload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepotLimits {
    /// All sets together, those that are coming included.
    pub bytes_max: u64,
    /// One set.
    pub set_bytes_max: u64,
}

#[derive(Debug)]
pub struct Depot {
    root: PathBuf,
    limits: DepotLimits,
    books: Mutex<Books>,
    /// What packs hold that were asked for of late: one with many files is asked for many times. Packs never change.
    known: Mutex<Vec<(SetId, Arc<Layout>)>>,
}

/// Sets that are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    pub sets: u64,
    pub bytes: u64,
}

/// What is there, as far as this server has counted.
#[derive(Debug, Default)]
struct Books {
    stored: Stored,
    /// Sets that are coming, each with all the room that it will take.
    coming: HashMap<SetId, u64>,
    /// Sets to which somebody is writing at this moment.
    busy: HashSet<SetId>,
}

#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error("the artifacts have {bytes} bytes, and a step may leave {max} (`artifacts.max_step_bytes`)")]
    SetTooLarge { bytes: u64, max: u64 },
    #[error(
        "the artifacts have {bytes} bytes, and of the {max} that all may have (`artifacts.max_bytes`) {used} are taken"
    )]
    Full { bytes: u64, used: u64, max: u64 },
    #[error("the manifest cannot be taken: {0}")]
    Manifest(#[from] ManifestError),
    #[error("nothing is known of this set; say first what it holds")]
    Unknown,
    #[error("bytes from {from} on were sent, and only {have} are here")]
    Gap { from: u64, have: u64 },
    #[error("more bytes were sent than the set has")]
    TooMuch,
    #[error("somebody else is sending this set at the moment")]
    Busy,
    #[error("`{0}` is not what its hash says")]
    Differs(String),
    #[error("the stored pack cannot be read: {0}")]
    Damaged(PackError),
    #[error("the folder of artifacts cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl Depot {
    /// Uses the folder, which is made if it is not there.
    pub fn open(root: &Path, limits: DepotLimits) -> io::Result<Depot> {
        make_folder(root)?;
        let depot = Depot { root: root.to_owned(), limits, books: Mutex::default(), known: Mutex::default() };
        depot.recount()?;
        Ok(depot)
    }

    /// How much of the set is here. One that is here stays for at least a day from now on.
    pub fn have(&self, id: SetId) -> Result<Have, DepotError> {
        if let Some(bytes) = self.touch(id)? {
            return Ok(Have { bytes, stored: true });
        }
        match self.part(id)? {
            Some((layout, length)) => Ok(Have { bytes: length.saturating_sub(layout.offset), stored: false }),
            None => Err(DepotError::Unknown),
        }
    }

    /// Makes room for a set that is coming, or says how much of it is here already.
    pub fn announce(&self, id: SetId, text: &[u8]) -> Result<Have, DepotError> {
        let manifest = Manifest::decode(text, id)?;
        let bytes = manifest.bytes();
        if bytes > self.limits.set_bytes_max {
            return Err(DepotError::SetTooLarge { bytes, max: self.limits.set_bytes_max });
        }
        match self.have(id) {
            Err(DepotError::Unknown) => {}
            known => return known,
        }
        let head = Layout::head(text);
        self.reserve(id, head.len() as u64 + bytes, bytes)?;
        let written = self.write_part(id, &head);
        if written.is_err() {
            self.books().coming.remove(&id);
            let _ = fs::remove_file(self.path(id, PART));
        }
        written?;
        if bytes == 0 {
            return self.upload(id, 0)?.finish();
        }
        Ok(Have { bytes: 0, stored: false })
    }

    /// A way to add bytes from the `from`th on; nobody else can meanwhile.
    pub fn upload(&self, id: SetId, from: u64) -> Result<Upload<'_>, DepotError> {
        Upload::begin(self, id, from)
    }

    /// A stored set, and what it holds. The file stands anywhere.
    pub fn read(&self, id: SetId) -> Result<(File, Arc<Layout>), DepotError> {
        let mut file = match File::open(self.path(id, PACK)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(DepotError::Unknown),
            Err(error) => return Err(error.into()),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, layout)) = known.iter().find(|(known, _)| *known == id) {
            return Ok((file, layout.clone()));
        }
        let layout = Arc::new(Layout::read(&mut file, id).map_err(DepotError::Damaged)?);
        known.truncate(KNOWN_MAX - 1);
        known.insert(0, (id, layout.clone()));
        Ok((file, layout))
    }

    /// What is stored, by this server's last count and what it has stored since.
    pub fn stored(&self) -> Stored {
        self.books().stored
    }

    /// Bytes of stored sets, and of those that are coming.
    pub fn used(&self) -> u64 {
        self.books().used()
    }

    fn reserve(&self, id: SetId, room: u64, bytes: u64) -> Result<(), DepotError> {
        let mut books = self.books();
        let used = books.used();
        if used.saturating_add(room) > self.limits.bytes_max {
            return Err(DepotError::Full { bytes, used, max: self.limits.bytes_max });
        }
        books.coming.insert(id, room);
        Ok(())
    }

    fn write_part(&self, id: SetId, head: &[u8]) -> io::Result<()> {
        let path = self.path(id, PART);
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        let mut file = File::create(path)?;
        file.write_all(head)
    }

    /// What has come of the set so far, with the part's length. One whose beginning cannot be read is none.
    fn part(&self, id: SetId) -> io::Result<Option<(Layout, u64)>> {
        let path = self.path(id, PART);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        Ok(Layout::read(&mut file, id).ok().map(|layout| (layout, length)))
    }

    /// The stored set's bytes; none if it is not stored. The sweep takes another look at the time before it removes anything.
    fn touch(&self, id: SetId) -> Result<Option<u64>, DepotError> {
        match File::open(self.path(id, PACK)) {
            Ok(file) => file.set_times(FileTimes::new().set_modified(SystemTime::now()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // It may have gone in this very moment.
        match self.read(id) {
            Ok((_, layout)) => Ok(Some(layout.manifest.bytes())),
            Err(DepotError::Unknown) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path(&self, id: SetId, kind: &str) -> PathBuf {
        let name = id.to_string();
        self.root.join(&name[..2]).join(format!("{name}.{kind}"))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic while it was held cannot have left it half-changed.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list of twenty thousand files takes a few megabytes.
const KNOWN_MAX: usize = 8;

const PACK: &str = "pack";
const PART: &str = "part";

impl Books {
    fn used(&self) -> u64 {
        self.coming.values().fold(self.stored.bytes, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// What steps leave is nobody else's business.
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests;
