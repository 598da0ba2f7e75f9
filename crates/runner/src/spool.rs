//! The log on disk: blocks in segment files, within limits, whatever the disk does.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;

use protocol::folder::{LOG_FOLDER, segment_name};
use protocol::log::{BLOCK_BYTES_MAX, BlockEncoder, LineEnd, Stream};

use crate::notes;

const SEGMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The limits are kept by deleting whole segments, so a segment is at most this part of them.
const SEGMENTS_PER_LIMIT: u64 = 8;

pub(crate) struct Spool {
    encoder: BlockEncoder,
    /// The last segment; `None` before the first line.
    file: Option<File>,
    /// Oldest first; the last one is being written.
    segments: VecDeque<Segment>,
    limits: Limits,
    written_bytes: u64,
    /// The server has the lines up to this one.
    acked_seq: u64,
    dropped_lines: u64,
    lost_lines: u64,
    last_time_us: i64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    number: u64,
    bytes: u64,
    lines: u64,
    /// 0 while it is empty.
    first_seq: u64,
    last_seq: u64,
}

impl Spool {
    /// A log in the current folder. Nothing is made before the first line: many steps are silent.
    pub(crate) fn new(limits: Limits) -> Self {
        Spool {
            encoder: BlockEncoder::new(1),
            file: None,
            segments: VecDeque::new(),
            limits,
            written_bytes: 0,
            acked_seq: 0,
            dropped_lines: 0,
            lost_lines: 0,
            last_time_us: i64::MIN,
        }
    }

    /// The number of the last line, in the log or still to be flushed; 0 if there is none.
    pub(crate) fn last_seq(&self) -> u64 {
        self.encoder.next_seq() - 1
    }

    /// The number of the first line that is still there; 0 if none is.
    pub(crate) fn first_seq(&self) -> u64 {
        self.segments.iter().map(|segment| segment.first_seq).find(|seq| *seq > 0).unwrap_or(0)
    }

    pub(crate) fn lines_max(&self) -> u64 {
        self.limits.lines
    }

    /// The server has the log up to `seq`. Whether that is news.
    pub(crate) fn acknowledge(&mut self, seq: u64) -> bool {
        let news = seq > self.acked_seq;
        self.acked_seq = self.acked_seq.max(seq);
        news
    }

    /// More than half of the lines that may wait for the server do.
    pub(crate) fn is_half_full(&self) -> bool {
        self.last_seq().saturating_sub(self.acked_seq) > self.limits.lines / 2
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(crate) fn dropped_lines(&self) -> u64 {
        self.dropped_lines
    }

    pub(crate) fn lost_lines(&self) -> u64 {
        self.lost_lines
    }

    /// Takes a record of at most the greatest length. Times never go back, whatever the clock does.
    pub(crate) fn push(&mut self, time_us: i64, stream: Stream, end: LineEnd, bytes: &[u8]) {
        if !self.encoder.has_room(bytes.len()) {
            self.flush();
        }
        self.last_time_us = self.last_time_us.max(time_us);
        self.encoder.push(self.last_time_us, stream, end, bytes);
    }

    /// Writes what was pushed. If the disk refuses, the lines are lost and counted; their numbers stay used,
    /// so that the gap shows in its place.
    pub(crate) fn flush(&mut self) {
        let lines = u64::from(self.encoder.lines());
        if lines == 0 {
            return;
        }
        if let Err(error) = self.write_block(lines) {
            if self.lost_lines == 0 {
                notes::write(&format!("log lines are lost, the log cannot be written: {error}"));
            }
            self.lost_lines += lines;
        }
        self.encoder.start();
    }

    fn write_block(&mut self, lines: u64) -> io::Result<()> {
        if self.is_segment_full() {
            self.next_segment()?;
        }
        self.delete_oldest(lines);
        let (Some(file), Some(segment)) = (&mut self.file, self.segments.back_mut()) else {
            unreachable!("a segment was made above, and the last one is never deleted");
        };
        let block = self.encoder.seal().unwrap_or_default();
        if let Err(error) = file.write_all(block) {
            // Half a block would hide every later one from readers.
            file.set_len(segment.bytes)?;
            return Err(error);
        }
        let bytes = block.len() as u64;
        segment.bytes += bytes;
        segment.lines += lines;
        segment.last_seq = self.encoder.next_seq() - 1;
        if segment.first_seq == 0 {
            segment.first_seq = self.encoder.next_seq() - lines;
        }
        self.written_bytes += bytes;
        Ok(())
    }

    fn is_segment_full(&self) -> bool {
        let bytes_max = (self.limits.bytes / SEGMENTS_PER_LIMIT).clamp(BLOCK_BYTES_MAX as u64, SEGMENT_BYTES_MAX);
        let lines_max = (self.limits.lines / SEGMENTS_PER_LIMIT).max(1);
        self.segments.back().is_none_or(|segment| segment.bytes >= bytes_max || segment.lines >= lines_max)
    }

    /// If the disk has no room for another file, the current one simply grows on.
    fn next_segment(&mut self) -> io::Result<()> {
        let number = self.segments.back().map_or(1, |segment| segment.number + 1);
        match create_segment(number) {
            Ok(file) => {
                self.file = Some(file);
                self.segments.push_back(Segment { number, bytes: 0, lines: 0, first_seq: 0, last_seq: 0 });
                Ok(())
            }
            Err(error) if self.segments.is_empty() => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Keeps the limits with `lines` more to come, but never deletes the segment that is being written.
    fn delete_oldest(&mut self, lines: u64) {
        let acked_seq = self.acked_seq;
        let waiting = |segment: &Segment| if segment.last_seq > acked_seq { segment.lines } else { 0 };
        let mut kept = self
            .segments
            .iter()
            .fold((lines, 0), |(lines, bytes), segment| (lines + waiting(segment), bytes + segment.bytes));
        while (kept.0 > self.limits.lines || kept.1 > self.limits.bytes) && self.segments.len() > 1 {
            let oldest = self.segments.pop_front().expect("more than one");
            if let Err(error) = fs::remove_file(segment_path(oldest.number)) {
                notes::write(&format!("cannot delete log segment {}: {error}", oldest.number));
            }
            let gone = waiting(&oldest);
            self.dropped_lines += gone;
            kept = (kept.0 - gone, kept.1 - oldest.bytes);
        }
    }
}

fn create_segment(number: u64) -> io::Result<File> {
    if number == 1 {
        match fs::create_dir(LOG_FOLDER) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600);
    options.open(segment_path(number))
}

fn segment_path(number: u64) -> String {
    format!("{LOG_FOLDER}/{}", segment_name(number))
}
