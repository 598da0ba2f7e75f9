//! One packet per request and per answer, on a socket that keeps their bounds.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// No path that the kernel takes is longer. One that is gets cut here, and is refused when it is entered.
const PATH_BYTES_MAX: usize = 4096;
const ONE_DESCRIPTOR: usize = rustix::cmsg_space!(ScmRights(1));

/// The worker's end and the nursery's.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// An attempt that wants a runner.
pub(super) struct Request {
    pub(super) folder: PathBuf,
    /// The runner's end of its line to the worker.
    pub(super) socket: OwnedFd,
}

pub(super) fn send_request(nursery: impl AsFd, folder: &Path, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); ONE_DESCRIPTOR];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [socket];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)), "there is space for one descriptor");
    let path = [IoSlice::new(folder.as_os_str().as_bytes())];
    retry_on_intr(|| sendmsg(&nursery, &path, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits for the next request. `None`: the worker is gone.
pub(super) fn receive_request(worker: impl AsFd) -> io::Result<Option<Request>> {
    let mut path = [0; PATH_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); ONE_DESCRIPTOR];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length =
        retry_on_intr(|| recvmsg(&worker, &mut [IoSliceMut::new(&mut path)], &mut control, RecvFlags::CMSG_CLOEXEC))?
            .bytes;
    if length == 0 {
        return Ok(None);
    }
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let socket = sockets.flatten().next().ok_or(ErrorKind::InvalidData)?;
    Ok(Some(Request { folder: OsStr::from_bytes(&path[..length]).into(), socket }))
}

/// 0, or why there is no runner.
pub(super) fn send_answer(worker: impl AsFd, forked: Result<(), Errno>) -> io::Result<()> {
    let code = forked.err().map_or(0, Errno::raw_os_error);
    retry_on_intr(|| rustix::net::send(&worker, &code.to_ne_bytes(), SendFlags::NOSIGNAL))?;
    Ok(())
}

/// The outer result is about the nursery, the inner one is its answer.
pub(super) fn receive_answer(nursery: impl AsFd) -> io::Result<Result<(), Errno>> {
    let mut code = [0; size_of::<i32>()];
    let (length, _) = retry_on_intr(|| rustix::net::recv(&nursery, &mut code, RecvFlags::empty()))?;
    if length != code.len() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(match i32::from_ne_bytes(code) {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(code)),
    })
}
