//! The program on the router.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use wavebed_os::namespace::NetworkNamespace;

use crate::intercept::network::on;

/// A splitter on the router.
pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(router: &NetworkNamespace, sets: &[&str]) -> Self {
        let mut command = splitter();
        for set in sets.iter().chain(&[
            "rules=true",
            "client-interfaces=[\"c0\"]",
            "metrics=\"127.0.0.1:9101\"",
        ]) {
            command.args(["--set", set]);
        }
        let mut child = on(router, || {
            command.stdout(Stdio::piped()).spawn().expect("starts")
        });
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        // Two addresses and the metrics: then it listens.
        for _ in 0..3 {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            assert!(!line.is_empty(), "the splitter ended");
        }
        Self { child, output }
    }

    /// A field of its status, once it has given up its privileges.
    pub fn status(&self, key: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("runs");
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.expect("the key").trim().to_owned()
    }

    pub fn end(mut self, signal: Signal) -> bool {
        kill_process(Pid::from_child(&self.child), signal).expect("is sent");
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        self.child.wait().expect("ends").success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, with the splitter as its command.
pub fn splitter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavebed-edge"));
    command.arg("splitter");
    command
}

/// A page of the metrics.
pub fn page(router: &NetworkNamespace, path: &str) -> serde_json::Value {
    on(router, || {
        let mut stream = TcpStream::connect("127.0.0.1:9101").expect("listens");
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("asks");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answers");
        serde_json::from_str(text.split_once("\r\n\r\n").expect("a head").1).expect("JSON")
    })
}
