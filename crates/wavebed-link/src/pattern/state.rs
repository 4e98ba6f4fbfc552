//! The state of a radio link.

/// The state of the radio in a row of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Line of sight.
    Los,
    /// No line of sight: a building blocks the direct path.
    Nlos,
    /// An obstacle other than a building blocks the direct path.
    Blocked,
    /// The radio link has failed, or is too weak for any block.
    Outage,
    /// Interruption by a handover; the buffer is forwarded or lost.
    Handover,
    /// The link uses its fallback carrier and the slots of that.
    Fallback,
}

impl State {
    /// Every state, in the order of the reference.
    pub const ALL: [Self; 6] = [
        Self::Los,
        Self::Nlos,
        Self::Blocked,
        Self::Outage,
        Self::Handover,
        Self::Fallback,
    ];

    /// Its name in the `state` column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Los => "los",
            Self::Nlos => "nlos",
            Self::Blocked => "blocked",
            Self::Outage => "outage",
            Self::Handover => "handover",
            Self::Fallback => "fallback",
        }
    }

    /// The state of this name in the `state` column.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.name().as_bytes() == name)
    }
}
