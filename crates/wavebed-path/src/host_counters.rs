//! The hosts' own counters since the laboratory was made: losses at the ends of a leg, packets on the loopback, and packets to
//! addresses that are nowhere.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;

/// The counters of one host. The files belong to the network namespace in which they were opened, whichever thread
/// reads them. With NAT a host is this machine, with other devices and with counters that run since boot: only the
/// laboratory's devices are counted, as differences.
pub struct HostCounters {
    name: String,
    device_names: Vec<String>,
    devices: File,
    sockets: File,
    sockets6: Option<File>,
    routing: Option<File>,
    start: HostCounts,
}

/// Counters of a host in the laboratory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostCounts {
    /// Packets that the TUN devices dropped because the event loop had not read them yet (`tx_dropped`).
    pub device_dropped_packets: u64,
    /// Datagrams dropped at full receive buffers of UDP sockets (`RcvbufErrors`, IPv4 and IPv6).
    pub udp_receive_buffer_errors: u64,
    /// Packets on the host's loopback device (`rx_packets` of `lo`): they never cross the path.
    pub loopback_packets: u64,
    /// Packets that arrived over the path (`rx_packets` of its devices); a super-packet counts once.
    pub received_packets: u64,
    /// Received packets for which the host had no route (`InNoRoutes`, IPv4 and IPv6): it answered with an ICMP error.
    pub unroutable_packets: u64,
}

impl HostCounters {
    /// Opens the counters of the calling thread's network namespace and of these devices in it; they count from now
    /// on. `is_machine`: other networks reach the host too, so that its packets without a route are not counted.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn of_this_thread(
        name: &str,
        device_names: Vec<String>,
        is_machine: bool,
    ) -> io::Result<Self> {
        let mut counters = Self::in_folder(Path::new("/proc/thread-self/net"), name, device_names)?;
        if is_machine {
            counters.routing = None;
            counters.start.unroutable_packets = 0;
        }
        Ok(counters)
    }

    fn in_folder(folder: &Path, name: &str, device_names: Vec<String>) -> io::Result<Self> {
        let mut counters = Self {
            name: name.to_owned(),
            device_names,
            devices: File::open(folder.join("dev"))?,
            sockets: File::open(folder.join("snmp"))?,
            sockets6: File::open(folder.join("snmp6")).ok(),
            routing: Some(File::open(folder.join("netstat"))?),
            start: HostCounts::default(),
        };
        counters.start = counters.read()?;
        Ok(counters)
    }

    /// The host's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counts since these counters were opened.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn counts(&self) -> io::Result<HostCounts> {
        let (now, start) = (self.read()?, &self.start);
        let since = |now: u64, start: u64| now.saturating_sub(start);
        Ok(HostCounts {
            device_dropped_packets: since(now.device_dropped_packets, start.device_dropped_packets),
            udp_receive_buffer_errors: since(
                now.udp_receive_buffer_errors,
                start.udp_receive_buffer_errors,
            ),
            loopback_packets: since(now.loopback_packets, start.loopback_packets),
            received_packets: since(now.received_packets, start.received_packets),
            unroutable_packets: since(now.unroutable_packets, start.unroutable_packets),
        })
    }

    /// The counters' current values.
    fn read(&self) -> io::Result<HostCounts> {
        let udp4 = table_value(&text(&self.sockets)?, "Udp:", "RcvbufErrors").unwrap_or(0);
        let of_v6 = self.sockets6.as_ref().map(text).transpose()?;
        let of_v6 = |key| line_value(of_v6.as_deref()?, key);
        let udp6 = of_v6("Udp6RcvbufErrors").unwrap_or(0);
        let unroutable_packets = match &self.routing {
            Some(file) => {
                let of_v4 = table_value(&text(file)?, "IpExt:", "InNoRoutes");
                of_v4.unwrap_or(0) + of_v6("Ip6InNoRoutes").unwrap_or(0)
            }
            None => 0,
        };
        let devices = text(&self.devices)?;
        let loopback = ["lo".to_owned()];
        Ok(HostCounts {
            device_dropped_packets: device_sum(&devices, &self.device_names, TX_DROPPED),
            udp_receive_buffer_errors: udp4 + udp6,
            loopback_packets: device_sum(&devices, &loopback, RX_PACKETS),
            received_packets: device_sum(&devices, &self.device_names, RX_PACKETS),
            unroutable_packets,
        })
    }
}

