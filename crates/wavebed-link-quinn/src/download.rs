//! A download: the client asks for a number of bytes, and the server sends them.

use std::time::Duration;

use quinn_proto::{Chunks, Dir, Event, ReadError, StreamEvent, StreamId, WriteError};

use crate::application::{Application, Context};

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Bytes of a request: the size, most significant byte first.
const REQUEST_BYTES: usize = 8;

/// Either end of a download over one bidirectional stream.
#[derive(Clone, Debug, Default)]
pub struct Download {
    /// At the client: how much it wants. At the server: how much is not written yet.
    bytes: u64,
    request: Vec<u8>,
    stream: Option<StreamId>,
    received: u64,
    connected: Option<Duration>,
    done: Option<Duration>,
    failure: Option<String>,
}

impl Download {
    /// The client, which asks for `bytes` bytes once it is connected.
    #[must_use]
    pub fn client(bytes: u64) -> Self {
        Self {
            bytes,
            request: bytes.to_be_bytes().to_vec(),
            ..Self::default()
        }
    }

    /// The server.
    #[must_use]
    pub fn server() -> Self {
        Self::default()
    }

    /// Bytes received so far.
    #[must_use]
    pub const fn received_bytes(&self) -> u64 {
        self.received
    }

    /// When the handshake was complete.
    #[must_use]
    pub const fn connected_at(&self) -> Option<Duration> {
        self.connected
    }

    /// When the last byte was there.
    #[must_use]
    pub const fn done_at(&self) -> Option<Duration> {
        self.done
    }

    /// Whether nothing more will come: all is there, or the connection is lost.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done.is_some() || self.failure.is_some()
    }

    /// Why the connection was lost before the last byte.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn begin(&mut self, context: &mut Context<'_>) {
        self.connected = Some(context.now());
        if context.connection.side().is_client()
            && let Some(stream) = context.connection.streams().open(Dir::Bi)
        {
            self.stream = Some(stream);
            let mut sending = context.connection.send_stream(stream);
            let written = sending.write(&self.request);
            if written != Ok(REQUEST_BYTES) || sending.finish().is_err() {
                self.failure = Some("the request was not sent".to_owned());
            }
        }
    }

    /// Reads what is there.
    fn read(&mut self, context: &mut Context<'_>) {
        let Some(stream) = self.stream else { return };
        let is_client = context.connection.side().is_client();
        let mut receiving = context.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            return;
        };
        let ended = self.take(&mut chunks, is_client);
        // Ignore its request to transmit: the caller transmits after each event.
        let _ = chunks.finalize();
        match ended {
            Some(Ok(())) if is_client => self.done = Some(context.now()),
            Some(Ok(())) => self.answer(context),
            Some(Err(error)) => self.failure = Some(error.to_string()),
            None => {}
        }
    }

    /// Takes chunks until none is there, and says how the stream ended.
    fn take(&mut self, chunks: &mut Chunks<'_>, is_client: bool) -> Option<Result<(), ReadError>> {
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if is_client => self.received += chunk.bytes.len() as u64,
                Ok(Some(chunk)) => self.request.extend_from_slice(&chunk.bytes),
                Ok(None) => return Some(Ok(())),
                Err(ReadError::Blocked) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Begins to answer the request.
    fn answer(&mut self, context: &mut Context<'_>) {
        match <[u8; REQUEST_BYTES]>::try_from(self.request.as_slice()) {
            Ok(size) => {
                self.bytes = u64::from_be_bytes(size);
                self.write(context);
            }
            Err(_) => self.failure = Some("the request is not eight bytes long".to_owned()),
        }
    }

    /// Writes what the connection takes.
    fn write(&mut self, context: &mut Context<'_>) {
        let Some(stream) = self.stream else { return };
        let mut sending = context.connection.send_stream(stream);
        while self.bytes > 0 {
            let most = ZEROS
                .len()
                .min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
            match sending.write(&ZEROS[..most]) {
                Ok(written) => self.bytes -= written as u64,
                Err(WriteError::Blocked) => return,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    return;
                }
            }
        }
        if let Err(error) = sending.finish() {
            self.failure = Some(error.to_string());
        }
        self.done = Some(context.now());
    }
}

impl Application for Download {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected => self.begin(context),
            Event::Stream(StreamEvent::Opened { dir }) if self.stream.is_none() => {
                self.stream = context.connection.streams().accept(dir);
                self.read(context);
            }
            Event::Stream(StreamEvent::Readable { id }) if Some(id) == self.stream => {
                self.read(context);
            }
            Event::Stream(StreamEvent::Writable { id }) if Some(id) == self.stream => {
                self.write(context);
            }
            Event::ConnectionLost { reason } if self.done.is_none() => {
                self.failure = Some(reason.to_string());
            }
            _ => {}
        }
    }
}
