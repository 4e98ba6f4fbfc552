//! The packet log of a laboratory: the events of wire segments and the transmissions of radio blocks, as CSV. A
//! separate thread writes it, so that no disk delays a packet.
//!
//! When the thread falls behind, events are left out and counted; packets are forwarded all the same.

use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use wavebed_link::counters::Event;
use wavebed_link::radio::BlockRecord;
use wavebed_link::{Link, Run, RunFlags};
use wavebed_os::output::create_regular;

use crate::pool::Packets;

/// Events that are sent together.
const BATCH_ROWS: usize = 8_192;
/// Batches that may wait for the writer: at 56 bytes an event, some 60 MB.
const WAITING_BATCHES: usize = 128;

const PACKETS_HEADER: &str =
    "time_ns,event,packet,is_copy,first,segments,segment_bytes,last_bytes,flow,block\n";
const BLOCKS_HEADER: &str = "slot_ns,decoded_ns,number,attempt,process,carrier,is_fallback,bytes,failed,misheard,\
                             awake_ns,granted_ns,rate_bps,sinr_db,need_db,turn_ns,turn_last_ns,turn_of\n";

/// An event with the packet's serial number in its direction.
#[derive(Clone, Copy, Debug)]
struct Row {
    packet: u64,
    run: Run,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// An event of the link.
    Link(Event),
    /// The segments were written to the device at the end of the direction.
    Written,
}

#[derive(Debug)]
struct Batch {
    link: usize,
    rows: Vec<Row>,
    blocks: Vec<BlockRecord>,
}

/// A sender to the writer.
#[derive(Clone, Debug)]
pub struct PacketLogSender {
    sender: SyncSender<Batch>,
}

/// The packet log of one link.
#[derive(Debug)]
pub struct LinkLog {
    sender: PacketLogSender,
    link: usize,
    rows: Vec<Row>,
    blocks: Vec<BlockRecord>,
    lost_rows: u64,
}

impl LinkLog {
    /// The log of the link with this index.
    #[must_use]
    pub const fn new(sender: PacketLogSender, link: usize) -> Self {
        Self {
            sender,
            link,
            rows: Vec::new(),
            blocks: Vec::new(),
            lost_rows: 0,
        }
    }

    /// Takes the events of `link`, whose packets are still in the table.
    pub fn take(&mut self, link: &mut Link, packets: &Packets) {
        let Some(log) = link.packet_log() else {
            return;
        };
        self.blocks.extend(log.take_blocks());
        self.rows.extend(log.take_entries().map(|entry| Row {
            packet: packets.packet(entry.run.packet).serial,
            run: entry.run,
            what: What::Link(entry.event),
        }));
        if self.rows.len() >= BATCH_ROWS {
            self.send();
        }
    }

    /// `run` of the packet with this serial number was written to the device at the end of the direction, at
    /// `run.at_ns`.
    pub fn written(&mut self, run: Run, packet: u64) {
        self.rows.push(Row {
            packet,
            run,
            what: What::Written,
        });
    }

    /// Sends what was taken to the writer.
    pub fn send(&mut self) {
        while !self.rows.is_empty() || !self.blocks.is_empty() {
            // A loop that was late takes many events at once.
            let later = self.rows.split_off(self.rows.len().min(BATCH_ROWS));
            self.send_batch();
            self.rows = later;
        }
    }

    fn send_batch(&mut self) {
        let batch = Batch {
            link: self.link,
            rows: std::mem::take(&mut self.rows),
            blocks: std::mem::take(&mut self.blocks),
        };
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.sender.sender.try_send(batch)
        {
            self.lost_rows += (lost.rows.len() + lost.blocks.len()) as u64;
        }
    }

    /// Events that are not in the log because the writer was behind or failed.
    #[must_use]
    pub const fn lost_rows(&self) -> u64 {
        self.lost_rows
    }
}

/// The writer thread.
pub struct PacketLogWriter {
    thread: JoinHandle<Result<(), PacketLogError>>,
}

