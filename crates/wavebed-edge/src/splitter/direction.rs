//! One direction of a connection: takes bytes from one leg and gives them to the other.

use std::io;
use std::os::fd::AsFd;

use rustix::net::Shutdown;

use super::carry::Carry;
use super::flow::Leg;
use super::pool::Pool;

/// Bytes that a direction copies before others have their turn.
const TURN_BYTES: usize = 1 << 20;

/// A pipe counts pages, and a page may hold no more than a segment of 1448 of its 4096 bytes: a quarter counts as full.
const FULL: usize = 4;

/// One direction.
#[derive(Debug, Default)]
pub struct Direction {
    /// Lent while it holds bytes.
    carry: Option<Box<dyn Carry>>,
    /// The source has ended its stream.
    pub is_ended: bool,
    /// The end was passed on to the destination.
    pub is_shut: bool,
    /// Bytes given to the destination.
    pub bytes: u64,
    /// Most bytes held, if the radio sets a limit.
    pub limit_bytes: Option<usize>,
    /// Since when held bytes wait for the destination; 0: they do not.
    blocked_since_ns: u64,
    stalled_ns: u64,
}

/// The leg that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Whether anything moved.
    pub has_moved: bool,
    /// Whether it has more to do, and stopped for the others' sake.
    pub is_cut: bool,
}

enum Step {
    Moved(usize),
    Nothing,
}

impl Direction {
    /// Bytes held.
    pub fn held(&self) -> usize {
        self.carry.as_ref().map_or(0, |carry| carry.held())
    }

    /// Bytes that its buffer, if it has one, can hold.
    pub fn room(&self) -> usize {
        self.carry.as_ref().map_or(0, |carry| carry.room())
    }

    /// How long held bytes have waited for the destination, nanoseconds.
    pub fn stalled_ns(&self, now_ns: u64) -> u64 {
        match self.blocked_since_ns {
            0 => self.stalled_ns,
            since => self.stalled_ns + now_ns.saturating_sub(since),
        }
    }

    /// Copies until a leg blocks, the stream ends, or the turn is over.
    pub fn pump(
        &mut self,
        from: &mut Leg,
        to: &mut Leg,
        pool: &mut Pool,
        now_ns: u64,
    ) -> Result<Turn, Broken> {
        let mut turn = Turn::default();
        let mut taken = 0;
        loop {
            let filled = self.fill(from, pool).map_err(|_| Broken::Source)?;
            let drained = self.drain(to, pool).map_err(|_| Broken::Destination)?;
            if let Step::Moved(bytes) = filled {
                taken += bytes;
            }
            if let Step::Moved(_) = drained {
                self.stalled_ns = self.stalled_ns(now_ns);
                self.blocked_since_ns = 0;
            }
            if matches!((&filled, &drained), (Step::Nothing, Step::Nothing)) {
                break;
            }
            turn.has_moved = true;
            if taken >= TURN_BYTES {
                turn.is_cut = true;
                break;
            }
        }
        self.settle(to, pool, now_ns)
            .map_err(|_| Broken::Destination)?;
        Ok(turn)
    }

    fn fill(&mut self, from: &mut Leg, pool: &mut Pool) -> io::Result<Step> {
        let share = pool.share().min(self.limit_bytes.unwrap_or(usize::MAX));
        let room = share.saturating_sub(self.held());
        if self.is_ended || !from.is_readable || room == 0 {
            return Ok(Step::Nothing);
        }
        let carry = self.carry.get_or_insert_with(|| pool.take());
        if carry.held() * FULL >= carry.room() {
            let wanted = carry.held() + room;
            carry.grow(wanted);
        }
        let answer = if from.is_urgent {
            carry.fill_past_urgent(from.socket.as_fd(), room)
        } else {
            carry.fill(from.socket.as_fd(), room)
        };
        match answer {
            Ok(filled) => {
                pool.account(filled.bytes, 0);
                self.is_ended = filled.bytes == 0;
                // The end of a stream and urgent data hide behind a short read.
                if filled.is_drained && !from.is_hung_up && !from.is_urgent {
                    from.is_readable = false;
                }
                Ok(Step::Moved(filled.bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // With bytes held the buffer may be full; the next attempt, when it is empty, will tell.
                if carry.held() == 0 {
                    from.is_readable = false;
                    from.is_urgent = false;
                }
                Ok(Step::Nothing)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Step::Moved(0)),
            Err(error) => Err(error),
        }
    }

    fn drain(&mut self, to: &mut Leg, pool: &mut Pool) -> io::Result<Step> {
        let Some(carry) = self.carry.as_mut().filter(|carry| carry.held() > 0) else {
            return Ok(Step::Nothing);
        };
        if !to.is_writable {
            return Ok(Step::Nothing);
        }
        match carry.drain(to.socket.as_fd()) {
            Ok(bytes) => {
                pool.account(0, bytes);
                self.bytes += bytes as u64;
                Ok(Step::Moved(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                to.is_writable = false;
                Ok(Step::Nothing)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Step::Moved(0)),
            Err(error) => Err(error),
        }
    }

    /// Returns an empty buffer, and passes the end of the stream on behind the last byte.
    fn settle(&mut self, to: &mut Leg, pool: &mut Pool, now_ns: u64) -> io::Result<()> {
        if self.held() > 0 {
            if !to.is_writable && self.blocked_since_ns == 0 {
                self.blocked_since_ns = now_ns;
            }
            return Ok(());
        }
        self.release(pool);
        if self.is_ended && !self.is_shut {
            self.is_shut = true;
            rustix::net::shutdown(&to.socket, Shutdown::Write)?;
        }
        Ok(())
    }

    /// Returns its buffer.
    pub fn release(&mut self, pool: &mut Pool) {
        if let Some(carry) = self.carry.take() {
            pool.give_back(carry);
        }
    }
}
