//! The event loop.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use wavebed_os::clock;

use super::admission::Admission;
use super::http::{self, Reader};
use super::http_request::Page;
use super::metrics::Totals;
use super::pool::Pool;
use super::settings::Settings;
use super::settings_value::Time;
use super::slab::{FlowId, Slab, Token};
use super::socket;
use super::window::{self, WindowLaw};

/// Events of one wait.
const EVENTS: usize = 256;
/// The loop's own tokens.
const STOP: u32 = 0;
const HTTP: u32 = 1;
const READER: u32 = 100;
const LISTENER: u32 = 1000;
/// How often limits of time are checked: four times within the shortest one, within these bounds.
const SWEEP_NS: std::ops::RangeInclusive<u64> = 10_000_000..=1_000_000_000;

/// How the splitter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its counters.
    pub totals: Totals,
    /// Connections that were reset because they had not ended.
    pub cut: usize,
}

/// A splitter.
#[derive(Debug)]
pub struct Splitter {
    pub(super) settings: Settings,
    pub(super) epoll: OwnedFd,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) own_addresses: Vec<SocketAddr>,
    /// Whether new connections are taken from the listeners.
    pub(super) is_accepting: bool,
    pub(super) flows: Slab,
    pub(super) pool: Pool,
    pub(super) admission: Admission,
    pub(super) totals: Totals,
    /// Connections whose turn was cut.
    pub(super) ready: VecDeque<FlowId>,
    http: Option<OwnedFd>,
    readers: Vec<Option<Reader>>,
    stop_requests: u32,
}

