//! IP packets for tests.

use wavebed_packet::checksum::checksum;

/// A flow between two hosts of 10.0.0.0/16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    pub source: u8,
    pub destination: u8,
    pub protocol: u8,
    pub port: u16,
}

/// Bytes before the number that a packet carries.
const NUMBER_AT: usize = 40;

/// A packet of `bytes` IP bytes, at least 48, that carries `number`.
pub fn packet(flow: Flow, ecn: u8, bytes: usize, number: u64) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    let length = u16::try_from(bytes).expect("an IP packet");
    packet[0] = 0x45;
    packet[1] = ecn;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[8] = 64;
    packet[9] = flow.protocol;
    packet[12..16].copy_from_slice(&[10, 0, 0, flow.source]);
    packet[16..20].copy_from_slice(&[10, 0, 1, flow.destination]);
    packet[20..22].copy_from_slice(&flow.port.to_be_bytes());
    packet[22..24].copy_from_slice(&443u16.to_be_bytes());
    if flow.protocol == 17 {
        packet[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    } else {
        packet[32] = 5 << 4;
    }
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
    packet
}

/// The number that a packet carries.
pub fn number(packet: &[u8]) -> u64 {
    let bytes = packet[NUMBER_AT..NUMBER_AT + 8].try_into();
    u64::from_be_bytes(bytes.expect("eight bytes"))
}

/// The ECN field.
pub fn ecn(packet: &[u8]) -> u8 {
    packet[1] & 3
}

/// The flow of a packet.
pub fn flow_of(packet: &[u8]) -> Flow {
    Flow {
        source: packet[15],
        destination: packet[19],
        protocol: packet[9],
        port: u16::from_be_bytes([packet[20], packet[21]]),
    }
}
