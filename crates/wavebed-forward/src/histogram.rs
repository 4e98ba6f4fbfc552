//! A log-linear histogram (as HDR Histogram): what a BPF program, a receiver in user space and a report all share.
//!
//! Values below 128 have a bucket each; above, every power of two is cut into 64 buckets, so that a value is known
//! within 1/64 (1.6 %). The unit is the nanosecond; values of 2^36 and more (68.7 s) share the last bucket.

/// Buckets of half a power of two: 64.
pub const HALF: usize = 64;
/// The first power of two that does not fit.
pub const TOP_BIT: u32 = 36;
/// How many buckets there are.
pub const BUCKETS: usize = (TOP_BIT as usize - 6) * HALF + HALF;

/// The bucket of a value.
///
/// Below 128 it is the value; else, with `e` the place of the highest bit (7 to 35), it is
/// `(e - 6) * 64 + (value >> (e - 6))`.
#[must_use]
pub fn bucket(value: u64) -> usize {
    if value < 2 * HALF as u64 {
        return usize::try_from(value).expect("below 128");
    }
    let exponent = value.ilog2();
    if exponent >= TOP_BIT {
        return BUCKETS - 1;
    }
    let shift = exponent - 6;
    shift as usize * HALF + usize::try_from(value >> shift).expect("below 128")
}
