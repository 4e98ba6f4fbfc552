//! The per-millisecond series of a laboratory, written as CSV by a separate thread, so that no disk delays a packet.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::{fmt, io};

use wavebed_link::radio::{AirRow, EndedFile, UserRow};
use wavebed_link::{MillisecondRow, Reason, Sojourn};
use wavebed_os::output::create_regular;
use wavebed_packet::VnetHeader;
use wavebed_packet::ip::{Ipv4, Ipv6};

/// One millisecond of packets written to a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DepartureRow {
    /// Milliseconds since the origin, by the clock, not by virtual time.
    pub at_ms: u64,
    /// Packets written; a coalesced super-packet counts once.
    pub packets: u64,
    /// Wire segments in them.
    pub segments: u64,
    /// IP bytes of those segments.
    pub bytes: u64,
    /// Worst lateness of a packet, without the wait in the input device, nanoseconds.
    pub late_max_ns: u64,
    /// Wire segments that the device refused.
    pub refused_segments: u64,
}

/// Rows to be written.
enum Rows {
    Link(usize, Vec<MillisecondRow>),
    Departures(usize, Vec<DepartureRow>),
    Cell(String, CellRows),
}

/// What happened in one direction of a cell.
#[derive(Debug, Default)]
pub struct CellRows {
    /// The time of the slots in each millisecond.
    pub air: Vec<AirRow>,
    /// What modelled users got in each millisecond.
    pub users: Vec<UserRow>,
    /// The files that they ended, each with the place of its user.
    pub files: Vec<(usize, EndedFile)>,
}

/// A sender to the writer, one per event loop.
#[derive(Clone)]
pub struct SeriesSender {
    sender: Sender<Rows>,
}

impl SeriesSender {
    /// Sends rows of the link with this index.
    pub fn link(&self, index: usize, rows: Vec<MillisecondRow>) {
        if !rows.is_empty() {
            // A failed writer has stored its error; packets are forwarded all the same.
            let _ = self.sender.send(Rows::Link(index, rows));
        }
    }

    /// Sends rows of the departures with this index.
    pub fn departures(&self, index: usize, rows: Vec<DepartureRow>) {
        if !rows.is_empty() {
            let _ = self.sender.send(Rows::Departures(index, rows));
        }
    }

    /// Sends rows of the direction of a cell with this name.
    pub fn cell(&self, name: &str, rows: CellRows) {
        let _ = self.sender.send(Rows::Cell(name.to_owned(), rows));
    }
}

/// The writer thread.
pub struct SeriesWriter {
    thread: JoinHandle<Result<(), SeriesError>>,
}

/// A series could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct SeriesError {
    path: PathBuf,
    source: io::Error,
}

/// A link whose series is written.
pub struct SeriesLink {
    /// Its name.
    pub name: String,
    /// Whether it has a radio, which counts the air time of its blocks.
    pub has_air: bool,
}

/// One direction of a cell whose series is written.
pub struct SeriesCell {
    /// `CELL.down` or `CELL.up`.
    pub name: String,
    /// The names of its modelled users.
    pub users: Vec<String>,
}

/// The series that are written.
pub struct SeriesNames {
    /// Links.
    pub links: Vec<SeriesLink>,
    /// The departures of each direction.
    pub departures: Vec<String>,
    /// Cells.
    pub cells: Vec<SeriesCell>,
}

/// The files of one direction of a cell.
struct CellFiles {
    air: Out,
    users: Out,
    files: Out,
    names: Vec<String>,
}

