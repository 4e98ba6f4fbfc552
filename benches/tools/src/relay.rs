//! The bare relay: two hosts, two TUN devices with offloads, a fixed delay, and nothing else. It is the ceiling that
//! the real engine is measured against: no headers are read, no segment is counted.

use std::collections::VecDeque;
use std::fs;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{Child, Command};

use anyhow::Context;
use wavebed_os::interface::Route;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::tun::Tun;
use wavebed_os::{clock, poll, sched};

/// The command to run across the relay.
#[derive(clap::Args)]
pub struct Arguments {
    /// Delay in each direction, nanoseconds.
    #[arg(long, default_value_t = 5_000_000)]
    delay_ns: u64,
    /// Rate in each direction, bits per second of whole packets as they come; unlimited when left out.
    #[arg(long)]
    rate_bps: Option<u64>,
    /// A command on the server, in the background; may be given several times.
    #[arg(long)]
    server: Vec<String>,
    /// The command on the client.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

struct Host {
    namespace: NetworkNamespace,
    tun: Tun,
}

fn host(address: Ipv4Addr) -> anyhow::Result<Host> {
    let namespace = NetworkNamespace::new()?;
    let tun = Tun::create("wb0", 1_500)?;
    let netlink = Netlink::route()?;
    for name in ["lo", "wb0"] {
        netlink.set_up(interface_index(name)?)?;
    }
    let interface = interface_index("wb0")?;
    netlink.add_address(interface, IpAddr::V4(address), 32)?;
    netlink.add_route(&Route {
        destination: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)),
        prefix_bits: 24,
        interface,
        source: Some(IpAddr::V4(address)),
        congestion_control: None,
    })?;
    for (key, value) in [
        ("tcp_rmem", "4096 131072 536870912"),
        ("tcp_wmem", "4096 65536 536870912"),
        ("tcp_no_metrics_save", "1"),
    ] {
        fs::write(format!("/proc/sys/net/ipv4/{key}"), value)
            .with_context(|| format!("cannot set {key}"))?;
    }
    Ok(Host { namespace, tun })
}

fn spawn(host: &Host, words: &[String]) -> anyhow::Result<Child> {
    host.namespace.enter()?;
    let (program, arguments) = words.split_first().context("an empty command")?;
    Command::new(program)
        .args(arguments)
        .spawn()
        .with_context(|| format!("cannot start {program}"))
}

/// Runs the command and ends with its status.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let server = host(SERVER)?;
    let client = host(CLIENT)?;
    let mut background = Vec::new();
    for command in &arguments.server {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        background.push(spawn(&server, &words)?);
    }
    if !background.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let words: Vec<String> = arguments
        .command
        .iter()
        .map(|word| word.replace("{server}", &SERVER.to_string()))
        .collect();
    let mut foreground = spawn(&client, &words)?;
    let (delay_ns, rate_bps) = (arguments.delay_ns, arguments.rate_bps);
    let tuns = [server.tun, client.tun];
    std::thread::spawn(move || relay(&tuns, delay_ns, rate_bps));
    let status = foreground.wait()?;
    for child in &mut background {
        let _ = child.kill();
        let _ = child.wait();
    }
    std::process::exit(status.code().unwrap_or(1));
}

#[derive(Default)]
struct Direction {
    waiting: VecDeque<(u64, usize, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    free_ns: u64,
}

fn relay(tuns: &[Tun; 2], delay_ns: u64, rate_bps: Option<u64>) -> anyhow::Result<()> {
    let _scheduler = sched::prepare_thread(sched::Options {
        fifo_priority: None,
        cpu: None,
    });
    let mut directions = [Direction::default(), Direction::default()];
    let mut readable = [true; 2];
    loop {
        let mut more = false;
        for side in 0..2 {
            let direction = &mut directions[side];
            for turn in 0..4 {
                if !readable[side] {
                    break;
                }
                let mut buffer = direction.spare.pop().unwrap_or_else(|| vec![0; 66_000]);
                let Some(length) = tuns[side].read(&mut buffer)? else {
                    direction.spare.push(buffer);
                    break;
                };
                let now_ns = clock::monotonic_ns();
                direction.free_ns = direction.free_ns.max(now_ns);
                if let Some(rate_bps) = rate_bps {
                    direction.free_ns += length as u64 * 8_000_000_000 / rate_bps;
                }
                direction
                    .waiting
                    .push_back((direction.free_ns + delay_ns, length, buffer));
                more |= turn == 3;
            }
            let now_ns = clock::monotonic_ns();
            while let Some((due_ns, ..)) = direction.waiting.front() {
                if *due_ns > now_ns {
                    break;
                }
                let Some((_, length, buffer)) = direction.waiting.pop_front() else {
                    break;
                };
                // A packet that the device refuses is lost, as on any relay.
                let _ = tuns[1 - side].write_vectored(&[IoSlice::new(&buffer[..length])]);
                direction.spare.push(buffer);
            }
        }
        readable = [true; 2];
        if more {
            continue;
        }
        let next_ns = directions
            .iter()
            .filter_map(|direction| direction.waiting.front().map(|(due_ns, ..)| *due_ns))
            .min();
        let now_ns = clock::monotonic_ns();
        if next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
            continue;
        }
        let timeout = next_ns.map(|next_ns| next_ns - now_ns);
        poll::wait(&[tuns[0].as_fd(), tuns[1].as_fd()], &mut readable, timeout)?;
    }
}
