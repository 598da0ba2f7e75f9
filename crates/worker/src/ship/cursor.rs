//! Reads one attempt's log from its segment files, from any line on, while the runner still writes it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use protocol::folder::{LOG_FOLDER, segment_name, segment_number};
use protocol::link::MissingCause;
use protocol::log::{BLOCK_BYTES_MAX, Block, Blocks, LogError, Span, trim_to};

/// A place in a log. Opening it costs nothing; files are opened when there is something to read.
#[derive(Debug)]
pub(crate) struct Cursor {
    folder: PathBuf,
    segment: Option<Segment>,
    next_seq: u64,
    /// What took the lines before the next piece, if some are missing.
    cause: MissingCause,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    file: File,
    offset: u64,
}

/// Some whole blocks whose lines follow each other without a gap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) span: Span,
    pub(crate) blocks: Vec<u8>,
    /// Why lines are missing before it; without meaning where none are.
    pub(crate) cause: MissingCause,
}

impl Cursor {
    /// Begins after line `after_seq` of the attempt in `attempt_folder`.
    pub(crate) fn new(attempt_folder: &Path, after_seq: u64) -> Self {
        let (folder, next_seq) = (attempt_folder.join(LOG_FOLDER), after_seq.saturating_add(1));
        Cursor { folder, segment: None, next_seq, cause: MissingCause::Unwritten }
    }

    /// The number of the next line to read, unless that one is missing.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The next lines, in at most one block's greatest size; `None` if there are no more for now. `buffer` is only
    /// lent, so that many cursors need one.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        loop {
            if self.segment.is_none() && !self.open()? {
                return Ok(None);
            }
            match self.read_segment(buffer)? {
                Progress::Piece(piece) => return Ok(Some(piece)),
                Progress::Skipped => {}
                Progress::Nothing => {
                    // The next segment is looked for first, and this one read again: what was written to it before
                    // the runner went on to the next is then surely seen.
                    let Some(next) = self.following()? else { return Ok(None) };
                    match self.read_segment(buffer)? {
                        Progress::Piece(piece) => return Ok(Some(piece)),
                        Progress::Skipped => {}
                        Progress::Nothing => self.move_on(next)?,
                    }
                }
            }
        }
    }

    /// Reads from the current segment and moves on within it.
    fn read_segment(&mut self, buffer: &mut Vec<u8>) -> io::Result<Progress> {
        let Some(segment) = &mut self.segment else { return Ok(Progress::Nothing) };
        fill(&segment.file, segment.offset, buffer)?;
        let (mut skipped, mut taken) = (0, 0);
        let mut span: Option<Span> = None;
        for block in Blocks::new(buffer) {
            let block = match block {
                Ok(block) => block,
                Err(LogError::Incomplete { .. } | LogError::Gap { .. }) => break,
                Err(error) => {
                    if taken + skipped == 0 {
                        tracing::warn!(folder = %self.folder.display(), segment = segment.number, %error, "the rest of a log segment is skipped");
                    }
                    if taken == 0 && self.cause == MissingCause::Unwritten {
                        self.cause = MissingCause::Damaged;
                    }
                    break;
                }
            };
            match &mut span {
                None if block.last_seq() < self.next_seq => {
                    skipped += block.bytes().len();
                    continue;
                }
                None => span = Some(Span { first_seq: block.first_seq(), last_seq: block.last_seq() }),
                Some(span) if block.first_seq() == span.last_seq + 1 => span.last_seq = block.last_seq(),
                Some(_) => break,
            }
            taken += block.bytes().len();
        }
        segment.offset += (skipped + taken) as u64;
        let Some(mut span) = span else {
            return Ok(if skipped > 0 { Progress::Skipped } else { Progress::Nothing });
        };
        let blocks = &buffer[skipped..skipped + taken];
        let blocks =
            trim_to(blocks, self.next_seq - 1).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        span.first_seq = span.first_seq.max(self.next_seq);
        self.next_seq = span.last_seq + 1;
        let cause = std::mem::replace(&mut self.cause, MissingCause::Unwritten);
        Ok(Progress::Piece(Piece { span, blocks: blocks.into_owned(), cause }))
    }

    /// Opens the segment that holds the next line, or the first one after it. `false`: there is no segment yet.
    fn open(&mut self) -> io::Result<bool> {
        let numbers = segments(&self.folder)?;
        let mut chosen = numbers.first().copied();
        // Backwards, since a resumed log is mostly acknowledged.
        if self.next_seq > 1 {
            for number in numbers.iter().rev() {
                if first_block_seq(&self.folder, *number)?.is_some_and(|first_seq| first_seq <= self.next_seq) {
                    chosen = Some(*number);
                    break;
                }
            }
        }
        let Some(number) = chosen else { return Ok(false) };
        if number > 1 && numbers.first() == chosen.as_ref() {
            // The segments before this one were there once: the log outgrew its limit.
            self.cause = MissingCause::Limit;
        }
        self.segment = open_segment(&self.folder, number)?;
        Ok(self.segment.is_some())
    }

    /// This segment holds no more: on to the next one that is there.
    fn move_on(&mut self, next: u64) -> io::Result<()> {
        if self.segment.as_ref().is_some_and(|current| next > current.number + 1) {
            self.cause = MissingCause::Limit;
        }
        self.segment = open_segment(&self.folder, next)?;
        Ok(())
    }

    fn following(&self) -> io::Result<Option<u64>> {
        let Some(current) = &self.segment else { return Ok(None) };
        Ok(segments(&self.folder)?.into_iter().find(|number| *number > current.number))
    }
}