/// Starts the writer: `DIR/LINK.csv` for each link, `DIR/departures.LEG.DIRECTION.csv` for each direction, and
/// `DIR/cells/CELL.DIRECTION.csv`, the same in `DIR/users` and `DIR/files`, for each direction of a cell.
///
/// # Errors
/// When a file cannot be made.
pub fn start(
    dir: &Path,
    SeriesNames {
        links,
        departures,
        cells,
    }: &SeriesNames,
) -> Result<(SeriesSender, SeriesWriter), SeriesError> {
    let open = |name: String, header: &str| -> Result<(PathBuf, BufWriter<File>), SeriesError> {
        let path = dir.join(name);
        let write = |path: &Path| {
            let mut file = BufWriter::with_capacity(1 << 18, create_regular(path)?);
            file.write_all(header.as_bytes())?;
            Ok(file)
        };
        let file = write(&path).map_err(|source| SeriesError {
            path: path.clone(),
            source,
        })?;
        Ok((path, file))
    };
    std::fs::create_dir_all(dir).map_err(|source| SeriesError {
        path: dir.to_owned(),
        source,
    })?;
    let mut link_files = links
        .iter()
        .map(|link| {
            let out = open(format!("{}.csv", link.name), &link_header(link.has_air))?;
            Ok((out, link.has_air))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut departure_files = departures
        .iter()
        .map(|name| open(format!("departures.{name}.csv"), DEPARTURE_HEADER))
        .collect::<Result<Vec<_>, _>>()?;
    let in_folder = |folder: &str, name: &str, header: &str| {
        let path = dir.join(folder);
        std::fs::create_dir_all(&path).map_err(|source| SeriesError { path, source })?;
        open(format!("{folder}/{name}.csv"), header)
    };
    let mut cell_files = cells
        .iter()
        .map(|SeriesCell { name, users }| {
            let files = CellFiles {
                air: in_folder("cells", name, AIR_HEADER)?,
                users: in_folder("users", name, USERS_HEADER)?,
                files: in_folder("files", name, FILES_HEADER)?,
                names: users.clone(),
            };
            Ok((name.clone(), files))
        })
        .collect::<Result<HashMap<_, _>, SeriesError>>()?;
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new()
        .name("series".into())
        .spawn(move || {
            write_all(
                &receiver,
                &mut link_files,
                &mut departure_files,
                &mut cell_files,
            )
        })
        .map_err(|source| SeriesError {
            path: dir.to_owned(),
            source,
        })?;
    Ok((SeriesSender { sender }, SeriesWriter { thread }))
}

impl SeriesWriter {
    /// Waits until everything that was sent is on disk; every sender must have been dropped.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> Result<(), SeriesError> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

type Out = (PathBuf, BufWriter<File>);

fn write_all(
    rows: &Receiver<Rows>,
    links: &mut [(Out, bool)],
    departures: &mut [Out],
    cells: &mut HashMap<String, CellFiles>,
) -> Result<(), SeriesError> {
    let failed = |path: &Path, source| SeriesError {
        path: path.to_owned(),
        source,
    };
    for batch in rows {
        match batch {
            Rows::Link(index, rows) => {
                let ((path, file), has_air) = &mut links[index];
                rows.iter()
                    .try_for_each(|row| write_link_row(file, row, *has_air))
                    .map_err(|error| failed(path, error))?;
            }
            Rows::Departures(index, rows) => {
                let (path, file) = &mut departures[index];
                rows.iter()
                    .try_for_each(|row| write_departure_row(file, row))
                    .map_err(|error| failed(path, error))?;
            }
            Rows::Cell(name, rows) => {
                if let Some(files) = cells.get_mut(&name) {
                    write_cell(files, &rows)?;
                }
            }
        }
    }
    let links = links.iter_mut().map(|(out, _)| out);
    let cells = cells.values_mut();
    let cells = cells.flat_map(|each| [&mut each.air, &mut each.users, &mut each.files]);
    for (path, file) in links.chain(departures).chain(cells) {
        file.flush().map_err(|error| failed(path, error))?;
    }
    Ok(())
}

fn link_header(has_air: bool) -> String {
    let mut header = String::from(
        "time_ms,offered_segments,offered_bytes,delivered_segments,delivered_bytes,duplicated_segments,\
         marked_segments,corrupted_segments",
    );
    for reason in Reason::ALL {
        header.push_str(",dropped_");
        header.push_str(reason.name());
        header.push_str("_segments");
    }
    header.push_str(
        ",blocks_sent,blocks_failed,link_failures,queue_bytes,queue_peak_bytes,sojourn_mean_ns,sojourn_max_ns,\
         l4s_marked_segments,l4s_dropped_segments,l4s_sojourn_mean_ns,l4s_sojourn_max_ns",
    );
    header.push_str(if has_air { ",air_ns\n" } else { "\n" });
    header
}

fn write_link_row(out: &mut impl Write, row: &MillisecondRow, has_air: bool) -> io::Result<()> {
    let counts = &row.counts;
    write!(
        out,
        "{},{},{},{},{},{},{},{}",
        row.at_ms,
        counts.offered.segments,
        counts.offered.bytes,
        counts.delivered.segments,
        counts.delivered.bytes,
        counts.duplicated.segments,
        counts.marked.segments,
        counts.corrupted.segments
    )?;
    for counter in &counts.dropped {
        write!(out, ",{}", counter.segments)?;
    }
    let (sent, failed) = (counts.blocks_sent, counts.blocks_failed);
    write!(out, ",{sent},{failed},{}", counts.link_failures)?;
    write!(out, ",{},{}", row.queue_bytes, row.queue_peak_bytes)?;
    write_sojourn(out, &row.sojourn)?;
    let (marked, dropped) = (counts.l4s_marked.segments, counts.l4s_dropped.segments);
    write!(out, ",{marked},{dropped}")?;
    write_sojourn(out, &row.l4s_sojourn)?;
    if has_air {
        write!(out, ",{}", counts.air_ns)?;
    }
    writeln!(out)
}

fn write_sojourn(out: &mut impl Write, sojourn: &Sojourn) -> io::Result<()> {
    match sojourn.mean_and_max_ns() {
        // Without packets that left the queue the sojourn time is missing, not zero.
        None => write!(out, ",,"),
        Some((mean_ns, max_ns)) => write!(out, ",{mean_ns},{max_ns}"),
    }
}

const DEPARTURE_HEADER: &str = "time_ms,packets,segments,bytes,late_max_ns,refused_segments\n";

fn write_departure_row(out: &mut impl Write, row: &DepartureRow) -> io::Result<()> {
    let DepartureRow {
        at_ms,
        packets,
        segments,
        bytes,
        late_max_ns,
        refused_segments,
    } = row;
    writeln!(
        out,
        "{at_ms},{packets},{segments},{bytes},{late_max_ns},{refused_segments}"
    )
}

const AIR_HEADER: &str = "time_ms,slots_ns,control_ns\n";
const USERS_HEADER: &str = "time_ms,user,air_ns,served_bytes\n";
const FILES_HEADER: &str = "user,requested_ns,ended_ns\n";

fn write_cell(out: &mut CellFiles, rows: &CellRows) -> Result<(), SeriesError> {
    let names = &out.names;
    let name = |place: usize| names.get(place).map_or("", String::as_str);
    write_lines(&mut out.air, &rows.air, |file, row| {
        let (at_ms, air) = (row.at_ms, row.air);
        writeln!(file, "{at_ms},{},{}", air.slots_ns, air.control_ns)
    })?;
    write_lines(&mut out.users, &rows.users, |file, row| {
        let user = name(row.user);
        let (at_ms, air_ns, bytes) = (row.at_ms, row.air_ns, row.served_bytes);
        writeln!(file, "{at_ms},{user},{air_ns},{bytes}")
    })?;
    write_lines(&mut out.files, &rows.files, |file, (user, row)| {
        writeln!(
            file,
            "{},{},{}",
            name(*user),
            row.requested_ns,
            row.ended_ns
        )
    })
}

fn write_lines<Row>(
    (path, file): &mut Out,
    rows: &[Row],
    write: impl Fn(&mut BufWriter<File>, &Row) -> io::Result<()>,
) -> Result<(), SeriesError> {
    let mut rows = rows.iter();
    let written = rows.try_for_each(|row| write(file, row));
    written.map_err(|source| SeriesError {
        path: path.clone(),
        source,
    })
}

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// Of its Ethernet interface.
    Mac([u8; 6]),
    /// Of its host.
    Ip(IpAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(out),
            Self::Mac([first, rest @ ..]) => {
                write!(out, "{first:02x}")?;
                rest.iter().try_for_each(|byte| write!(out, ":{byte:02x}"))
            }
        }
    }
}

/// Where in a frame the address of a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Frames go to the devices.
    Destination,
    /// Frames come from the devices.
    Source,
}