/// A packet log could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct PacketLogError {
    path: PathBuf,
    source: io::Error,
}

impl PacketLogError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self {
            path: path.to_owned(),
            source,
        }
    }
}

type Out = (PathBuf, BufWriter<File>);

/// Starts the writer: `DIR/packets/LINK.csv` and `DIR/blocks/LINK.csv` for each link.
///
/// # Errors
/// When a file cannot be made.
pub fn start(
    dir: &Path,
    links: &[String],
) -> Result<(PacketLogSender, PacketLogWriter), PacketLogError> {
    let open = |folder: &str, header: &str| -> Result<Vec<Out>, PacketLogError> {
        let folder = dir.join(folder);
        std::fs::create_dir_all(&folder).map_err(PacketLogError::at(&folder))?;
        let make = |link: &String| {
            let path = folder.join(format!("{link}.csv"));
            let file = create_regular(&path).map_err(PacketLogError::at(&path))?;
            let mut file = BufWriter::with_capacity(1 << 18, file);
            file.write_all(header.as_bytes())
                .map_err(PacketLogError::at(&path))?;
            Ok((path, file))
        };
        links.iter().map(make).collect()
    };
    let mut packets = open("packets", PACKETS_HEADER)?;
    let mut blocks = open("blocks", BLOCKS_HEADER)?;
    let (sender, receiver) = sync_channel(WAITING_BATCHES);
    let thread = std::thread::Builder::new()
        .name("packet-log".into())
        .spawn(move || write_all(&receiver, &mut packets, &mut blocks))
        .map_err(PacketLogError::at(dir))?;
    Ok((PacketLogSender { sender }, PacketLogWriter { thread }))
}

impl PacketLogWriter {
    /// Waits until everything that was sent is on disk; every sender must have been dropped.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> Result<(), PacketLogError> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn write_all(
    batches: &Receiver<Batch>,
    packets: &mut [Out],
    blocks: &mut [Out],
) -> Result<(), PacketLogError> {
    for batch in batches {
        let (path, file) = &mut packets[batch.link];
        let mut rows = batch.rows.iter();
        rows.try_for_each(|row| write_row(file, row))
            .map_err(PacketLogError::at(path))?;
        let (path, file) = &mut blocks[batch.link];
        let mut rows = batch.blocks.iter();
        rows.try_for_each(|block| write_block(file, block))
            .map_err(PacketLogError::at(path))?;
    }
    for (path, file) in packets.iter_mut().chain(blocks) {
        file.flush().map_err(PacketLogError::at(path))?;
    }
    Ok(())
}

fn write_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let run = &row.run;
    write!(out, "{},", run.at_ns)?;
    let mut block = None;
    match row.what {
        What::Written => write!(out, "written"),
        What::Link(Event::Entered) => write!(out, "entered"),
        What::Link(Event::Dequeued) => write!(out, "dequeued"),
        What::Link(Event::Left) => write!(out, "left"),
        What::Link(Event::Passed(stage)) => write!(out, "passed_{stage}"),
        What::Link(Event::Sent(number)) => {
            block = Some(number);
            write!(out, "sent")
        }
        What::Link(Event::Delivered) => write!(out, "delivered"),
        What::Link(Event::Dropped(reason)) => write!(out, "dropped_{}", reason.name()),
    }?;
    write!(
        out,
        ",{},{},{},{},{},{},{},",
        row.packet,
        u8::from(run.flags.has(RunFlags::COPY)),
        run.first,
        run.count,
        run.segment_bytes,
        run.last_bytes,
        run.flow
    )?;
    write_known(out, block)?;
    writeln!(out)
}

