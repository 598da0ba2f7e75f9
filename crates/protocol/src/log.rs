//! The layout of log lines, the same on a worker's disk, on the wire and in the store.
//!
//! A log is a sequence of blocks. The runner writes them, the worker forwards them byte for byte, the server
//! stores them: nobody in between decodes and encodes lines, except to cut a block that was half acknowledged.
//!
//! ```text
//! block  = magic "BWL1" | payload length u32 | lines u32 | crc of payload u32 | first seq u64 | crc of the above u32 | payload
//! line   = head u32 (length in the low 24 bits, flags in the high 8) | time i64 | bytes
//! ```
//! All numbers are little-endian. A line's number is the block's first plus its place. Bytes are what the step
//! wrote: invalid UTF-8, NUL and CR are kept. The newline itself is not stored; see [`Line::raw_end`].

use std::borrow::Cow;

use thiserror::Error;

/// A longer line is split into records of this size, all but the last marked `continued`.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// A block with its header: large enough that headers and system calls cost nothing, small enough for one frame.
pub const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// The last character is the version of the layout.
const MAGIC: [u8; 4] = *b"BWL1";
const HEADER_BYTES: usize = 28;
const LINE_HEAD_BYTES: usize = 12;
const LENGTH_MASK: u32 = 0x00ff_ffff;
const FLAG_STDERR: u32 = 1 << 24;
const FLAG_CONTINUED: u32 = 1 << 25;
const FLAG_UNTERMINATED: u32 = 1 << 26;
const FLAGS_KNOWN: u32 = FLAG_STDERR | FLAG_CONTINUED | FLAG_UNTERMINATED;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineEnd {
    /// With a newline, which is not part of the bytes.
    Newline,
    /// The line goes on in the next record of the same stream: too long for one, or flushed before it was whole.
    Continued,
    /// The stream ended here without a newline.
    Unterminated,
}

/// One record, borrowed from a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub seq: u64,
    /// Microseconds since the epoch, by the clock of the runner's machine.
    pub time_us: i64,
    pub stream: Stream,
    pub end: LineEnd,
    pub bytes: &'a [u8],
}

