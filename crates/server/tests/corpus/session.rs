//! The frames of one input of the `link` fuzz target as a session: all of them, in a row, through the server's end.

use protocol::link::ServerMessage;

use crate::frames::Frame;
use crate::machine::{Fault, Inbound, Machine, Silence, UNANSWERED_MAX};

pub(crate) fn drive(frames: Vec<Frame>) {
    let mut machine = Machine::default();
    let mut greeted = false;
    for frame in frames {
        let inbound = match frame {
            Frame::Text(text) => machine.text(&text),
            Frame::Binary(bytes) => machine.binary(&bytes).map(|inbound| vec![inbound]),
        };
        // A frame is a sign of life, good or not.
        assert!(matches!(machine.silence(), Silence::Ping(_)));
        match inbound {
            Ok(inbound) => inbound.into_iter().for_each(|inbound| take(inbound, &mut greeted)),
            Err(fault) => return end(&fault),
        }
    }
    machine.other();
    let pings = std::iter::repeat_with(|| machine.silence()).take_while(|silence| *silence != Silence::Lost).count();
    assert_eq!(pings, UNANSWERED_MAX as usize);
}

fn take(inbound: Inbound, greeted: &mut bool) {
    match inbound {
        Inbound::Hello(hello) => {
            assert!(!*greeted, "one hello per link");
            assert_eq!(hello.protocol, protocol::link::PROTOCOL_VERSION);
            *greeted = true;
        }
        Inbound::Messages(messages) => assert!(*greeted && !messages.is_empty(), "a hello comes first"),
        Inbound::Log(header, blocks) => {
            assert!(*greeted, "a hello comes first");
            let span = protocol::log::span(&blocks).expect("blocks were checked");
            assert!(span.is_none_or(|span| (span.first_seq, span.last_seq) == (header.first_seq, header.last_seq)));
        }
        Inbound::Reply(reply) => assert!(matches!(reply, ServerMessage::Pong { .. }), "pings are answered"),
    }
}

/// The worker is told in words why its link ends.
fn end(fault: &Fault) {
    assert!(!fault.to_string().is_empty());
    fault.code();
}
