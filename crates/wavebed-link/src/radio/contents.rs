//! The contents of blocks: whole segments, and pieces of segments that were split to fit.

use std::collections::VecDeque;

use crate::run::Run;

/// Part of a block.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Number of the first segment since the link began (COUNT in the standards).
    pub count: u64,
    /// Bytes on air, with the overhead of the lower layers.
    pub bytes: u64,
    /// From when on it may be sent.
    pub ready_ns: u64,
    /// The order of the block that HARQ gave up on, until later data has shown the gap to the receiver.
    pub unnoticed: Option<(u64, u32)>,
    /// Number of RLC retransmissions.
    pub retries: u8,
    /// Its kind.
    pub part: Part,
}

/// The kind of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Whole segments of one packet.
    Whole(Run),
    /// A piece of one segment, tracked in [`Cuts`].
    Piece,
}

/// Segments sent in pieces.
#[derive(Debug, Default)]
pub struct Cuts {
    open: Vec<Cut>,
}

#[derive(Debug)]
struct Cut {
    count: u64,
    run: Run,
    /// Pieces that have neither arrived nor been lost.
    pieces: u32,
    lost: bool,
}

impl Cuts {
    /// Removes up to `room` bytes from the first chunk of `source`, and splits a segment that fits only in part.
    /// A segment takes `overhead` more than its IP bytes.
    #[inline]
    pub fn take(
        &mut self,
        source: &mut VecDeque<Chunk>,
        room: u64,
        overhead: u32,
    ) -> Option<Chunk> {
        let rest = source.front_mut()?;
        if rest.bytes <= room {
            return source.pop_front();
        }
        if room == 0 {
            return None;
        }
        let mut front = *rest;
        if let Part::Whole(run) = &mut rest.part
            && run.count > 1
        {
            let each = u64::from(run.head_bytes() + overhead);
            let fitting = u16::try_from(room / each).unwrap_or(u16::MAX);
            let taken = fitting.clamp(1, run.count - 1);
            front.part = Part::Whole(run.split_front(taken));
            front.bytes = u64::from(taken) * each;
            rest.count += u64::from(taken);
            rest.bytes -= front.bytes;
            if fitting > 0 {
                return Some(front);
            }
            source.push_front(front);
        }
        source.front_mut().map(|segment| self.cut(segment, room))
    }

    /// Splits `room` bytes off `rest`, which is one segment or a piece of one.
    fn cut(&mut self, rest: &mut Chunk, room: u64) -> Chunk {
        match rest.part {
            Part::Whole(run) => self.open.push(Cut {
                count: rest.count,
                run,
                pieces: 2,
                lost: false,
            }),
            Part::Piece => {
                let cut = self.open.iter_mut().find(|cut| cut.count == rest.count);
                cut.expect("a piece belongs to a segment").pieces += 1;
            }
        }
        rest.part = Part::Piece;
        rest.bytes -= room;
        Chunk {
            bytes: room,
            ..*rest
        }
    }

    /// A piece of segment `count` arrived. Returns the segment if it is complete.
    pub fn arrived(&mut self, count: u64) -> Option<Run> {
        let cut = self.resolve(count)?;
        (!cut.lost).then_some(cut.run)
    }

    /// A piece of segment `count` is lost. Returns the segment if this is its first lost piece.
    pub fn lost(&mut self, count: u64) -> Option<Run> {
        let cut = self.open.iter_mut().find(|cut| cut.count == count)?;
        let first = !std::mem::replace(&mut cut.lost, true);
        let run = cut.run;
        self.resolve(count);
        first.then_some(run)
    }

    /// The segment `count`, while pieces of it are in flight or wait.
    pub fn segment(&self, count: u64) -> Option<Run> {
        let cut = self.open.iter().find(|cut| cut.count == count)?;
        Some(cut.run)
    }

    /// Removes segment `count` with all of its pieces; `None` if it was removed or is lost.
    pub fn take_out(&mut self, count: u64) -> Option<Run> {
        let place = self.open.iter().position(|cut| cut.count == count)?;
        let cut = self.open.swap_remove(place);
        (!cut.lost).then_some(cut.run)
    }

    /// Removes one piece; returns the entry if none is left.
    fn resolve(&mut self, count: u64) -> Option<Cut> {
        let place = self.open.iter().position(|cut| cut.count == count)?;
        self.open[place].pieces -= 1;
        (self.open[place].pieces == 0).then(|| self.open.swap_remove(place))
    }
}

impl Chunk {
    /// Appends the segments of `next` if they follow directly in the same packet.
    pub fn extend(&mut self, next: &Self) -> bool {
        let (Part::Whole(run), Part::Whole(more)) = (&mut self.part, &next.part) else {
            return false;
        };
        let follows = run.packet == more.packet
            && run.end() == more.first
            && self.count + u64::from(run.count) == next.count
            && self.retries == next.retries
            && run.last_bytes == run.segment_bytes
            && run.segment_bytes == more.segment_bytes
            && (run.ecn, run.flags, run.flow) == (more.ecn, more.flags, more.flow)
            && (run.flip, more.flip) == (0, 0);
        if follows {
            run.count += more.count;
            run.last_bytes = more.last_bytes;
            self.bytes += next.bytes;
        }
        follows
    }
}
