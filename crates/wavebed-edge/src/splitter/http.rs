//! A small HTTP server for metrics: GET only, one request for each connection, on the splitter's own event loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, ipproto,
    listen, recv, send, socket_with, sockopt,
};

use super::http_request::{Page, answer};

/// Connections at a time.
pub const MOST_CONNECTIONS: u32 = 16;
/// Time that a connection may take.
const LIFETIME_NS: u64 = 5_000_000_000;
/// Time until its whole request must have come.
const REQUEST_NS: u64 = 1_000_000_000;

/// Listens for requests.
///
/// # Errors
/// The address is in use, or not the machine's.
pub fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, 16)?;
    Ok(socket)
}

/// The place for a new connection: a free one, else the place of the oldest connection without a whole request, else
/// of the oldest connection. Silent connections keep nobody out: a reader of metrics asks at once.
pub fn place(readers: &[Option<Reader>]) -> Option<usize> {
    let rank = |reader: &Option<Reader>| {
        let reader = reader.as_ref()?;
        Some((reader.has_asked(), reader.since_ns))
    };
    (0..readers.len()).min_by_key(|number| rank(&readers[*number]))
}

/// A connection with a reader of metrics.
#[derive(Debug)]
pub struct Reader {
    /// Its socket.
    pub socket: OwnedFd,
    since_ns: u64,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

impl Reader {
    /// Accepts one.
    ///
    /// # Errors
    /// The error of accept4(2).
    pub fn accept(listener: &OwnedFd, now_ns: u64) -> io::Result<Self> {
        let socket = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok(Self {
            socket,
            since_ns: now_ns,
            request: Vec::new(),
            answer: Vec::new(),
            sent: 0,
        })
    }

    /// Whether it takes too long.
    pub fn is_late(&self, now_ns: u64) -> bool {
        let limit_ns = if self.has_asked() {
            LIFETIME_NS
        } else {
            REQUEST_NS
        };
        now_ns.saturating_sub(self.since_ns) > limit_ns
    }

    /// Whether its whole request has come.
    const fn has_asked(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Goes on after an event. True when it has ended; a connection that fails ends.
    pub fn go_on(&mut self, page: impl Fn(&str) -> Page) -> bool {
        match self.try_on(page) {
            Ok(has_ended) => has_ended,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    fn try_on(&mut self, page: impl Fn(&str) -> Page) -> io::Result<bool> {
        while self.answer.is_empty() {
            let mut bytes = [0; 1024];
            let (count, _) = recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)?;
            if count == 0 {
                return Ok(true);
            }
            self.request.extend_from_slice(&bytes[..count]);
            self.answer = answer(&self.request, &page);
        }
        while self.sent < self.answer.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            self.sent += send(&self.socket, &self.answer[self.sent..], flags)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_nothing_loses_its_place_first() {
        let reader = |since_ns, answer: &[u8]| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("binds");
            Some(Reader {
                socket: socket.into(),
                since_ns,
                request: Vec::new(),
                answer: answer.to_vec(),
                sent: 0,
            })
        };
        let mut readers = vec![reader(1, b"x"), reader(3, b""), reader(2, b"")];
        assert_eq!(place(&readers), Some(2), "the oldest without a request");
        readers.drain(1..);
        readers.push(reader(4, b"x"));
        assert_eq!(place(&readers), Some(0), "the oldest");
        readers.push(None);
        assert_eq!(place(&readers), Some(2), "a free one");
        assert_eq!(place(&[]), None);
    }
}