fn write_block(out: &mut impl Write, block: &BlockRecord) -> io::Result<()> {
    write!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},",
        block.slot.start_ns,
        block.decoded_ns,
        block.number,
        block.attempt,
        block.process,
        block.slot.carrier,
        u8::from(block.slot.fallback),
        block.bytes,
        u8::from(block.failed),
        u8::from(block.misheard),
        block.awake_ns,
        block.granted_ns,
        block.rate_bps
    )?;
    let (sinr_db, need_db) = block.sinr_db.unzip();
    write_known(out, sinr_db)?;
    out.write_all(b",")?;
    write_known(out, need_db)?;
    write!(out, ",{},{},", block.turn_ns, block.turn_last_ns)?;
    match block.turn_of {
        Some(device) => writeln!(out, "{device}"),
        None => writeln!(out, "-1"),
    }
}

/// Writes a value; a missing one is empty.
fn write_known(out: &mut impl Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    value.map_or(Ok(()), |value| write!(out, "{value}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use wavebed_link::counters::Event;
    use wavebed_link::{Ecn, Run, RunFlags};

    use wavebed_link::radio::{BlockRecord, Slot};

    use super::{
        BATCH_ROWS, BLOCKS_HEADER, LinkLog, PacketLogSender, Row, What, write_block, write_row,
    };

    const ROW: Row = Row {
        packet: 1,
        run: Run {
            at_ns: 0,
            packet: 0,
            first: 0,
            count: 1,
            segment_bytes: 100,
            last_bytes: 100,
            flow: 0,
            flip: 0,
            ecn: Ecn::NotEct,
            flags: RunFlags(0),
        },
        what: What::Link(Event::Entered),
    };

    #[test]
    fn a_row_has_time_event_segments_and_block() {
        let mut out = Vec::new();
        let events = [Event::Passed(2), Event::Sent(7)].map(What::Link);
        for what in events.into_iter().chain([What::Written]) {
            write_row(&mut out, &Row { what, ..ROW }).unwrap();
        }
        let expected = "0,passed_2,1,0,0,1,100,100,0,\n0,sent,1,0,0,1,100,100,0,7\n0,written,1,0,0,1,100,100,0,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_block_has_its_turn_and_the_device_that_was_served_before() {
        let block = BlockRecord {
            number: 4,
            slot: Slot {
                fallback: false,
                carrier: 1,
                index: 40,
                start_ns: 5_000_000,
            },
            process: 2,
            attempt: 1,
            bytes: 1500,
            failed: false,
            misheard: false,
            built_ns: 4_900_000,
            decoded_ns: 5_150_000,
            awake_ns: 10,
            granted_ns: 0,
            turn_ns: 4_000_000,
            turn_last_ns: 4_875_000,
            turn_of: Some(3),
            rate_bps: 700,
            sinr_db: None,
            contents: Vec::new(),
        };
        let without = BlockRecord {
            turn_ns: 0,
            turn_last_ns: 0,
            turn_of: None,
            ..block.clone()
        };
        let mut out = Vec::new();
        write_block(&mut out, &block).unwrap();
        write_block(&mut out, &without).unwrap();
        let start = "5000000,5150000,4,1,2,1,0,1500,0,0,10,0,700,,";
        let expected = format!("{start},4000000,4875000,3\n{start},0,0,-1\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let columns = BLOCKS_HEADER.matches(',').count();
        assert_eq!(expected.matches(',').count(), 2 * columns);
    }

    #[test]
    fn what_a_slow_writer_cannot_take_is_left_out_and_counted() {
        let (sender, receiver) = sync_channel(2);
        let mut log = LinkLog::new(PacketLogSender { sender }, 0);
        log.rows = vec![ROW; 3 * BATCH_ROWS + 5];
        log.send();
        assert_eq!(log.lost_rows(), BATCH_ROWS as u64 + 5);
        let taken: Vec<usize> = receiver.try_iter().map(|batch| batch.rows.len()).collect();
        assert_eq!(taken, [BATCH_ROWS; 2]);
        log.rows = vec![ROW; 7];
        log.send();
        assert_eq!(receiver.try_iter().count(), 1);
        drop(receiver);
        log.rows = vec![ROW; 7];
        log.send();
        assert_eq!(log.lost_rows(), BATCH_ROWS as u64 + 12);
    }
}
