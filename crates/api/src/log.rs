//! Log lines. Bytes are what the step wrote; JSON can carry only text, so odd bytes travel beside it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// One line, or a piece of a longer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// From 1, per attempt. 0 for what the server put before the first line.
    pub seq: u64,
    /// 0 for the step's own lines; the server's lines after line `seq` are numbered from 1.
    #[serde(default)]
    pub sub: u32,
    pub attempt: u32,
    pub stream: Stream,
    pub time: Timestamp,
    /// Without the newline. Where it is not valid UTF-8, with replacement characters; see `bytes_base64`.
    pub text: String,
    /// The line goes on in the next piece of the same stream.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continued: bool,
    /// The stream ended here without a newline.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unterminated: bool,
    /// Only where `text` cannot say it: the bytes as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_base64: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// A line that the server put in, such as a gap marker.
    Server,
}

/// Lines in their order. Also the data of each message of a log stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// Give it back as `from` for what comes after.
    pub next: u64,
    /// Nothing will come after these lines. Until then a page without lines means: not yet.
    pub complete: bool,
}

impl LogLine {
    /// Sets `text`, and `bytes_base64` if it is needed.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.bytes_base64 = matches!(text, Cow::Owned(_)).then(|| STANDARD.encode(bytes));
        self.text = text.into_owned();
    }

    /// The bytes as they were written, without the newline.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.bytes_base64.as_ref().and_then(|coded| STANDARD.decode(coded).ok()) {
            Some(bytes) => Cow::Owned(bytes),
            None => Cow::Borrowed(self.text.as_bytes()),
        }
    }

    pub fn ends_with_newline(&self) -> bool {
        !self.continued && !self.unterminated
    }

    /// The line's place: its number, and the server's own number after it.
    pub fn position(&self) -> (u64, u32) {
        (self.seq, self.sub)
    }
}

/// Where a reader of a log stream is: after this line of this attempt. Written `ATTEMPT.SEQ.SUB`, as the `id` of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId {
    /// 0 for the log of the job's server events.
    pub attempt: u32,
    pub seq: u64,
    pub sub: u32,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.attempt, self.seq, self.sub)
    }
}

impl FromStr for StreamId {
    type Err = BadStreamId;

    fn from_str(text: &str) -> Result<StreamId, BadStreamId> {
        let mut parts = text.split('.');
        let id = (|| {
            let attempt = parts.next()?.parse().ok()?;
            let seq = parts.next()?.parse().ok()?;
            let sub = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(StreamId { attempt, seq, sub })
        })();
        id.ok_or_else(|| BadStreamId(text.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place in a log; it is written ATTEMPT.SEQ.SUB")]
pub struct BadStreamId(String);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: &[u8]) -> LogLine {
        let mut line = LogLine {
            seq: 1,
            sub: 0,
            attempt: 1,
            stream: Stream::Stdout,
            time: Timestamp::from_micros(0),
            text: String::new(),
            continued: false,
            unterminated: false,
            bytes_base64: None,
        };
        line.set_bytes(bytes);
        line
    }

    #[test]
    fn text_travels_as_text_and_odd_bytes_survive() {
        let plain = line("blå\t\0\r".as_bytes());
        assert_eq!(plain.bytes_base64, None);
        assert_eq!(&*plain.bytes(), "blå\t\0\r".as_bytes());
        let odd = line(b"a\xffb");
        assert_eq!(odd.text, "a\u{fffd}b");
        let json = serde_json::to_string(&odd).expect("json");
        let read: LogLine = serde_json::from_str(&json).expect("a line");
        assert_eq!(&*read.bytes(), b"a\xffb");
    }

    #[test]
    fn stream_ids() {
        let id = StreamId { attempt: 3, seq: 7, sub: 2 };
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "7", "7.2", "1.7.", "1.7.2.9", "x.1.1", "-1.1.1"] {
            assert!(bad.parse::<StreamId>().is_err(), "{bad}");
        }
    }
}
