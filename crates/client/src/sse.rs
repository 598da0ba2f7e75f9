//! Server-sent events: bytes in, messages out. Pure; `stream` feeds it.

/// A message larger than this is a mistake or an attack. A page of log lines has at most a few MB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    /// `message` unless the server named it.
    pub(crate) event: Option<String>,
    pub(crate) data: String,
    /// The id that the server gave with it, if any.
    pub(crate) id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of the event stream has more than {MESSAGE_BYTES_MAX} bytes")]
pub(crate) struct TooLarge;

/// Takes a stream apart, however it is cut into chunks.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was CR: an LF right after it belongs to the same end of line.
    after_cr: bool,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// Adds the messages that `chunk` completes to `messages`.
    pub(crate) fn push(&mut self, chunk: &[u8], messages: &mut Vec<Message>) -> Result<(), TooLarge> {
        let mut rest = chunk;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            self.line.extend_from_slice(&rest[..end]);
            let is_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_cr {
                self.after_cr = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            self.end_of_line(messages);
            self.check_size()?;
        }
        self.line.extend_from_slice(rest);
        self.check_size()
    }

    fn check_size(&self) -> Result<(), TooLarge> {
        let fits = self.line.len() + self.message.data.len() <= MESSAGE_BYTES_MAX;
        if fits { Ok(()) } else { Err(TooLarge) }
    }

    fn end_of_line(&mut self, messages: &mut Vec<Message>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            if std::mem::take(&mut self.has_data) {
                messages.push(message);
            }
            return;
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.message.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.message.id = Some(value.to_owned()),
            // Comments have an empty field name; `retry` is our own business.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&str]) -> Vec<Message> {
        let mut parser = Parser::default();
        let mut messages = Vec::new();
        for chunk in chunks {
            parser.push(chunk.as_bytes(), &mut messages).expect("small");
        }
        messages
    }

    fn message(event: Option<&str>, data: &str, id: Option<&str>) -> Message {
        Message { event: event.map(str::to_owned), data: data.to_owned(), id: id.map(str::to_owned) }
    }

    #[test]
    fn fields_comments_and_endings() {
        let text = ": hello\n\nid: 7\nevent: change\ndata: a\ndata:b\nretry: 5\nunknown: x\n\ndata\n\n";
        assert_eq!(parse(&[text]), [message(Some("change"), "a\nb", Some("7")), message(None, "", None)]);
    }

    #[test]
    fn any_cut_and_any_line_ending_gives_the_same() {
        let expected = [message(None, "x", Some("1")), message(None, "ø", Some("2"))];
        for ending in ["\n", "\r\n", "\r"] {
            let text = "id: 1\ndata: x\n\nid: 2\ndata: ø\n\n".replace('\n', ending);
            for cut in 0..text.len() {
                let mut parser = Parser::default();
                let mut messages = Vec::new();
                let (head, tail) = text.as_bytes().split_at(cut);
                parser.push(head, &mut messages).expect("small");
                parser.push(tail, &mut messages).expect("small");
                assert_eq!(messages, expected, "{ending:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_message_without_its_empty_line_is_not_given() {
        assert_eq!(parse(&["data: x\n"]), []);
    }

    #[test]
    fn an_endless_message_is_refused() {
        let mut parser = Parser::default();
        let mut messages = Vec::new();
        let chunk = vec![b'x'; 1024 * 1024];
        let ended = (0..100).find_map(|_| parser.push(&chunk, &mut messages).err());
        assert_eq!(ended, Some(TooLarge));
    }
}
