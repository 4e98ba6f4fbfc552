//! Capture of wire segments at the entry and exit of each link: pcapng with nanosecond time stamps (IETF
//! draft-ietf-opsawg-pcapng), link type RAW, every checksum complete.
//!
//! The event loop copies a packet once and passes it to a writer thread. When the thread falls behind, segments are
//! left out of the capture and counted; the receiver still gets them.

use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use wavebed_link::{Ecn, Run};
use wavebed_os::output::create_regular;
use wavebed_packet::{Shape, complete_segment, flip_bit};

use crate::pool::{Packets, Parts};

/// Runs that may wait for the writer: at 64 KiB each this bounds its memory.
const WAITING_RUNS: usize = 2_048;

struct Captured {
    point: u32,
    run: Run,
    shape: Shape,
    front: u8,
    bytes: Arc<[u8]>,
}

/// The event loop's end of a capture.
pub struct Capture {
    sender: SyncSender<Captured>,
    /// The last packet that was copied, so that several capture points cost one copy.
    last: Option<(u64, Arc<[u8]>)>,
    dropped_segments: u64,
}

/// The writer thread.
pub struct CaptureWriter {
    thread: JoinHandle<Result<(), CaptureError>>,
}

/// A capture could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct CaptureError {
    path: PathBuf,
    source: io::Error,
}

impl Capture {
    /// Sends the segments of `run`, as they are at this `point`, to the writer.
    pub fn take(&mut self, point: u32, run: &Run, packets: &Packets) {
        let packet = packets.packet(run.packet);
        let bytes = match &self.last {
            Some((serial, bytes)) if *serial == packet.serial => Arc::clone(bytes),
            _ => {
                let bytes: Arc<[u8]> = packets.bytes(run.packet).into();
                self.last = Some((packet.serial, Arc::clone(&bytes)));
                bytes
            }
        };
        let captured = Captured {
            point,
            run: *run,
            shape: packet.shape,
            front: packet.front,
            bytes,
        };
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.sender.try_send(captured)
        {
            self.dropped_segments += u64::from(lost.run.count);
        }
    }

    /// Wire segments that are not in the capture because the writer was behind or failed.
    #[must_use]
    pub const fn dropped_segments(&self) -> u64 {
        self.dropped_segments
    }
}

/// Starts a capture: `DIR/POINT.pcapng` for each point. Time zero of the laboratory is `origin_unix_ns`.
///
/// # Errors
/// When a file cannot be made.
pub fn start(
    dir: &Path,
    points: &[String],
    origin_unix_ns: u64,
) -> Result<(Capture, CaptureWriter), CaptureError> {
    let failed = |path: &Path, source| CaptureError {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut files = Vec::with_capacity(points.len());
    for point in points {
        let path = dir.join(format!("{point}.pcapng"));
        let mut file = BufWriter::with_capacity(
            1 << 20,
            create_regular(&path).map_err(|error| failed(&path, error))?,
        );
        write_head(&mut file, point).map_err(|error| failed(&path, error))?;
        files.push((path, file));
    }
    let (sender, receiver) = sync_channel(WAITING_RUNS);
    let thread = std::thread::Builder::new()
        .name("capture".into())
        .spawn(move || write_all(&receiver, &mut files, origin_unix_ns))
        .map_err(|error| failed(dir, error))?;
    Ok((
        Capture {
            sender,
            last: None,
            dropped_segments: 0,
        },
        CaptureWriter { thread },
    ))
}

impl CaptureWriter {
    /// Waits until everything sent is on disk; the [`Capture`] must have been dropped.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> Result<(), CaptureError> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn write_all(
    captured: &Receiver<Captured>,
    files: &mut [(PathBuf, BufWriter<File>)],
    origin_unix_ns: u64,
) -> Result<(), CaptureError> {
    let mut segment = Vec::new();
    for Captured {
        point,
        run,
        shape,
        front,
        bytes,
    } in captured
    {
        let (path, file) = &mut files[point as usize];
        let Some(Parts { vnet, ip, .. }) = Parts::of(&bytes, front) else {
            continue;
        };
        let marked = run.ecn == Ecn::Ce && shape.ecn != Ecn::Ce as u8;
        for index in run.first..run.end() {
            segment.clear();
            complete_segment(&vnet, ip, &shape, index, marked, &mut segment);
            if let Some(bit) = run.flipped_bit() {
                flip_bit(&mut segment, bit);
            }
            write_segment(file, origin_unix_ns + run.at_ns, &segment).map_err(|source| {
                CaptureError {
                    path: path.clone(),
                    source,
                }
            })?;
        }
    }
    for (path, file) in files {
        file.flush().map_err(|source| CaptureError {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

const LINKTYPE_RAW: u16 = 101;

/// Section header and one interface with time stamps in nanoseconds (`if_tsresol` 9).
fn write_head(out: &mut impl Write, point: &str) -> io::Result<()> {
    let mut section = Vec::new();
    section.extend(0x1a2b_3c4d_u32.to_ne_bytes());
    section.extend(1u16.to_ne_bytes());
    section.extend(0u16.to_ne_bytes());
    section.extend((-1i64).to_ne_bytes());
    option(&mut section, 4, b"wavebed");
    section.extend(0u32.to_ne_bytes());
    block(out, 0x0a0d_0d0a, &section)?;
    let mut interface = Vec::new();
    interface.extend(LINKTYPE_RAW.to_ne_bytes());
    interface.extend(0u16.to_ne_bytes());
    interface.extend(0u32.to_ne_bytes());
    option(&mut interface, 2, point.as_bytes());
    option(&mut interface, 9, &[9]);
    interface.extend(0u32.to_ne_bytes());
    block(out, 1, &interface)
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_ne_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 12).map_err(|_| io::Error::other("block too long"))?;
    out.write_all(&kind.to_ne_bytes())?;
    out.write_all(&length.to_ne_bytes())?;
    out.write_all(body)?;
    out.write_all(&length.to_ne_bytes())
}

fn write_segment(out: &mut impl Write, at_unix_ns: u64, segment: &[u8]) -> io::Result<()> {
    let length = u32::try_from(segment.len()).map_err(|_| io::Error::other("segment too long"))?;
    let padding = segment.len().next_multiple_of(4) - segment.len();
    let total = length + u32::try_from(padding).unwrap_or(0) + 32;
    let mut head = [0u8; 28];
    let fields = [
        6,
        total,
        0,
        (at_unix_ns >> 32) as u32,
        (at_unix_ns & 0xffff_ffff) as u32,
        length,
        length,
    ];
    for (place, field) in head.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    out.write_all(&head)?;
    out.write_all(segment)?;
    out.write_all(&[0u8; 3][..padding])?;
    out.write_all(&total.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::write_head;

    /// Code of the option `if_tsresol`.
    const RESOLUTION: u16 = 9;

    #[test]
    fn the_unit_of_time_stamps_is_the_nanosecond() {
        let mut head = Vec::new();
        write_head(&mut head, "radio.down").expect("memory");
        let number = |at: usize, bytes: usize| {
            let value = head[at..at + bytes].iter().rev();
            value.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let interface = number(4, 4);
        assert_eq!(number(interface, 4), 1, "an interface description");
        let mut at = interface + 16;
        while number(at, 2) != usize::from(RESOLUTION) {
            at += 4 + number(at + 2, 2).next_multiple_of(4);
        }
        assert_eq!((number(at + 2, 2), head[at + 4]), (1, 9), "10^-9 s");
    }
}
