//! A plain, slow second opinion: builds packets and their wire segments field by field, sharing no code with
//! the crate.

#![allow(dead_code, reason = "each user takes a part")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths of test packets are known to fit"
)]

use wavebed_packet::{Piece, VnetHeader};

/// A word at a time, folding after each.
pub fn plain_sum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        if total > 0xffff {
            total -= 0xffff;
        }
    }
    total as u16
}

/// One extension header: its number and everything after the next-header byte.
#[derive(Clone, Debug)]
pub struct Extension {
    pub number: u8,
    pub body: Vec<u8>,
    /// Where in `body` the final destination is, of a routing header with segments left.
    pub final_at: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Recipe {
    pub v6: bool,
    pub udp: bool,
    pub tos: u8,
    pub flow_label: u32,
    pub id: u16,
    pub dont_fragment: bool,
    pub ttl: u8,
    pub addresses: [u8; 32],
    pub v4_options: Vec<u8>,
    pub extensions: Vec<Extension>,
    pub ports: [u8; 4],
    pub sequence: u32,
    pub acknowledgement: u32,
    pub reserved: u8,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub tcp_options: Vec<u8>,
    pub size: usize,
    pub payload: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Sum {
    Partial,
    Complete,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const PSH: u8 = 8;
pub const CWR: u8 = 128;

impl Recipe {
    pub fn segments(&self) -> usize {
        self.payload.len().div_ceil(self.size).max(1)
    }

    pub fn l4_offset(&self) -> usize {
        if self.v6 {
            40 + self
                .extensions
                .iter()
                .map(|e| e.body.len() + 1)
                .sum::<usize>()
        } else {
            20 + self.v4_options.len()
        }
    }

    pub fn header_len(&self) -> usize {
        self.l4_offset()
            + if self.udp {
                8
            } else {
                20 + self.tcp_options.len()
            }
    }

    /// One packet with this payload and these fields.
    fn build(
        &self,
        payload: &[u8],
        id: u16,
        sequence: u32,
        flags: u8,
        ce: bool,
        sum: Sum,
    ) -> Vec<u8> {
        let tos = if ce { self.tos | 3 } else { self.tos };
        let l4 = self.transport(payload, sequence, flags, sum);
        let mut packet = Vec::new();
        if self.v6 {
            let first = self
                .extensions
                .first()
                .map_or(self.protocol(), |e| e.number);
            let word = 6 << 28 | u32::from(tos) << 20 | self.flow_label;
            packet.extend(word.to_be_bytes());
            packet.extend(((self.l4_offset() - 40 + l4.len()) as u16).to_be_bytes());
            packet.extend([first, self.ttl]);
            packet.extend(self.addresses);
            for (index, extension) in self.extensions.iter().enumerate() {
                packet.push(
                    self.extensions
                        .get(index + 1)
                        .map_or(self.protocol(), |e| e.number),
                );
                packet.extend(&extension.body);
            }
        } else {
            packet.push(0x40 + (self.l4_offset() / 4) as u8);
            packet.push(tos);
            packet.extend(((self.l4_offset() + l4.len()) as u16).to_be_bytes());
            packet.extend(id.to_be_bytes());
            packet.extend([
                if self.dont_fragment { 0x40 } else { 0 },
                0,
                self.ttl,
                self.protocol(),
                0,
                0,
            ]);
            packet.extend(&self.addresses[..8]);
            packet.extend(&self.v4_options);
            let check = !plain_sum(&[&packet]);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        packet.extend(l4);
        packet
    }

    pub fn protocol(&self) -> u8 {
        if self.udp { 17 } else { 6 }
    }

    fn transport(&self, payload: &[u8], sequence: u32, flags: u8, sum: Sum) -> Vec<u8> {
        let mut l4 = self.ports.to_vec();
        if self.udp {
            l4.extend(((8 + payload.len()) as u16).to_be_bytes());
            l4.extend([0, 0]);
        } else {
            l4.extend(sequence.to_be_bytes());
            l4.extend(self.acknowledgement.to_be_bytes());
            l4.push(((20 + self.tcp_options.len()) / 4 * 16) as u8 + self.reserved);
            l4.push(flags);
            l4.extend(self.window.to_be_bytes());
            l4.extend([0, 0]);
            l4.extend(self.urgent.to_be_bytes());
            l4.extend(&self.tcp_options);
        }
        l4.extend(payload);
        let at = if self.udp { 6 } else { 16 };
        let pseudo = self.pseudo(l4.len());
        let mut check = match sum {
            Sum::Partial => plain_sum(&[&pseudo]),
            Sum::Complete => !plain_sum(&[&pseudo, &l4]),
        };
        if sum == Sum::Complete && self.udp && check == 0 {
            check = 0xffff;
        }
        l4[at..at + 2].copy_from_slice(&check.to_be_bytes());
        l4
    }

    fn pseudo(&self, l4_len: usize) -> Vec<u8> {
        if !self.v6 {
            let mut pseudo = self.addresses[..8].to_vec();
            pseudo.extend([0, self.protocol()]);
            pseudo.extend((l4_len as u16).to_be_bytes());
            return pseudo;
        }
        let mut pseudo = self.addresses.to_vec();
        for extension in &self.extensions {
            if let Some(at) = extension.final_at {
                pseudo[16..].copy_from_slice(&extension.body[at..at + 16]);
            }
        }
        pseudo.extend((l4_len as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, self.protocol()]);
        pseudo
    }

    /// Wire segment `index`.
    pub fn segment(&self, index: usize, ce: bool, sum: Sum) -> Vec<u8> {
        let last = index + 1 == self.segments();
        let from = index * self.size;
        let payload = &self.payload[from..self.payload.len().min(from + self.size)];
        let mut flags = self.flags;
        if !last {
            flags &= !(FIN | PSH);
        }
        if index > 0 {
            flags &= !CWR;
        }
        let sequence = self.sequence.wrapping_add(from as u32);
        self.build(
            payload,
            self.id.wrapping_add(index as u16),
            sequence,
            flags,
            ce,
            sum,
        )
    }

    /// The packet as read from a TUN device with offloads.
    pub fn packet(&self) -> (VnetHeader, Vec<u8>) {
        let packet = self.build(
            &self.payload,
            self.id,
            self.sequence,
            self.flags,
            false,
            Sum::Partial,
        );
        let is_super = self.segments() > 1;
        let kind = match (self.udp, self.v6) {
            (true, _) => 5,
            (false, false) => 1,
            (false, true) => 4,
        };
        let cwr = if !self.udp && self.flags & CWR != 0 {
            0x80
        } else {
            0
        };
        let vnet = VnetHeader {
            flags: 1,
            gso_type: if is_super { kind | cwr } else { 0 },
            hdr_len: self.header_len() as u16,
            gso_size: if is_super { self.size as u16 } else { 0 },
            csum_start: self.l4_offset() as u16,
            csum_offset: if self.udp { 6 } else { 16 },
        };
        (vnet, packet)
    }
}

/// Header and payload of a piece in a row.
pub fn assemble(piece: &Piece<'_>, packet: &[u8]) -> Vec<u8> {
    [piece.header, &packet[piece.payload.clone()]].concat()
}

/// A plain TCP flow over IPv4 with time stamps, to start examples from.
pub fn example() -> Recipe {
    let mut addresses = [0; 32];
    addresses[..8].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
    Recipe {
        v6: false,
        udp: false,
        tos: 2,
        flow_label: 0,
        id: 65_530,
        dont_fragment: true,
        ttl: 64,
        addresses,
        v4_options: Vec::new(),
        extensions: Vec::new(),
        ports: [0x14, 0x51, 0x9c, 0x40],
        sequence: u32::MAX - 2000,
        acknowledgement: 77,
        reserved: 0,
        flags: 0x10,
        window: 500,
        urgent: 0,
        tcp_options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        size: 1448,
        payload: (0..14_000u32).map(|i| (i * 7 + i / 251) as u8).collect(),
    }
}

/// The same flow over IPv6.
pub fn example_v6() -> Recipe {
    let mut recipe = Recipe {
        v6: true,
        size: 1428,
        ..example()
    };
    recipe.addresses = [0xfd; 32];
    recipe.addresses[31] = 2;
    recipe
}
