//! Coalescing: wire segments of one flow become one super-packet, as GRO makes it, but only where cutting it gives the
//! same segments again.

use crate::checksum;
use crate::checksum::{VnetHeader, read_u16, read_u32, short, write_u16};
use crate::cut::{HeaderBuf, pseudo_header_sum, set_v4_length, vnet_for};
use crate::ip::Ipv6;
use crate::shape::{MAX_HEADER_LEN, Network, Shape, Transport};
use crate::transport::{Tcp, Udp};

/// Most segments of a coalesced packet (`UDP_MAX_SEGMENTS` of Linux before 6.9).
pub const MAX_COALESCED: usize = 64;
/// Longest coalesced packet, IP bytes.
const MAX_BYTES: usize = 65_535;
/// The bit Don't Fragment in the byte with the flags of IPv4.
const DONT_FRAGMENT: u8 = 0x40;

/// Wire segments that become one packet: [`Coalescer::start`] with the first, then [`Coalescer::add`]. Their checksums are
/// complete, or, with [`Coalescer::start_after`] and [`Coalescer::add_after`], may wait for the kernel.
///
/// Segments are coalesced if they belong to one flow, follow each other without a gap, and agree in every byte of their
/// headers but those that cutting makes anew: so in DSCP, ECN field, acknowledgement, window and TCP options, time
/// stamps among them. All but the last have one size. FIN and PSH end a packet, CWR begins one; segments with SYN, RST
/// or URG, without payload or with a wrong checksum stay alone. The IPv4 ID counts on, or the segments must not be
/// fragmented: it has no meaning then (RFC 6864), and cutting numbers them anew.
#[derive(Clone, Debug)]
pub struct Coalescer<P> {
    packets: Vec<P>,
    /// Of the first packet.
    vnet: VnetHeader,
    run: Option<Run>,
    is_exact: bool,
}

impl<P> Default for Coalescer<P> {
    fn default() -> Self {
        Self {
            packets: Vec::new(),
            vnet: VnetHeader::default(),
            run: None,
            is_exact: false,
        }
    }
}

/// What to write to a device: one packet as it came, or several as a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced<'a, P> {
    /// The virtio-net header.
    pub vnet: VnetHeader,
    /// The headers of a super-packet; empty for a packet as it came.
    pub header: &'a [u8],
    /// The packets. Of a super-packet only what comes after their headers belongs to it.
    pub packets: &'a [P],
}

impl<P: AsRef<[u8]>> Coalesced<'_, P> {
    /// What follows the header, in order.
    pub fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let from = self.header.len();
        self.packets.iter().map(move |one| &one.as_ref()[from..])
    }
}

/// The segments so far.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Of the first.
    shape: Shape,
    /// Payload bytes of all.
    payload: usize,
    /// FIN and PSH of the last.
    last_flags: u8,
    /// Whether the checksum of the first was verified: not before there is a second.
    verified: bool,
    /// Nothing may follow.
    closed: bool,
}

