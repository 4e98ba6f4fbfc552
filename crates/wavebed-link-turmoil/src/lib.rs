//! turmoil over emulated radio links: [`turmoil`] holds each message, and a [`wavebed_link`] path says when it arrives.
//!
//! ```
//! use std::time::Duration;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use turmoil::net::{TcpListener, TcpStream};
//! use wavebed_link::pattern::Pattern;
//! use wavebed_link::sim::{LinkSpec, PathSpec, SAMPLE_DOWN, SAMPLE_UP};
//! use wavebed_link_turmoil::Links;
//!
//! let mut sim = turmoil::Builder::new().simulation_duration(Duration::from_secs(60)).build();
//! sim.host("server", || async {
//!     let listener = TcpListener::bind("0.0.0.0:80").await?;
//!     loop {
//!         let (mut stream, _) = listener.accept().await?;
//!         stream.write_all(&[0; 100_000]).await?;
//!     }
//! });
//! sim.client("phone", async {
//!     let mut body = Vec::new();
//!     TcpStream::connect("server:80").await?.read_to_end(&mut body).await?;
//!     assert_eq!(body.len(), 100_000);
//!     Ok(())
//! });
//!
//! let radio = |text| LinkSpec::new().radio_of(Pattern::parse(text)?);
//! let path = PathSpec::new(radio(SAMPLE_DOWN)?, radio(SAMPLE_UP)?);
//! let mut links = Links::new();
//! links.connect(&sim, "server", "phone", &path, 1)?;
//! links.run(&mut sim)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//! turmoil has messages, not packets, and its TCP is a simplification. What follows from that:
//!
//! - **Sizes.** A message counts as the packets that would carry it: an IP header and a header of TCP or UDP around each
//!   part. It arrives when all of them have.
//! - **TCP** has no window and no congestion control in turmoil: what a program writes enters the link at once. A packet
//!   that the link drops enters it again after [`Links::with_retransmission`]. So a link with a rate has its queues and
//!   outages, but not the sharing between flows that congestion controls bring. The answer to a SYN takes no time.
//! - **UDP** datagrams that are lost stay in turmoil's memory until the simulation ends.
//! - **Time** goes in ticks ([`turmoil::Builder::tick_duration`], 1 ms by default): a message arrives up to two ticks
//!   later than the link delivers it. Messages that arrive in the same tick do so in the order in which they were sent.
//! - **Marks** (ECN) and flipped bits are not passed on: there is nothing in a message that could carry them. A datagram
//!   with a flipped bit is lost.

mod link;

use std::net::IpAddr;
use std::time::Duration;

use turmoil::{Sim, ToIpAddr};
use wavebed_link::sim::{PathSpec, SpecError};

use link::HeldLink;

/// The emulated links of a simulation.
#[derive(Default)]
pub struct Links {
    links: Vec<HeldLink>,
    retransmission: Option<Duration>,
}

impl Links {
    /// Linux's least retransmission timeout of TCP.
    pub const RETRANSMISSION: Duration = Duration::from_millis(200);

    /// No links yet: turmoil delivers as it does without this crate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// After this time a packet of TCP that a link dropped enters it again, instead of [`Links::RETRANSMISSION`].
    #[must_use]
    pub const fn with_retransmission(mut self, after: Duration) -> Self {
        self.retransmission = Some(after);
        self
    }

    /// Emulates the link between two hosts that are registered with `sim`, from its start on: down leads from `server`
    /// to `client`.
    ///
    /// # Errors
    /// If `path` breaks a rule.
    pub fn connect(
        &mut self,
        sim: &Sim<'_>,
        server: impl ToIpAddr,
        client: impl ToIpAddr,
        path: &PathSpec,
        seed: u64,
    ) -> Result<(), SpecError> {
        let (server, client) = (sim.lookup(server), sim.lookup(client));
        let after = self.retransmission.unwrap_or(Self::RETRANSMISSION);
        let link = HeldLink::new(server, client, path, seed, after)?;
        sim.hold(server, client);
        self.links.push(link);
        Ok(())
    }

    /// Runs the simulation until all its clients have completed, as [`Sim::run`] does.
    ///
    /// # Errors
    /// The errors of a host's program, and the end of the simulation's duration.
    pub fn run(&mut self, sim: &mut Sim<'_>) -> turmoil::Result {
        while !self.step(sim)? {}
        Ok(())
    }

    /// One step of the simulation, as [`Sim::step`]. Returns whether all clients have completed.
    ///
    /// # Errors
    /// As of [`Links::run`].
    pub fn step(&mut self, sim: &mut Sim<'_>) -> turmoil::Result<bool> {
        let now_ns = u64::try_from(sim.elapsed().as_nanos()).unwrap_or(u64::MAX);
        sim.links(|links| {
            for link in links {
                let (one, other) = link.pair();
                if let Some(held) = self.find(one, other) {
                    held.pass(now_ns, link);
                }
            }
        });
        sim.step()
    }

    fn find(&mut self, one: IpAddr, other: IpAddr) -> Option<&mut HeldLink> {
        self.links.iter_mut().find(|link| link.joins(one, other))
    }
}
