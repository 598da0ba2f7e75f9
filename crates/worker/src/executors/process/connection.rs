//! The conversation with one runner: lines of JSON over a Unix socket.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use protocol::attempt::Ticket;
use protocol::folder::{FromRunner, MESSAGE_BYTES_MAX, SOCKET, ToRunner};
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

/// Most messages are far below this.
const READ_BYTES: usize = 1024;

/// What came from a runner. `number` tells this connection from earlier ones to the same runner.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) ticket: Ticket,
    pub(crate) number: u64,
    /// `None`: the connection has ended.
    pub(crate) said: Option<FromRunner>,
}

/// Ends when it is dropped; the runner goes on without.
#[derive(Debug)]
pub(crate) struct Connection {
    writer: OwnedWriteHalf,
    reader: JoinHandle<()>,
}

impl Connection {
    /// Takes over a connected socket. What the runner says goes to `heard`.
    pub(crate) fn open(stream: UnixStream, ticket: Ticket, number: u64, heard: Sender<Heard>) -> Self {
        let (read_half, writer) = stream.into_split();
        let reader = tokio::spawn(async move {
            if let Err(error) = read(read_half, ticket, number, &heard).await {
                // A runner that leaves while something was on its way to it resets the connection.
                tracing::debug!(attempt = %ticket.attempt, %error, "the connection to a runner broke");
            }
            let _ = heard.send(Heard { ticket, number, said: None }).await;
        });
        Connection { writer, reader }
    }

    /// Never waits: a runner reads at once, and its socket has room for thousands of such messages. If it does not
    /// read, the connection ends and the runner is looked at anew.
    pub(crate) fn send(&self, message: &ToRunner) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).expect("messages are plain data and always have a JSON form");
        line.push(b'\n');
        // Past the runtime, which takes a socket for full until it has first heard otherwise.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(self.writer.as_ref(), &line, flags)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Connects to a runner that another worker started. Blocks only for as long as the kernel needs.
pub(crate) fn reconnect(folder: &Path) -> io::Result<UnixStream> {
    // Through the folder's descriptor: its path may be longer than a socket's name can be.
    let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn read(mut socket: OwnedReadHalf, ticket: Ticket, number: u64, heard: &Sender<Heard>) -> io::Result<()> {
    let mut inbox = Vec::with_capacity(READ_BYTES);
    loop {
        let searched = inbox.len();
        if socket.read_buf(&mut inbox).await? == 0 {
            return Ok(());
        }
        let mut taken = 0;
        while let Some(length) = inbox[searched.max(taken)..].iter().position(|byte| *byte == b'\n') {
            let line_end = searched.max(taken) + length;
            let said = serde_json::from_slice(&inbox[taken..line_end])?;
            taken = line_end + 1;
            if heard.send(Heard { ticket, number, said: Some(said) }).await.is_err() {
                return Ok(());
            }
        }
        inbox.drain(..taken);
        if inbox.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is longer than allowed"));
        }
    }
}