impl<P: AsRef<[u8]>> Coalescer<P> {
    /// Coalesces only what cutting gives back byte for byte: the IPv4 ID has to count on in every packet.
    #[must_use]
    pub fn exact() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_COALESCED),
            vnet: VnetHeader::default(),
            run: None,
            is_exact: true,
        }
    }

    /// Begins with a packet, whatever it is, and forgets what was there; `shape` comes from [`crate::inspect`] with an
    /// empty virtio-net header. Returns whether anything may follow.
    pub fn start(&mut self, packet: P, shape: &Shape) -> bool {
        self.start_after(&VnetHeader::default(), packet, shape)
    }

    /// The same with a packet that has this virtio-net header, which [`crate::inspect`] got too.
    pub fn start_after(&mut self, vnet: &VnetHeader, packet: P, shape: &Shape) -> bool {
        self.vnet = *vnet;
        self.run = flags_of(vnet, packet.as_ref(), shape).map(|flags| Run {
            shape: *shape,
            payload: payload_len(shape),
            last_flags: flags & (Tcp::FIN | Tcp::PSH),
            verified: false,
            closed: flags & (Tcp::FIN | Tcp::PSH) != 0,
        });
        self.packets.clear();
        self.packets.push(packet);
        self.run.is_some_and(|run| !run.closed)
    }

    /// Adds a packet to the end; returns whether anything may follow it.
    ///
    /// # Errors
    /// The packet, if it must not be coalesced with those before. Nothing changes then.
    pub fn add(&mut self, packet: P, shape: &Shape) -> Result<bool, P> {
        self.add_after(&VnetHeader::default(), packet, shape)
    }

    /// The same with a packet that has this virtio-net header, which [`crate::inspect`] got too.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_after(&mut self, vnet: &VnetHeader, packet: P, shape: &Shape) -> Result<bool, P> {
        let waits = self.vnet.needs_csum();
        let Some(run) = self.run.as_mut().filter(|run| !run.closed) else {
            return Err(packet);
        };
        let (first, next) = (self.packets[0].as_ref(), packet.as_ref());
        let Some(flags) = flags_of(vnet, next, shape).filter(|_| {
            waits == vnet.needs_csum()
                && run.has_room_for(shape, self.packets.len())
                && run.continues(first, next, shape, self.packets.len(), self.is_exact)
        }) else {
            return Err(packet);
        };
        run.verified = run.verified || waits || has_right_checksum(first, &run.shape);
        if !run.verified || !(waits || has_right_checksum(next, shape)) {
            return Err(packet);
        }
        run.payload += payload_len(shape);
        run.last_flags = flags & (Tcp::FIN | Tcp::PSH);
        run.closed = run.last_flags != 0 || payload_len(shape) < payload_len(&run.shape);
        let goes_on = !run.closed;
        self.packets.push(packet);
        Ok(goes_on)
    }

    /// What to write; its headers are written to `out`.
    pub fn coalesced<'a>(&'a self, out: &'a mut HeaderBuf) -> Coalesced<'a, P> {
        let alone = Coalesced {
            vnet: self.vnet,
            header: &[],
            packets: &self.packets,
        };
        let Some(run) = self.run.filter(|_| self.packets.len() > 1) else {
            return alone;
        };
        let first = self.packets[0].as_ref();
        let header = out.fill(&first[..usize::from(run.shape.header_len)]);
        let vnet = run.write(header);
        Coalesced {
            vnet,
            header,
            ..alone
        }
    }

    /// Forgets the packets.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.run = None;
    }
}

impl Run {
    /// Whether another segment fits after `count` segments.
    fn has_room_for(&self, shape: &Shape, count: usize) -> bool {
        count < MAX_COALESCED
            && payload_len(shape) <= payload_len(&self.shape)
            && usize::from(shape.header_len) + self.payload + payload_len(shape) <= MAX_BYTES
    }

    /// Whether the headers of `next` are what cutting would make of the headers of `first` for segment `count`, checksums
    /// aside.
    fn continues(
        &self,
        first: &[u8],
        next: &[u8],
        shape: &Shape,
        count: usize,
        is_exact: bool,
    ) -> bool {
        let l4 = usize::from(self.shape.l4_offset);
        let of = |shape: &Shape| {
            (
                shape.network,
                shape.transport,
                shape.l4_offset,
                shape.header_len,
            )
        };
        if of(shape) != of(&self.shape) {
            return false;
        }
        let network_fits = if shape.network == Network::V4 {
            first[..2] == next[..2]
                && (first[6] & DONT_FRAGMENT != 0 && !is_exact
                    || read_u16(next, 4) == read_u16(first, 4).wrapping_add(short(count)))
                && first[6..10] == next[6..10]
                && first[12..l4] == next[12..l4]
        } else {
            first[..4] == next[..4] && first[6..l4] == next[6..l4]
        };
        let end = usize::from(shape.header_len);
        let (old, new) = (&first[l4..end], &next[l4..end]);
        let transport_fits = if shape.transport == Transport::Tcp {
            let sequence = read_u32(old, 4).wrapping_add(short(self.payload).into());
            let made_anew = Tcp::FIN | Tcp::PSH | Tcp::CWR;
            old[..4] == new[..4]
                && read_u32(new, 4) == sequence
                && old[8..13] == new[8..13]
                && (old[13] ^ new[13]) & !made_anew == 0
                && new[13] & Tcp::CWR == 0
                && old[14..16] == new[14..16]
                && old[18..] == new[18..]
        } else {
            old[..4] == new[..4]
        };
        network_fits && transport_fits
    }

