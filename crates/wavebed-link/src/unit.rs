//! What a limit or a decision counts: wire segments, or super-packets whole.

/// The unit of loss and of queue limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Each wire segment by itself.
    #[default]
    Packet,
    /// All segments of a super-packet together, as netem counts on a host with segmentation offload.
    Superpacket,
}
