//! Unix sockets: abstract names, peer credentials, and passing of descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

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

/// The largest file that is read.
pub const MAX_BYTES: u64 = 1 << 30;

/// The text of a regular file; files in memory that another program passed on (`/proc/self/fd/N`) are regular.
///
/// # Errors
/// One line without the file's name: it cannot be read, is not a regular file, is larger than `most_bytes` or not UTF-8.
pub fn read_text(file: &Path, most_bytes: u64) -> std::result::Result<String, String> {
    let (opened, metadata) = open_regular(file, most_bytes)?;
    read_all(opened, &metadata, most_bytes)
}

/// The text of a regular file that its owner alone may read, who is this user or root.
///
/// # Errors
/// As [`read_text`], and: another user owns the file, and knows what is in it or chose that; or others may read it.
pub fn read_private(file: &Path, most_bytes: u64) -> std::result::Result<String, String> {
    let (opened, metadata) = open_regular(file, most_bytes)?;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(format!("belongs to user {owner}: name a file of your own"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others may read this file (mode {mode:o}): chmod 600"
        ));
    }
    read_all(opened, &metadata, most_bytes)
}

fn open_regular(
    file: &Path,
    most_bytes: u64,
) -> std::result::Result<(File, std::fs::Metadata), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let regular = |metadata: &std::fs::Metadata| {
        if metadata.is_file() {
            Ok(())
        } else {
            Err("is not a regular file: name a file".to_owned())
        }
    };
    // The first check avoids opening a device; the second one detects a replaced file.
    regular(&std::fs::metadata(file).map_err(unreadable)?)?;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(file)
        .map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    regular(&metadata)?;
    if metadata.len() > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok((opened, metadata))
}

fn read_all(
    file: File,
    metadata: &std::fs::Metadata,
    most_bytes: u64,
) -> std::result::Result<String, String> {
    let room = metadata.len().try_into().unwrap_or(0);
    read_into(String::with_capacity(room), file, most_bytes)
}

/// The text of a file of any kind or of a pipe.
///
/// # Errors
/// One line without its name: it cannot be read, is larger than `most_bytes` or not UTF-8.
pub fn read_bounded(file: impl Read, most_bytes: u64) -> std::result::Result<String, String> {
    read_into(String::new(), file, most_bytes)
}

fn read_into(
    mut text: String,
    file: impl Read,
    most_bytes: u64,
) -> std::result::Result<String, String> {
    file.take(most_bytes + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok(text)
}

fn too_large(most_bytes: u64) -> String {
    format!("is larger than {most_bytes} bytes: name a smaller file")
}

/// Opens a file of any kind, for [`read_bounded`].
///
/// # Errors
/// One line without its name: it cannot be opened.
pub fn open(file: &Path) -> std::result::Result<File, String> {
    File::open(file).map_err(|error| format!("cannot be read: {error}"))
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

    #[test]
    fn devices_and_folders_are_refused_and_sizes_bounded() {
        for name in ["/dev/zero", "/dev/null", "/"] {
            let line = read_text(Path::new(name), 10).expect_err("is refused");
            assert!(line.contains("not a regular file"), "{line}");
        }
        let line = read_text(Path::new("/proc/self/maps"), 10).expect_err("is refused");
        assert!(line.contains("larger than 10 bytes"), "{line}");
        assert_eq!(read_bounded(&b"text"[..], 4), Ok("text".to_owned()));
    }
}