    /// Turns the header of the first segment into the header of all segments.
    fn write(&self, header: &mut [u8]) -> VnetHeader {
        let shape = &self.shape;
        let l4 = usize::from(shape.l4_offset);
        let total = header.len() + self.payload;
        let l4_len = short(total - l4);
        let is_tcp = shape.transport == Transport::Tcp;
        if is_tcp {
            header[l4 + 13] |= self.last_flags;
        } else {
            write_u16(header, l4 + 4, l4_len);
        }
        let partial = pseudo_header_sum(header, shape, l4_len);
        write_u16(header, checksum_at(shape), partial);
        if shape.network == Network::V4 {
            set_v4_length(header, short(total));
        } else {
            write_u16(header, 4, short(total - Ipv6::LEN));
        }
        let vnet = VnetHeader {
            gso_type: match (shape.network, is_tcp) {
                (_, false) => VnetHeader::GSO_UDP_L4,
                (Network::V4, true) => VnetHeader::GSO_TCPV4,
                (_, true) => VnetHeader::GSO_TCPV6,
            },
            gso_size: short(payload_len(shape)),
            ..VnetHeader::default()
        };
        let has_cwr = is_tcp && header[l4 + 13] & Tcp::CWR != 0;
        vnet_for(&vnet, shape, true, has_cwr)
    }
}

/// Flags of a segment that may be coalesced as far as its headers tell; UDP has none.
fn flags_of(vnet: &VnetHeader, packet: &[u8], shape: &Shape) -> Option<u8> {
    let l4 = usize::from(shape.l4_offset);
    if shape.transport == Transport::Other
        || shape.segments > 1
        || usize::from(shape.header_len) >= MAX_HEADER_LEN
        || payload_len(shape) == 0
    {
        return None;
    }
    let network_fits = if shape.network == Network::V4 {
        // Of the two zeros, cutting writes 0x0000 only.
        usize::from(read_u16(packet, 2)) == packet.len()
            && checksum::checksum(&packet[..l4]) == 0
            && read_u16(packet, 10) != 0xffff
    } else {
        usize::from(read_u16(packet, 4)) + Ipv6::LEN == packet.len()
    };
    let checksum = read_u16(packet, checksum_at(shape));
    if vnet.needs_csum() {
        // The kernel completes it from there, with the sum of the pseudo-header in the field.
        let field = vnet.csum_start + vnet.csum_offset;
        let pseudo = pseudo_header_sum(packet, shape, short(packet.len() - l4));
        if usize::from(vnet.csum_start) != l4
            || usize::from(field) != checksum_at(shape)
            || checksum != pseudo
        {
            return None;
        }
    }
    let (flags, transport_fits) = if shape.transport == Transport::Tcp {
        let flags = packet[l4 + 13];
        let alone = Tcp::SYN | Tcp::RST | Tcp::URG;
        (
            flags,
            flags & alone == 0 && (vnet.needs_csum() || checksum != 0xffff),
        )
    } else {
        // Without a checksum, it would get one.
        let length = usize::from(read_u16(packet, l4 + 4));
        (0, length == packet.len() - l4 && checksum != 0)
    };
    (network_fits && transport_fits).then_some(flags)
}

fn payload_len(shape: &Shape) -> usize {
    usize::from(shape.segment_bytes - shape.header_len)
}

fn checksum_at(shape: &Shape) -> usize {
    let field = if shape.transport == Transport::Tcp {
        Tcp::CHECKSUM_AT
    } else {
        Udp::CHECKSUM_AT
    };
    usize::from(shape.l4_offset) + field
}

/// A super-packet gets a new checksum, which must not make a damaged packet right.
fn has_right_checksum(packet: &[u8], shape: &Shape) -> bool {
    let body = &packet[usize::from(shape.l4_offset)..];
    let pseudo = pseudo_header_sum(packet, shape, short(body.len()));
    checksum::add(pseudo, checksum::sum(body)) == 0xffff
}
