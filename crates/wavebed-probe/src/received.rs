//! What an end received: a line of text for each light packet, and for each millisecond of heavy load.
//!
//! | line | values, separated by commas |
//! |---|---|
//! | `start` | version, `start_unix_ns` of the own clock |
//! | `p` | a light packet: arrival, its number, sending, payload bytes, index and count in its train |
//! | `b` | a millisecond of heavy load: phase, payload bytes, packets, packets lost before the last of them, first and last arrival, sending of the first and the last, greatest delay |
//! | `sent` | at the end: light packets, heavy packets, milliseconds in which the system took nothing |
//!
//! Times are nanoseconds since the start: arrivals on this end's clock, sendings on the other's. Delays are differences
//! of the two.

use std::io::{self, Write};

use crate::packet::Packet;

/// Bytes that one line of heavy load stands for at most: those of this time.
const BIN_NS: u64 = 1_000_000;

/// The packets of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    number: u64,
    phase: char,
    bytes: u64,
    packets: u64,
    lost: u64,
    first_ns: u64,
    last_ns: u64,
    first_send_ns: u64,
    last_send_ns: u64,
    longest_ns: i64,
}

/// Writes the lines.
#[derive(Debug)]
pub struct Received<W: Write> {
    lines: W,
    bin: Option<Bin>,
    next_seq: u32,
}

impl<W: Write> Received<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// Its writer's.
    pub fn begin(mut lines: W, start_unix_ns: u64) -> io::Result<Self> {
        writeln!(lines, "start,1,{start_unix_ns}")?;
        Ok(Self {
            lines,
            bin: None,
            next_seq: 0,
        })
    }

    /// A light packet of `bytes` has arrived.
    ///
    /// # Errors
    /// Its writer's.
    pub fn light(
        &mut self,
        packet: &Packet,
        index: u8,
        count: u8,
        bytes: usize,
        at_ns: u64,
    ) -> io::Result<()> {
        let (seq, send_ns) = (packet.seq, packet.send_ns);
        writeln!(
            self.lines,
            "p,{at_ns},{seq},{send_ns},{bytes},{index},{count}"
        )
    }

    /// A packet of heavy load of `bytes` has arrived in a phase. One that was overtaken is not counted as lost again.
    ///
    /// # Errors
    /// Its writer's.
    pub fn heavy(
        &mut self,
        packet: &Packet,
        phase: char,
        bytes: usize,
        at_ns: u64,
    ) -> io::Result<()> {
        let number = at_ns / BIN_NS;
        if self
            .bin
            .is_some_and(|bin| bin.number != number || bin.phase != phase)
        {
            self.write_bin()?;
        }
        let lost = u64::from(packet.seq.saturating_sub(self.next_seq));
        self.next_seq = self.next_seq.max(packet.seq.saturating_add(1));
        let delay_ns = at_ns.cast_signed() - packet.send_ns.cast_signed();
        let bin = self.bin.get_or_insert(Bin {
            number,
            phase,
            bytes: 0,
            packets: 0,
            lost: 0,
            first_ns: at_ns,
            last_ns: at_ns,
            first_send_ns: packet.send_ns,
            last_send_ns: packet.send_ns,
            longest_ns: delay_ns,
        });
        bin.bytes += bytes as u64;
        bin.packets += 1;
        bin.lost += lost;
        bin.last_ns = at_ns;
        bin.last_send_ns = packet.send_ns;
        bin.longest_ns = bin.longest_ns.max(delay_ns);
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Its writer's.
    pub fn end(mut self, light: u32, heavy: u32, refused_ms: u64) -> io::Result<()> {
        self.write_bin()?;
        writeln!(self.lines, "sent,{light},{heavy},{refused_ms}")?;
        self.lines.flush()
    }

    fn write_bin(&mut self) -> io::Result<()> {
        let Some(bin) = self.bin.take() else {
            return Ok(());
        };
        writeln!(
            self.lines,
            "b,{},{},{},{},{},{},{},{},{}",
            bin.phase,
            bin.bytes,
            bin.packets,
            bin.lost,
            bin.first_ns,
            bin.last_ns,
            bin.first_send_ns,
            bin.last_send_ns,
            bin.longest_ns
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Use;

    fn heavy(seq: u32, send_ns: u64) -> Packet {
        Packet {
            kind: Use::Heavy,
            seq,
            send_ns,
        }
    }

    #[test]
    fn heavy_load_is_one_line_a_millisecond() {
        let mut text = Vec::new();
        let mut received = Received::begin(&mut text, 5).expect("written");
        received
            .heavy(&heavy(0, 100), 'd', 10, 1_100_000)
            .expect("written");
        received
            .heavy(&heavy(3, 200), 'd', 10, 1_900_000)
            .expect("written");
        received
            .heavy(&heavy(4, 300), 'd', 10, 2_000_000)
            .expect("written");
        received.end(1, 5, 0).expect("written");
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "start,1,5\nb,d,20,2,2,1100000,1900000,100,200,1899800\n\
             b,d,10,1,0,2000000,2000000,300,300,1999700\nsent,1,5,0\n"
        );
    }

    #[test]
    fn an_overtaken_packet_is_not_lost_again() {
        let mut text = Vec::new();
        let mut received = Received::begin(&mut text, 0).expect("written");
        for seq in [0, 2, 1, 3] {
            received.heavy(&heavy(seq, 0), 'u', 1, 0).expect("written");
        }
        received.end(0, 4, 0).expect("written");
        assert!(
            String::from_utf8(text)
                .expect("text")
                .contains("b,u,4,4,1,")
        );
    }
}
