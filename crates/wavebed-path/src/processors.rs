//! Processor usage from `/proc/stat`. The kernel counts in ticks, usually of 10 ms.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How busy a processor was since the last reading, as fractions of the time, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Everything but idling and waiting for a disk.
    pub busy: f64,
    /// Network and timers in the kernel.
    pub softirq: f64,
}

/// Ticks of a processor: user, nice, system, idle, iowait, irq, softirq, steal. Guests are in user and nice already.
type Ticks = [u64; 8];
const IDLE: usize = 3;
const IOWAIT: usize = 4;
const SOFTIRQ: usize = 6;

/// The counters of all processors.
pub struct Processors {
    file: File,
    text: Vec<u8>,
    /// By number of the processor.
    last: Vec<Option<Ticks>>,
}

impl Processors {
    /// Reads the counters for the first time.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn open() -> io::Result<Self> {
        let mut processors = Self {
            file: File::open("/proc/stat")?,
            text: vec![0; 1 << 14],
            last: Vec::new(),
        };
        processors.read(|_, _| ())?;
        Ok(processors)
    }

    /// Calls `each` with the number and usage of every processor whose counters advanced.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn read(&mut self, mut each: impl FnMut(usize, Usage)) -> io::Result<()> {
        // The lines of processors come first; the rest may be cut off.
        let mut length = self.file.read_at(&mut self.text, 0)?;
        while length == self.text.len() && !has_them_all(&self.text) {
            self.text.resize(2 * length, 0);
            length = self.file.read_at(&mut self.text, 0)?;
        }
        for line in self.text[..length].split(|byte| *byte == b'\n') {
            let Some((core, ticks)) = processor(line) else {
                continue;
            };
            if self.last.len() <= core {
                self.last.resize(core + 1, None);
            }
            let before = self.last[core].replace(ticks);
            if let Some(usage) = before.and_then(|before| usage(&before, &ticks)) {
                each(core, usage);
            }
        }
        Ok(())
    }
}

fn has_them_all(text: &[u8]) -> bool {
    text.windows(5).any(|five| five == b"\nintr")
}

/// The number and ticks of `cpuN …`; the line of all processors has no number.
fn processor(line: &[u8]) -> Option<(usize, Ticks)> {
    let text = std::str::from_utf8(line.strip_prefix(b"cpu")?).ok()?;
    let mut words = text.split_ascii_whitespace();
    let core = words.next().filter(|_| !text.starts_with(' '))?;
    let core: usize = core.parse().ok().filter(|core| *core < 1 << 16)?;
    let mut ticks = Ticks::default();
    for place in &mut ticks {
        *place = words.next()?.parse().ok()?;
    }
    Some((core, ticks))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ticks of an interval fit an f64"
)]
fn usage(before: &Ticks, after: &Ticks) -> Option<Usage> {
    // The kernel's idle time may go back by a tick.
    let spent = |place: usize| after[place].saturating_sub(before[place]) as f64;
    let all: f64 = (0..after.len()).map(spent).sum();
    (all > 0.0).then(|| Usage {
        busy: (all - spent(IDLE) - spent(IOWAIT)) / all,
        softirq: spent(SOFTIRQ) / all,
    })
}

#[cfg(test)]
mod tests {
    use wavebed_os::clock::thread_cpu_ns;

    use super::{Processors, Usage, processor, usage};

    #[test]
    fn idle_and_iowait_are_not_busy() {
        let before = [10; 8];
        let after = [12, 10, 11, 14, 11, 10, 12, 10];
        let found = usage(&before, &after).unwrap();
        assert_eq!(
            found,
            Usage {
                busy: 0.5,
                softirq: 0.2
            }
        );
        assert_eq!(usage(&before, &before), None, "no time went by");
    }

    #[test]
    fn lines_of_single_processors_are_read() {
        let line = b"cpu11 1 2 3 4 5 6 7 8 9 10";
        assert_eq!(processor(line), Some((11, [1, 2, 3, 4, 5, 6, 7, 8])));
        for other in [
            &b"cpu  1 2 3 4 5 6 7 8 9 10"[..],
            b"cpu1 2 3",
            b"intr 5",
            b"",
            b"cpu9 a b",
        ] {
            assert_eq!(processor(other), None);
        }
    }

    #[test]
    fn a_spinning_processor_is_busy() {
        let mut processors = Processors::open().unwrap();
        // Of the processor's time; others may take some.
        let end_ns = thread_cpu_ns() + 60_000_000;
        while thread_cpu_ns() < end_ns {
            std::hint::spin_loop();
        }
        let mut busiest = 0.0_f64;
        processors
            .read(|_, usage| busiest = busiest.max(usage.busy))
            .unwrap();
        assert!(busiest > 0.3, "{busiest}");
    }
}
