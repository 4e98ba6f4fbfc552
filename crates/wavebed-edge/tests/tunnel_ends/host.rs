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

/// Two hosts with a cable: 192.0.2.1 and 192.0.2.2.
pub fn pair() -> (Host, Host) {
    let (left, right) = (Host::new(), Host::new());
    left.command("ip link add wire type veth peer name other");
    left.command(&format!("ip link set other netns {}", right.thread));
    right.command("ip link set other name wire");
    for (host, address) in [(&left, "192.0.2.1"), (&right, "192.0.2.2")] {
        host.command(&format!("ip address add {address}/24 dev wire"));
        host.command("ip link set wire up");
    }
    (left, right)
}
