//! From the bytes of a pipe to the records of the log.

use std::time::Duration;

use protocol::log::{LINE_BYTES_MAX, LineEnd, Stream};

use crate::spool::Spool;

/// A line that is not finished after this time is shown as far as it goes: a prompt, a progress bar.
const PARTIAL_FLUSH: Duration = Duration::from_secs(1);

/// Splits one stream into lines. It holds back at most one record's worth of bytes.
pub(crate) struct Splitter {
    stream: Stream,
    partial: Vec<u8>,
    /// When the oldest byte of `partial` came.
    partial_since: Duration,
    /// The last record said that its line goes on.
    mid_line: bool,
}

impl Splitter {
    pub(crate) fn new(stream: Stream) -> Self {
        Splitter { stream, partial: Vec::new(), partial_since: Duration::ZERO, mid_line: false }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8], now: Duration, time_us: i64, spool: &mut Spool) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let line = &bytes[..at];
            bytes = &bytes[at + 1..];
            if self.partial.is_empty() && line.len() <= LINE_BYTES_MAX {
                self.record(line, LineEnd::Newline, time_us, spool);
            } else {
                self.hold(line, now, time_us, spool);
                self.release(LineEnd::Newline, time_us, spool);
            }
        }
        self.hold(bytes, now, time_us, spool);
    }

    /// When the partial line, if there is one, should be shown.
    pub(crate) fn flush_at(&self) -> Option<Duration> {
        (!self.partial.is_empty()).then(|| self.partial_since + PARTIAL_FLUSH)
    }

    pub(crate) fn flush_partial(&mut self, time_us: i64, spool: &mut Spool) {
        self.release(LineEnd::Continued, time_us, spool);
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, time_us: i64, spool: &mut Spool) {
        if self.mid_line || !self.partial.is_empty() {
            self.release(LineEnd::Unterminated, time_us, spool);
        }
    }

    /// Keeps bytes until their line ends, and lets go of full records.
    fn hold(&mut self, mut bytes: &[u8], now: Duration, time_us: i64, spool: &mut Spool) {
        while !bytes.is_empty() {
            if self.partial.len() == LINE_BYTES_MAX {
                self.release(LineEnd::Continued, time_us, spool);
            }
            if self.partial.is_empty() {
                self.partial_since = now;
            }
            let taken = bytes.len().min(LINE_BYTES_MAX - self.partial.len());
            self.partial.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
    }

    fn release(&mut self, end: LineEnd, time_us: i64, spool: &mut Spool) {
        let partial = std::mem::take(&mut self.partial);
        self.record(&partial, end, time_us, spool);
        self.partial = partial;
        self.partial.clear();
    }

    fn record(&mut self, bytes: &[u8], end: LineEnd, time_us: i64, spool: &mut Spool) {
        spool.push(time_us, self.stream, end, bytes);
        self.mid_line = end == LineEnd::Continued;
    }
}
