//! The program itself: its command line, signals, and its death.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::splitter::running::{
    assert_reset, is_refusing, patient, read, rest, server, wait_until,
};

/// The program, ended with the test.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    fn start(server: SocketAddr, sets: &[&str]) -> Self {
        let mut command = splitter();
        command.args(["--to", &server.to_string()]);
        command.args(["--set", "listen=[\"127.0.0.1:0\"]"]);
        for set in sets {
            command.args(["--set", set]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let output = child.stdout.take().expect("piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening ").expect("an address");
        Self {
            address: address.parse().expect("an address"),
            child,
        }
    }

    fn pair(&self, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let mut client = patient(TcpStream::connect(self.address).expect("connects"));
        let (server, _) = listener.accept().expect("accepts");
        let mut server = patient(server);
        client.write_all(b"x").expect("sends");
        server.read_exact(&mut [0]).expect("arrives");
        (client, server)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("is sent");
    }

    fn status_line(&self, key: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("runs");
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.expect("the key").trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn splitter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavebed-edge"));
    command.arg("splitter");
    command
}

fn output(arguments: &[&str]) -> Output {
    splitter().args(arguments).output().expect("runs")
}

#[test]
fn a_terminated_program_drains_and_succeeds() {
    let (listener, address) = server();
    let mut program = Program::start(address, &["drain=10min"]);
    let (client, mut server) = program.pair(&listener);
    program.signal(Signal::TERM);
    wait_until("it accepts no more", || is_refusing(program.address));
    (&client).write_all(b"the rest").expect("sends");
    drop(client);
    assert_eq!(rest(&mut server).expect("an end"), b"the rest");
    drop(server);
    assert!(program.child.wait().expect("ends").success());
}

/// An end of stream instead would look like a whole transfer.
#[test]
fn a_killed_program_resets_both_ends() {
    let (listener, address) = server();
    for copy in ["copy=splice", "copy=read-write"] {
        let program = Program::start(address, &[copy]);
        let (mut client, mut server) = program.pair(&listener);
        program.signal(Signal::KILL);
        assert_reset(&mut client);
        assert_reset(&mut server);
    }
}

/// Also bytes that the splitter holds, and an end of stream behind them, become an error.
#[test]
fn a_program_killed_while_it_holds_bytes_resets_the_receiver() {
    let (listener, address) = server();
    let program = Program::start(address, &[]);
    let (client, mut server) = program.pair(&listener);
    let bytes = vec![3; 3_000_000];
    let sender = std::thread::spawn(move || {
        let sent = server.write_all(&bytes);
        drop(server);
        sent
    });
    // The client reads nothing: the bytes fill the sockets and the splitter.
    std::thread::sleep(std::time::Duration::from_millis(200));
    program.signal(Signal::KILL);
    let mut received = 0;
    let mut buffer = vec![0; 65_536];
    let end = loop {
        match read(&client, &mut buffer) {
            Ok(0) => break Ok(()),
            Ok(count) => received += count,
            Err(error) => break Err(error.kind()),
        }
    };
    let _ = sender.join().expect("ends");
    assert!(
        received == 3_000_000 || end == Err(std::io::ErrorKind::ConnectionReset),
        "{received} bytes, and then {end:?}"
    );
}

#[test]
fn a_program_in_direct_mode_keeps_no_capability() {
    let (_listener, address) = server();
    let program = Program::start(address, &[]);
    wait_until("it has dropped them", || {
        program.status_line("NoNewPrivs:") == "1"
    });
    assert_eq!(program.status_line("CapPrm:"), "0".repeat(16));
}

#[test]
fn a_thousand_idle_connections_cost_little_memory() {
    let (listener, address) = server();
    let program = Program::start(address, &[]);
    let resident_kib = || -> u64 {
        let line = program.status_line("VmRSS:");
        line.trim_end_matches(" kB").parse().expect("a number")
    };
    let before = resident_kib();
    let ends: Vec<_> = (0..1000).map(|_| program.pair(&listener)).collect();
    let each = (resident_kib() - before) * 1024 / 1000;
    // 10 000 idle connections within 200 MiB leave 20 kB to each; the program's own part is far less.
    assert!(each < 2000, "{each} bytes each");
    drop(ends);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let folder = std::env::temp_dir().join(format!("wavebed-splitter-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("splitter.toml");
    let cases = [
        (
            "idel = \"1s\"",
            "splitter.toml:1: idel: unknown field `idel`",
        ),
        (
            "\nidle = \"1\"",
            "splitter.toml:2: idle: `1` is no time: write",
        ),
        ("idle = 1", "splitter.toml:1: idle: invalid type"),
        ("copy = \"sendfile\"", "copy: unknown variant `sendfile`"),
        ("buffer = \"1kb\"", "buffer: 1000 bytes are out of range"),
        (
            "bypass = [\"10.0.0.0/33\"]",
            "`10.0.0.0/33` is no prefix: write",
        ),
        ("bypass-ports = [70000]", "`70000` is no port: write"),
        (
            "metrics = \"0.0.0.0:9101\"",
            "metrics: other hosts can reach",
        ),
        (
            "client-interfaces = [\"a; drop\"]",
            "`a; drop` is no interface name",
        ),
        ("rules = true\nto = \"127.0.0.1:1\"", "rules: direct mode"),
        ("listen = [\"0.0.0.0:5000\"]", "listen: only loopback"),
        ("= 1", "splitter.toml:1"),
    ];
    for (text, wanted) in cases {
        fs::write(&file, text).expect("writes");
        let output = output(&["--config", file.to_str().expect("text")]);
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{text}: {error}");
        assert!(error.contains(wanted), "{text}: {error}");
    }
    fs::remove_dir_all(&folder).expect("is removed");
    let output = output(&["--to", "127.0.0.1:1", "--set", "down=nosuchcc"]);
    assert_eq!(output.status.code(), Some(3));
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(
        error.contains("client-congestion-control: this kernel refuses `nosuchcc`"),
        "{error}"
    );
}

#[test]
fn rules_are_printed_without_root() {
    let output = output(&["rules", "--set", "bypass-ports=[22]"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("tcp dport { 22 } accept"), "{text}");
}
