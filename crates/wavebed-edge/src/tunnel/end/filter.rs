//! A socket that passes on only what the other end may have sent: QUIC answers some packets of strangers (another
//! version, a connection ID that is too short), and an end answers none.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// The first bit of a long header (RFC 8999).
const LONG: u8 = 0x80;
/// QUIC version 1, which both ends speak.
const VERSION: [u8; 4] = [0, 0, 0, 1];
/// Version, and length of the destination's connection ID.
const VERSION_BYTES: std::ops::Range<usize> = 1..5;
const ID_LENGTH_AT: usize = 5;
/// The first connection ID and the connection IDs of the ends are at least this long (RFC 9000, section 7.2).
const LEAST_ID_BYTES: u8 = 8;

/// Whether QUIC gets a datagram; `from` is the only address that may send, where there is one.
fn passes(datagram: &[u8], sender: SocketAddr, from: Option<SocketAddr>) -> bool {
    if from.is_some_and(|from| (from.ip(), from.port()) != (sender.ip(), sender.port())) {
        return false;
    }
    let is_long = datagram.first().is_some_and(|first| first & LONG != 0);
    // Packets with a short header for an unknown connection get no answer: these IDs are authenticated by QUIC's library.
    !is_long
        || (datagram.get(VERSION_BYTES) == Some(&VERSION[..])
            && datagram
                .get(ID_LENGTH_AT)
                .is_some_and(|bytes| *bytes >= LEAST_ID_BYTES))
}

/// A socket with the filter.
#[derive(Debug)]
pub struct Filtered {
    inner: Arc<dyn AsyncUdpSocket>,
    /// The only address that sends: a connecting end knows where the other listens.
    from: Option<SocketAddr>,
}

impl Filtered {
    /// Filters what `inner` receives.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, from: Option<SocketAddr>) -> Self {
        Self { inner, from }
    }
}

impl AsyncUdpSocket for Filtered {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        for (buffer, meta) in bufs.iter_mut().zip(meta).take(count) {
            // Datagrams that the kernel joined (GRO): one that is refused becomes a short header of no connection.
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                if !passes(datagram, meta.addr, self.from) {
                    datagram.fill(0);
                }
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn only_this_version_with_whole_ids_passes() {
        let sender = address("192.0.2.9:1");
        let passes = |datagram: &[u8]| passes(datagram, sender, None);
        assert!(passes(&[0xc0, 0, 0, 0, 1, 8]));
        assert!(passes(&[0xc0, 0, 0, 0, 1, 20]));
        assert!(passes(&[0x40, 9, 9, 9, 9, 9]));
        assert!(!passes(&[0xc0, 0, 0, 0, 2, 8]), "another version");
        assert!(!passes(&[0x80, 0, 0, 0, 0, 8]), "version negotiation");
        assert!(!passes(&[0xc0, 0, 0, 0, 1, 7]), "a short ID");
        for bytes in 1..6 {
            assert!(!passes(&[0xc0, 0, 0, 0, 1, 8][..bytes]), "{bytes} bytes");
        }
    }

    #[test]
    fn a_connecting_end_hears_the_other_end_only() {
        let other = address("192.0.2.1:4433");
        let initial = [0xc0, 0, 0, 0, 1, 8];
        assert!(passes(&initial, other, Some(other)));
        for sender in ["192.0.2.1:4434", "192.0.2.2:4433"] {
            assert!(!passes(&initial, address(sender), Some(other)), "{sender}");
        }
    }
}
