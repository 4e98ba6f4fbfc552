//! Unix sockets: names that vanish with their process, credentials, and descriptors on the way.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::error::{Context, Result, check};

/// At most this many descriptors travel with one message.
pub const MAX_DESCRIPTORS: usize = 8;

/// `AF_UNIX`, as an address has it.
const UNIX_FAMILY: libc::sa_family_t = 1;

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
/// Nobody listens there, or whoever listens takes no connection now (`EAGAIN`).
pub fn connect(name: &str) -> Result<UnixStream> {
    let object = || format!("socket @{name}");
    let mut address = libc::sockaddr_un {
        sun_family: UNIX_FAMILY,
        sun_path: [0; 108],
    };
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let (true, Ok(length)) = (
        name.len() < address.sun_path.len(),
        libc::socklen_t::try_from(length),
    ) else {
        let error = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(error).during("name", object());
    };
    // The first byte stays 0: the name is abstract.
    for (place, byte) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *place = byte.cast_signed() as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the new descriptor is owned at once; `address` is valid for `length` bytes during the call.
    let stream = unsafe {
        let fd = check(libc::socket(libc::AF_UNIX, kind, 0)).during("make", "a socket")?;
        let stream = UnixStream::from_raw_fd(fd);
        let pointer = (&raw const address).cast();
        check(libc::connect(fd, pointer, length)).during("connect to", object())?;
        stream
    };
    stream
        .set_nonblocking(false)
        .during("connect to", object())?;
    Ok(stream)
}

/// The user at the other end, as seen from the caller's user namespace.
///
/// # Errors
/// What getsockopt(2) answers.
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
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
    Ok(credentials.uid)
}

/// Two ends of a connection that keeps messages apart.
///
/// # Errors
/// What socketpair(2) answers.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: the array has room for two; both descriptors are owned at once.
    unsafe {
        check(libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        ))
        .during("make", "a socket pair")?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Room for the control message of [`MAX_DESCRIPTORS`] descriptors, aligned as the kernel wants it.
#[repr(align(8))]
struct ControlRoom([u8; 64]);

/// Sends `bytes`, and `descriptors` with them, without waiting.
///
/// # Errors
/// What sendmsg(2) answers (`EAGAIN`: there is no room now); never `SIGPIPE`.
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
    let mut room = ControlRoom([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the message points to `part`, `bytes` and `room`, which outlive the call; `room` has space for the
    // header and MAX_DESCRIPTORS numbers (16 + 32 bytes); the kernel does not write to `bytes`.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let payload = u32::try_from(mem::size_of_val(descriptors)).expect("a few bytes");
            message.msg_control = room.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(payload) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as usize;
            let data = libc::CMSG_DATA(header);
            for (index, fd) in descriptors.iter().enumerate() {
                let number = fd.as_raw_fd().to_ne_bytes();
                std::ptr::copy_nonoverlapping(number.as_ptr(), data.add(index * 4), 4);
            }
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into `buffer`, and descriptors into `descriptors`. 0 bytes: the other end is closed.
///
/// # Errors
/// What recvmsg(2) answers.
pub fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut room = ControlRoom([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the message points to `part`, `buffer` and `room`, which outlive the call. Control messages are
    // walked with the C library's own macros; each descriptor in them is new and owned once.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len();
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header);
                for index in 0..bytes / mem::size_of::<libc::c_int>() {
                    let mut number = [0; 4];
                    std::ptr::copy_nonoverlapping(data.add(index * 4), number.as_mut_ptr(), 4);
                    descriptors.push(OwnedFd::from_raw_fd(RawFd::from_ne_bytes(number)));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        Ok(count)
    }
}

/// Both ends of a byte stream within the process, to be shared with a child.
///
/// # Errors
/// What socketpair(2) answers.
pub fn stream_pair() -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().during("make", "a socket pair")
}

/// Whether the other end of `fd` is closed, without waiting.
#[must_use]
pub fn is_hung_up(fd: &impl AsFd) -> bool {
    let mut entry = libc::pollfd {
        fd: fd.as_fd().as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: the entry is valid for the call.
    unsafe {
        libc::poll(&raw mut entry, 1, 0) > 0 && entry.revents & (libc::POLLHUP | libc::POLLERR) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

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
    fn nobody_waits_for_a_listener_that_takes_no_connections() {
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
    fn a_message_that_finds_no_room_is_not_waited_for() {
        let (left, _right) = message_pair().expect("pair");
        while send(left.as_fd(), b"x", &[]).is_ok() {}
    }

    #[test]
    fn a_name_is_taken_once_and_knows_its_peer() {
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
        assert!(is_hung_up(&server));
    }
}
