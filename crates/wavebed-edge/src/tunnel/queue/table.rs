//! Where flows and hosts find their entry: a fixed table with eight places for each, as in CAKE.
//!
//! Source: T. Høiland-Jørgensen et al., "Piece of CAKE", IEEE LANMAN 2018, section III-B: set-associative hashing.

use wavebed_link::RandomStream;

/// Entries of a set.
const WAYS: u32 = 8;

/// An entry that may be taken by another key while it is idle.
pub(super) trait Entry {
    fn is_idle(&self) -> bool;
    /// Forgets all of its former key.
    fn reset(&mut self);
}

/// Keys of the entries.
#[derive(Debug)]
pub(super) struct Table {
    /// The key of each entry, as a random word.
    tags: Vec<u64>,
    random: RandomStream,
}

impl Table {
    /// A table of this many entries, a multiple of eight.
    pub(super) fn new(entries: u32, random: RandomStream) -> Self {
        assert!(
            entries > 0 && entries.is_multiple_of(WAYS),
            "a table of {entries} entries"
        );
        Self {
            tags: vec![0; entries as usize],
            random,
        }
    }

    /// The entry of `key`: its own, an idle one, or one that it shares with another key while its set is full.
    pub(super) fn find<E: Entry>(&mut self, key: u64, entries: &mut [E]) -> u32 {
        let tag = self.random.word(key);
        let sets = self.tags.len() as u64 / u64::from(WAYS);
        let first = u32::try_from(((tag >> 32) * sets) >> 32).unwrap_or_default() * WAYS;
        let ways = first..first + WAYS;
        if let Some(own) = ways.clone().find(|&way| self.tags[way as usize] == tag) {
            return own;
        }
        if let Some(idle) = ways.clone().find(|&way| entries[way as usize].is_idle()) {
            self.tags[idle as usize] = tag;
            entries[idle as usize].reset();
            return idle;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
        let shared = tag as u32 % WAYS;
        first + shared
    }
}
