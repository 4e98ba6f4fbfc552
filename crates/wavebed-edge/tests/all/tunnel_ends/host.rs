//! Hosts: a thread each in a network namespace of its own, which ends with it.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use wavebed_os::namespace::NetworkNamespace;

type Job = Box<dyn FnOnce() + Send>;

/// A host.
pub struct Host {
    jobs: mpsc::Sender<Job>,
    /// The number of its thread.
    pub thread: u32,
}

impl Host {
    /// A host without interfaces but a loopback.
    pub fn new() -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            NetworkNamespace::new().expect("root is needed");
            let own = std::fs::read_link("/proc/thread-self").expect("/proc");
            let number = own.file_name().and_then(|name| name.to_str()?.parse().ok());
            tell.send(number.expect("a thread's number"))
                .expect("asked");
            for job in todo {
                job();
            }
        });
        let thread = told.recv().expect("the thread runs");
        let host = Self { jobs, thread };
        host.command("ip link set lo up");
        host
    }

    /// Runs `job` on the host.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        self.jobs
            .send(Box::new(move || drop(tell.send(job()))))
            .expect("the thread runs");
        told.recv().expect("the job ended")
    }

    /// Runs a command of words; whether it succeeded.
    pub fn succeeds(&self, words: &str) -> bool {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        self.run(move || {
            let output = Command::new(&words[0]).args(&words[1..]).output();
            output.expect("the program is installed").status.success()
        })
    }

    /// Runs a command that must succeed.
    pub fn command(&self, words: &str) {
        assert!(self.succeeds(words), "{words}");
    }
}

/// Connects two hosts by a cable: the name and the address of the interface of each.
fn cable(one: (&Host, &str, &str), two: (&Host, &str, &str)) {
    // Names of a host do not matter to the other.
    one.0
        .command(&format!("ip link add {} type veth peer name other", one.1));
    one.0
        .command(&format!("ip link set other netns {}", two.0.thread));
    two.0.command(&format!("ip link set other name {}", two.1));
    for (host, name, address) in [one, two] {
        host.command(&format!("ip address add {address}/24 dev {name}"));
        // Super-packets of UDP pass interfaces whose MTU is less than the MTU of their segments.
        host.command(&format!("ip link set {name} gso_max_segs 1"));
        host.command(&format!("ip link set {name} up"));
    }
}

/// Two hosts with a cable: 192.0.2.1 and 192.0.2.2.
pub fn pair() -> (Host, Host) {
    let (left, right) = (Host::new(), Host::new());
    cable((&left, "wire", "192.0.2.1"), (&right, "wire", "192.0.2.2"));
    (left, right)
}

/// Two hosts, 192.0.2.1 and 203.0.113.2, and a router between them that tells nobody of packets which are too large.
pub fn routed() -> (Host, Host, Host) {
    let (left, router, right) = (Host::new(), Host::new(), Host::new());
    cable(
        (&left, "wire", "192.0.2.1"),
        (&router, "near", "192.0.2.254"),
    );
    cable(
        (&right, "wire", "203.0.113.2"),
        (&router, "far", "203.0.113.1"),
    );
    left.command("ip route add default via 192.0.2.254");
    right.command("ip route add default via 203.0.113.1");
    router.command("sysctl -q net.ipv4.ip_forward=1");
    router.command("nft add table ip mute");
    router.command("nft add chain ip mute out { type filter hook output priority 0 ; }");
    router.command("nft add rule ip mute out ip protocol icmp drop");
    (left, router, right)
}
