//! Rates, bytes and times in whole numbers.

/// Nanobits of a byte: what a rate of one bit per second carries in a nanosecond is a nanobit.
const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// Whole bytes that `rate_bps` carries in `time_ns`.
pub(super) fn bytes_in(rate_bps: u64, time_ns: u64) -> u64 {
    let bytes = u128::from(rate_bps) * u128::from(time_ns) / NANOBITS_PER_BYTE;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The time that `bytes` take at `rate_bps`, which is not zero.
pub(super) fn time_of(bytes: u64, rate_bps: u64) -> u64 {
    let time_ns = u128::from(bytes) * NANOBITS_PER_BYTE / u128::from(rate_bps.max(1));
    u64::try_from(time_ns).unwrap_or(u64::MAX)
}

/// The rate of `bytes` in `time_ns`, bits per second.
pub(super) fn rate_of(bytes: u64, time_ns: u64) -> u64 {
    let rate_bps = u128::from(bytes) * NANOBITS_PER_BYTE / u128::from(time_ns.max(1));
    u64::try_from(rate_bps).unwrap_or(u64::MAX)
}

/// `per_mille` thousandths of `value`.
pub(super) fn scaled(value: u64, per_mille: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(per_mille) / 1000;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