/// The TCP and UDP sockets of one host: what is queued at them, and their ports (`/proc/net/tcp`, `udp` and
/// IPv6).
pub struct Sockets {
    tables: Vec<(Transport, File)>,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Bytes that are queued at sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedBytes {
    /// Sent by programs and not acknowledged by the other end; sockets of programs that have ended count too.
    pub unacknowledged: u64,
    /// Received, but not yet read by programs.
    pub unread: u64,
}

impl Sockets {
    /// Opens the tables of the calling thread's network namespace.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn of_this_thread() -> io::Result<Self> {
        Self::in_folder(Path::new("/proc/thread-self/net"))
    }

    /// Opens the tables of a process's network namespace.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        Self::in_folder(&Path::new("/proc").join(pid.to_string()).join("net"))
    }

    fn in_folder(folder: &Path) -> io::Result<Self> {
        let mut tables = Vec::new();
        for (transport, name) in [(Transport::Tcp, "tcp"), (Transport::Udp, "udp")] {
            tables.push((transport, File::open(folder.join(name))?));
            // A machine without IPv6 has no such tables.
            let of_ipv6 = File::open(folder.join(format!("{name}6")));
            tables.extend(of_ipv6.map(|file| (transport, file)));
        }
        Ok(Self { tables })
    }

    /// What is queued at all sockets now.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn queued(&self) -> io::Result<QueuedBytes> {
        let mut all = QueuedBytes::default();
        for (_, table) in &self.tables {
            for (unacknowledged, unread) in text(table)?.lines().skip(1).filter_map(queued_at) {
                all.unacknowledged += unacknowledged;
                all.unread += unread;
            }
        }
        Ok(all)
    }

    /// The ports at which a program listens by TCP, or which UDP sockets without a peer have.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn open_ports(&self) -> io::Result<BTreeSet<(Transport, u16)>> {
        let mut ports = BTreeSet::new();
        for (transport, table) in &self.tables {
            let state = match transport {
                Transport::Tcp => LISTENS,
                Transport::Udp => BOUND,
            };
            let open = ports_in(&text(table)?, state);
            ports.extend(open.into_iter().map(|port| (*transport, port)));
        }
        Ok(ports)
    }
}

/// The local ports of the sockets of a table that are in a state.
fn ports_in(table: &str, state: &str) -> Vec<u16> {
    let port = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let (_, port) = columns.next()?.rsplit_once(':')?;
        (columns.nth(1)? == state)
            .then(|| u16::from_str_radix(port, 16).ok())
            .flatten()
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// The failed connections of a host, and the machine's ports that only the machine itself reaches.
pub struct Unreached {
    listeners: Vec<File>,
    sockets: Option<(File, u64)>,
}

impl Unreached {
    /// Opens the listeners of the calling thread's network namespace, the machine's.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn of_this_machine() -> io::Result<Self> {
        let folder = Path::new("/proc/thread-self/net");
        let mut listeners = vec![File::open(folder.join("tcp"))?];
        listeners.extend(File::open(folder.join("tcp6")));
        Ok(Self {
            listeners,
            sockets: None,
        })
    }

    /// Counts the failed connections in the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn count_here(&mut self) -> io::Result<()> {
        let file = File::open("/proc/thread-self/net/snmp")?;
        let before = attempt_fails(&file)?;
        self.sockets = Some((file, before));
        Ok(())
    }

    /// The ports at which programs listen on the machine's loopback alone, if connections have failed.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn ports(&self) -> io::Result<BTreeSet<u16>> {
        let failed = match &self.sockets {
            Some((file, before)) => attempt_fails(file)? > *before,
            None => false,
        };
        let (mut open, mut of_loopback) = (BTreeSet::new(), BTreeSet::new());
        for table in self.listeners.iter().filter(|_| failed) {
            for (is_loopback, port) in text(table)?.lines().skip(1).filter_map(listener_at) {
                if is_loopback {
                    of_loopback.insert(port);
                } else {
                    open.insert(port);
                }
            }
        }
        Ok(&of_loopback - &open)
    }
}

