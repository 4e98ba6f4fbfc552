//! The frames of a port's ring, as packets: frames of one flow that are there already are merged, as a network card with
//! GRO does, so that links carry one packet for many frames. Segmentation gives every byte of them back.

use std::io;
use std::io::IoSlice;
use std::sync::Arc;

use wavebed_os::clock;
use wavebed_os::ethernet_port::{EthernetPort, put_tag};
use wavebed_os::packet_ring::{FrameSlots, Place, VlanTag};
use wavebed_packet::ethernet::{self, Content};
use wavebed_packet::{Coalescer, HeaderBuf, VnetHeader, inspect};

use crate::port::{Device, Port};

/// Frames are merged if they came within this time.
const MERGED_WITHIN_NS: u64 = 50_000;

/// The offset of the time of day is read again after this time, since that clock may be set.
const OFFSET_FOR_NS: u64 = 1_000_000;

/// The links find an IP packet behind an Ethernet header of this many bytes at most.
const LONGEST_FRONT: usize = ethernet::HEADER_LEN + 2 * ethernet::TAG_LEN;

/// A frame in a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingFrame<'a> {
    /// Its virtio-net header and its bytes, without the outer VLAN tag.
    pub bytes: &'a [u8],
    /// That tag.
    pub tag: Option<VlanTag>,
    /// When it came.
    pub at_ns: u64,
}

/// What [`merge`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of the packet, with the virtio-net header.
    pub length: usize,
    /// Frames in it.
    pub frames: u32,
    /// When the first of them came.
    pub first_ns: u64,
    /// When the last of them came.
    pub last_ns: u64,
}

impl Merged {
    const fn alone(length: usize, at_ns: u64) -> Self {
        Self {
            length,
            frames: 1,
            first_ns: at_ns,
            last_ns: at_ns,
        }
    }
}

/// Writes the first frame to `buffer`, merged with following frames if segmentation gives the same bytes back. `frame(n)`
/// returns the frame n places after the first. `longest` is the longest IP packet to be merged.
pub fn merge<'a>(
    frame: impl Fn(u32) -> Option<RingFrame<'a>>,
    longest: usize,
    header: &mut HeaderBuf,
    buffer: &mut [u8],
) -> Option<Merged> {
    let first = frame(0)?;
    let merged =
        frame(1).and_then(|second| merge_behind(first, second, frame, longest, header, buffer));
    Some(merged.unwrap_or_else(|| {
        buffer[..first.bytes.len()].copy_from_slice(first.bytes);
        Merged::alone(put_tag(buffer, first.bytes.len(), first.tag), first.at_ns)
    }))
}

