//! Joins segments that leave together into one super-packet, as GRO does, but only where cutting it gives back
//! the very bytes.

use crate::bytes::{read_u16, read_u32, short, write_u16};
use crate::checksum;
use crate::cut::{HeaderBuf, set_v4_length, vnet_for};
use crate::ip::Ipv6;
use crate::shape::{MAX_HEADER_LEN, Network, Shape, Transport, inspect_parts};
use crate::transport::{Tcp, Udp};
use crate::vnet::VnetHeader;

/// Longest joined packet, IP bytes.
pub const MAX_JOINED_BYTES: usize = 65_535;
/// Most TCP segments in a joined packet.
pub const MAX_TCP_SEGMENTS: u16 = 64;
/// Most UDP datagrams in a joined packet (`UDP_MAX_SEGMENTS` of Linux).
pub const MAX_UDP_SEGMENTS: u16 = 128;

/// Joins pieces one after another: [`Joiner::start`] with the first, [`Joiner::add`] while it says yes, then
/// [`Joiner::finish`]. It sees headers and lengths only; the payload slices, in the order in which they were
/// taken, are the caller's.
///
/// Pieces are joined if they have a partial checksum (as everything from a local sender has), belong to one
/// flow, follow each other without a gap, and agree in every byte of their headers but those that cutting
/// makes anew. All segments but the last have one size. Segments with SYN, RST or URG stay alone.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    head: HeaderBuf,
    header_len: usize,
    vnet: VnetHeader,
    units: u32,
    joined: Option<Joined>,
}

/// The joinable content so far.
#[derive(Clone, Copy, Debug)]
struct Joined {
    shape: Shape,
    segments: u16,
    payload: usize,
    /// FIN and PSH of the last segment.
    last_flags: u8,
    /// The last segment was short, or had FIN or PSH: nothing may follow.
    closed: bool,
}

/// What may be joined: a piece whose headers are as cutting would have made them.
#[derive(Clone, Copy)]
struct Unit {
    shape: Shape,
    flags: u8,
}

impl Joiner {
    /// An empty joiner.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins with a piece, whatever it is, and forgets what was there. Returns whether anything could be joined
    /// to it.
    ///
    /// # Panics
    /// If the header is longer than [`MAX_HEADER_LEN`], which that of no [`crate::Piece`] is.
    pub fn start(&mut self, vnet: &VnetHeader, header: &[u8], payload_len: usize) -> bool {
        assert!(
            header.len() <= MAX_HEADER_LEN,
            "a header of {} bytes",
            header.len()
        );
        self.head.fill(header);
        self.header_len = header.len();
        self.vnet = *vnet;
        self.units = 1;
        self.joined = Unit::read(vnet, header, payload_len).map(|unit| Joined {
            shape: unit.shape,
            segments: unit.shape.segments,
            payload: payload_len,
            last_flags: unit.flags & (Tcp::FIN | Tcp::PSH),
            closed: unit.closes(unit.shape.payload_per_segment),
        });
        self.joined.is_some_and(|joined| !joined.closed)
    }

    /// Joins a piece to the end. Returns false, and changes nothing, if it must not be joined.
    pub fn add(&mut self, vnet: &VnetHeader, header: &[u8], payload_len: usize) -> bool {
        let Some(joined) = self.joined.filter(|joined| !joined.closed) else {
            return false;
        };
        if header.len() != self.header_len {
            return false;
        }
        let Some(unit) = Unit::read(vnet, header, payload_len) else {
            return false;
        };
        let size = joined.shape.payload_per_segment;
        let sizes_fit = if unit.shape.segments > 1 {
            unit.shape.payload_per_segment == size
        } else {
            payload_len <= usize::from(size)
        };
        let segments = u32::from(joined.segments) + u32::from(unit.shape.segments);
        let most = if unit.shape.transport == Transport::Tcp {
            MAX_TCP_SEGMENTS
        } else {
            MAX_UDP_SEGMENTS
        };
        let total = self.header_len + joined.payload + payload_len;
        if !sizes_fit
            || segments > most.into()
            || total > MAX_JOINED_BYTES
            || !joined.continues(self.head.head(self.header_len), header, &unit)
        {
            return false;
        }
        self.units += 1;
        self.joined = Some(Joined {
            segments: joined.segments + unit.shape.segments,
            payload: joined.payload + payload_len,
            last_flags: unit.flags & (Tcp::FIN | Tcp::PSH),
            closed: unit.closes(size),
            ..joined
        });
        true
    }

    /// How many pieces were taken since the last [`Self::start`], that one included.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// What to write in front of the payload slices. One piece alone comes back as it was.
    pub fn finish(&mut self) -> (VnetHeader, &[u8]) {
        if let Some(joined) = self.joined.take()
            && self.units > 1
        {
            self.vnet = joined.write(&self.vnet, self.head.head_mut(self.header_len));
        }
        (self.vnet, self.head.head(self.header_len))
    }
}

