//! Lines of one attempt: out of the stored blocks, with the server's own lines in their places.

use api::{LogLine, Stream, Timestamp};
use engine::AttemptId;
use protocol::log::{Blocks, Line, LineEnd};
use store::Reader;
use store::read::{LogMarkView, LogState};

use super::error::ApiError;

/// Stored bytes that are read for one answer; the answer is a few times that.
const BYTES_MAX: usize = 1024 * 1024;

/// The server's lines of one answer, beside the step's own: there are a few per outage.
const MARKS_MAX: usize = 10_000;

/// An attempt, as logs speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub id: AttemptId,
    pub number: u32,
}

/// How far a reader has come: past this line, and past so many of the server's lines after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct After {
    pub seq: u64,
    pub sub: u32,
}

impl After {
    /// The line `from` comes next, and with it what stands right before it.
    pub(super) fn before_line(from: u64) -> After {
        After { seq: from.max(1) - 1, sub: 0 }
    }
}

pub(super) struct Lines {
    pub lines: Vec<LogLine>,
    pub reached: After,
    /// There was nothing more in the store.
    pub drained: bool,
    /// Nor will there be.
    pub complete: bool,
}

/// What the server put after the last line so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trailing {
    /// Shown at once: the reader remembers that it has seen it.
    Now,
    /// Shown with the line that follows, or at the end: the reader remembers only lines.
    WithNext,
}

/// What comes after `after`.
pub(super) fn read(
    reader: &dyn Reader,
    subject: Subject,
    after: After,
    limit: usize,
    trailing: Trailing,
) -> Result<Lines, ApiError> {
    // Asked first: what comes meanwhile is then only not counted yet.
    let state = reader.log_state(subject.id)?;
    let own = own_lines(reader, subject, after, limit, &state)?;
    // Without any line of its own there are only lines left that will never come.
    let reached = own.last().map_or(state.last_seq.max(after.seq), |line| line.seq);
    let drained = reached >= state.last_seq;
    let complete = drained && state.complete;
    let with_last = drained && (complete || trailing == Trailing::Now);
    let end = if with_last { reached + 1 } else { reached };
    let marks = if end > after.seq { reader.log_marks(subject.id, after.seq, end - 1, MARKS_MAX)? } else { Vec::new() };
    let lines = merge(own, &marks, after, reached, subject.number);
    let sub = lines.last().filter(|line| line.seq == reached).map_or(0, |line| line.sub);
    let sub = if reached == after.seq { sub.max(after.sub) } else { sub };
    Ok(Lines { lines, reached: After { seq: reached, sub }, drained, complete })
}

/// The step's own lines.
fn own_lines(
    reader: &dyn Reader,
    subject: Subject,
    after: After,
    limit: usize,
    state: &LogState,
) -> Result<Vec<LogLine>, ApiError> {
    let mut lines = Vec::new();
    let from = after.seq + 1;
    if from <= state.last_seq {
        for chunk in reader.log_chunks(subject.id, from, BYTES_MAX)? {
            take(&chunk.blocks, subject.number, from, limit, &mut lines)?;
        }
    }
    Ok(lines)
}

/// Puts the server's lines where they belong. No line is gone without a word: what no mark speaks of gets one here.
fn merge(own: Vec<LogLine>, marks: &[LogMarkView], after: After, reached: u64, attempt: u32) -> Vec<LogLine> {
    let mut merged = Vec::with_capacity(own.len() + marks.len());
    let mut marks = marks.iter().peekable();
    let mut at = after.seq;
    let mut put_between = |merged: &mut Vec<LogLine>, at: u64, next: u64, time: Option<Timestamp>| {
        let (mut said, mut sub, mut last_time) = (0, 0, Timestamp::from_micros(0));
        while let Some(mark) = marks.next_if(|mark| mark.after_seq < next) {
            (said, sub, last_time) = (said + mark.missing, mark.sub, mark.at.into());
            if (mark.after_seq, mark.sub) > (after.seq, after.sub) {
                merged.push(server_line(mark.after_seq, mark.sub, attempt, mark.at.into(), mark.text.clone()));
            }
        }
        let unsaid = (next - at - 1).saturating_sub(said);
        if unsaid > 0 && (at, sub + 1) > (after.seq, after.sub) {
            let text = format!("--- {unsaid} log lines dropped due to buffer overflow. ---");
            merged.push(server_line(at, sub + 1, attempt, time.unwrap_or(last_time), text));
        }
    };
    for line in own {
        put_between(&mut merged, at, line.seq, Some(line.time));
        at = line.seq;
        merged.push(line);
    }
    put_between(&mut merged, at, reached + 1, None);
    merged
}

fn server_line(seq: u64, sub: u32, attempt: u32, time: Timestamp, text: String) -> LogLine {
    LogLine {
        seq,
        sub,
        attempt,
        stream: Stream::Server,
        time,
        text,
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
