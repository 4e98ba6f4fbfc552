//! `wavebed-edge syn` in network namespaces of the tests' own threads. Root is needed.
//!
//! A radio in an outage is a TUN device whose reader answers a connection's SYN only when its outage is over. Times are those
//! in the SYNs (RFC 7323, a millisecond per tick), so that a late reader changes no figure. Where the whole machine stands
//! still the kernel's timers are late too: a limit grows by the pause of the reader if that is long.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::radio::{RESTED, Radio, SERVER};
use wavebed_os::process::kill;
use wavebed_os::sock_diag::SockDiag;

const SETTINGS: [&str; 4] = [
    "ipv4/tcp_syn_linear_timeouts",
    "ipv4/tcp_syn_retries",
    "ipv4/tcp_synack_retries",
    "mptcp/syn_retrans_before_tcp_fallback",
];
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const LIMIT: Duration = Duration::from_secs(60);
/// After an outage, of a request that the kernel would repeat after a second.
const SOON_MS: u32 = 300;

/// The program; dropped, it is killed.
struct Early {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    started: String,
}

impl Early {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wavebed-edge"))
            .args(["syn", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut started = String::new();
        output.read_line(&mut started).expect("its line");
        Self {
            process,
            output,
            started,
        }
    }

    fn end(&mut self, signal: i32) -> String {
        kill(self.process.id().cast_signed(), signal).expect("it runs");
        self.rest()
    }

    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its output");
        self.process.wait().expect("ended");
        text
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn settings() -> Vec<Option<String>> {
    let read = |name| fs::read_to_string(format!("/proc/sys/net/{name}")).ok();
    SETTINGS.iter().map(read).collect()
}

/// Connects through outages with these remainders, all at once, and returns how much later than the end of its outage
/// each connection's SYN was sent, milliseconds.
fn connect_all(radio: &Radio, remainders_ms: &[u32]) -> Vec<u32> {
    radio.begin(remainders_ms);
    let streams = connections(radio, remainders_ms.len());
    windows_are_ten(streams.len(), radio.stood_still());
    radio.extras_ms()
}

fn connections(radio: &Radio, count: usize) -> Vec<TcpStream> {
    let connect = |number: usize| {
        let to = SocketAddr::new(SERVER, radio.port(number));
        thread::spawn(move || TcpStream::connect_timeout(&to, LIMIT))
    };
    let waiting: Vec<_> = (0..count).map(connect).collect();
    let connected = waiting.into_iter();
    connected
        .map(|one| one.join().expect("no panic").expect("connected"))
        .collect()
}

/// Outages of less than a second leave the initial window as it is. Where the radio stood still they were longer.
fn windows_are_ten(count: usize, stood_still: Duration) {
    let mut windows = Vec::new();
    SockDiag::open()
        .expect("sock_diag")
        .tcp_sockets(|socket| {
            if socket.state == "established" {
                windows.push(socket.info.cwnd_segments);
            }
        })
        .expect("sockets");
    assert_eq!(windows.len(), count);
    assert!(
        stood_still > RESTED || windows.iter().all(|window| *window == Some(10)),
        "{windows:?}, the radio stood still for {stood_still:?}"
    );
}

fn mean(values: &[u32]) -> f64 {
    f64::from(values.iter().sum::<u32>()) / f64::from(u32::try_from(values.len()).expect("few"))
}

/// What is left of an outage of 1 s at even moments in it. Their number is prime: they fall on all parts of an interval.
fn moments() -> Vec<u32> {
    (0..97).map(|number| number * 1000 / 97).collect()
}

#[test]
fn an_outage_of_a_second_costs_little_more_than_it_lasts() {
    Radio::run(|radio| {
        let before = settings();
        let mut early = Early::start(&[]);
        assert!(early.started.contains("\"bpf\""), "{}", early.started);
        let with = connect_all(radio, &moments());
        let late_ms = radio.late_ms();
        let told = early.end(SIGTERM);
        for counter in ["\"connections\":97", "\"limited\":97"] {
            assert!(told.contains(counter), "{told}");
        }
        assert_eq!(settings(), before);
        let without = connect_all(radio, &moments());
        println!(
            "extra with: mean {:.1} ms, most {:?} ms; without: mean {:.1} ms, most {:?} ms",
            mean(&with),
            with.iter().max(),
            mean(&without),
            without.iter().max()
        );
        // A kernel timer of 100 ms ends within two ticks of 10 ms, where the machine lets it.
        let most = SOON_MS + late_ms;
        assert!(
            with.iter().all(|extra| *extra <= most),
            "{with:?}, {late_ms} ms late"
        );
        assert!(mean(&with) < mean(&without) / 2.0, "{with:?}, {without:?}");
        assert!(mean(&without) > 400.0, "the radio is the same: {without:?}");
    });
}

#[test]
fn after_the_first_second_requests_follow_each_other_no_less_closely_than_the_kernel_s() {
    Radio::run(|radio| {
        let _early = Early::start(&[]);
        let extras = connect_all_late(radio, &[1_150, 1_500, 2_400, 2_600, 4_400]);
        let late_ms = radio.late_ms();
        for (extra, most) in extras
            .iter()
            .zip([SOON_MS, SOON_MS, SOON_MS, 1_100, SOON_MS])
        {
            assert!(*extra <= most + late_ms, "{extras:?}, {late_ms} ms late");
        }
    });
}

/// As [`connect_all`], for outages after which the kernel reduces the initial window.
fn connect_all_late(radio: &Radio, remainders_ms: &[u32]) -> Vec<u32> {
    radio.begin(remainders_ms);
    drop(connections(radio, remainders_ms.len()));
    radio.extras_ms()
}

#[test]
fn answers_are_repeated_early_where_that_is_asked_for() {
    Radio::run(|radio| {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let answers = |arguments: &[&str]| {
            let mut early = Early::start(arguments);
            radio.request(port);
            let limit = Instant::now() + LIMIT;
            // The second one without the option comes after a second.
            while radio.answers_ms().len() < 2 || radio.answers_ms().last() < Some(&600) {
                assert!(Instant::now() < limit, "{:?}", radio.answers_ms());
                thread::sleep(Duration::from_millis(5));
            }
            early.end(SIGTERM);
            radio.answers_ms()
        };
        let usual = answers(&[]);
        // More may come until the program has ended.
        assert!(usual.len() >= 2 && usual[1] > 900, "{usual:?}");
        let early = answers(&["--answers"]);
        let late_ms = radio.late_ms();
        assert!(early.len() >= 4, "{early:?}");
        for (at, expected) in early.iter().zip([0, 100, 300, 700]) {
            assert!(
                at.abs_diff(expected) <= 150 + late_ms,
                "{early:?}, {late_ms} ms late"
            );
        }
    });
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    Radio::run(|radio| {
        let before = settings();
        let mut early = Early::start(&[]);
        assert_ne!(settings(), before);
        early.end(SIGKILL);
        let limit = Instant::now() + LIMIT;
        while settings() != before {
            assert!(Instant::now() < limit, "{:?}", settings());
            thread::sleep(Duration::from_millis(5));
        }
        let extras = connect_all(radio, &[100]);
        assert!(extras[0] > 800, "detached: {extras:?}");
    });
}

#[test]
fn one_program_is_enough_for_a_network_namespace() {
    Radio::run(|_| {
        let _first = Early::start(&[]);
        let during = settings();
        let mut second = Early::start(&[]);
        assert_eq!(second.started, "");
        assert_eq!(second.process.wait().expect("ended").code(), Some(1));
        assert_eq!(settings(), during);
    });
}

#[test]
fn a_command_is_helped_alone() {
    Radio::run(|radio| {
        radio.begin(&[450, 450]);
        let inside = format!("exec 3<>/dev/tcp/{SERVER}/{} && exit 7", radio.port(0));
        let mut early = Early::start(&["--run", "bash", "-c", &inside]);
        TcpStream::connect((SERVER, radio.port(1))).expect("connected");
        early.rest();
        assert_eq!(early.process.wait().expect("ended").code(), Some(7));
        let extras = radio.extras_ms();
        let late_ms = radio.late_ms();
        assert!(
            extras[0] <= SOON_MS + late_ms && extras[1] > 400,
            "{extras:?}, {late_ms} ms late"
        );
        let groups = wavebed_os::cgroup::Group::root().and_then(|root| root.own());
        let left = groups.expect("groups").children().expect("read");
        let name = format!("wavebed-edge-syn-{}", early.process.id());
        assert!(!left.contains(&name), "{left:?}");
    });
}

#[test]
fn without_a_program_the_settings_are_raised() {
    Radio::run(|_| {
        let before = settings();
        let mut early = Early::start(&["--no-bpf"]);
        assert!(early.started.contains("\"sysctl\""), "{}", early.started);
        assert_eq!(settings()[0].as_deref(), Some("30\n"));
        early.end(SIGTERM);
        assert_eq!(settings(), before);
    });
}

#[test]
fn wrong_arguments_are_named_in_one_line() {
    // A namespace, in case that one of them is taken.
    Radio::run(|_| wrong_arguments());
}

fn wrong_arguments() {
    for (arguments, part) in [
        (&["--interval", "5ms"][..], "--interval: write 20ms to 1s"),
        (&["--dense", "1ms"], "--dense: write at least the interval"),
        (&["--interval", "20ms", "--dense", "9s"], "127 intervals"),
        (&["--cgroup", "/nowhere"], "/nowhere"),
    ] {
        // As what `timeout` reports, 124, the test fails.
        let done = Command::new("timeout")
            .args(["10", env!("CARGO_BIN_EXE_wavebed-edge"), "syn"])
            .args(arguments)
            .output()
            .expect("the program");
        let line = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{line}");
        assert!(line.contains(part) && line.lines().count() == 1, "{line}");
    }
}
