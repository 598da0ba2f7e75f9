//! The bytes of all files of a set, one after the other, from any place on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::manifest::Manifest;

/// A reader over the files below a folder, in the order of their manifest. A file that is shorter than its entry says is an error:
/// somebody has changed it.
#[derive(Debug)]
pub struct Contents {
    root: PathBuf,
    /// Those that are left, the next one last.
    files: Vec<(String, u64)>,
    open: Option<(File, u64)>,
}

impl Contents {
    /// From the byte `from` of all of them on.
    pub fn new(root: &Path, manifest: &Manifest, from: u64) -> io::Result<Contents> {
        let mut files: Vec<(String, u64)> =
            manifest.files.iter().rev().map(|file| (file.path.clone(), file.size)).collect();
        let mut skip = from;
        while let Some((_, size)) = files.last()
            && *size <= skip
        {
            skip -= *size;
            files.pop();
        }
        let mut contents = Contents { root: root.to_owned(), files, open: None };
        if skip > 0 && contents.next_file()? {
            contents.skip(skip)?;
        }
        Ok(contents)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        if let Some((file, left)) = &mut self.open {
            file.seek(SeekFrom::Start(bytes))?;
            *left -= bytes;
        }
        Ok(())
    }

    fn next_file(&mut self) -> io::Result<bool> {
        let Some((path, size)) = self.files.pop() else { return Ok(false) };
        let file = File::open(self.root.join(&path))
            .map_err(|error| io::Error::new(error.kind(), format!("one of the files cannot be read: {error}")))?;
        self.open = Some((file, size));
        Ok(true)
    }
}

impl Read for Contents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some((file, left)) = self.open.as_mut().filter(|(_, left)| *left > 0) else {
                if !self.next_file()? {
                    return Ok(0);
                }
                continue;
            };
            let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
            let read = file.read(&mut buffer[..most])?;
            if read == 0 && most > 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file has become shorter"));
            }
            *left -= read as u64;
            return Ok(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::manifest::FileEntry;

    #[test]
    fn bytes_come_from_any_place_on() {
        let root = tempfile::tempdir().expect("a folder");
        let texts = [("a", "one"), ("b", ""), ("c", "two"), ("d", "three")];
        let entry = |(path, text): (&str, &str)| {
            fs::write(root.path().join(path), text).expect("writable");
            FileEntry { path: path.to_owned(), size: text.len() as u64, sha256: String::new(), executable: false }
        };
        let manifest = Manifest::new(texts.map(entry).to_vec());
        let whole = b"onetwothree";
        for from in 0..=whole.len() {
            let mut read = Vec::new();
            let mut contents = Contents::new(root.path(), &manifest, from as u64).expect("there");
            contents.read_to_end(&mut read).expect("readable");
            assert_eq!(read, &whole[from..], "from {from}");
        }
        fs::write(root.path().join("d"), "thr").expect("writable");
        let mut contents = Contents::new(root.path(), &manifest, 0).expect("there");
        assert!(contents.read_to_end(&mut Vec::new()).is_err(), "it has become shorter");
    }
}
