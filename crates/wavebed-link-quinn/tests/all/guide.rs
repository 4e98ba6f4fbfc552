//! The tests that docs/guides/python.md names.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{CubicConfig, NewRenoConfig};
use quinn_proto::{Dir, Event, StreamEvent, TransportConfig};
use wavebed_link::pattern::Pattern;
use wavebed_link::sim::{LinkSpec, PathSpec, SAMPLE_DOWN, SAMPLE_UP};
use wavebed_link_quinn::{Application, Context, Download, Simulation, tls};

/// A phone at 28 GHz in a street, and a server 8 ms away.
fn street() -> PathSpec {
    let radio = |text| {
        let pattern = Pattern::parse(text).expect("a pattern");
        LinkSpec::new().radio_of(pattern).expect("of a radio")
    };
    let wire = || LinkSpec::new().delay_ns(8_000_000);
    PathSpec::new(wire(), wire()).then(radio(SAMPLE_DOWN), radio(SAMPLE_UP))
}

#[test]
fn a_page_of_300_kb_arrives_within_a_second_wherever_the_phone_is() {
    for second in (1..28).step_by(3) {
        let start = Duration::from_secs(second);
        let mut simulation =
            Simulation::new(&street(), 1, tls::server_config(), Download::server).expect("a path");
        simulation.run_until(start, |_| false);
        let page = simulation
            .connect(tls::client_config(), Download::client(300_000))
            .expect("a connection");
        simulation.run_until(start + Duration::from_secs(1), |simulation| {
            simulation.client(page).is_done()
        });
        let client = simulation.client(page);
        assert!(client.done_at().is_some(), "at {second} s: {client:?}");
    }
}

#[test]
fn cubic_is_not_slower_than_new_reno() {
    let took = |transport: TransportConfig| {
        let mut server = tls::server_config();
        server.transport_config(Arc::new(transport));
        let mut simulation =
            Simulation::new(&street(), 1, server, Download::server).expect("a path");
        let id = simulation
            .connect(tls::client_config(), Download::client(5_000_000))
            .expect("a connection");
        simulation.run_until(Duration::from_secs(30), |simulation| {
            simulation.client(id).is_done()
        });
        simulation.client(id).done_at().expect("it is done")
    };
    let mut cubic = TransportConfig::default();
    cubic.congestion_controller_factory(Arc::new(CubicConfig::default()));
    let mut reno = TransportConfig::default();
    reno.congestion_controller_factory(Arc::new(NewRenoConfig::default()));
    let (cubic, reno) = (took(cubic), took(reno));
    assert!(cubic <= reno * 21 / 20, "{cubic:?}, {reno:?}");
}

/// Sends a message each 100 ms on a stream of its own, and notes when messages come.
#[derive(Default)]
struct Ticker {
    came: Vec<Duration>,
}

impl Application for Ticker {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected if context.connection.side().is_client() => {
                context.wake_at(context.now());
            }
            Event::Stream(StreamEvent::Opened { dir }) => {
                while context.connection.streams().accept(dir).is_some() {
                    self.came.push(context.now());
                }
            }
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if let Some(stream) = context.connection.streams().open(Dir::Uni) {
            let mut sending = context.connection.send_stream(stream);
            let _ = sending.write(b"tick");
            let _ = sending.finish();
        }
        context.wake_at(context.now() + Duration::from_millis(100));
    }
}

#[test]
fn messages_of_a_phone_arrive_within_300_ms_in_sight_of_the_mast() {
    let mut simulation =
        Simulation::new(&street(), 1, tls::server_config(), Ticker::default).expect("a path");
    simulation.run_until(Duration::from_secs(2), |_| false);
    simulation
        .connect(tls::client_config(), Ticker::default())
        .expect("a connection");
    simulation.run_until(Duration::from_secs(6), |_| false);
    let (server, _) = simulation.servers().next().expect("a connection");
    let gaps = server
        .came
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(server.came.len() > 30);
    assert!(gaps.max() < Some(Duration::from_millis(300)));
}
