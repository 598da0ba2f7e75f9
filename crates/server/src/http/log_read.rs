//! Lines of one attempt, out of the stored blocks.

use api::{LogLine, Stream, Timestamp};
use engine::AttemptId;
use protocol::log::{Blocks, Line, LineEnd};
use store::Reader;

use super::error::ApiError;

/// Stored bytes that are read for one answer; the answer is a few times that.
const BYTES_MAX: usize = 1024 * 1024;

/// An attempt, as logs speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub id: AttemptId,
    pub number: u32,
}

pub(super) struct Lines {
    pub lines: Vec<LogLine>,
    /// The number after the last of them.
    pub next: u64,
    /// There was nothing more in the store.
    pub drained: bool,
    /// Nor will there be.
    pub complete: bool,
}

/// Lines from the number `from` on.
pub(super) fn read(reader: &dyn Reader, subject: Subject, from: u64, limit: usize) -> Result<Lines, ApiError> {
    let from = from.max(1);
    // Asked first: what comes meanwhile is then only not counted yet.
    let state = reader.log_state(subject.id)?;
    let mut lines = Vec::new();
    if from <= state.last_seq {
        for chunk in reader.log_chunks(subject.id, from, BYTES_MAX)? {
            take(&chunk.blocks, subject.number, from, limit, &mut lines)?;
        }
    }
    let mut next = lines.last().map_or(from, |line: &LogLine| line.seq + 1);
    mark_gaps(&mut lines, from, subject.number);
    if lines.is_empty() && next <= state.last_seq {
        lines.push(marker(next, state.last_seq, subject.number, Timestamp::from_micros(0)));
        next = state.last_seq + 1;
    }
    let drained = next > state.last_seq;
    Ok(Lines { lines, next, drained, complete: drained && state.complete })
}

/// Says in its place how many lines are missing. No line is gone without a word.
fn mark_gaps(lines: &mut Vec<LogLine>, from: u64, attempt: u32) {
    let mut expected = from;
    let mut index = 0;
    while index < lines.len() {
        let (seq, time) = (lines[index].seq, lines[index].time);
        if seq > expected {
            lines.insert(index, marker(expected, seq - 1, attempt, time));
            index += 1;
        }
        expected = seq + 1;
        index += 1;
    }
}

fn marker(first: u64, last: u64, attempt: u32, time: Timestamp) -> LogLine {
    let count = last - first + 1;
    LogLine {
        seq: first - 1,
        sub: 1,
        attempt,
        stream: Stream::Server,
        time,
        text: format!("--- {count} log lines dropped due to buffer overflow. ---"),
        continued: false,
        unterminated: false,
        bytes_base64: None,
    }
}

/// The number with which the last `tail` lines begin.
pub(super) fn begin_of_tail(reader: &dyn Reader, subject: Subject, tail: u32) -> Result<u64, ApiError> {
    let last = reader.log_state(subject.id)?.last_seq;
    Ok((last + 1).saturating_sub(u64::from(tail)).max(1))
}

fn take(blocks: &[u8], attempt: u32, from: u64, limit: usize, lines: &mut Vec<LogLine>) -> Result<(), ApiError> {
    for block in Blocks::new(blocks) {
        if lines.len() >= limit {
            return Ok(());
        }
        let block = block.map_err(|error| ApiError::internal(&format!("a stored log cannot be read: {error}")))?;
        if block.last_seq() < from {
            continue;
        }
        let wanted = block.lines().skip_while(|line| line.seq < from).take(limit - lines.len());
        lines.extend(wanted.map(|line| to_api(&line, attempt)));
    }
    Ok(())
}

fn to_api(line: &Line<'_>, attempt: u32) -> LogLine {
    let mut shown = LogLine {
        seq: line.seq,
        sub: 0,
        attempt,
        stream: match line.stream {
            protocol::log::Stream::Stdout => Stream::Stdout,
            protocol::log::Stream::Stderr => Stream::Stderr,
        },
        time: Timestamp::from_micros(line.time_us),
        text: String::new(),
        continued: line.end == LineEnd::Continued,
        unterminated: line.end == LineEnd::Unterminated,
        bytes_base64: None,
    };
    shown.set_bytes(line.bytes);
    shown
}
