//! A client, a router and a server, each in a network namespace of its own. Root is needed: without it the test fails.
//!
//! ```text
//! client 10.1.0.2, fd01::2 ── c0 router s0 ── 10.2.0.2, fd02::2 server
//! ```

use std::process::Command;
use std::thread;

use wavebed_os::namespace::NetworkNamespace;

/// The three hosts.
pub struct Network {
    pub client: NetworkNamespace,
    pub router: NetworkNamespace,
    pub server: NetworkNamespace,
}

impl Network {
    /// Makes them, on a thread that ends with the call.
    pub fn new() -> Self {
        let host = || {
            let make = || {
                let made = NetworkNamespace::new().expect("root is needed");
                ip("link set lo up");
                made
            };
            thread::spawn(make).join().expect("a namespace")
        };
        let network = Self {
            client: host(),
            router: host(),
            server: host(),
        };
        network.cable(&network.client, "c0", 1);
        network.cable(&network.server, "s0", 2);
        on(&network.router, || {
            // The strict check of source addresses does no harm to interception.
            let switches = [
                "ipv4/ip_forward",
                "ipv6/conf/all/forwarding",
                "ipv4/conf/all/rp_filter",
            ];
            for name in switches {
                std::fs::write(format!("/proc/sys/net/{name}"), "1").expect("is set");
            }
            // Routes of a laboratory choose a congestion control; the splitter's choice comes before theirs.
            ip("route replace 10.1.0.0/24 dev c0 congctl cubic");
            ip("route replace 10.2.0.0/24 dev s0 congctl cubic");
        });
        network
    }

    /// A cable from the router's interface `name` to `eth0` of `host`.
    fn cable(&self, host: &NetworkNamespace, name: &str, number: u8) {
        // A process of the host names its namespace to the router's `ip`.
        let waiting = on(host, || {
            Command::new("sleep").arg("60").spawn().expect("sleep")
        });
        let mut waiting = waiting;
        let id = waiting.id();
        on(&self.router, || {
            ip(&format!(
                "link add {name} type veth peer name eth0 netns {id}"
            ));
            address(name, number, 1);
        });
        waiting.kill().expect("ends");
        waiting.wait().expect("ends");
        on(host, || {
            address("eth0", number, 2);
            ip(&format!("route add default via 10.{number}.0.1"));
            ip(&format!("-6 route add default via fd0{number}::1"));
        });
    }
}

fn address(interface: &str, number: u8, host: u8) {
    ip(&format!("addr add 10.{number}.0.{host}/24 dev {interface}"));
    ip(&format!(
        "-6 addr add fd0{number}::{host}/64 dev {interface} nodad"
    ));
    ip(&format!("link set {interface} up"));
}

/// Runs `body` in a namespace, on a thread of its own.
pub fn on<T: Send>(host: &NetworkNamespace, body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let work = move || {
            host.enter().expect("root is needed");
            body()
        };
        scope.spawn(work).join().expect("the host's thread")
    })
}

/// Runs `ip` in the namespace of the calling thread.
pub fn ip(arguments: &str) -> String {
    run("ip", arguments)
}

/// Runs a program in the namespace of the calling thread.
pub fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .expect("the program is installed");
    assert!(
        output.status.success(),
        "{program} {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
