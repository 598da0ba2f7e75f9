//! The runner's end of the conversation with its worker.
//!
//! Nothing here ever blocks: a worker that is stopped or slow costs the runner a buffer, not its time. One worker at a
//! time: the newest connection wins, because a new worker only comes when the old one is dead or on its way out.
//!
//! The first worker is connected from the start, by standard input. Only when it is lost does the runner listen on the
//! socket in its folder: most runners never need one, and making a file costs as much as starting a process.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use protocol::folder::{FromRunner, MESSAGE_BYTES_MAX, SOCKET, ToRunner};
use rustix::io::Errno;

use crate::folder_io::{FolderError, cannot};
use crate::notes;
use crate::poll::{PollSet, Ready, Source};

/// A peer that lets more than this pile up does not read; it is dropped and may connect anew.
const OUTBOX_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
const READ_BYTES: usize = 4096;
/// Between two tries to make the socket.
const LISTEN_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct Control {
    /// `None` while nobody needs it, or if it could not be made yet.
    listener: Option<UnixListener>,
    peer: Option<Peer>,
    events: VecDeque<Event>,
}

struct Peer {
    socket: OwnedFd,
    inbox: Vec<u8>,
    outbox: VecDeque<u8>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A worker came by the socket and wants to know where things stand.
    Connected,
    Message(ToRunner),
}

impl Control {
    /// Takes over standard input.
    pub(crate) fn open() -> Result<Self, FolderError> {
        let socket = take_stdin().map_err(cannot("take over standard input"))?;
        Ok(Control { listener: None, peer: Some(Peer::new(socket)), events: VecDeque::new() })
    }

    pub(crate) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Queues a message and sends what the socket takes. Without a worker it goes nowhere.
    pub(crate) fn send(&mut self, message: &FromRunner) {
        let Some(peer) = &mut self.peer else { return };
        let json = serde_json::to_vec(message).expect("messages have only string keys");
        peer.outbox.extend(json);
        peer.outbox.push_back(b'\n');
        if peer.flush().is_err() || peer.outbox.len() > OUTBOX_BYTES_MAX {
            self.peer = None;
        }
    }

    /// Makes sure that a new worker can find us. Tried again with every turn: a full disk may have room later.
    pub(crate) fn listen_if_alone(&mut self) {
        if self.is_deaf() {
            self.listener = bind().ok();
        }
    }

    pub(crate) fn watch<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(listener) = &self.listener {
            set.read(Source::Listener, listener.as_fd());
        }
        match &self.peer {
            Some(peer) if peer.outbox.is_empty() => set.read(Source::Peer, peer.socket.as_fd()),
            Some(peer) => set.read_and_write(Source::Peer, peer.socket.as_fd()),
            None => {}
        }
    }

    /// Does what `ready` calls for; what it means is told by [`next_event`](Control::next_event).
    pub(crate) fn turn(&mut self, ready: Ready) {
        if ready.has(Source::Peer) {
            self.hear();
        }
        if ready.has(Source::Listener) && self.accept() {
            self.events.push_back(Event::Connected);
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How long the next turn may wait for a descriptor, if not for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.events.is_empty() {
            false => Some(Duration::ZERO),
            true => self.is_deaf().then_some(LISTEN_INTERVAL),
        }
    }

    fn is_deaf(&self) -> bool {
        self.peer.is_none() && self.listener.is_none()
    }

    fn hear(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        let open = peer.flush().and_then(|()| peer.fill());
        peer.take_messages(&mut self.events);
        if !open.unwrap_or(false) || peer.inbox.len() > MESSAGE_BYTES_MAX {
            self.peer = None;
        }
    }

    fn accept(&mut self) -> bool {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else { return false };
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        self.peer = Some(Peer::new(stream.into()));
        true
    }
}

impl Peer {
    fn new(socket: OwnedFd) -> Self {
        Peer { socket, inbox: Vec::new(), outbox: VecDeque::new() }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            let (front, _) = self.outbox.as_slices();
            match rustix::io::write(&self.socket, front) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Reads what is there, up to one message's worth. `false`: the other side has closed.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        while self.inbox.len() <= MESSAGE_BYTES_MAX {
            match rustix::io::read(&self.socket, &mut bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => self.inbox.extend_from_slice(&bytes[..read]),
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    fn take_messages(&mut self, events: &mut VecDeque<Event>) {
        let mut rest = self.inbox.as_slice();
        while let Some(at) = memchr::memchr(b'\n', rest) {
            match serde_json::from_slice(&rest[..at]) {
                Ok(message) => events.push_back(Event::Message(message)),
                Err(error) => notes::write(&format!("a control message cannot be understood: {error}")),
            }
            rest = &rest[at + 1..];
        }
        let taken = self.inbox.len() - rest.len();
        self.inbox.drain(..taken);
    }
}

/// For a runner that could not even prepare: the worker should hear why.
pub(crate) fn refuse_on_stdin(why: &str) {
    let refusal = FromRunner::Refused { why: why.to_owned() };
    let mut json = serde_json::to_vec(&refusal).expect("messages have only string keys");
    json.push(b'\n');
    let _ = rustix::io::write(rustix::stdio::stdin(), &json);
}

/// In the current folder, by relative path: an absolute one may be longer than a socket's name can be.
fn bind() -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(SOCKET) {
        // Left by a runner that is dead, since we hold the lock.
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            fs::remove_file(SOCKET)?;
            UnixListener::bind(SOCKET)?
        }
        result => result?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Moves the socket away from descriptor 0 and puts `/dev/null` there, which the step inherits.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = OpenOptions::new().read(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}
