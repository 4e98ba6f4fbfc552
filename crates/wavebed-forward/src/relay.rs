//! A router in user space: the device `relay`, and with a delay the reference for latency.
//!
//! It polls a ring at each interface without rest, and sends each frame from where it lies in the ring. With a delay the
//! ring is the line: a frame stays in it until its time has come. Checksums that a sender left to its interface, and
//! super-packets, go on as they came, by the virtio-net header.

use std::hint;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wavebed_os::clock::{monotonic_ns, realtime_offset_ns};
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::packet_ring::{Addressee, Arrived, FrameRing, Place};
use wavebed_os::packet_socket::{MAX_BATCH, PacketSocket, VIRTIO_HEADER_BYTES};
use wavebed_os::poll;

/// Slots of a ring without a delay: 4 MiB, a few milliseconds at a million frames per second.
const LEAST_SLOTS: u128 = 2048;
/// 128 MiB: 65 ms at a million frames per second.
const MOST_SLOTS: u128 = 1 << 16;
/// After this long without a frame the relay sleeps until the next one: it gives a machine back that nobody measures.
const IDLE_NS: u64 = 100_000_000;
/// Longest sleep before it looks whether it is to stop.
const SLEEP_NS: u64 = 10_000_000;
/// How often the time of day is compared with the monotonic clock.
const CLOCK_NS: u64 = 10_000_000;
/// Longest time that a frame waits for room at its interface before it is dropped.
const ROOM_NS: u64 = 200_000;
/// The longest super-packet, its Ethernet and virtio headers, and a tag.
const LONGEST: usize = 65_536 + 18 + VIRTIO_HEADER_BYTES;

const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
/// Of the virtio flags: the checksum has still to be completed.
const NEEDS_CHECKSUM: u8 = 1;
/// "Message too long" and "Invalid argument" of Linux: one frame was refused.
const EMSGSIZE: i32 = 90;
/// See [`EMSGSIZE`].
const EINVAL: i32 = 22;

/// One side of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'a> {
    /// The interface's name.
    pub interface: &'a str,
    /// Destination MAC address of frames that leave there.
    pub next_mac: [u8; 6],
}

/// What became of the frames that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayCounts {
    /// Sent on.
    pub forwarded: u64,
    /// The interface they were to leave through had no room, or refused them.
    pub refused: u64,
    /// TTL or hop limit was used up.
    pub expired: u64,
    /// The ring was full, or there was no room for a super-packet.
    pub missed: u64,
    /// Not to be forwarded: ARP, neighbour discovery, groups, tagged frames, and what is addressed to the relay itself.
    pub ignored: u64,
}

/// A router of two interfaces.
#[derive(Debug)]
pub struct Relay {
    ports: [Port; 2],
    delay_ns: u64,
    offset_ns: u64,
    counts: RelayCounts,
}

#[derive(Debug)]
struct Port {
    ring: FrameRing,
    mac: [u8; 6],
    next_mac: [u8; 6],
    /// Addresses of both interfaces: what goes to them is the kernel's.
    own: Vec<IpAddr>,
    /// A super-packet, while it is sent on.
    long: Vec<u8>,
}

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Forward,
    Expired,
    /// Not all of it is there.
    Lost,
    Ignore,
}

impl Relay {
    /// Forwards between two interfaces, and keeps every frame until `delay` after it came.
    ///
    /// # Errors
    /// An interface is missing or has no MAC address, the process may not, or there is no memory.
    pub fn open(sides: [Side<'_>; 2], delay: Duration) -> wavebed_os::Result<Self> {
        // Room for a million frames per second.
        let slots = delay
            .as_micros()
            .next_power_of_two()
            .clamp(LEAST_SLOTS, MOST_SLOTS);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let [left, right] = sides;
        let mut ports = [Port::open(left, slots)?, Port::open(right, slots)?];
        let own: Vec<IpAddr> = ports.iter().flat_map(|port| port.own.clone()).collect();
        for port in &mut ports {
            port.own.clone_from(&own);
        }
        Ok(Self {
            ports,
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            offset_ns: realtime_offset_ns(),
            counts: RelayCounts::default(),
        })
    }

    /// Forwards until `stop`, without rest: the calling thread needs a processor for itself.
    ///
    /// # Errors
    /// An interface went down or away.
    pub fn run(&mut self, stop: &AtomicBool) -> wavebed_os::Result<RelayCounts> {
        let mut busy_ns = monotonic_ns();
        let mut clock_ns = 0;
        while !stop.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            if now_ns - clock_ns > CLOCK_NS {
                // The time of day may be set while the relay runs.
                self.offset_ns = realtime_offset_ns();
                clock_ns = now_ns;
                for port in &self.ports {
                    port.ring.socket().fault()?;
                }
            }
            if self.pass(0)? | self.pass(1)? {
                busy_ns = now_ns;
            } else if now_ns - busy_ns > IDLE_NS {
                self.sleep()?;
            } else {
                hint::spin_loop();
            }
        }
        self.counts()
    }