impl Splitter {
    /// Listens as `settings` says, with room for `max_connections` in the limit of open files.
    ///
    /// # Errors
    /// One line: the address, and why it cannot be listened on.
    pub fn new(settings: Settings, max_connections: usize) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| text(error.into()))?;
        let mut listeners = Vec::new();
        let mut own_addresses = Vec::new();
        for address in &settings.listen {
            let wrong = |error| format!("cannot listen on {address}: {error}");
            let listener = socket::listen(&settings, *address).map_err(wrong)?;
            own_addresses.push(socket::local_address(&listener).map_err(wrong)?);
            listeners.push(listener);
        }
        if let Some(to) = settings.to
            && own_addresses.contains(&to)
        {
            return Err(format!(
                "to: {to} is the splitter's own address: write the server's"
            ));
        }
        let http = settings
            .metrics
            .map(|address| {
                http::open(address)
                    .map_err(|error| format!("metrics: cannot listen on {address}: {error}"))
            })
            .transpose()?;
        Ok(Self {
            pool: Pool::new(&settings),
            admission: Admission::new(
                &settings,
                max_connections.min(usize::try_from(settings.max_connections).unwrap_or(0)),
            ),
            settings,
            epoll,
            listeners,
            own_addresses,
            is_accepting: false,
            flows: Slab::default(),
            totals: Totals::default(),
            ready: VecDeque::new(),
            http,
            readers: (0..http::MOST_CONNECTIONS).map(|_| None).collect(),
            stop_requests: 0,
        })
    }

    /// The addresses that it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.own_addresses
    }

    /// The address of its metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        socket::local_address(self.http.as_ref()?).ok()
    }

    /// Splits connections until it has to stop: each read from `stop` (a signalfd, an eventfd or a pipe) is a request.
    /// The first one lets connections end within the time to drain; the second one, or the end of a pipe, resets them.
    ///
    /// # Errors
    /// The error of epoll(7).
    pub fn run(mut self, stop: impl AsFd) -> io::Result<Ended> {
        let stop = stop.as_fd();
        self.watch(stop, Token::Other(STOP), EventFlags::IN)?;
        if let Some(http) = &self.http {
            self.watch(http.as_fd(), Token::Other(HTTP), EventFlags::IN)?;
        }
        self.start_accepting()?;
        let law = self.settings.window_queue.map(|time| WindowLaw {
            queue_us: time.ns() / 1000,
        });
        let sweep_every_ns = self.sweep_every_ns();
        let mut next_sweep_ns = clock::monotonic_ns() + sweep_every_ns;
        let mut next_window_ns = law.map_or(u64::MAX, |_| clock::monotonic_ns());
        let mut drain_until_ns = u64::MAX;
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let next_ns = next_sweep_ns.min(next_window_ns).min(drain_until_ns);
            self.wait(&mut events, next_ns)?;
            let now_ns = clock::monotonic_ns();
            for event in events.drain(..) {
                self.dispatch(event, stop, now_ns);
            }
            self.turns(now_ns);
            if now_ns >= next_sweep_ns {
                self.sweep(now_ns);
                next_sweep_ns = now_ns + sweep_every_ns;
            }
            if let Some(law) = law
                && now_ns >= next_window_ns
            {
                self.follow_radio(law);
                next_window_ns = now_ns + window::PERIOD_NS;
            }
            if self.stop_requests > 0 && drain_until_ns == u64::MAX {
                drain_until_ns = now_ns.saturating_add(self.settings.drain.ns());
                self.listeners.clear();
            }
            let is_drained = self.stop_requests > 0 && self.flows.len() == 0;
            if is_drained || self.stop_requests > 1 || now_ns >= drain_until_ns {
                return Ok(self.end(now_ns));
            }
        }
    }

    fn sweep_every_ns(&self) -> u64 {
        let settings = &self.settings;
        let times = [settings.idle, settings.half_closed, settings.handshake];
        let shortest = times.map(Time::ns).into_iter().min().unwrap_or(0);
        (shortest / 4).clamp(*SWEEP_NS.start(), *SWEEP_NS.end())
    }

    fn wait(&self, events: &mut Vec<Event>, until_ns: u64) -> io::Result<()> {
        let wait_ns = if self.ready.is_empty() {
            until_ns.saturating_sub(clock::monotonic_ns())
        } else {
            0
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(wait_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(wait_ns % 1_000_000_000).unwrap_or(0),
        };
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a descriptor to the epoll set.
    pub(super) fn watch(
        &self,
        fd: BorrowedFd<'_>,
        token: Token,
        flags: EventFlags,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token.encode());
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// Takes connections from the listeners.
    pub(super) fn start_accepting(&mut self) -> io::Result<()> {
        self.is_accepting = true;
        for (listener, number) in self.listeners.iter().zip(LISTENER..) {
            self.watch(listener.as_fd(), Token::Other(number), EventFlags::IN)?;
        }
        Ok(())
    }

    /// Leaves connections to the listeners' queues.
    pub(super) fn pause_accepting(&mut self) {
        self.is_accepting = false;
        for listener in &self.listeners {
            // Without an entry there is nothing to remove.
            let _ = epoll::delete(&self.epoll, listener);
        }
    }

    fn dispatch(&mut self, event: Event, stop: BorrowedFd<'_>, now_ns: u64) {
        match Token::decode(event.data.u64()) {
            Token::Leg(id, side) => self.on_leg(id, side, event.flags, now_ns),
            Token::Other(STOP) => {
                let count = rustix::io::read(stop, &mut [0; 128]).unwrap_or(0);
                self.stop_requests += if count == 0 { 2 } else { 1 };
            }
            Token::Other(HTTP) => self.on_reader(now_ns),
            Token::Other(number) if number < LISTENER => self.go_on_with_reader(number - READER),
            Token::Other(number) => self.accept_all((number - LISTENER) as usize, now_ns),
        }
    }

    fn on_reader(&mut self, now_ns: u64) {
        let Some(http) = &self.http else { return };
        let Ok(reader) = Reader::accept(http, now_ns) else {
            return;
        };
        let Some(number) = http::place(&self.readers) else {
            return;
        };
        let token = READER + u32::try_from(number).unwrap_or(0);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        if self
            .watch(reader.socket.as_fd(), Token::Other(token), flags)
            .is_ok()
        {
            self.readers[number] = Some(reader);
        }
    }

    fn go_on_with_reader(&mut self, number: u32) {
        let Some(mut reader) = self.readers.get_mut(number as usize).and_then(Option::take) else {
            return;
        };
        if !reader.go_on(|path| self.page(path)) {
            self.readers[number as usize] = Some(reader);
        }
    }

    fn page(&self, path: &str) -> Page {
        match path {
            "/metrics" => Some(("text/plain; version=0.0.4", self.prometheus())),
            "/metrics.json" => Some(("application/json", self.json().to_string())),
            "/flows.json" => Some(("application/json", self.flows_json().to_string())),
            _ => None,
        }
    }

    /// Ends connections with readers of metrics that take too long.
    pub(super) fn sweep_readers(&mut self, now_ns: u64) {
        for reader in &mut self.readers {
            reader.take_if(|reader| reader.is_late(now_ns));
        }
    }
}
