//! Connections in slots that are used again; the generation in an identifier tells a late event from a current one.

use super::flow::{Flow, Side};

/// The slot of events that belong to no connection.
const NO_SLOT: u32 = u32::MAX;

/// A connection's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId {
    slot: u32,
    /// 31 bits: one bit of a token is the side.
    generation: u32,
}

/// What an event of epoll(7) belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A leg of a connection.
    Leg(FlowId, Side),
    /// Anything else, by a number of the event loop's.
    Other(u32),
}

impl Token {
    /// As the data of an event.
    pub fn encode(self) -> u64 {
        match self {
            Self::Leg(id, side) => {
                let low = id.generation << 1 | u32::from(side == Side::Server);
                u64::from(id.slot) << 32 | u64::from(low)
            }
            Self::Other(number) => u64::from(NO_SLOT) << 32 | u64::from(number),
        }
    }

    /// From the data of an event.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the two halves of a number"
    )]
    pub fn decode(data: u64) -> Self {
        let (slot, low) = ((data >> 32) as u32, data as u32);
        if slot == NO_SLOT {
            return Self::Other(low);
        }
        let side = if low & 1 == 1 {
            Side::Server
        } else {
            Side::Client
        };
        let generation = low >> 1;
        Self::Leg(FlowId { slot, generation }, side)
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    flow: Option<Flow>,
}

/// The connections.
#[derive(Debug, Default)]
pub struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slab {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds one.
    pub fn insert(&mut self, flow: Flow) -> FlowId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // Below `max-connections`, at most a million.
            u32::try_from(self.slots.len() - 1).unwrap_or(NO_SLOT - 1)
        });
        let entry = &mut self.slots[slot as usize];
        entry.flow = Some(flow);
        FlowId {
            slot,
            generation: entry.generation,
        }
    }

    /// The connection of an identifier, if it still exists.
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        let entry = self.slots.get_mut(id.slot as usize)?;
        (entry.generation == id.generation)
            .then_some(entry.flow.as_mut())
            .flatten()
    }

    /// Removes one.
    pub fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let entry = self.slots.get_mut(id.slot as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let flow = entry.flow.take()?;
        entry.generation = (entry.generation + 1) & (u32::MAX >> 1);
        self.free.push(id.slot);
        Some(flow)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.slots.iter().filter_map(|entry| entry.flow.as_ref())
    }

    /// All of them, to be changed, with their identifiers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut Flow)> {
        self.slots.iter_mut().zip(0..).filter_map(|(entry, slot)| {
            let generation = entry.generation;
            let flow = entry.flow.as_mut()?;
            Some((FlowId { slot, generation }, flow))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_slot_generation_and_side() {
        let id = FlowId {
            slot: 77,
            generation: u32::MAX >> 1,
        };
        for token in [
            Token::Leg(id, Side::Client),
            Token::Leg(id, Side::Server),
            Token::Other(3),
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
