//! Whatever comes in at a port of the forwarding test is read without a panic, and what is read stands in the frame.

use wavebed_forward::frame::read;
use wavebed_forward::neighbour::hear;

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    let _ = hear(data);
    if let Some(seen) = read(data) {
        let stamp = &data[seen.header_length..seen.header_length + 18];
        assert_eq!(seen.stamp.to_bytes(), stamp);
        // A frame says the same when it is cut after its stamp.
        assert_eq!(read(&data[..seen.header_length + 18]), Some(seen));
    }
}
