//! Samples of every TCP connection of every host, and of the processors, written as CSV relative to time zero by a
//! separate thread, so that neither the kernel's answer nor a disk delays a packet.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wavebed_os::output::create_regular;
use wavebed_os::sock_diag::{SockDiag, TcpSocket};
use wavebed_os::{clock, sched};

use crate::on_time::Lateness;
use crate::processors::Processors;

const FLOWS_HEADER: &str = "time_ns,host,cookie,local,remote,state,congestion,ca_state,cwnd_segments,ssthresh_segments,\
    mss_bytes,rtt_us,rttvar_us,min_rtt_us,rto_us,unacked_segments,lost_segments,total_retrans_segments,bytes_sent,\
    bytes_retrans,bytes_acked,bytes_received,delivery_rate_bps,delivery_app_limited,pacing_rate_bps,notsent_bytes,\
    busy_us,rwnd_limited_us,sndbuf_limited_us\n";
const CPU_HEADER: &str = "time_ns,core,busy,softirq\n";

/// The sampling intervals and hosts.
pub struct SampleSetup {
    /// Time between two samples of the connections, nanoseconds.
    pub flows_ns: u64,
    /// Time between two samples of the processors, nanoseconds.
    pub cpu_ns: u64,
    /// Hosts by name.
    pub hosts: Vec<(String, SockDiag)>,
}

/// The server's established connections at the last sample, without the server's connections to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FlowsNow {
    /// How many.
    pub count: u64,
    /// The longest smoothed round trip, microseconds; null when none was measured yet.
    pub max_rtt_us: Option<u32>,
}

/// The samples could not be taken or written.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel gave no answer.
    #[error("cannot read {what}: {source}")]
    Read {
        /// The missing information.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The result of the sampling.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Delay of each round after its due time.
    pub late: Lateness,
    /// Rounds left out.
    pub missed: u64,
    /// Processor time, nanoseconds.
    pub cpu_ns: u64,
}

/// The sampler thread.
pub struct Sampler {
    thread: JoinHandle<(Ended, Option<SamplerError>)>,
    stop: Sender<()>,
    last: Arc<Mutex<Option<FlowsNow>>>,
}