    /// What became of the frames so far.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counts(&mut self) -> wavebed_os::Result<RelayCounts> {
        for port in &self.ports {
            self.counts.missed += u64::from(port.ring.socket().statistics()?.dropped);
        }
        Ok(self.counts)
    }

    /// Sends on what has come in at port `from` and is due. Answers whether anything is there, due or not.
    fn pass(&mut self, from: usize) -> wavebed_os::Result<bool> {
        let [left, right] = &mut self.ports;
        let (from, to) = if from == 0 {
            (left, right)
        } else {
            (right, left)
        };
        let (now_ns, delay_ns, offset_ns) = (monotonic_ns(), self.delay_ns, self.offset_ns);
        let is_due = |frame: &Arrived| {
            let came_ns = frame.realtime_ns.saturating_sub(offset_ns);
            is_due(came_ns, delay_ns, now_ns, monotonic_ns)
        };
        let Some(first) = from.ring.arrived(0) else {
            return Ok(false);
        };
        if delay_ns == 0 || is_due(&first) {
            if first.place == Place::Aside {
                from.pass_long(&first, to, &mut self.counts)?;
            } else {
                from.pass_batch(|frame| delay_ns == 0 || is_due(frame), to, &mut self.counts)?;
            }
        }
        Ok(true)
    }

    /// Sleeps until something comes in, or for a while.
    fn sleep(&self) -> wavebed_os::Result<()> {
        let fds = [0, 1].map(|at: usize| self.ports[at].ring.socket().as_fd());
        poll::wait(&fds, &mut [false; 2], Some(SLEEP_NS))
            .map(drop)
            .map_err(|source| wavebed_os::Error {
                operation: "wait for",
                object: "frames".to_owned(),
                source,
            })
    }
}

/// Whether a frame that came at `came_ns` leaves. `clock` is read anew for one that came long after `now_ns`: it came while
/// this thread did not run, or, if it comes from the future, before the time of day was set back.
fn is_due(came_ns: u64, delay_ns: u64, now_ns: u64, clock: impl Fn() -> u64) -> bool {
    came_ns + delay_ns <= now_ns || (came_ns > now_ns + CLOCK_NS && came_ns > clock() + CLOCK_NS)
}

impl Port {
    fn open(side: Side<'_>, slots: u32) -> wavebed_os::Result<Self> {
        let error = |source| wavebed_os::Error {
            operation: "read the addresses of",
            object: side.interface.to_owned(),
            source,
        };
        let index = interface_index(side.interface)?;
        let netlink = Netlink::route()?;
        let mac = netlink.interface(index).map_err(error)?.mac;
        let addresses = netlink.addresses(index).map_err(error)?;
        Ok(Self {
            ring: FrameRing::open(side.interface, slots)?,
            mac: mac.ok_or_else(|| error(io::Error::other("it has no MAC address")))?,
            next_mac: side.next_mac,
            own: addresses.into_iter().map(|(address, _)| address).collect(),
            long: vec![0; LONGEST],
        })
    }

    /// Sends on the frames in front that are due, one batch at most.
    fn pass_batch(
        &mut self,
        is_due: impl Fn(&Arrived) -> bool,
        to: &Self,
        counts: &mut RelayCounts,
    ) -> wavebed_os::Result<()> {
        let mut forward = [0; MAX_BATCH];
        let mut count = 0;
        let mut seen = 0;
        while count < MAX_BATCH
            && let Some(frame) = self.ring.arrived(seen)
            && frame.place != Place::Aside
            && is_due(&frame)
        {
            let verdict = prepare(&frame, self.ring.bytes_mut(seen), &self.own, to);
            if verdict == Verdict::Forward {
                forward[count] = seen;
                count += 1;
            }
            counts.note(verdict);
            seen += 1;
        }
        let mut batch = [&[][..]; MAX_BATCH];
        for (slot, index) in batch.iter_mut().zip(&forward[..count]) {
            *slot = self.ring.bytes(*index);
        }
        counts.send(to.ring.socket(), &batch[..count])?;
        self.ring.release(seen);
        Ok(())
    }

