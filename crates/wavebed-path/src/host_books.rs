//! The hosts' own counters: what the devices and sockets at the ends of a hop lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The counters of one host. The files belong to the network namespace in which they were opened, whoever reads
/// them later.
pub struct HostBooks {
    name: String,
    devices: File,
    sockets: File,
    sockets6: Option<File>,
}

/// What a host lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HostLosses {
    /// Packets that the TUN devices dropped because the event loop had not read them yet (`tx_dropped`).
    pub device_dropped_packets: u64,
    /// Datagrams dropped at full receive buffers of UDP sockets (`RcvbufErrors`, IPv4 and IPv6).
    pub udp_receive_buffer_errors: u64,
}

impl HostBooks {
    /// The counters of the network namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn of_this_thread(name: &str) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            devices: File::open("/proc/thread-self/net/dev")?,
            sockets: File::open("/proc/thread-self/net/snmp")?,
            sockets6: File::open("/proc/thread-self/net/snmp6").ok(),
        })
    }

    /// The host's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was lost so far.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn losses(&self) -> io::Result<HostLosses> {
        let udp4 = table_value(&text(&self.sockets)?, "Udp:", "RcvbufErrors").unwrap_or(0);
        let udp6 = match &self.sockets6 {
            Some(file) => line_value(&text(file)?, "Udp6RcvbufErrors").unwrap_or(0),
            None => 0,
        };
        Ok(HostLosses {
            device_dropped_packets: device_drops(&text(&self.devices)?),
            udp_receive_buffer_errors: udp4 + udp6,
        })
    }
}

/// A file of `/proc` from its start; it is made anew at each read of offset 0.
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

/// Sum of the transmit drops of all devices but `lo` (`/proc/net/dev`, fourth transmit column).
fn device_drops(text: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim() != "lo")
        .filter_map(|(_, values)| values.split_whitespace().nth(11)?.parse::<u64>().ok())
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
    use super::{HostBooks, device_drops, line_value, table_value};

    #[test]
    fn drops_of_all_devices_but_loopback_are_summed() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed \
                    multicast|bytes packets errs drop fifo colls carrier compressed\n\
                    lo: 1 1 0 0 0 0 0 0 1 1 0 99 0 0 0 0\n\
                    wb0: 10 2 0 0 0 0 0 0 10 2 0 7 0 0 0 0\n wb1: 10 2 0 0 0 0 0 0 10 2 0 5 0 0 0 0\n";
        assert_eq!(device_drops(text), 12);
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
    fn this_machine_has_the_counters() {
        let books = HostBooks::of_this_thread("here").unwrap();
        assert!(
            super::text(&books.sockets)
                .unwrap()
                .contains("RcvbufErrors")
        );
        books.losses().unwrap();
    }
}
