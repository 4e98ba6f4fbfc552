//! What runs over a connection.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{Connection, Event, VarInt};

/// One end of a connection: answers its events.
pub trait Application {
    /// Something happened to the connection. Streams are read and written here.
    fn on_event(&mut self, context: &mut Context<'_>, event: Event);

    /// The time that [`Context::wake_at`] named has come.
    fn on_wake(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }
}

/// The connection, and the time.
pub struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) instant: Instant,
    pub(crate) wake: &'a mut Option<Duration>,
    /// The connection.
    pub connection: &'a mut Connection,
}

impl Context<'_> {
    /// Virtual time since the simulation began.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The same as `quinn-proto` has it, for calls that take an instant.
    #[must_use]
    pub const fn instant(&self) -> Instant {
        self.instant
    }

    /// Asks for [`Application::on_wake`] at this time, instead of any time named before.
    pub const fn wake_at(&mut self, at: Duration) {
        *self.wake = Some(at);
    }

    /// Closes the connection.
    pub fn close(&mut self, code: u32, reason: &'static [u8]) {
        let code = VarInt::from_u32(code);
        let reason = Bytes::from_static(reason);
        self.connection.close(self.instant, code, reason);
    }
}