fn attempt_fails(file: &File) -> io::Result<u64> {
    Ok(table_value(&text(file)?, "Tcp:", "AttemptFails").unwrap_or(0))
}

/// Whether the listener of a line of `/proc/net/tcp` has a loopback address, and its port; none of other sockets.
fn listener_at(line: &str) -> Option<(bool, u16)> {
    let mut columns = line.split_whitespace().skip(1);
    let (address, port) = columns.next()?.split_once(':')?;
    // 127.0.0.0/8 and ::1, as words of this machine's byte order.
    let is_loopback = if address.len() == 8 {
        u32::from_str_radix(address, 16).ok()?.to_ne_bytes()[0] == 127
    } else {
        let last = u32::from_str_radix(address.get(24..)?, 16).ok()?;
        address.starts_with("000000000000000000000000") && last.to_ne_bytes() == [0, 0, 0, 1]
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    (columns.nth(1)? == LISTENS).then_some((is_loopback, port))
}

/// The state of a TCP socket that listens.
const LISTENS: &str = "0A";
/// The state of a UDP socket without a peer.
const BOUND: &str = "07";

/// The queues of a line of `/proc/net/tcp` or `udp`, sending first; none of a socket that listens, whose queue has
/// connections.
fn queued_at(line: &str) -> Option<(u64, u64)> {
    let mut columns = line.split_whitespace().skip(3);
    let state = columns.next()?;
    let (sending, receiving) = columns.next()?.split_once(':')?;
    let bytes = |hex| u64::from_str_radix(hex, 16).ok();
    (state != LISTENS)
        .then(|| bytes(sending).zip(bytes(receiving)))
        .flatten()
}

/// Reads a file of `/proc` from its start; the kernel generates it at each read of offset 0.
fn text(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; 64 << 10];
    let mut filled = 0;
    loop {
        let read = file.read_at(&mut bytes[filled..], filled as u64)?;
        if read == 0 {
            break;
        }
        filled += read;
        if filled == bytes.len() {
            bytes.resize(2 * filled, 0);
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The second receive column of `/proc/net/dev`.
const RX_PACKETS: usize = 1;
/// The fourth transmit column of `/proc/net/dev`.
const TX_DROPPED: usize = 11;

/// Sum of a column of `/proc/net/dev` over the devices of these names.
fn device_sum(text: &str, names: &[String], column: usize) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| names.iter().any(|ours| ours == name.trim()))
        .filter_map(|(_, values)| values.split_whitespace().nth(column)?.parse::<u64>().ok())
        .sum()
}

/// A value of `/proc/net/snmp`, where a line of names is followed by a line of values.
fn table_value(text: &str, table: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let names = lines.next()?;
    let values = lines.next()?;
    let place = names.split_whitespace().position(|name| name == key)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// A value of `/proc/net/snmp6`, one name and value per line.
fn line_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::{
        HostCounters, HostCounts, RX_PACKETS, Sockets, TX_DROPPED, Transport, device_sum,
        line_value, ports_in, queued_at, table_value,
    };

    #[test]
    fn earlier_counts_and_other_devices_are_not_counted() {
        let folder = std::env::temp_dir().join(format!("wavebed-counters-{}", std::process::id()));
        // Left by a test that was killed, in a process of the same number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let write = |lo: u64, eth0: u64, ours: u64, udp: u64, udp6: u64| {
            let device =
                |name, drops| format!("{name}: 9 {drops} 9 9 9 9 9 9 9 9 9 {drops} 9 9 9 9\n");
            let loopback = format!("lo: 9 {lo} 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n");
            let devices = loopback + &device("eth0", eth0) + &device("wavebed0", ours);
            std::fs::write(folder.join("dev"), devices).unwrap();
            let sockets = format!("Udp: InDatagrams RcvbufErrors\nUdp: 7 {udp}\n");
            std::fs::write(folder.join("snmp"), sockets).unwrap();
            let of_v6 = format!("Ip6InNoRoutes {udp6}\nUdp6RcvbufErrors {udp6}\n");
            std::fs::write(folder.join("snmp6"), of_v6).unwrap();
            let routing = format!("IpExt: InNoRoutes InMcastPkts\nIpExt: {udp} 7\n");
            std::fs::write(folder.join("netstat"), routing).unwrap();
        };
        write(6, 1_000, 3, 498, 20);
        let counters = HostCounters::in_folder(&folder, "server", vec!["wavebed0".into()]).unwrap();
        assert_eq!(counters.counts().unwrap(), HostCounts::default());
        write(10, 1_700, 8, 500, 21);
        let lost = HostCounts {
            device_dropped_packets: 5,
            udp_receive_buffer_errors: 3,
            loopback_packets: 4,
            received_packets: 5,
            unroutable_packets: 3,
        };
        assert_eq!(counters.counts().unwrap(), lost);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn drops_of_the_named_devices_are_summed() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed \
                    multicast|bytes packets errs drop fifo colls carrier compressed\n\
                    lo: 1 1 0 0 0 0 0 0 1 1 0 99 0 0 0 0\n\
                    wb0: 10 2 0 0 0 0 0 0 10 2 0 7 0 0 0 0\n wb1: 10 2 0 0 0 0 0 0 10 2 0 5 0 0 0 0\n";
        let names = ["wb0", "wb1"].map(String::from);
        assert_eq!(device_sum(text, &names, TX_DROPPED), 12);
        assert_eq!(device_sum(text, &names[..1], TX_DROPPED), 7);
        assert_eq!(device_sum(text, &names, RX_PACKETS), 4);
    }

    #[test]
    fn socket_tables_are_read_by_name() {
        let text = "Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 5 1 42\nUdpLite: InDatagrams RcvbufErrors\nUdpLite: 1 2\n";
        assert_eq!(table_value(text, "Udp:", "RcvbufErrors"), Some(42));
        assert_eq!(
            line_value("Udp6InErrors 1\nUdp6RcvbufErrors   3\n", "Udp6RcvbufErrors"),
            Some(3)
        );
    }

    #[test]
    fn what_waits_at_a_socket_is_read_and_a_listening_one_has_nothing() {
        let line = |state, queues| {
            format!("   1: 0200007F:1F90 0300007F:D431 {state} {queues} 01:00000014 00000000 0 0")
        };
        let busy = line("01", "0000A000:00000010");
        assert_eq!(queued_at(&busy), Some((40_960, 16)));
        assert_eq!(queued_at(&line("04", "00000001:00000000")), Some((1, 0)));
        assert_eq!(queued_at(&line("0A", "00000000:00000080")), None);
        assert_eq!(queued_at("  sl  local_address"), None);
    }

    #[test]
    fn bytes_that_nobody_reads_are_unread() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (from, to) = (socket(), socket());
        let sockets = Sockets::of_this_thread().unwrap();
        from.send_to(&[1; 100], to.local_addr().unwrap()).unwrap();
        assert!(sockets.queued().unwrap().unread >= 100);
    }

    #[test]
    fn only_ports_of_sockets_in_the_state_are_open() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
                     0: 0100007F:1F90 00000000:0000 0A 0:0\n   \
                     1: 0100007F:0016 0100007F:A001 01 0:0\n   \
                     2: 00000000000000000000000001000000:4E20 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(ports_in(table, "0A"), [8080, 20_000]);
        assert_eq!(ports_in(table, "07"), [0; 0]);
        assert_eq!(ports_in("", "0A"), [0; 0]);
    }

    #[test]
    fn sockets_of_this_process_have_open_ports_until_it_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bound = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = Sockets::of_process(std::process::id().cast_signed()).unwrap();
        let ports = ports.open_ports().unwrap();
        assert!(ports.contains(&(Transport::Tcp, listener.local_addr().unwrap().port())));
        assert!(ports.contains(&(Transport::Udp, bound.local_addr().unwrap().port())));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert!(Sockets::of_process(ended.id().cast_signed()).is_err());
    }

    #[test]
    fn this_machine_has_the_counters() {
        let counters = HostCounters::of_this_thread("here", Vec::new(), true).unwrap();
        assert!(
            super::text(&counters.sockets)
                .unwrap()
                .contains("RcvbufErrors")
        );
        counters.counts().unwrap();
    }
}
