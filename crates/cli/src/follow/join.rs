//! Pieces of long lines, joined again. Pure.

use std::mem;

use api::{LogLine, Stream, Timestamp};

/// A line longer than this is given on in pieces after all, so that memory stays bounded.
const JOIN_BYTES_MAX: usize = 1024 * 1024;

/// One log's unfinished lines, by stream: a line of stderr may come between two pieces of one on stdout.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) stream: Stream,
    pub(crate) time: Timestamp,
    pub(crate) bytes: Vec<u8>,
    /// A newline follows in what the step wrote.
    pub(crate) newline: bool,
}

impl Joiner {
    /// The whole line that this piece ends, if it ends one.
    pub(crate) fn push(&mut self, line: &LogLine) -> Option<Joined> {
        let bytes = line.bytes();
        let pending = match line.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
            Stream::Server => return Some(joined(line, bytes.into_owned())),
        };
        pending.extend_from_slice(&bytes);
        let is_over = !line.continued || pending.len() >= JOIN_BYTES_MAX;
        is_over.then(|| joined(line, mem::take(pending)))
    }

    /// What is left when the log has ended in the middle of a line.
    pub(crate) fn rest(&mut self, time: Timestamp) -> Vec<Joined> {
        let streams = [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)];
        let rest =
            streams.into_iter().map(|(stream, bytes)| Joined { stream, time, bytes: mem::take(bytes), newline: false });
        rest.filter(|joined| !joined.bytes.is_empty()).collect()
    }
}

fn joined(line: &LogLine, bytes: Vec<u8>) -> Joined {
    Joined { stream: line.stream, time: line.time, bytes, newline: line.ends_with_newline() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stream: Stream, text: &str, continued: bool) -> LogLine {
        LogLine {
            seq: 1,
            sub: 0,
            attempt: 1,
            stream,
            time: Timestamp::from_micros(0),
            text: text.to_owned(),
            continued,
            unterminated: false,
            bytes_base64: None,
        }
    }

    #[test]
    fn pieces_join_across_lines_of_the_other_stream() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.push(&line(Stream::Stdout, "on", true)), None);
        let between = joiner.push(&line(Stream::Stderr, "err", false)).expect("whole");
        assert_eq!(between.bytes, b"err");
        let whole = joiner.push(&line(Stream::Stdout, "e", false)).expect("whole");
        assert_eq!((whole.bytes.as_slice(), whole.newline), (b"one".as_slice(), true));
        joiner.push(&line(Stream::Stdout, "half", true));
        let rest = joiner.rest(Timestamp::from_micros(0));
        assert_eq!(rest.len(), 1);
        assert!(rest[0].bytes == b"half" && !rest[0].newline);
    }

    #[test]
    fn an_endless_line_is_given_in_pieces() {
        let mut joiner = Joiner::default();
        let piece = "x".repeat(64 * 1024);
        let given = (0..64).filter_map(|_| joiner.push(&line(Stream::Stdout, &piece, true))).collect::<Vec<_>>();
        assert_eq!(given.len(), 4);
        assert!(given.iter().all(|joined| joined.bytes.len() == JOIN_BYTES_MAX && !joined.newline));
    }
}
