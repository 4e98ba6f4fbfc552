//! The hash of a flow.

// Odd constants with balanced bits: the fractional parts of the golden ratio and of the square roots of 2 and 3.
const KEYS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
];

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
const fn stir(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hash of addresses (source, then destination), protocol and ports (both, as they stand in the header).
#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half is folded in"
)]
pub(crate) fn hash(addresses: &[u8], protocol: u8, ports: u32) -> u32 {
    let mut state = stir(
        KEYS[0] ^ (u64::from(ports) << 8 | u64::from(protocol)),
        KEYS[1],
    );
    let (words, _) = addresses.as_chunks::<8>();
    for word in words {
        state = stir(state ^ u64::from_le_bytes(*word) ^ KEYS[2], KEYS[0]);
    }
    let state = stir(state ^ KEYS[1], KEYS[2]);
    (state ^ (state >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn neighbouring_ports_and_addresses_spread_over_the_queues() {
        // Binomial(64000, 1/64): mean 1000, sd 31.4; five of them.
        for shift in [0, 10, 26] {
            let mut by_port = [0u32; 64];
            let mut by_address = [0u32; 64];
            for i in 0..64_000u32 {
                by_port[(hash(&[10, 0, 0, 1, 10, 0, 0, 2], 6, i << 16 | 0x1bb) >> shift)
                    as usize
                    % 64] += 1;
                let mut addresses = [0x20; 32];
                addresses[12..16].copy_from_slice(&i.to_be_bytes());
                by_address[(hash(&addresses, 17, 0) >> shift) as usize % 64] += 1;
            }
            assert!(
                by_port.iter().all(|&n| n.abs_diff(1000) < 157),
                "{by_port:?}"
            );
            assert!(
                by_address.iter().all(|&n| n.abs_diff(1000) < 157),
                "{by_address:?}"
            );
        }
    }

    #[test]
    fn every_input_counts() {
        let base = hash(&[1, 2, 3, 4, 5, 6, 7, 8], 6, 0x0001_0002);
        assert_ne!(base, hash(&[5, 6, 7, 8, 1, 2, 3, 4], 6, 0x0001_0002));
        assert_ne!(base, hash(&[1, 2, 3, 4, 5, 6, 7, 8], 17, 0x0001_0002));
        assert_ne!(base, hash(&[1, 2, 3, 4, 5, 6, 7, 8], 6, 0x0002_0001));
    }
}