/// The class of each device: its place in the list of classes.
#[derive(Clone, Debug)]
pub struct Classes {
    by_mac: HashMap<[u8; 6], usize>,
    by_ip: HashMap<IpAddr, usize>,
    side: Side,
}

impl Classes {
    /// The classes of devices with these addresses, for frames in one direction. Of an address in two classes the last
    /// one counts.
    #[must_use]
    pub fn new<'a>(devices: impl IntoIterator<Item = &'a [Address]>, side: Side) -> Self {
        let mut classes = Self {
            by_mac: HashMap::new(),
            by_ip: HashMap::new(),
            side,
        };
        for (class, addresses) in devices.into_iter().enumerate() {
            for address in addresses {
                match *address {
                    Address::Mac(mac) => classes.by_mac.insert(mac, class),
                    Address::Ip(ip) => classes.by_ip.insert(ip, class),
                };
            }
        }
        classes
    }

    /// The class of the device of a packet, `None` if it has none. `bytes` begin with the virtio-net header, and `front`
    /// bytes stand between it and the IP header. The packet's address counts before the frame's.
    #[must_use]
    pub fn of(&self, bytes: &[u8], front: u8) -> Option<usize> {
        let frame = bytes.get(VnetHeader::LEN..)?;
        let of_host = || {
            let ip = address_of(frame.get(usize::from(front)..)?, self.side)?;
            self.by_ip.get(&ip).copied()
        };
        let of_interface = || {
            let mac: &[u8; 6] = match self.side {
                Side::Destination => frame.first_chunk()?,
                Side::Source => frame.get(6..)?.first_chunk()?,
            };
            self.by_mac.get(mac).copied()
        };
        let by_ip = (!self.by_ip.is_empty()).then(of_host).flatten();
        by_ip.or_else(|| (!self.by_mac.is_empty()).then(of_interface).flatten())
    }
}

