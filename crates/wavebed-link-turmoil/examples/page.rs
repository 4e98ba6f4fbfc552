//! A page of twenty objects over a 5G link in a street, and over turmoil's constant latency of the same mean.

#![allow(clippy::print_stdout, reason = "printing is all it is for")]

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};
use wavebed_link::pattern::Pattern;
use wavebed_link::sim::{LinkSpec, PathSpec, SAMPLE_DOWN, SAMPLE_UP};
use wavebed_link_turmoil::Links;

const OBJECTS: u64 = 20;
const OBJECT_BYTES: usize = 400_000;
/// Users click once in a while.
const PAUSE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let radio = |text| -> Result<LinkSpec, Box<dyn Error>> {
        Ok(LinkSpec::new().radio_of(Pattern::parse(text)?)?)
    };
    let wire = || LinkSpec::new().delay_ns(8_000_000);
    let path = PathSpec::new(wire(), wire()).then(radio(SAMPLE_DOWN)?, radio(SAMPLE_UP)?);
    println!("| object | constant latency | 5G in a street |\n|---|---|---|");
    for object in 0..OBJECTS {
        let constant = page(object, None)?;
        let street = page(object, Some(&path))?;
        println!("| {object} | {constant:.0?} | {street:.0?} |");
    }
    Ok(())
}

/// How long one object takes that is asked for `object` pauses after the start.
fn page(object: u64, path: Option<&PathSpec>) -> Result<Duration, Box<dyn Error>> {
    let latency = Duration::from_millis(8);
    let mut sim = turmoil::Builder::new()
        .simulation_duration(Duration::from_secs(120))
        .tcp_capacity(1000)
        .min_message_latency(latency)
        .max_message_latency(latency)
        .build();
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            let mut request = [0; 18];
            stream.read_exact(&mut request).await?;
            stream.write_all(&vec![0; OBJECT_BYTES]).await?;
        }
    });
    let took = Rc::new(Cell::new(Duration::ZERO));
    let noted = Rc::clone(&took);
    sim.client("phone", async move {
        tokio::time::sleep(PAUSE * u32::try_from(object)?).await;
        let begun = turmoil::elapsed();
        let mut stream = TcpStream::connect("server:80").await?;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await?;
        let mut body = vec![0; OBJECT_BYTES];
        stream.read_exact(&mut body).await?;
        noted.set(turmoil::elapsed().saturating_sub(begun));
        Ok(())
    });
    let mut links = Links::new();
    if let Some(path) = path {
        links.connect(&sim, "server", "phone", path, 1)?;
    }
    links.run(&mut sim).map_err(|error| error.to_string())?;
    Ok(took.get())
}
