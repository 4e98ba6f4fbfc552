//! The unit of limits and decisions: wire segments, or whole super-packets.

/// The unit of loss and of queue limits.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Single wire segments.
    #[default]
    Packet,
    /// All segments of a super-packet together, as netem counts on a host with segmentation offload.
    Superpacket,
}