impl Joined {
    /// Whether `header` is what cutting would make of `first` for the segments that follow.
    fn continues(&self, first: &[u8], header: &[u8], unit: &Unit) -> bool {
        let shape = &self.shape;
        let l4 = usize::from(shape.l4_offset);
        if (
            unit.shape.network,
            unit.shape.transport,
            unit.shape.l4_offset,
        ) != (shape.network, shape.transport, shape.l4_offset)
        {
            return false;
        }
        let network_fits = if shape.network == Network::V4 {
            let identification = read_u16(first, 4).wrapping_add(self.segments);
            // Length and checksum were verified for each unit.
            first[..2] == header[..2]
                && read_u16(header, 4) == identification
                && first[6..10] == header[6..10]
                && first[12..l4] == header[12..l4]
        } else {
            first[..4] == header[..4] && first[6..l4] == header[6..l4]
        };
        let (old, new) = (&first[l4..], &header[l4..]);
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
        network_fits
            && transport_fits
            && partial_without_length(first, shape) == partial_without_length(header, &unit.shape)
    }

    /// Makes the header of the first unit that of all.
    fn write(&self, vnet: &VnetHeader, header: &mut [u8]) -> VnetHeader {
        let shape = &self.shape;
        let l4 = usize::from(shape.l4_offset);
        let total = header.len() + self.payload;
        let l4_len = short(total - l4);
        let field = checksum_field(shape);
        let partial = checksum::add(partial_without_length(header, shape), l4_len);
        write_u16(header, field, partial);
        let tcp = shape.transport == Transport::Tcp;
        if tcp {
            header[l4 + 13] |= self.last_flags;
        } else {
            write_u16(header, l4 + 4, l4_len);
        }
        let kind = match (shape.network, tcp) {
            (_, false) => VnetHeader::GSO_UDP_L4,
            (Network::V4, true) => VnetHeader::GSO_TCPV4,
            (_, true) => VnetHeader::GSO_TCPV6,
        };
        if shape.network == Network::V4 {
            set_v4_length(header, short(total));
        } else {
            write_u16(header, 4, short(total - Ipv6::LEN));
        }
        let has_cwr = tcp && header[l4 + 13] & Tcp::CWR != 0;
        let vnet = VnetHeader {
            gso_type: kind,
            gso_size: shape.payload_per_segment,
            ..*vnet
        };
        vnet_for(&vnet, shape, true, has_cwr)
    }
}

impl Unit {
    /// Nothing if the piece cannot be part of a joined packet.
    fn read(vnet: &VnetHeader, header: &[u8], payload_len: usize) -> Option<Self> {
        let total = header.len() + payload_len;
        let shape = inspect_parts(vnet, header, total).ok()?;
        let l4 = usize::from(shape.l4_offset);
        if shape.transport == Transport::Other
            || usize::from(shape.header_len) != header.len()
            || payload_len == 0
            || vnet.flags != VnetHeader::NEEDS_CSUM
            || vnet.csum_start != shape.l4_offset
            || l4 + usize::from(vnet.csum_offset) != checksum_field(&shape)
        {
            return None;
        }
        let network_fits = if shape.network == Network::V4 {
            // Of the two zeros, cutting writes 0x0000 only.
            usize::from(read_u16(header, 2)) == total
                && checksum::checksum(&header[..l4]) == 0
                && read_u16(header, 10) != 0xffff
        } else {
            usize::from(read_u16(header, 4)) + Ipv6::LEN == total
        };
        let flags = if shape.transport == Transport::Tcp {
            header[l4 + 13]
        } else {
            0
        };
        let transport_fits = if shape.transport == Transport::Tcp {
            flags & (Tcp::SYN | Tcp::RST | Tcp::URG) == 0
        } else {
            usize::from(read_u16(header, l4 + 4)) == total - l4
        };
        // Of the two zeros, a sum with a protocol number in it gives 0xffff only, and so does cutting.
        let has_sum = read_u16(header, checksum_field(&shape)) != 0;
        (network_fits && transport_fits && has_sum).then_some(Self { shape, flags })
    }

    /// Whether nothing may follow this unit in a packet with segments of `size` payload bytes.
    fn closes(&self, size: u16) -> bool {
        let last_payload = self.shape.last_bytes - self.shape.header_len;
        self.flags & (Tcp::FIN | Tcp::PSH) != 0 || last_payload < size
    }
}

fn checksum_field(shape: &Shape) -> usize {
    let field = if shape.transport == Transport::Tcp {
        Tcp::CHECKSUM_AT
    } else {
        Udp::CHECKSUM_AT
    };
    usize::from(shape.l4_offset) + field
}

/// The partial sum in the checksum field, less the length of the piece: the same for all pieces of a flow. As
/// the field is not zero, neither is this.
fn partial_without_length(header: &[u8], shape: &Shape) -> u16 {
    let repeated = (u64::from(shape.segments) - 1) * u64::from(shape.header_len);
    let total = u16::try_from(shape.wire_bytes() - repeated).expect("packets fit 16 bits");
    let l4_len = total - shape.l4_offset;
    checksum::add(read_u16(header, checksum_field(shape)), !l4_len)
}