impl Line<'_> {
    /// What follows the bytes in the stream as the step wrote it.
    pub fn raw_end(&self) -> &'static [u8] {
        match self.end {
            LineEnd::Newline => b"\n",
            LineEnd::Continued | LineEnd::Unterminated => b"",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogError {
    /// Not an error at the end of a file that still grows: the rest of the block is yet to come.
    #[error("log block at byte {at} is incomplete")]
    Incomplete { at: usize },
    #[error("log block at byte {at} is damaged: {why}")]
    Damaged { at: usize, why: &'static str },
    #[error("log block at byte {at} begins with line {found}, expected {expected}")]
    Gap { at: usize, expected: u64, found: u64 },
}

/// Builds blocks: push while [`has_room`](BlockEncoder::has_room), then [`seal`](BlockEncoder::seal), then [`start`](BlockEncoder::start) the next.
#[derive(Debug)]
pub struct BlockEncoder {
    bytes: Vec<u8>,
    first_seq: u64,
    count: u32,
}

impl BlockEncoder {
    /// `first_seq` is the number of the first line to come; lines are numbered from 1.
    pub fn new(first_seq: u64) -> Self {
        assert!(first_seq > 0, "log lines are numbered from 1");
        BlockEncoder { bytes: Vec::new(), first_seq, count: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn lines(&self) -> u32 {
        self.count
    }

    pub fn next_seq(&self) -> u64 {
        self.first_seq + u64::from(self.count)
    }

    /// Whether a line of `length` bytes still fits. A line of the greatest length always fits an empty block.
    pub fn has_room(&self, length: usize) -> bool {
        self.bytes.len().max(HEADER_BYTES) + LINE_HEAD_BYTES + length <= BLOCK_BYTES_MAX
    }

    /// Adds a line and returns its number. The caller splits at [`LINE_BYTES_MAX`] and asks for room first.
    pub fn push(&mut self, time_us: i64, stream: Stream, end: LineEnd, bytes: &[u8]) -> u64 {
        assert!(bytes.len() <= LINE_BYTES_MAX, "a log line is split at {LINE_BYTES_MAX} bytes before it is encoded");
        assert!(self.has_room(bytes.len()), "a full log block is sealed before the next line");
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        let seq = self.next_seq();
        let head = bytes.len() as u32 | flags(stream, end);
        self.bytes.extend_from_slice(&head.to_le_bytes());
        self.bytes.extend_from_slice(&time_us.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        seq
    }

    /// The finished block; nothing if no line was pushed.
    pub fn seal(&mut self) -> Option<&[u8]> {
        if self.count == 0 {
            return None;
        }
        let payload_length = (self.bytes.len() - HEADER_BYTES) as u32;
        let payload_crc = crc32fast::hash(&self.bytes[HEADER_BYTES..]);
        let header = &mut self.bytes[..HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&payload_length.to_le_bytes());
        header[8..12].copy_from_slice(&self.count.to_le_bytes());
        header[12..16].copy_from_slice(&payload_crc.to_le_bytes());
        header[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        let header_crc = crc32fast::hash(&header[..24]);
        header[24..28].copy_from_slice(&header_crc.to_le_bytes());
        Some(&self.bytes)
    }

    /// Begins the next block, right after the lines of this one; the buffer is used again.
    pub fn start(&mut self) {
        self.first_seq = self.next_seq();
        self.count = 0;
        self.bytes.clear();
    }
}

/// One checked block, borrowed from a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    first_seq: u64,
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    pub fn last_seq(&self) -> u64 {
        self.first_seq + u64::from(self.count) - 1
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// The block as it lies in the buffer, header included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn lines(&self) -> Lines<'a> {
        Lines { seq: self.first_seq, rest: &self.bytes[HEADER_BYTES..] }
    }

    /// Reads the block at the start of `bytes`; `at` only serves the error.
    fn read(bytes: &'a [u8], at: usize) -> Result<Self, LogError> {
        let damaged = |why| LogError::Damaged { at, why };
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic != &MAGIC[..magic.len()] {
            return Err(damaged("it does not begin with the mark of a log block of this version"));
        }
        let Some(header) = bytes.get(..HEADER_BYTES) else {
            return Err(LogError::Incomplete { at });
        };
        if crc32fast::hash(&header[..24]) != u32_at(header, 24) {
            return Err(damaged("the header's checksum is wrong"));
        }
        let payload_length = u32_at(header, 4) as usize;
        let count = u32_at(header, 8);
        let first_seq = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        if payload_length > BLOCK_BYTES_MAX - HEADER_BYTES {
            return Err(damaged("it is larger than a block may be"));
        }
        if count == 0 || first_seq == 0 || first_seq.checked_add(u64::from(count)).is_none() {
            return Err(damaged("its line numbers make no sense"));
        }
        let Some(whole) = bytes.get(..HEADER_BYTES + payload_length) else {
            return Err(LogError::Incomplete { at });
        };
        let payload = &whole[HEADER_BYTES..];
        if crc32fast::hash(payload) != u32_at(header, 12) {
            return Err(damaged("the checksum of its lines is wrong"));
        }
        check_lines(payload, count).map_err(damaged)?;
        Ok(Block { first_seq, count, bytes: whole })
    }
}

/// The lines of a checked block.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    seq: u64,
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let (head, rest) = self.rest.split_at_checked(LINE_HEAD_BYTES)?;
        let word = u32_at(head, 0);
        let (bytes, rest) = rest.split_at_checked((word & LENGTH_MASK) as usize)?;
        let line = Line {
            seq: self.seq,
            time_us: i64::from_le_bytes(head[4..12].try_into().expect("eight bytes")),
            stream: if word & FLAG_STDERR == 0 { Stream::Stdout } else { Stream::Stderr },
            end: line_end(word),
            bytes,
        };
        self.seq += 1;
        self.rest = rest;
        Some(line)
    }
}

/// Walks the blocks of a buffer. Ends after the first error, and says with [`offset`](Blocks::offset) how far all was well.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    buffer: &'a [u8],
    offset: usize,
    failed: bool,
}

impl<'a> Blocks<'a> {
    pub fn new(buffer: &'a [u8]) -> Self {
        Blocks { buffer, offset: 0, failed: false }
    }

    /// The end of the last good block.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.offset == self.buffer.len() {
            return None;
        }
        let block = Block::read(&self.buffer[self.offset..], self.offset);
        match &block {
            Ok(block) => self.offset += block.bytes.len(),
            Err(_) => self.failed = true,
        }
        Some(block)
    }
}

