//! What a radio is doing.

/// The state of the radio in a row of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The direct path is free.
    Los,
    /// A building stands in the direct path.
    Nlos,
    /// Something that is not a building stands in the direct path.
    Blocked,
    /// The radio link has failed, or is too weak for any block.
    Outage,
    /// A gap in which nothing is sent; after it the buffer was forwarded or lost.
    Handover,
    /// The link is on its fallback carrier, whose slots hold.
    Fallback,
}

impl State {
    /// Every state, in the order in which the reference lists them.
    pub const ALL: [Self; 6] = [
        Self::Los,
        Self::Nlos,
        Self::Blocked,
        Self::Outage,
        Self::Handover,
        Self::Fallback,
    ];

    /// The word in the `state` column.
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

    /// The state that a word of the `state` column names.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.name().as_bytes() == name)
    }
}