fn merge_behind<'a>(
    first: RingFrame<'a>,
    second: RingFrame<'a>,
    frame: impl Fn(u32) -> Option<RingFrame<'a>>,
    longest: usize,
    header: &mut HeaderBuf,
    buffer: &mut [u8],
) -> Option<Merged> {
    let (front, packet) = packet_of(&first, longest)?;
    if !follows(&first, &second, front) {
        return None;
    }
    let shape = inspect(&VnetHeader::default(), packet).ok()?;
    let mut packets = Coalescer::exact();
    if !packets.start(packet, &shape) {
        return None;
    }
    let mut merged = Merged::alone(0, first.at_ns);
    while let Some(next) = frame(merged.frames)
        && follows(&first, &next, front)
        && let Some((_, packet)) = packet_of(&next, longest)
        && let Ok(shape) = inspect(&VnetHeader::default(), packet)
        && let Ok(goes_on) = packets.add(packet, &shape)
    {
        merged.frames += 1;
        merged.last_ns = next.at_ns;
        if !goes_on {
            break;
        }
    }
    if merged.frames == 1 {
        return None;
    }
    let all = packets.coalesced(header);
    let before = VnetHeader::LEN + front;
    buffer[..before].copy_from_slice(&first.bytes[..before]);
    let mut end = before;
    for part in std::iter::once(all.header).chain(all.payloads()) {
        buffer[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let vnet = all.vnet.before(u8::try_from(front).ok()?);
    buffer[..VnetHeader::LEN].copy_from_slice(&vnet.to_bytes());
    merged.length = put_tag(buffer, end, first.tag);
    Some(merged)
}

/// The IP packet of a frame that may be merged, and how many bytes stand between it and the virtio-net header.
fn packet_of<'a>(frame: &RingFrame<'a>, longest: usize) -> Option<(usize, &'a [u8])> {
    let (vnet, bytes) = VnetHeader::split(frame.bytes)?;
    if vnet.is_gso() || vnet.needs_csum() {
        return None;
    }
    let Content::Packet { front } = ethernet::content(bytes) else {
        return None;
    };
    let front = usize::from(front);
    let tag = frame.tag.map_or(0, |_| ethernet::TAG_LEN);
    let packet = &bytes[front..];
    (front + tag <= LONGEST_FRONT && packet.len() <= longest).then_some((front, packet))
}

/// Whether a frame came soon after another one with the same Ethernet header, of `front` bytes.
fn follows(first: &RingFrame<'_>, next: &RingFrame<'_>, front: usize) -> bool {
    let head = VnetHeader::LEN..VnetHeader::LEN + front;
    next.at_ns <= first.at_ns.saturating_add(MERGED_WITHIN_NS)
        && next.tag == first.tag
        && next.bytes.get(head.clone()) == first.bytes.get(head)
}

/// The ring of a port, as an input.
pub struct FrameInput {
    device: Arc<Device>,
    slots: FrameSlots,
    header: HeaderBuf,
    /// The longest IP packet to be merged.
    longest: usize,
    /// Time zero on the monotonic clock.
    origin_ns: u64,
    /// From time zero to the time of day, when it was read.
    offset_ns: u64,
    offset_read_ns: u64,
    /// The last call found no frame.
    was_empty: bool,
    sent_ns: u64,
    merged_ns: Option<u64>,
}

impl FrameInput {
    /// The input of a port with a ring. Frames are merged if their IP packets are not longer than `longest`.
    ///
    /// # Errors
    /// The kernel does not map the ring.
    pub fn new(device: &Arc<Device>, longest: usize, origin_ns: u64) -> io::Result<Option<Self>> {
        let slots = device.ethernet().map(EthernetPort::slots).transpose()?;
        Ok(slots.flatten().map(|slots| Self {
            device: Arc::clone(device),
            slots,
            header: HeaderBuf::new(),
            longest,
            origin_ns,
            offset_ns: 0,
            offset_read_ns: 0,
            was_empty: false,
            sent_ns: 0,
            merged_ns: None,
        }))
    }

    /// Whether there is a frame.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        self.slots.arrived(0).is_some()
    }

    /// Keeps when the frames of a packet came, which the kernel tells by the time of day.
    fn note(&mut self, packet: &Merged) {
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.offset_read_ns + OFFSET_FOR_NS {
            self.offset_ns = clock::realtime_offset_ns() + self.origin_ns;
            self.offset_read_ns = now_ns;
        }
        let at_ns = packet.last_ns.saturating_sub(self.offset_ns);
        let most_ns = now_ns.saturating_sub(self.origin_ns);
        self.sent_ns = at_ns.max(self.sent_ns).min(most_ns);
        let spread_ns = packet.last_ns.saturating_sub(packet.first_ns);
        self.merged_ns = (packet.frames > 1).then_some(spread_ns);
    }
}

impl Port for FrameInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let Some(port) = self.device.ethernet() else {
                return Ok(None);
            };
            let Some(first) = self.slots.arrived(0) else {
                // Woken up without a frame: the interface is down or gone.
                if std::mem::replace(&mut self.was_empty, true) {
                    port.check_frames()?;
                }
                return Ok(None);
            };
            self.was_empty = false;
            let packet = match first.place {
                Place::Slot => {
                    let slots = &self.slots;
                    let frame = |ahead| {
                        let arrived = slots.arrived(ahead)?;
                        (arrived.place == Place::Slot).then(|| RingFrame {
                            bytes: slots.bytes(ahead),
                            tag: arrived.vlan,
                            at_ns: arrived.realtime_ns,
                        })
                    };
                    merge(frame, self.longest, &mut self.header, buffer)
                }
                Place::Aside => {
                    let length = port.read(buffer)?;
                    length.map(|length| Merged::alone(length, first.realtime_ns))
                }
                Place::Lost => None,
            };
            self.slots
                .release(packet.as_ref().map_or(1, |packet| packet.frames));
            if let Some(packet) = packet {
                self.note(&packet);
                return Ok(Some(packet.length));
            }
            port.count_unread();
        }
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.device.write(parts)
    }

    fn sent_ns(&self) -> Option<u64> {
        Some(self.sent_ns)
    }

    fn merged_ns(&self) -> Option<u64> {
        self.merged_ns
    }

    fn is_mapped(&self) -> bool {
        true
    }
}