impl Sampler {
    /// Starts to sample into `DIR/flows.csv` and `DIR/cpu.csv`.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn start(setup: SampleSetup, dir: &Path, origin_ns: u64) -> Result<Self, SamplerError> {
        let last = Arc::new(Mutex::new(None));
        let work = Work {
            flows: Out::open(dir.join("flows.csv"), FLOWS_HEADER)?,
            cpu: Out::open(dir.join("cpu.csv"), CPU_HEADER)?,
            processors: Processors::open().map_err(unreadable("/proc/stat"))?,
            origin_ns,
            hosts: setup.hosts,
            last: Arc::clone(&last),
        };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || work.run(&stopped, setup.flows_ns, setup.cpu_ns))
            .map_err(unreadable("a thread"))?;
        Ok(Self { thread, stop, last })
    }

    /// The result of the last sample.
    #[must_use]
    pub fn last(&self) -> Option<FlowsNow> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a last sample, waits until everything is written, and returns the error that ended it early, if any.
    #[must_use]
    pub fn finish(self) -> (Ended, Option<SamplerError>) {
        drop(self.stop);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Times that are one period apart, independent of delays in between.
struct Pace {
    due_ns: u64,
    period_ns: u64,
}

impl Pace {
    /// The next time after `now_ns`, the end of the last round. Returns the number of times left out: those overdue by
    /// a period.
    fn advance(&mut self, now_ns: u64) -> u64 {
        self.due_ns += self.period_ns;
        let missed = now_ns.saturating_sub(self.due_ns) / self.period_ns;
        self.due_ns += missed * self.period_ns;
        missed
    }
}

struct Work {
    flows: Out,
    cpu: Out,
    processors: Processors,
    origin_ns: u64,
    hosts: Vec<(String, SockDiag)>,
    last: Arc<Mutex<Option<FlowsNow>>>,
}

impl Work {
    fn run(
        mut self,
        stopped: &Receiver<()>,
        flows_ns: u64,
        cpu_ns: u64,
    ) -> (Ended, Option<SamplerError>) {
        let _ = sched::prepare_thread(sched::Options {
            fifo_priority: None,
            cpu: None,
        });
        let mut ended = Ended::default();
        let failure = self.sample(stopped, flows_ns, cpu_ns, &mut ended).err();
        if failure.is_some() {
            self.publish(None);
        }
        ended.cpu_ns = clock::thread_cpu_ns();
        (ended, failure)
    }

    fn sample(
        &mut self,
        stopped: &Receiver<()>,
        flows_ns: u64,
        cpu_ns: u64,
        ended: &mut Ended,
    ) -> Result<(), SamplerError> {
        let mut flows = Pace {
            due_ns: self.origin_ns,
            period_ns: flows_ns,
        };
        let mut cpu = Pace {
            due_ns: self.origin_ns + cpu_ns,
            period_ns: cpu_ns,
        };
        while !wait_until(flows.due_ns.min(cpu.due_ns), stopped) {
            let now_ns = clock::monotonic_ns();
            if now_ns >= flows.due_ns {
                ended.late.record(now_ns - flows.due_ns, 1);
                self.sample_flows()?;
                ended.missed += flows.advance(clock::monotonic_ns());
            }
            if now_ns >= cpu.due_ns {
                self.sample_cpu()?;
                cpu.advance(clock::monotonic_ns());
            }
        }
        self.sample_flows()?;
        // The kernel counts in ticks: an interval of hardly more than one tick has no meaningful usage.
        if clock::monotonic_ns() + cpu_ns / 2 >= cpu.due_ns {
            self.sample_cpu()?;
        }
        self.flows.finish()?;
        self.cpu.finish()
    }

    fn sample_flows(&mut self) -> Result<(), SamplerError> {
        let mut at_server = None;
        for (host, sockets) in &mut self.hosts {
            let time_ns = clock::monotonic_ns() - self.origin_ns;
            let mut now = FlowsNow::default();
            let rows = &mut self.flows.rows;
            sockets
                .tcp_sockets(|socket| {
                    write_flow(rows, time_ns, host, socket);
                    now.count_in(socket);
                })
                .map_err(unreadable(&format!("the connections of {host}")))?;
            if host == "server" {
                at_server = Some(now);
            }
        }
        self.publish(at_server);
        self.flows.write()
    }

    fn sample_cpu(&mut self) -> Result<(), SamplerError> {
        let time_ns = clock::monotonic_ns() - self.origin_ns;
        let rows = &mut self.cpu.rows;
        self.processors
            .read(|core, usage| {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    rows,
                    "{time_ns},{core},{:.4},{:.4}",
                    usage.busy, usage.softirq
                );
            })
            .map_err(unreadable("/proc/stat"))?;
        self.cpu.write()
    }

    fn publish(&self, now: Option<FlowsNow>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl FlowsNow {
    fn count_in(&mut self, socket: &TcpSocket<'_>) {
        let with_itself = |address: IpAddr| address.is_loopback() || address == socket.local.ip();
        if socket.state == "established" && !with_itself(socket.remote.ip()) {
            self.count += 1;
            self.max_rtt_us = self.max_rtt_us.max(socket.info.rtt_us);
        }
    }
}

/// Waits until `due_ns` on the monotonic clock. True when the sampler is to end.
fn wait_until(due_ns: u64, stopped: &Receiver<()>) -> bool {
    loop {
        let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
        match stopped.recv_timeout(Duration::from_nanos(left_ns)) {
            Err(RecvTimeoutError::Timeout) if clock::monotonic_ns() < due_ns => {}
            Err(RecvTimeoutError::Timeout) => return false,
            _ => return true,
        }
    }
}

fn write_flow(rows: &mut String, time_ns: u64, host: &str, socket: &TcpSocket<'_>) {
    let info = &socket.info;
    // Writing to a string cannot fail.
    let _ = write!(
        rows,
        "{time_ns},{host},{},{},{},{}",
        socket.cookie, socket.local, socket.remote, socket.state
    );
    let mut row = Row(rows);
    row.put(socket.congestion)
        .put(info.ca_state)
        .put(info.cwnd_segments)
        .put(info.ssthresh_segments)
        .put(info.mss_bytes)
        .put(info.rtt_us)
        .put(info.rttvar_us)
        .put(info.min_rtt_us)
        .put(info.rto_us)
        .put(info.unacked_segments)
        .put(info.lost_segments)
        .put(info.total_retrans_segments)
        .put(info.bytes_sent)
        .put(info.bytes_retrans)
        .put(info.bytes_acked)
        .put(info.bytes_received)
        .put(info.delivery_rate_bps)
        .put(info.delivery_app_limited)
        .put(info.pacing_rate_bps)
        .put(info.notsent_bytes)
        .put(info.busy_us)
        .put(info.rwnd_limited_us)
        .put(info.sndbuf_limited_us);
    rows.push('\n');
}

/// A row under construction; missing values are empty.
struct Row<'a>(&'a mut String);

impl Row<'_> {
    fn put(&mut self, value: Option<impl Display>) -> &mut Self {
        self.0.push(',');
        if let Some(value) = value {
            let _ = write!(self.0, "{value}");
        }
        self
    }
}

