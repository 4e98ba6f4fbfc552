//! The per-millisecond series of a laboratory, written as CSV by a separate thread, so that no disk delays a packet.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use wavebed_link::{MillisecondRow, Reason, Sojourn};
use wavebed_os::output::create_regular;

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

/// Starts the writer: `DIR/LINK.csv` for each link and `DIR/departures.LEG.DIRECTION.csv` for each direction.
///
/// # Errors
/// When a file cannot be made.
pub fn start(
    dir: &Path,
    links: &[String],
    departures: &[String],
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
    let link_header = link_header();
    let mut link_files = links
        .iter()
        .map(|name| open(format!("{name}.csv"), &link_header))
        .collect::<Result<Vec<_>, _>>()?;
    let mut departure_files = departures
        .iter()
        .map(|name| open(format!("departures.{name}.csv"), DEPARTURE_HEADER))
        .collect::<Result<Vec<_>, _>>()?;
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new()
        .name("series".into())
        .spawn(move || write_all(&receiver, &mut link_files, &mut departure_files))
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
    links: &mut [Out],
    departures: &mut [Out],
) -> Result<(), SeriesError> {
    let failed = |path: &Path, source| SeriesError {
        path: path.to_owned(),
        source,
    };
    for batch in rows {
        match batch {
            Rows::Link(index, rows) => {
                let (path, file) = &mut links[index];
                rows.iter()
                    .try_for_each(|row| write_link_row(file, row))
                    .map_err(|error| failed(path, error))?;
            }
            Rows::Departures(index, rows) => {
                let (path, file) = &mut departures[index];
                rows.iter()
                    .try_for_each(|row| write_departure_row(file, row))
                    .map_err(|error| failed(path, error))?;
            }
        }
    }
    for (path, file) in links.iter_mut().chain(departures) {
        file.flush().map_err(|error| failed(path, error))?;
    }
    Ok(())
}

fn link_header() -> String {
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
         l4s_marked_segments,l4s_dropped_segments,l4s_sojourn_mean_ns,l4s_sojourn_max_ns\n",
    );
    header
}

fn write_link_row(out: &mut impl Write, row: &MillisecondRow) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::{link_header, write_link_row};
    use wavebed_link::MillisecondRow;

    #[test]
    fn every_column_has_a_value_in_every_row() {
        let mut line = Vec::new();
        write_link_row(&mut line, &MillisecondRow::default()).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(
            line.matches(',').count(),
            link_header().matches(',').count()
        );
        assert!(
            line.ends_with(",,,0,0,,\n"),
            "no sojourn time where nothing left the queue: {line}"
        );
    }
}