/// Which lines a buffer of whole blocks holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub first_seq: u64,
    pub last_seq: u64,
}

impl Span {
    pub fn count(&self) -> u64 {
        self.last_seq - self.first_seq + 1
    }
}

/// Checks every block and that their lines follow each other without a gap. `None` for an empty buffer.
pub fn span(buffer: &[u8]) -> Result<Option<Span>, LogError> {
    let mut span: Option<Span> = None;
    let mut at = 0;
    for block in Blocks::new(buffer) {
        let block = block?;
        let first_seq = match span {
            None => block.first_seq(),
            Some(Span { first_seq, last_seq }) if last_seq + 1 == block.first_seq() => first_seq,
            Some(Span { last_seq, .. }) => {
                return Err(LogError::Gap { at, expected: last_seq + 1, found: block.first_seq() });
            }
        };
        span = Some(Span { first_seq, last_seq: block.last_seq() });
        at += block.bytes().len();
    }
    Ok(span)
}

/// What is left of a buffer without the lines up to and including `after_seq`. Only a block that is cut in the
/// middle is encoded again.
pub fn trim_to(buffer: &[u8], after_seq: u64) -> Result<Cow<'_, [u8]>, LogError> {
    let mut blocks = Blocks::new(buffer);
    let mut kept_from = 0;
    while let Some(block) = blocks.next() {
        let block = block?;
        if block.last_seq() <= after_seq {
            kept_from = blocks.offset();
            continue;
        }
        let rest = &buffer[blocks.offset()..];
        for later in blocks {
            later?;
        }
        if block.first_seq() > after_seq {
            return Ok(Cow::Borrowed(&buffer[kept_from..]));
        }
        let mut cut = cut_block(&block, after_seq);
        cut.extend_from_slice(rest);
        return Ok(Cow::Owned(cut));
    }
    Ok(Cow::Borrowed(&[]))
}

/// `after_seq` lies within the block and is not its last line.
fn cut_block(block: &Block<'_>, after_seq: u64) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(after_seq + 1);
    for line in block.lines().skip_while(|line| line.seq <= after_seq) {
        encoder.push(line.time_us, line.stream, line.end, line.bytes);
    }
    encoder.seal().map(<[u8]>::to_vec).unwrap_or_default()
}

/// So that [`Lines`] can be infallible: the payload holds exactly `count` well-formed lines.
fn check_lines(payload: &[u8], count: u32) -> Result<(), &'static str> {
    let mut rest = payload;
    for _ in 0..count {
        let Some((head, tail)) = rest.split_at_checked(LINE_HEAD_BYTES) else {
            return Err("it holds fewer lines than its header says");
        };
        let word = u32_at(head, 0);
        let length = (word & LENGTH_MASK) as usize;
        if length > LINE_BYTES_MAX {
            return Err("one of its lines is longer than a line may be");
        }
        if word & !LENGTH_MASK & !FLAGS_KNOWN != 0 || word & FLAG_CONTINUED != 0 && word & FLAG_UNTERMINATED != 0 {
            return Err("one of its lines has unknown flags");
        }
        rest = tail.get(length..).ok_or("one of its lines is cut off")?;
    }
    if rest.is_empty() { Ok(()) } else { Err("it holds more than its header says") }
}

fn flags(stream: Stream, end: LineEnd) -> u32 {
    let stream = match stream {
        Stream::Stdout => 0,
        Stream::Stderr => FLAG_STDERR,
    };
    let end = match end {
        LineEnd::Newline => 0,
        LineEnd::Continued => FLAG_CONTINUED,
        LineEnd::Unterminated => FLAG_UNTERMINATED,
    };
    stream | end
}

fn line_end(word: u32) -> LineEnd {
    if word & FLAG_CONTINUED != 0 {
        LineEnd::Continued
    } else if word & FLAG_UNTERMINATED != 0 {
        LineEnd::Unterminated
    } else {
        LineEnd::Newline
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
