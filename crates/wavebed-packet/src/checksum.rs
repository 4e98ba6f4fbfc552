//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Adds the lanes of a wide sum down to 16 bits. Zero only if `sum` is zero.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the last fold leaves at most 16 bits"
)]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

const fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// Eight lanes side by side, which the compiler turns into vector instructions.
fn sum_blocks(blocks: &[[u8; 64]]) -> u64 {
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += halves(u64::from_ne_bytes(*word));
        }
    }
    lanes.iter().sum()
}

/// The ones' complement sum of `data` as big-endian 16-bit words, not inverted. An odd last byte counts as the
/// high half of a word.
///
/// Adds in native byte order and swaps at the end, which RFC 1071 section 2 shows to be the same.
#[must_use]
pub fn sum(data: &[u8]) -> u16 {
    let (blocks, rest) = data.as_chunks::<64>();
    let mut total = if blocks.is_empty() {
        0
    } else {
        sum_blocks(blocks)
    };
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        total += halves(u64::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        total += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold(total))
}

/// Ones' complement addition.
#[must_use]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The checksum of `data`: the value for the field if the field was zero in `data`, and zero if the field was
/// right.
#[must_use]
pub fn checksum(data: &[u8]) -> u16 {
    !sum(data)
}

/// The checksum after a 16-bit word that it covers went from `old` to `new` (RFC 1624, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// The sum after a 16-bit word in it went from `old` to `new`. For the partial sums that wait for the kernel in
/// a checksum field.
#[must_use]
pub const fn replace(sum: u16, old: u16, new: u16) -> u16 {
    add(add(sum, !old), new)
}

#[cfg(test)]
mod tests {
    use super::{add, checksum, replace, sum, update};

    /// Word by word, as RFC 1071 section 1 describes it.
    fn plain(data: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in data.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        u16::try_from(total).unwrap()
    }

    #[test]
    fn the_sum_of_the_rfc_example_is_right() {
        assert_eq!(
            sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0xddf2
        );
    }

    #[test]
    fn the_sum_equals_the_plain_one_at_every_length() {
        let data: Vec<u8> = (0..700u32)
            .map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2])
            .collect();
        for from in 0..8 {
            for to in from..data.len() {
                assert_eq!(sum(&data[from..to]), plain(&data[from..to]), "{from}..{to}");
            }
        }
        let largest = vec![0xff; 65_535];
        assert_eq!(sum(&largest), plain(&largest));
        assert_eq!(sum(&[0; 99]), 0);
    }

    #[test]
    fn an_update_equals_a_fresh_checksum_for_every_word() {
        let mut data = [
            0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 6, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        for old in (0..=u16::MAX).step_by(251) {
            for new in (0..=u16::MAX).step_by(257) {
                data[4..6].copy_from_slice(&old.to_be_bytes());
                let (before, partial) = (checksum(&data), sum(&data));
                data[4..6].copy_from_slice(&new.to_be_bytes());
                assert_eq!(update(before, old, new), checksum(&data));
                assert_eq!(replace(partial, old, new), sum(&data));
            }
        }
    }

    #[test]
    fn the_rfc_1624_case_does_not_give_minus_zero() {
        // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 gives 0x0000, not 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(add(0xffff, 1), 1);
    }
}