fn address_of(packet: &[u8], side: Side) -> Option<IpAddr> {
    if let Some(ip) = Ipv4::parse(packet) {
        return Some(match side {
            Side::Destination => ip.destination().into(),
            Side::Source => ip.source().into(),
        });
    }
    let ip = Ipv6::parse(packet)?;
    Some(match side {
        Side::Destination => ip.destination().into(),
        Side::Source => ip.source().into(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use wavebed_link::MillisecondRow;

    use super::{Address, Classes, Side, link_header, write_link_row};

    #[test]
    fn every_column_has_a_value_in_every_row() {
        for (has_air, end) in [(false, ",,,0,0,,\n"), (true, ",,,0,0,,,0\n")] {
            let mut line = Vec::new();
            write_link_row(&mut line, &MillisecondRow::default(), has_air).unwrap();
            let line = String::from_utf8(line).unwrap();
            let header = link_header(has_air);
            assert_eq!(line.matches(',').count(), header.matches(',').count());
            assert_eq!(header.ends_with(",air_ns\n"), has_air);
            assert!(
                line.ends_with(end),
                "no sojourn time where nothing left the queue: {line}"
            );
        }
    }

    const TV: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const PHONE: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn frame(to: [u8; 6], from: [u8; 6], kind: &[u8], packet: &[u8]) -> Vec<u8> {
        [&[0; 10], &to[..], &from[..], kind, packet].concat()
    }

    fn v4(from: u8, to: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0];
        packet.extend([192, 0, 2, from, 192, 0, 2, to]);
        packet
    }

    #[test]
    fn a_device_is_known_by_either_address_in_either_direction() {
        let ip: IpAddr = Ipv4Addr::new(192, 0, 2, 7).into();
        let devices = [vec![Address::Mac(TV)], vec![Address::Ip(ip)]];
        let classes = |side| Classes::new(devices.iter().map(Vec::as_slice), side);
        let (down, up) = (classes(Side::Destination), classes(Side::Source));
        let plain: &[u8] = &[8, 0];
        let to_tv = frame(TV, PHONE, plain, &v4(1, 2));
        assert_eq!((down.of(&to_tv, 14), up.of(&to_tv, 14)), (Some(0), None));
        let to_host = frame(PHONE, TV, plain, &v4(1, 7));
        assert_eq!(down.of(&to_host, 14), Some(1));
        assert_eq!(up.of(&to_host, 14), Some(0));
        let both = frame(TV, PHONE, &[0x81, 0, 0, 5, 8, 0], &v4(1, 7));
        assert_eq!(down.of(&both, 18), Some(1), "the packet's address counts");
        assert_eq!(down.of(&frame(PHONE, PHONE, plain, &v4(7, 1)), 14), None);
        assert_eq!(down.of(&[0; 12], 14), None);
    }

    #[test]
    fn a_device_may_have_an_address_of_ipv6() {
        let ip: IpAddr = Ipv6Addr::from([0xfd; 16]).into();
        let classes = Classes::new([&[Address::Ip(ip)][..]], Side::Source);
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        let found = frame(TV, PHONE, &[0x86, 0xdd], &packet);
        assert_eq!(classes.of(&found, 14), Some(0));
    }
}