/// A file, and its unwritten rows.
struct Out {
    path: PathBuf,
    file: BufWriter<File>,
    rows: String,
}

impl Out {
    fn open(path: PathBuf, header: &str) -> Result<Self, SamplerError> {
        let file = match create_regular(&path) {
            Ok(file) => BufWriter::with_capacity(1 << 16, file),
            Err(source) => return Err(SamplerError::Write { path, source }),
        };
        Ok(Self {
            path,
            file,
            rows: header.to_owned(),
        })
    }

    fn write(&mut self) -> Result<(), SamplerError> {
        let written = self.file.write_all(self.rows.as_bytes());
        self.rows.clear();
        self.written(written)
    }

    fn finish(&mut self) -> Result<(), SamplerError> {
        let written = self.file.flush();
        self.written(written)
    }

    fn written(&self, written: io::Result<()>) -> Result<(), SamplerError> {
        written.map_err(|source| SamplerError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

fn unreadable(what: &str) -> impl FnOnce(io::Error) -> SamplerError {
    move |source| SamplerError::Read {
        what: what.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use wavebed_os::sock_diag::{TcpInfo, TcpSocket};

    use super::{FLOWS_HEADER, FlowsNow, Pace, write_flow};

    fn socket(remote: &str, rtt_us: Option<u32>) -> TcpSocket<'static> {
        TcpSocket {
            cookie: 7,
            local: SocketAddr::from(([198, 18, 0, 1], 80)),
            remote: remote.parse().unwrap(),
            state: "established",
            congestion: Some("cubic"),
            info: TcpInfo {
                rtt_us,
                delivery_app_limited: Some(true),
                ..TcpInfo::default()
            },
        }
    }

    #[test]
    fn every_row_has_every_column_and_missing_values_are_empty() {
        let mut rows = String::new();
        write_flow(&mut rows, 5, "server", &socket("[fd77::2]:9", None));
        let names: Vec<&str> = FLOWS_HEADER.trim().split(',').collect();
        let values: Vec<&str> = rows.trim_end().split(',').collect();
        assert_eq!(names.len(), values.len(), "{rows}");
        let value = |name| values[names.iter().position(|other| *other == name).unwrap()];
        assert_eq!((value("remote"), value("cookie")), ("[fd77::2]:9", "7"));
        assert_eq!(
            (value("rtt_us"), value("delivery_app_limited")),
            ("", "true")
        );
    }

    #[test]
    fn only_the_server_s_connections_with_others_are_counted() {
        let mut now = FlowsNow::default();
        now.count_in(&socket("127.0.0.1:9", Some(99_999)));
        now.count_in(&socket("198.18.0.1:9", Some(99_999)));
        let mut closing = socket("198.18.0.2:9", Some(99_999));
        closing.state = "fin_wait_1";
        now.count_in(&closing);
        assert_eq!((now.count, now.max_rtt_us), (0, None));
        now.count_in(&socket("198.18.0.2:9", Some(40)));
        now.count_in(&socket("198.18.0.2:8", Some(30)));
        assert_eq!((now.count, now.max_rtt_us), (2, Some(40)));
    }

    #[test]
    fn a_late_round_does_not_move_the_next_and_a_long_round_skips_some() {
        let mut pace = Pace {
            due_ns: 100,
            period_ns: 10,
        };
        assert_eq!((pace.advance(104), pace.due_ns), (0, 110));
        assert_eq!((pace.advance(119), pace.due_ns), (0, 120));
        // Due at 130 and at 140, which is only just over: the second is taken late, the first not at all.
        assert_eq!((pace.advance(145), pace.due_ns), (1, 140));
    }
}
