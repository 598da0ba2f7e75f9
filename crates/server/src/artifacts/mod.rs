//! Where sets of artifacts lie: one file each, in a folder that all servers of an installation share.
//!
//! ```text
//! ab/abcd….pack      a set that is stored: all of it, on disk, with the right hashes
//! ab/abcd….part      one that is coming: its manifest, and the bytes so far
//! ```
//!
//! A set is named by the hash of its manifest, so the same files are stored once, whoever leaves them. A part becomes a pack
//! by being renamed when its bytes are verified and synced. Nothing here changes a job: a step names its set in its row, with
//! its end, and what no row names for a day, or for two hours where room is wanted, is swept away ([`sweep`]).
//!
//! Called by the HTTP side, on threads that may wait for the disk.

mod installation;
mod sweep;
mod upload;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pack::{Layout, Manifest, ManifestError, PackError, SetId};
use protocol::artifacts::Have;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use installation::{InstallationError, id_of};
pub use sweep::{SWEEP_EVERY, SweepTerms, Swept, keep_swept};
pub use upload::Upload;

/// Uploads at once. Each has a thread that waits for its sender; others have to do with what is left of those.
pub const UPLOADS_MAX: usize = 64;

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
    places: Semaphore,
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
    /// A set was refused since stored ones take all the room: the next sweep need not wait for its hour.
    room_wanted: bool,
}

