//! Unix sockets: abstract names, peer credentials, and passing of descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    socket_with, socketpair,
};

use crate::error::{Context, Result, check};

/// At most this many descriptors travel with one message.
pub const MAX_DESCRIPTORS: usize = 8;

/// Listens on the abstract name `name` in the network namespace of the calling thread.
///
/// # Errors
/// `EADDRINUSE`: the name is taken.
pub fn listen(name: &str) -> Result<UnixListener> {
    let object = || format!("socket @{name}");
    let address = SocketAddr::from_abstract_name(name).during("name", object())?;
    let listener = UnixListener::bind_addr(&address).during("listen on", object())?;
    listener
        .set_nonblocking(true)
        .during("listen on", object())?;
    Ok(listener)
}

/// Connects to the abstract name `name` without waiting.
///
/// # Errors
/// No process listens there, or the listener accepts no connection now (`EAGAIN`).
pub fn connect(name: &str) -> Result<UnixStream> {
    let object = || format!("socket @{name}");
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).during("name", object())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .during("make", "a socket")?;
    rustix::net::connect(&stream, &address).during("connect to", object())?;
    let stream = UnixStream::from(stream);
    stream
        .set_nonblocking(false)
        .during("connect to", object())?;
    Ok(stream)
}

/// The user at the other end, as seen from the caller's user namespace.
///
/// # Errors
/// The error of getsockopt(2).
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    Ok(peer(stream)?.uid)
}

/// The process that connected or listened at the other end, as seen from the caller's PID namespace.
///
/// # Errors
/// The error of getsockopt(2).
pub fn peer_process(stream: &UnixStream) -> io::Result<i32> {
    Ok(peer(stream)?.pid)
}

fn peer(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length: libc::socklen_t = 12;
    // SAFETY: both out-pointers are valid for the call and `length` says how much fits.
    check(unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    })?;
    Ok(credentials)
}

/// A pair of connected sockets with message boundaries.
///
/// # Errors
/// The error of socketpair(2).
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socketpair(AddressFamily::UNIX, kind, flags, None).during("make", "a socket pair")
}

/// Sends `bytes`, and `descriptors` with them, without waiting.
///
/// # Errors
/// The error of sendmsg(2) (`EAGAIN`: there is no room now); never `SIGPIPE`.
///
/// # Panics
/// There are more than [`MAX_DESCRIPTORS`] descriptors.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    assert!(
        descriptors.len() <= MAX_DESCRIPTORS,
        "at most {MAX_DESCRIPTORS} descriptors"
    );
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives into `buffer`, and descriptors into `descriptors`. 0 bytes: the other end is closed.
///
/// # Errors
/// The error of recvmsg(2).
pub fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    Ok(received.bytes)
}

/// Both ends of a byte stream within the process, to be shared with a child.
///
/// # Errors
/// The error of socketpair(2).
pub fn stream_pair() -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().during("make", "a socket pair")
}

/// Whether the other end of `fd` is closed, without waiting.
#[must_use]
pub fn is_hung_up(fd: &impl AsFd) -> bool {
    let mut entry = [PollFd::new(fd, PollFlags::empty())];
    let gone = PollFlags::HUP | PollFlags::ERR;
    poll(&mut entry, Some(&Timespec::default())).is_ok() && entry[0].revents().intersects(gone)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn descriptors_travel_with_their_message() {
        let (left, right) = message_pair().expect("pair");
        let (mut reader, writer) = io::pipe().expect("pipe");
        let fds = [writer.as_fd(), writer.as_fd(), writer.as_fd()];
        send(left.as_fd(), b"hello", &fds).expect("send");
        drop(writer);
        let mut buffer = [0; 16];
        let mut received = Vec::new();
        let count = receive(right.as_fd(), &mut buffer, &mut received).expect("receive");
        assert_eq!((&buffer[..count], received.len()), (&b"hello"[..], 3));
        let mut file = std::fs::File::from(received.pop().expect("three"));
        file.write_all(b"x").expect("write");
        drop((file, received));
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "x");
    }

    #[test]
    fn connect_does_not_wait_for_a_listener_that_accepts_no_connections() {
        let name = format!("wavebed-test/full/{}", std::process::id());
        let _listener = listen(&name).expect("listen");
        let mut taken = Vec::new();
        let refused = loop {
            match connect(&name) {
                Ok(stream) => taken.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.source.kind(), io::ErrorKind::WouldBlock);
        assert!(connect(&"x".repeat(108)).is_err());
    }

    #[test]
    fn send_does_not_wait_for_space() {
        let (left, _right) = message_pair().expect("pair");
        while send(left.as_fd(), b"x", &[]).is_ok() {}
    }

    #[test]
    fn a_name_is_used_once_and_the_peer_is_known() {
        let name = format!("wavebed-test/{}", std::process::id());
        let listener = listen(&name).expect("listen");
        assert!(listen(&name).is_err());
        let client = connect(&name).expect("connect");
        let (server, _) = listener.accept().expect("accept");
        assert_eq!(
            peer_user(&server).expect("peer"),
            crate::namespace::effective_user().0
        );
        assert!(!is_hung_up(&server));
        drop(client);
        // A program that another test starts holds a copy of every descriptor until it runs.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_hung_up(&server) {
            assert!(Instant::now() < deadline, "it is hung up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