    /// Sends on the super-packet in front.
    fn pass_long(
        &mut self,
        frame: &Arrived,
        to: &Self,
        counts: &mut RelayCounts,
    ) -> wavebed_os::Result<()> {
        let length = self.ring.read_aside(&mut self.long)?;
        let bytes = &mut self.long[..length];
        let verdict = prepare(frame, bytes, &self.own, to);
        counts.note(verdict);
        if verdict == Verdict::Forward {
            counts.send(to.ring.socket(), &[bytes])?;
        }
        self.ring.release(1);
        Ok(())
    }
}

impl RelayCounts {
    fn note(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Forward => {}
            Verdict::Expired => self.expired += 1,
            Verdict::Lost => self.missed += 1,
            Verdict::Ignore => self.ignored += 1,
        }
    }

    /// Sends frames, and waits a little for room.
    fn send(&mut self, socket: &PacketSocket, mut frames: &[&[u8]]) -> wavebed_os::Result<()> {
        let patience_ns = monotonic_ns() + ROOM_NS;
        while !frames.is_empty() {
            let sent = match socket.send_batch(frames) {
                Ok(sent) => sent,
                Err(error) if matches!(error.errno(), Some(EMSGSIZE | EINVAL)) => {
                    // The first one is too long, or its headers do not add up.
                    self.refused += 1;
                    frames = &frames[1..];
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.forwarded += sent as u64;
            frames = &frames[sent..];
            if !frames.is_empty() && monotonic_ns() > patience_ns {
                self.refused += frames.len() as u64;
                break;
            }
            if sent == 0 {
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Makes a frame, after its virtio-net header, ready to leave through `to`, if it is to be forwarded.
fn prepare(frame: &Arrived, bytes: &mut [u8], own: &[IpAddr], to: &Port) -> Verdict {
    if frame.addressee != Addressee::Us || frame.vlan.is_some() {
        return Verdict::Ignore;
    }
    if frame.place == Place::Lost {
        return Verdict::Lost;
    }
    let Some((virtio, ethernet)) = bytes.split_at_mut_checked(VIRTIO_HEADER_BYTES) else {
        return Verdict::Lost;
    };
    let Some((header, packet)) = ethernet.split_at_mut_checked(ETHERNET_BYTES) else {
        return Verdict::Ignore;
    };
    let verdict = match [header[12], header[13]] {
        IPV4 => hop_v4(packet, own),
        IPV6 => hop_v6(packet, own),
        _ => Verdict::Ignore,
    };
    if verdict == Verdict::Forward {
        // What the kernel has found out of a received frame does not hold for one that is sent.
        virtio[0] &= NEEDS_CHECKSUM;
        header[..6].copy_from_slice(&to.next_mac);
        header[6..12].copy_from_slice(&to.mac);
    }
    verdict
}

/// Takes one from the TTL of an IPv4 packet and corrects its checksum (RFC 1624, equation 3).
fn hop_v4(packet: &mut [u8], own: &[IpAddr]) -> Verdict {
    if packet.len() < 20 || packet[0] >> 4 != 4 {
        return Verdict::Ignore;
    }
    let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let stays = to.is_multicast() || to.is_broadcast() || to.is_link_local() || to.is_loopback();
    if stays || own.contains(&to.into()) {
        return Verdict::Ignore;
    }
    if packet[8] <= 1 {
        return Verdict::Expired;
    }
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let before = word(packet, 8);
    packet[8] -= 1;
    let sum = u32::from(!word(packet, 10)) + u32::from(!before) + u32::from(word(packet, 8));
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    // Two carries of 16 bits at most, and both are folded.
    let checksum = !u16::try_from(folded).unwrap_or(u16::MAX);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    Verdict::Forward
}

/// Takes one from the hop limit of an IPv6 packet.
fn hop_v6(packet: &mut [u8], own: &[IpAddr]) -> Verdict {
    let Some(to) = packet
        .get(24..40)
        .and_then(|to| <[u8; 16]>::try_from(to).ok())
    else {
        return Verdict::Ignore;
    };
    let to = Ipv6Addr::from(to);
    // Neighbour discovery has the greatest hop limit and must not go on (RFC 4861, section 7.1).
    let neighbours = packet[6] == ICMPV6 && packet[7] == 255;
    let stays = to.is_multicast() || to.is_unicast_link_local() || to.is_loopback();
    if packet[0] >> 4 != 6 || neighbours || stays || own.contains(&to.into()) {
        return Verdict::Ignore;
    }
    if packet[7] <= 1 {
        return Verdict::Expired;
    }
    packet[7] -= 1;
    Verdict::Forward
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_leaves_after_its_delay() {
        let clock = || 10_003_000_001;
        assert!(!is_due(10_000_000_001, 3_000_000, 10_003_000_000, clock));
        assert!(is_due(10_000_000_000, 3_000_000, 10_003_000_000, clock));
    }

    #[test]
    fn a_frame_that_came_while_the_relay_did_not_run_keeps_its_delay() {
        let (came_ns, before_ns) = (10_020_000_000, 10_000_000_000);
        assert!(!is_due(came_ns, 3_000_000, before_ns, || came_ns + 50_000));
    }

    #[test]
    fn a_frame_from_before_the_time_of_day_was_set_back_leaves_at_once() {
        let now_ns = 10_000_000_000;
        assert!(is_due(
            now_ns + 3_600_000_000_000,
            3_000_000,
            now_ns,
            || now_ns + 50
        ));
    }

    /// The ones' complement sum of a header, 0xffff if its checksum is right (RFC 1071).
    fn sum(header: &[u8]) -> u16 {
        let words = header
            .chunks_exact(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).expect("folded")
    }

    fn v4(ttl: u8, rest: [u8; 10], to: [u8; 4]) -> [u8; 20] {
        let mut header = [0; 20];
        header[0] = 0x45;
        header[1..8].copy_from_slice(&rest[..7]);
        header[8] = ttl;
        header[9] = 17;
        header[12..15].copy_from_slice(&rest[7..]);
        header[16..].copy_from_slice(&to);
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    proptest! {
        #[test]
        fn a_hop_leaves_a_good_checksum(ttl in 2_u8.., rest: [u8; 10], last: u8) {
            let mut packet = v4(ttl, rest, [198, 18, 1, last]);
            prop_assert_eq!(hop_v4(&mut packet, &[]), Verdict::Forward);
            prop_assert_eq!((packet[8], sum(&packet)), (ttl - 1, 0xffff));
        }

        #[test]
        fn a_damaged_header_stays_damaged(ttl in 2_u8.., rest: [u8; 10], error in 1_u16..0xffff) {
            let mut packet = v4(ttl, rest, [198, 18, 1, 2]);
            let [high, low] = error.to_be_bytes();
            packet[4] ^= high;
            packet[5] ^= low;
            let before = sum(&packet);
            hop_v4(&mut packet, &[]);
            prop_assert_eq!(sum(&packet) == 0xffff, before == 0xffff);
        }

        #[test]
        fn random_packets_do_no_harm(mut packet in proptest::collection::vec(any::<u8>(), 0..60)) {
            hop_v4(&mut packet, &[]);
            hop_v6(&mut packet, &[]);
        }
    }

    #[test]
    fn the_last_hop_expires_and_what_is_for_the_relay_or_a_group_stays() {
        let own = [IpAddr::from([198, 18, 1, 1])];
        for (ttl, to, verdict) in [
            (1, [198, 18, 1, 2], Verdict::Expired),
            (0, [198, 18, 1, 2], Verdict::Expired),
            (64, [198, 18, 1, 1], Verdict::Ignore),
            (64, [224, 0, 0, 1], Verdict::Ignore),
            (64, [255, 255, 255, 255], Verdict::Ignore),
            (64, [169, 254, 1, 1], Verdict::Ignore),
        ] {
            let mut packet = v4(ttl, [0; 10], to);
            let before = packet;
            assert_eq!((hop_v4(&mut packet, &own), packet), (verdict, before));
        }
    }

    #[test]
    fn neighbour_discovery_is_not_forwarded_and_an_echo_is() {
        let packet = |next: u8, limit: u8, to: &str| {
            let mut packet = [0; 48];
            packet[0] = 0x60;
            (packet[6], packet[7]) = (next, limit);
            packet[24..40].copy_from_slice(&to.parse::<Ipv6Addr>().expect("an address").octets());
            packet
        };
        for (next, limit, to, verdict) in [
            (ICMPV6, 255, "2001:2::1", Verdict::Ignore),
            (ICMPV6, 64, "2001:2::1", Verdict::Forward),
            (17, 255, "2001:2::1", Verdict::Forward),
            (17, 1, "2001:2::1", Verdict::Expired),
            (17, 64, "fe80::1", Verdict::Ignore),
            (17, 64, "ff02::1", Verdict::Ignore),
            (17, 64, "2001:2::9", Verdict::Ignore),
        ] {
            let own = ["2001:2::9".parse().expect("an address")];
            let mut packet = packet(next, limit, to);
            assert_eq!(hop_v6(&mut packet, &own), verdict, "{next} {limit} {to}");
            assert_eq!(packet[7], limit - u8::from(verdict == Verdict::Forward));
        }
    }
}
