//! Counts UDP datagrams; with GRO, one system call takes many.

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use serde_json::json;
use wavebed_os::clock;

/// Options of `count`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Port.
    #[arg(long, default_value_t = 9)]
    port: u16,
    /// End when nothing came for so long after the first datagram, milliseconds.
    #[arg(long, default_value_t = 700)]
    quiet_ms: u64,
    /// Leave out the first seconds after the first datagram.
    #[arg(long, default_value_t = 0.0)]
    skip_seconds: f64,
}

/// Counts until it is quiet and prints the result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", arguments.port))?;
    setsockopt(&socket, sockopt::UdpGroSegment, &true).context("no UDP GRO")?;
    // Needs CAP_NET_ADMIN; without it the losses at this socket show in the counters.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(256 << 20));
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut buffer = vec![0u8; 1 << 17];
    let mut space = nix::cmsg_space!(i32);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a test"
    )]
    let skip_ns = (arguments.skip_seconds * 1e9) as u64;
    let (mut all, mut datagrams, mut bytes, mut calls) = (0u64, 0u64, 0u64, 0u64);
    let (mut first_ns, mut last_ns) = (None, 0);
    loop {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let message = match recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::empty(),
        ) {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => break,
            Err(error) => return Err(error.into()),
        };
        let length = message.bytes as u64;
        let segment = message.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::UdpGroSegments(size) => u64::try_from(size).ok(),
            _ => None,
        });
        let count = segment.map_or(1, |size| length.div_ceil(size.max(1)));
        let now_ns = clock::monotonic_ns();
        if first_ns.is_none() {
            first_ns = Some(now_ns);
            socket.set_read_timeout(Some(Duration::from_millis(arguments.quiet_ms)))?;
        }
        all += count;
        if now_ns - first_ns.unwrap_or(now_ns) >= skip_ns {
            datagrams += count;
            bytes += length;
            calls += 1;
            last_ns = now_ns;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a duration for people")]
    let seconds = first_ns.map(|first_ns| last_ns.saturating_sub(first_ns + skip_ns) as f64 / 1e9);
    println!(
        "{}",
        json!({"received_datagrams": all, "counted_datagrams": datagrams, "counted_bytes": bytes,
               "calls": calls, "seconds": seconds})
    );
    Ok(())
}