/// Nobody else writes to the set while it lives.
#[derive(Debug)]
struct Hold<'d> {
    depot: &'d Depot,
    id: SetId,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.depot.books().busy.remove(&self.id);
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error("the artifacts have {bytes} bytes, and a step may leave {max} (`artifacts.max_step_bytes`)")]
    SetTooLarge { bytes: u64, max: u64 },
    #[error(
        "the artifacts have {bytes} bytes, and of the {max} that all may have (`artifacts.max_bytes`) {used} are taken"
    )]
    Full { bytes: u64, used: u64, max: u64 },
    #[error(
        "the artifacts have {bytes} bytes, and others that are on their way want the rest of the {max} that all may have"
    )]
    Crowded { bytes: u64, max: u64 },
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
        make_folder(root, true)?;
        let (books, known, places) = (Mutex::default(), Mutex::default(), Semaphore::new(UPLOADS_MAX));
        let depot = Depot { root: root.to_owned(), limits, books, known, places };
        depot.recount()?;
        Ok(depot)
    }

    /// One of the places for those who send at the same time, for as long as it is kept; none if all are taken.
    pub fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// How much of the set is here. One that is here stays for at least two hours from now on, and for a day where there is room.
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
        let hold = self.hold(id)?;
        // It may have come while nobody was held up.
        match self.have(id) {
            Err(DepotError::Unknown) => {}
            known => return known,
        }
        let head = Layout::head(text);
        self.reserve(id, head.len() as u64 + bytes, bytes)?;
        match self.write_part(id, &head) {
            Ok(()) => {}
            // Another server, or whoever was here before us, was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return self.have_of_others(id),
            Err(error) => {
                self.books().coming.remove(&id);
                let _ = fs::remove_file(self.path(id, PART));
                return Err(error.into());
            }
        }
        drop(hold);
        if bytes == 0 {
            return self.upload(id, 0)?.finish();
        }
        Ok(Have { bytes: 0, stored: false })
    }

    fn have_of_others(&self, id: SetId) -> Result<Have, DepotError> {
        match self.have(id) {
            Err(DepotError::Unknown) => {
                // Its beginning is being written, or was lost with the power.
                let path = self.path(id, PART);
                let touched = fs::metadata(&path).and_then(|metadata| metadata.modified());
                let age = touched.ok().and_then(|touched| SystemTime::now().duration_since(touched).ok());
                if age.is_some_and(|age| age >= UNREADABLE_FOR) {
                    fs::remove_file(path)?;
                    self.books().coming.remove(&id);
                }
                Err(DepotError::Busy)
            }
            Ok(have) => {
                if have.stored {
                    self.books().coming.remove(&id);
                }
                Ok(have)
            }
            Err(error) => Err(error),
        }
    }

    fn hold(&self, id: SetId) -> Result<Hold<'_>, DepotError> {
        if !self.books().busy.insert(id) {
            return Err(DepotError::Busy);
        }
        Ok(Hold { depot: self, id })
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
        let length = file.metadata()?.len();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = match known.iter().find(|(known, _)| *known == id) {
            Some((_, layout)) => layout.clone(),
            None => match Layout::read(&mut file, id) {
                Ok(layout) => Arc::new(layout),
                Err(PackError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(self.drop_broken(id, length, "it ends before its list does"));
                }
                // It may be one that a newer version understands.
                Err(error) => return Err(DepotError::Damaged(error)),
            },
        };
        if length != layout.bytes() {
            known.retain(|(known, _)| *known != id);
            let why = format!("it has {length} bytes instead of {}", layout.bytes());
            return Err(self.drop_broken(id, length, &why));
        }
        if known.iter().all(|(known, _)| *known != id) {
            known.truncate(KNOWN_MAX - 1);
            known.insert(0, (id, layout.clone()));
        }
        Ok((file, layout))
    }

    /// What is stored, by this server's last count and what it has stored since.
    pub fn stored(&self) -> Stored {
        self.books().stored
    }

    /// A pack that never becomes a good one again: without it, somebody may bring the set anew.
    fn drop_broken(&self, id: SetId, length: u64, why: &str) -> DepotError {
        tracing::error!(set = %id, %why, "a stored set of artifacts is broken, and is removed");
        match fs::remove_file(self.path(id, PACK)) {
            Ok(()) => {
                let mut books = self.books();
                books.stored.sets = books.stored.sets.saturating_sub(1);
                books.stored.bytes = books.stored.bytes.saturating_sub(length);
                DepotError::Unknown
            }
            Err(error) if error.kind() == ErrorKind::NotFound => DepotError::Unknown,
            Err(error) => error.into(),
        }
    }

    /// Bytes of stored sets, and of those that are coming.
    pub fn used(&self) -> u64 {
        self.books().used()
    }

    /// Where all room is taken, what nobody has added to for a while makes way first.
    fn reserve(&self, id: SetId, room: u64, bytes: u64) -> Result<(), DepotError> {
        if self.take_room(id, room) {
            return Ok(());
        }
        if self.drop_idle_parts(SystemTime::now())? > 0 && self.take_room(id, room) {
            return Ok(());
        }
        let max = self.limits.bytes_max;
        let mut books = self.books();
        if books.stored.bytes.saturating_add(room) <= max {
            return Err(DepotError::Crowded { bytes, max });
        }
        books.room_wanted = true;
        Err(DepotError::Full { bytes, used: books.used(), max })
    }

    fn take_room(&self, id: SetId, room: u64) -> bool {
        let mut books = self.books();
        let fits = books.used().saturating_add(room) <= self.limits.bytes_max;
        if fits {
            books.coming.insert(id, room);
        }
        fits
    }

    fn write_part(&self, id: SetId, head: &[u8]) -> io::Result<()> {
        let path = self.path(id, PART);
        if let Some(folder) = path.parent() {
            match make_folder(folder, false) {
                // Or a set in it could be gone after a power cut.
                Ok(()) => File::open(&self.root)?.sync_all()?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
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
/// The beginning of a part is written in one go; one that cannot be read for so long never will be.
const UNREADABLE_FOR: Duration = Duration::from_secs(60);

const PACK: &str = "pack";
const PART: &str = "part";
/// Behind either: it is about to be removed.
const GONE: &str = "gone";

impl Books {
    fn used(&self) -> u64 {
        self.coming.values().fold(self.stored.bytes, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// What steps leave is nobody else's business.
fn make_folder(folder: &Path, with_parents: bool) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(with_parents).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests;
