//! Reads one attempt's log from its segment files, from any line on, while the runner still writes it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use protocol::attempt::Ticket;
use protocol::folder::{LOG_FOLDER, segment_name, segment_number};
use protocol::link::MissingCause;
use protocol::log::{BLOCK_BYTES_MAX, Block, Blocks, LogError, Span, trim_to};

use super::shipper::{Logs, Piece};
use crate::state::Places;

/// A place in a log. Having one costs nothing; files are opened when there is something to read.
#[derive(Debug)]
pub(crate) struct Cursor {
    segment: Option<Segment>,
    /// What took the lines before the next piece, if some are missing.
    cause: MissingCause,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    file: File,
    offset: u64,
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor { segment: None, cause: MissingCause::Unwritten }
    }
}

impl Logs for Places {
    type Cursor = Cursor;

    fn read(
        &mut self,
        ticket: Ticket,
        next_seq: u64,
        cursor: &mut Cursor,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Piece>> {
        cursor.read(&self.attempt(ticket).join(LOG_FOLDER), next_seq, buffer)
    }
}

impl Cursor {
    /// The next lines of the log in `folder`, from `next_seq` on, which is where the last ones ended.
    fn read(&mut self, folder: &Path, next_seq: u64, buffer: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        loop {
            if self.segment.is_none() && !self.open(folder, next_seq)? {
                return Ok(None);
            }
            match self.read_segment(folder, next_seq, buffer)? {
                Progress::Piece(piece) => return Ok(Some(piece)),
                Progress::Skipped => {}
                Progress::Nothing => {
                    // The next segment is looked for first, and this one read again: what was written to it before
                    // the runner went on to the next is then surely seen.
                    let Some(next) = self.following(folder)? else { return Ok(None) };
                    match self.read_segment(folder, next_seq, buffer)? {
                        Progress::Piece(piece) => return Ok(Some(piece)),
                        Progress::Skipped => {}
                        Progress::Nothing => self.move_on(folder, next)?,
                    }
                }
            }
        }
    }

    /// Reads from the current segment and moves on within it.
    fn read_segment(&mut self, folder: &Path, next_seq: u64, buffer: &mut Vec<u8>) -> io::Result<Progress> {
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
                        tracing::warn!(folder = %folder.display(), segment = segment.number, %error, "the rest of a log segment is skipped");
                    }
                    if taken == 0 && self.cause == MissingCause::Unwritten {
                        self.cause = MissingCause::Damaged;
                    }
                    break;
                }
            };
            match &mut span {
                None if block.last_seq() < next_seq => {
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
        let blocks = trim_to(blocks, next_seq - 1).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        span.first_seq = span.first_seq.max(next_seq);
        let cause = std::mem::replace(&mut self.cause, MissingCause::Unwritten);
        Ok(Progress::Piece(Piece { span, blocks: blocks.into_owned(), cause }))
    }

    /// Opens the segment that holds the next line, or the first one after it. `false`: there is no segment yet.
    fn open(&mut self, folder: &Path, next_seq: u64) -> io::Result<bool> {
        let numbers = segments(folder)?;
        let mut chosen = numbers.first().copied();
        // Backwards, since a resumed log is mostly acknowledged.
        if next_seq > 1 {
            for number in numbers.iter().rev() {
                if first_block_seq(folder, *number)?.is_some_and(|first_seq| first_seq <= next_seq) {
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
        self.segment = open_segment(folder, number)?;
        Ok(self.segment.is_some())
    }

    /// This segment holds no more: on to the next one that is there.
    fn move_on(&mut self, folder: &Path, next: u64) -> io::Result<()> {
        if self.segment.as_ref().is_some_and(|current| next > current.number + 1) {
            self.cause = MissingCause::Limit;
        }
        self.segment = open_segment(folder, next)?;
        Ok(())
    }

    fn following(&self, folder: &Path) -> io::Result<Option<u64>> {
        let Some(current) = &self.segment else { return Ok(None) };
        Ok(segments(folder)?.into_iter().find(|number| *number > current.number))
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
