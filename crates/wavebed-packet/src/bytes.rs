//! Big-endian fields at fixed places. Out of range is a bug of the caller and panics.

pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn write_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A length that is known to fit: packets are at most 65,535 bytes long, which `inspect` checks.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the debug assertion states the invariant"
)]
pub(crate) fn short(length: usize) -> u16 {
    debug_assert!(u16::try_from(length).is_ok(), "{length} bytes");
    length as u16
}
