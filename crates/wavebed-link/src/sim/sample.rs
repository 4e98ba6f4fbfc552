//! A sample, for examples and first tests.

/// The downlink of a walk through a street canyon at 28 GHz in which a bus stops, in the pattern format: 30 s.
///
/// From `wavebed channel street-canyon-bus --seed 1`, and made coarse: the state at the start of each 50 ms instead of
/// that of each millisecond. Make patterns of your own for anything but a first look.
pub const SAMPLE_DOWN: &str = include_str!("sample-down.csv");

/// The uplink of the same walk.
pub const SAMPLE_UP: &str = include_str!("sample-up.csv");
