//! The download of `virtual_download` by quinn over real sockets, to compare with.
//!
//! Usage: `real_download server ADDRESS` or `real_download client ADDRESS BYTES [AT_NS]`. The client begins at `AT_NS` on
//! `CLOCK_MONOTONIC` and prints JSON; times are seconds after it began. The server prints
//! what it sent in each connection. Sockets have receive buffers of 4 MiB, where the
//! system allows it: in the usual ones of 208 KiB the burst that follows a repair of RLC has no room when the program is
//! not there at once, and hosts in virtual time are always there.

#![allow(clippy::print_stdout, reason = "printing is all it is for")]

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::time::{ClockId, clock_gettime};
use wavebed_link_quinn::tls;

const RECEIVE_BYTES: usize = 4 << 20;
static CHUNK: [u8; 1 << 16] = [0; 1 << 16];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<&str>>()[..] {
        ["server", address] => serve(address.parse()?).await,
        ["client", address, bytes] => fetch(address.parse()?, bytes.parse()?, None).await,
        ["client", address, bytes, at_ns] => {
            fetch(address.parse()?, bytes.parse()?, Some(at_ns.parse()?)).await
        }
        _ => Err("use real_download server ADDRESS, or client ADDRESS BYTES [AT_NS]".into()),
    }
}

fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint, Box<dyn Error>> {
    let socket = UdpSocket::bind(address)?;
    set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    let runtime = Arc::new(TokioRuntime);
    let config = EndpointConfig::default();
    Ok(Endpoint::new(config, server, socket, runtime)?)
}

async fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let endpoint = endpoint(address, Some(tls::server_config()))?;
    while let Some(incoming) = endpoint.accept().await {
        answer(incoming).await?;
    }
    Ok(())
}

/// Serves one connection to its end.
async fn answer(incoming: Incoming) -> Result<(), Box<dyn Error>> {
    let connection = incoming.await?;
    let (mut sending, mut receiving) = connection.accept_bi().await?;
    let mut request = [0; 8];
    receiving.read_exact(&mut request).await?;
    let mut left = u64::from_be_bytes(request);
    while left > 0 {
        let most = CHUNK.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        sending.write_all(&CHUNK[..most]).await?;
        left -= most as u64;
    }
    sending.finish()?;
    connection.closed().await;
    let path = connection.stats().path;
    println!(
        "{{\"sent_packets\": {}, \"lost_packets\": {}, \"congestion_events\": {}}}",
        path.sent_packets, path.lost_packets, path.congestion_events
    );
    Ok(())
}

async fn fetch(address: SocketAddr, bytes: u64, at_ns: Option<u64>) -> Result<(), Box<dyn Error>> {
    let mut endpoint = endpoint((Ipv4Addr::UNSPECIFIED, 0).into(), None)?;
    endpoint.set_default_client_config(tls::client_config());
    if let Some(at_ns) = at_ns {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic))?;
        let wait = Duration::from_nanos(at_ns).checked_sub(now);
        tokio::time::sleep(wait.ok_or("AT_NS is past")?).await;
    }
    let began = Instant::now();
    let connection = endpoint.connect(address, "server")?.await?;
    let connected_s = began.elapsed().as_secs_f64();
    let (mut sending, mut receiving) = connection.open_bi().await?;
    sending.write_all(&bytes.to_be_bytes()).await?;
    sending.finish()?;
    let mut received = 0;
    while let Some(chunk) = receiving.read_chunk(usize::MAX, true).await? {
        received += chunk.bytes.len() as u64;
    }
    let done_s = began.elapsed().as_secs_f64();
    println!(
        "{{\"received_bytes\": {received}, \"connected_s\": {connected_s}, \"done_s\": {done_s}}}"
    );
    connection.close(0u8.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}
