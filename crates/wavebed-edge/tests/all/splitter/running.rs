//! A splitter on a thread of the test, and hosts on both sides of it.

use std::io::{self, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wavebed_edge::splitter::{Ended, Splitter, read_text};

/// Longer than anything here takes; a test that waits this long fails.
pub const LONG: Duration = Duration::from_secs(60);
/// Both ways to copy.
pub const COPIES: [&str; 2] = ["splice", "read-write"];

/// A running splitter.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: SocketAddr,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<Ended>>>,
}

impl Running {
    /// Starts one in front of `server`, with further keys of its configuration.
    pub fn start(server: SocketAddr, keys: &str) -> Self {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nto = \"{server}\"\nmetrics = \"127.0.0.1:0\"\n{keys}"
        );
        let settings = read_text("test", &text, &[]).expect("a valid configuration");
        let splitter = Splitter::new(settings, 10_000).expect("listens");
        let address = splitter.addresses()[0];
        let metrics = splitter.metrics_address().expect("has metrics");
        let (reader, writer) = io::pipe().expect("a pipe");
        let thread = thread::spawn(move || splitter.run(reader));
        Self {
            address,
            metrics,
            stop: Some(writer),
            thread: Some(thread),
        }
    }

    /// A client's connection.
    pub fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address).expect("connects"))
    }

    /// Asks it to stop.
    pub fn request_stop(&mut self) {
        let mut stop = self.stop.as_ref().expect("runs");
        stop.write_all(&[1]).expect("is told");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let thread = self.thread.take().expect("runs");
        let ended = thread.join().expect("does not panic").expect("no error");
        drop(self.stop.take());
        ended
    }

    /// Ends it at once.
    pub fn end(mut self) -> Ended {
        drop(self.stop.take());
        self.wait()
    }

    /// A page of its metrics.
    pub fn page(&self, path: &str) -> String {
        let mut connection = patient(TcpStream::connect(self.metrics).expect("connects"));
        write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("asks");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        body.to_owned()
    }

    /// A metric.
    pub fn metric(&self, name: &str) -> f64 {
        let page: serde_json::Value =
            serde_json::from_str(&self.page("/metrics.json")).expect("JSON");
        page[name].as_f64().expect("a number")
    }

    /// Waits until a metric is `value`.
    pub fn wait_for(&self, name: &str, value: f64) {
        let wanted = |found: f64| (found - value).abs() < 0.5;
        wait_until(name, || wanted(self.metric(name)));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until `holds`.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {LONG:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A connection whose calls fail instead of waiting for ever.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LONG)).expect("is set");
    stream.set_write_timeout(Some(LONG)).expect("is set");
    stream
}

/// A server's socket.
pub fn server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("is bound");
    (listener, address)
}

/// A connection through a new splitter: it, the client's end, the server's end.
pub fn pair(keys: &str) -> (Running, TcpStream, TcpStream) {
    let (listener, address) = server();
    let running = Running::start(address, keys);
    let client = running.connect();
    let (server, _) = listener.accept().expect("accepts");
    running.wait_for("connecting", 0.0);
    (running, client, patient(server))
}

/// Reads to the end.
pub fn rest(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(|_| bytes)
}

/// Reads what there is. A read with a limit of time may end early, without a signal that the program knows of.
pub fn read(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Makes the end of `stream` a reset.
#[allow(clippy::needless_pass_by_value, reason = "it ends here")]
pub fn reset(stream: TcpStream) {
    let now = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, now).expect("is set");
}

/// Whether nobody listens. A connection that comes about is reset, so that none is left to drain.
pub fn is_refusing(address: SocketAddr) -> bool {
    TcpStream::connect(address).map(reset).is_err()
}

/// Asserts that the other host has reset the connection.
pub fn assert_reset(stream: &mut TcpStream) {
    match rest(stream) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => panic!("not reset: {other:?}"),
    }
}
