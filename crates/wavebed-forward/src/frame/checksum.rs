//! The Internet's checksum.

/// The sum of big-endian words (RFC 1071), neither folded nor inverted; an odd last byte counts as a high one.
#[must_use]
pub fn sum_words(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

/// The checksum of a sum: folded and inverted (RFC 1071); 0 is sent as 0xffff (RFC 768, RFC 8200).
#[must_use]
pub fn finish_checksum(sum: u32) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The sum in 16 bits: carries are brought round.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded")
}