enum Progress {
    Piece(Piece),
    /// Only lines that are not wanted.
    Skipped,
    Nothing,
}

/// The first and last line on disk; `None` if there are no lines.
pub(crate) fn bounds(attempt_folder: &Path) -> io::Result<Option<Span>> {
    let folder = attempt_folder.join(LOG_FOLDER);
    let numbers = segments(&folder)?;
    let mut buffer = Vec::new();
    let mut first = None;
    for number in &numbers {
        first = first_block_seq(&folder, *number)?;
        if first.is_some() {
            break;
        }
    }
    let Some(first_seq) = first else { return Ok(None) };
    for number in numbers.iter().rev() {
        if let Some(last_seq) = last_seq_of(&folder, *number, &mut buffer)? {
            return Ok(Some(Span { first_seq, last_seq }));
        }
    }
    Ok(None)
}

fn last_seq_of(folder: &Path, number: u64, buffer: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let Some(mut segment) = open_segment(folder, number)? else { return Ok(None) };
    let mut last_seq = None;
    loop {
        fill(&segment.file, segment.offset, buffer)?;
        let mut blocks = Blocks::new(buffer);
        if let Some(last) = blocks.by_ref().map_while(Result::ok).last() {
            last_seq = Some(last.last_seq());
        }
        if blocks.offset() == 0 {
            return Ok(last_seq);
        }
        segment.offset += blocks.offset() as u64;
    }
}

fn first_block_seq(folder: &Path, number: u64) -> io::Result<Option<u64>> {
    let Some(segment) = open_segment(folder, number)? else { return Ok(None) };
    let mut buffer = Vec::new();
    fill(&segment.file, 0, &mut buffer)?;
    let first = Blocks::new(&buffer).next().and_then(Result::ok);
    Ok(first.map(|block: Block<'_>| block.first_seq()))
}

/// The segments that are there, oldest first. None at all if the folder is gone.
fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry?.file_name().to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// `None` if it was deleted meanwhile, because the log outgrew its limit.
fn open_segment(folder: &Path, number: u64) -> io::Result<Option<Segment>> {
    match File::open(folder.join(segment_name(number))) {
        Ok(file) => Ok(Some(Segment { number, file, offset: 0 })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// As much as one block may have, or what is there.
fn fill(file: &File, offset: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(BLOCK_BYTES_MAX, 0);
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}
