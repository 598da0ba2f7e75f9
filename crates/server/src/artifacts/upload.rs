//! Bytes of a set that is coming, from one sender at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use pack::{Layout, PackError, SetId, verify};
use protocol::artifacts::Have;

use super::{Depot, DepotError, Hold, PACK, PART};

/// Ends when it is dropped; what was written stays, and the next sender goes on from there.
#[derive(Debug)]
pub struct Upload<'d> {
    depot: &'d Depot,
    id: SetId,
    _hold: Hold<'d>,
    file: File,
    layout: Layout,
    /// The place of the next byte among those of the files.
    at: u64,
}

impl<'d> Upload<'d> {
    pub(super) fn begin(depot: &'d Depot, id: SetId, from: u64) -> Result<Upload<'d>, DepotError> {
        let hold = depot.hold(id)?;
        let (file, layout) = open(depot, id, from)?;
        Ok(Upload { depot, id, _hold: hold, file, layout, at: from })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DepotError> {
        if self.at.saturating_add(bytes.len() as u64) > self.layout.manifest.bytes() {
            return Err(DepotError::TooMuch);
        }
        self.file.write_all_at(bytes, self.layout.offset + self.at)?;
        self.at += bytes.len() as u64;
        pause::at(pause::Point::ArtifactsComing);
        Ok(())
    }

    /// Says how much is here now. With its last byte the set is verified, synced and stored, or thrown away.
    pub fn finish(mut self) -> Result<Have, DepotError> {
        if self.at < self.layout.manifest.bytes() {
            return Ok(Have { bytes: self.at, stored: false });
        }
        match self.verify() {
            Ok(()) => {}
            Err(PackError::Io(error)) => return Err(error.into()),
            Err(PackError::Differs(path)) => {
                fs::remove_file(self.depot.path(self.id, PART))?;
                self.depot.books().coming.remove(&self.id);
                return Err(DepotError::Differs(path));
            }
            Err(error) => return Err(DepotError::Damaged(error)),
        }
        self.file.sync_all()?;
        let (part, pack) = (self.depot.path(self.id, PART), self.depot.path(self.id, PACK));
        // What lies there by now may be another server's, begun anew: only what was verified gets the name.
        let (ours, there) = (self.file.metadata()?, fs::metadata(&part)?);
        if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) || there.len() != self.layout.bytes() {
            return Err(DepotError::Busy);
        }
        fs::rename(&part, &pack)?;
        if let Some(folder) = pack.parent() {
            File::open(folder)?.sync_all()?;
        }
        let mut books = self.depot.books();
        books.coming.remove(&self.id);
        books.stored.sets += 1;
        books.stored.bytes = books.stored.bytes.saturating_add(self.layout.bytes());
        drop(books);
        pause::at(pause::Point::ArtifactsStored);
        Ok(Have { bytes: self.at, stored: true })
    }

    fn verify(&mut self) -> Result<(), PackError> {
        self.file.seek(SeekFrom::Start(self.layout.offset))?;
        verify(&self.layout.manifest, &mut (&self.file).take(self.layout.manifest.bytes()))
    }
}

fn open(depot: &Depot, id: SetId, from: u64) -> Result<(File, Layout), DepotError> {
    let Some((layout, length)) = depot.part(id)? else { return Err(DepotError::Unknown) };
    let have = length.saturating_sub(layout.offset);
    if from > have {
        return Err(DepotError::Gap { from, have });
    }
    let file = OpenOptions::new().read(true).write(true).open(depot.path(id, PART));
    match file {
        Ok(file) => Ok((file, layout)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DepotError::Unknown),
        Err(error) => Err(error.into()),
    }
}
