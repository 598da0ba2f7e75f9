//! One link, as a machine: frames and silence in, what to do about them out.

use protocol::link::{self, FrameError, Hello, LogHeader, PROTOCOL_VERSION, RefusedCode, ServerMessage, WorkerMessage};

/// Pings of the ledger have numbers from here on, and their answers go to it; a link's own never get there.
pub(crate) const ASKED_FROM: u64 = 1 << 52;

/// So many unanswered pings in a row, and the link is lost.
pub const UNANSWERED_MAX: u32 = 3;

#[derive(Debug, Default)]
pub struct Machine {
    greeted: bool,
    /// Pings sent since anything was heard.
    unanswered: u32,
    pings: u64,
}

/// What a frame comes to.
#[derive(Debug)]
pub enum Inbound {
    Hello(Box<Hello>),
    Messages(Vec<WorkerMessage>),
    Log(LogHeader, Vec<u8>),
    /// Answer this at once; nobody else needs to know.
    Reply(ServerMessage),
}

/// What to do when nothing was heard for one ping interval.
#[derive(Debug, PartialEq, Eq)]
pub enum Silence {
    Ping(u64),
    Lost,
}

/// Why a link must end.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the first message must be a hello")]
    NoHello,
    #[error("a second hello on one link")]
    SecondHello,
    #[error("protocol {theirs} is not spoken here, only {PROTOCOL_VERSION}")]
    Protocol { theirs: u32 },
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("log blocks are not readable: {0}")]
    Blocks(#[from] protocol::log::LogError),
    #[error("log blocks hold lines {found:?}, and their header says {first} to {last}")]
    Span { found: Option<(u64, u64)>, first: u64, last: u64 },
}

impl Fault {
    pub fn code(&self) -> RefusedCode {
        match self {
            Fault::Protocol { .. } => RefusedCode::UnsupportedProtocol,
            Fault::NoHello | Fault::SecondHello | Fault::Frame(_) | Fault::Blocks(_) | Fault::Span { .. } => {
                RefusedCode::BadMessage
            }
        }
    }
}

impl Machine {
    pub fn text(&mut self, frame: &str) -> Result<Vec<Inbound>, Fault> {
        self.unanswered = 0;
        let mut inbound = Vec::new();
        let mut rest = Vec::new();
        for message in link::decode_text::<WorkerMessage>(frame)? {
            match message {
                WorkerMessage::Hello(hello) => inbound.push(self.hello(hello)?),
                WorkerMessage::Ping { n } => inbound.push(Inbound::Reply(ServerMessage::Pong { n })),
                WorkerMessage::Pong { n } if n < ASKED_FROM => {}
                other if self.greeted => rest.push(other),
                _ => return Err(Fault::NoHello),
            }
        }
        if !rest.is_empty() {
            inbound.push(Inbound::Messages(rest));
        }
        Ok(inbound)
    }

    fn hello(&mut self, hello: Hello) -> Result<Inbound, Fault> {
        if self.greeted {
            return Err(Fault::SecondHello);
        }
        if hello.protocol != PROTOCOL_VERSION {
            return Err(Fault::Protocol { theirs: hello.protocol });
        }
        self.greeted = true;
        Ok(Inbound::Hello(Box::new(hello)))
    }

    /// Blocks are checked here, on the link's own task, so that the ledger can take them as they are.
    pub fn binary(&mut self, frame: &[u8]) -> Result<Inbound, Fault> {
        self.unanswered = 0;
        if !self.greeted {
            return Err(Fault::NoHello);
        }
        let (header, blocks) = link::decode_log(frame)?;
        let found = protocol::log::span(blocks)?.map(|span| (span.first_seq, span.last_seq));
        let (first, last) = (header.first_seq, header.last_seq);
        let fits = match found {
            Some(found) => found == (first, last),
            None => last.checked_add(1) == Some(first),
        };
        if fits { Ok(Inbound::Log(header, blocks.to_vec())) } else { Err(Fault::Span { found, first, last }) }
    }

    /// Anything else that came in, such as a WebSocket's own ping.
    pub fn other(&mut self) {
        self.unanswered = 0;
    }

    pub fn silence(&mut self) -> Silence {
        if self.unanswered >= UNANSWERED_MAX {
            return Silence::Lost;
        }
        self.unanswered += 1;
        self.pings += 1;
        Silence::Ping(self.pings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_unanswered_pings_and_any_frame_is_a_sign_of_life() {
        let mut machine = Machine::default();
        assert_eq!(machine.silence(), Silence::Ping(1));
        assert_eq!(machine.silence(), Silence::Ping(2));
        machine.other();
        assert_eq!(machine.silence(), Silence::Ping(3));
        assert_eq!(machine.silence(), Silence::Ping(4));
        assert_eq!(machine.silence(), Silence::Ping(5));
        assert_eq!(machine.silence(), Silence::Lost);
    }

    #[test]
    fn nothing_is_heard_before_a_hello() {
        let mut machine = Machine::default();
        let beat = r#"[{"type":"heartbeat","processed":0,"held":[],"free":1}]"#;
        assert!(matches!(machine.text(beat), Err(Fault::NoHello)));
        assert!(matches!(machine.binary(b"\0\0\0\0"), Err(Fault::NoHello)));
        assert!(matches!(machine.text("{}"), Err(Fault::Frame(_))));
    }

    #[test]
    fn unknown_messages_are_passed_over() {
        let mut machine = Machine { greeted: true, ..Machine::default() };
        let inbound = machine.text(r#"[{"type":"from_the_future","x":1},{"type":"ping","n":7}]"#).expect("readable");
        assert!(matches!(inbound[0], Inbound::Reply(ServerMessage::Pong { n: 7 })));
        assert!(matches!(&inbound[1], Inbound::Messages(m) if m == &[WorkerMessage::Unknown]));
    }
}
