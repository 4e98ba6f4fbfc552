//! Clocks in integer nanoseconds, deadlines, the machine's own lost time, and processors kept awake.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use std::{fs, io, mem, ptr};

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_timeout};

use crate::error::{Context, Result, check};

/// Reads the clock `id`.
fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that the call fills in; it keeps no pointer.
    let answer = unsafe { libc::clock_gettime(id, &raw mut time) };
    debug_assert_eq!(answer, 0, "the clocks used here always exist");
    // These clocks never run below zero.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Offset from [`monotonic_ns`] to nanoseconds since 1970 (UTC). Uses the tightest of several pairs of readings; the
/// error is below a microsecond on an idle processor.
#[must_use]
pub fn realtime_offset_ns() -> u64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..8 {
        let before = monotonic_ns();
        let real = read(libc::CLOCK_REALTIME);
        let after = monotonic_ns();
        let width = after - before;
        if width < best.0 {
            best = (width, real.saturating_sub(before + width / 2));
        }
    }
    best.1
}

/// Ticks of the kernel's timers per second (`CONFIG_HZ`): one tick is the least timeout of a socket, which the kernel
/// rounds up and gives back in microseconds. Unlike `CONFIG_HZ`, this is there on every machine; `sysconf(_SC_CLK_TCK)`
/// is a constant of the interface, 100.
///
/// # Errors
/// The error of setsockopt(2).
pub fn ticks_per_s() -> io::Result<u32> {
    let socket = UnixDatagram::unbound()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_micros(1)))?;
    let tick = socket_timeout(&socket, Timeout::Recv)?;
    Ok(per_second(tick.unwrap_or(Duration::ZERO)))
}

/// How many of `tick`, which was rounded down to microseconds, make a second.
fn per_second(tick: Duration) -> u32 {
    let micros = tick.as_micros().max(1);
    u32::try_from((1_000_000 + micros / 2) / micros).unwrap_or(u32::MAX)
}

/// How long the machine was suspended since boot, nanoseconds: `CLOCK_BOOTTIME` includes suspension, `CLOCK_MONOTONIC`
/// does not. The error is the time between the two readings.
#[must_use]
pub fn suspended_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME).saturating_sub(monotonic_ns())
}

/// Processor time that the calling thread has used, nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until [`monotonic_ns`] reads `deadline_ns` or later.
pub fn sleep_until(deadline_ns: u64) {
    let deadline = timespec(deadline_ns);
    // SAFETY: `deadline` is valid for the call; no remainder is asked for with an absolute time.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const deadline,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// `ns` as seconds and nanoseconds.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// The kernel kills the process (`SIGKILL`) when it has not put this off in time. A stopped process cannot put it off. Not
/// inherited by children.
#[derive(Debug)]
pub struct Deadline {
    timer: libc::timer_t,
}

impl Deadline {
    /// A deadline of the calling process, not set yet.
    ///
    /// # Errors
    /// The kernel has no timer left.
    pub fn new() -> Result<Self> {
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: all zeros is a valid sigevent; both values are valid for the call, which keeps no pointer.
        let answer = unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        check(answer).during("make", "a timer")?;
        Ok(Self { timer })
    }

    /// Puts it off to `nanoseconds` from now.
    ///
    /// # Errors
    /// None on Linux.
    pub fn put_off(&self, nanoseconds: u64) -> io::Result<()> {
        let whole = libc::timespec {
            tv_sec: i64::try_from(nanoseconds / SECOND_NS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanoseconds % SECOND_NS).unwrap_or_default(),
        };
        let once = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: whole,
        };
        // SAFETY: the timer exists until `self` is dropped; the value is valid for the call, which keeps no pointer.
        let answer =
            unsafe { libc::timer_settime(self.timer, 0, &raw const once, ptr::null_mut()) };
        check(answer).map(drop)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: the timer is this process's own and is not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The machine's clocks and counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Processor time since boot, all processors, ticks.
    total_ticks: u64,
    /// The part of it that a hypervisor gave to others, ticks.
    stolen_ticks: u64,
    /// Boot time minus monotonic time: total suspension since boot.
    suspended_ns: u64,
    /// Time of day minus monotonic time.
    realtime_offset_ns: u64,
}

/// Lost time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// Fraction of the time of all processors that a hypervisor gave to others; `None` if no tick has passed.
    pub stolen_fraction: Option<f64>,
    /// How long the machine was suspended, nanoseconds.
    pub suspended_ns: u64,
    /// By how much the time of day was set, nanoseconds; small values come from clock steering.
    pub clock_step_ns: u64,
}

impl MachineTime {
    /// Reads the clocks and counters.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn now() -> io::Result<Self> {
        let (total_ticks, stolen_ticks) = ticks(&fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| io::Error::other("/proc/stat: no line of all processors"))?;
        Ok(Self {
            total_ticks,
            stolen_ticks,
            suspended_ns: suspended_ns(),
            realtime_offset_ns: realtime_offset_ns(),
        })
    }

    /// Lost time between `earlier` and this moment.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run")]
    pub fn since(&self, earlier: &Self) -> Lost {
        let total = self.total_ticks.saturating_sub(earlier.total_ticks);
        let stolen = self.stolen_ticks.saturating_sub(earlier.stolen_ticks);
        Lost {
            stolen_fraction: (total > 0).then(|| stolen as f64 / total as f64),
            suspended_ns: self.suspended_ns.saturating_sub(earlier.suspended_ns),
            clock_step_ns: self.realtime_offset_ns.abs_diff(earlier.realtime_offset_ns),
        }
    }
}

/// All ticks and stolen ticks of the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal
/// (guest time is part of user time).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let values = stat.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<u64> = values
        .split_whitespace()
        .take(8)
        .map_while(|value| value.parse().ok())
        .collect();
    (values.len() >= 4).then(|| (values.iter().sum(), values.get(7).copied().unwrap_or(0)))
}

/// The device that takes a bound on the wake-up time of idle processors (PM `QoS`; kernel
/// documentation, `power/pm_qos_interface`).
pub const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// The value without a bound, microseconds (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_BOUND_US: i32 = 2_000_000_000;

/// A bound on the wake-up time of idle processors, which can be lifted and set again. The kernel removes it when the
/// file is closed, on any end of the process.
#[derive(Debug)]
pub struct Awake {
    request: File,
    bound: bool,
}

impl Awake {
    /// Sets a bound of zero: idle processors spin.
    ///
    /// # Errors
    /// The device does not exist, or only root may open it.
    pub fn request() -> io::Result<Self> {
        let request = OpenOptions::new().write(true).open(LATENCY_DEVICE)?;
        let mut awake = Self {
            request,
            bound: false,
        };
        awake.set(true)?;
        Ok(awake)
    }

    /// Sets the bound to zero, or lifts it.
    ///
    /// # Errors
    /// The error of write(2).
    pub fn set(&mut self, bound: bool) -> io::Result<()> {
        if bound != self.bound {
            let value_us = if bound { 0 } else { NO_BOUND_US };
            self.request.write_all(&value_us.to_ne_bytes())?;
            self.bound = bound;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process;

    #[test]
    fn monotonic_time_never_goes_back() {
        let mut last = monotonic_ns();
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn ticks_are_those_of_a_kernel() {
        let rates = [100, 250, 300, 1000];
        for rate in rates {
            assert_eq!(
                per_second(Duration::from_micros(u64::from(1_000_000 / rate))),
                rate
            );
        }
        assert!(rates.contains(&ticks_per_s().expect("a socket")));
    }

    #[test]
    fn the_offset_gives_the_time_of_day() {
        let ours = monotonic_ns() + realtime_offset_ns();
        let theirs = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos();
        assert!(u128::from(ours).abs_diff(theirs) < 1_000_000_000);
    }

    const MS: u64 = 1_000_000;

    /// What is left of a timer, nanoseconds; `None` if there is no such timer.
    fn left_ns(timer: libc::timer_t) -> Option<u64> {
        // SAFETY: all zeros is a valid itimerspec; the kernel knows the number of a timer that is gone as no timer.
        let left = unsafe {
            let mut left: libc::itimerspec = mem::zeroed();
            (libc::timer_gettime(timer, &raw mut left) == 0).then_some(left.it_value)
        };
        left.map(|left| left.tv_sec.cast_unsigned() * SECOND_NS + left.tv_nsec.cast_unsigned())
    }

    #[test]
    fn a_deadline_is_put_off_and_ends_with_its_value() {
        let deadline = Deadline::new().unwrap();
        let timer = deadline.timer;
        assert_eq!(left_ns(timer), Some(0), "not set yet");
        // Long: at its deadline the kernel would kill all tests of this program.
        for seconds in [1000, 2000, 500] {
            deadline.put_off(seconds * SECOND_NS).unwrap();
            let left_ns = left_ns(timer).unwrap();
            let least_ns = (seconds - 400) * SECOND_NS;
            assert!(
                (least_ns..=seconds * SECOND_NS).contains(&left_ns),
                "{left_ns}"
            );
        }
        drop(deadline);
        assert_eq!(left_ns(timer), None);
    }

    #[test]
    fn a_stopped_process_is_killed_at_its_deadline() {
        // The harness has threads; a program of its own has one.
        if std::env::var_os("WAVEBED_DEADLINE").is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "clock::tests::a_stopped_process_is_killed_at_its_deadline";
            let done = std::process::Command::new(own)
                .args(["--exact", name, "--test-threads=1", "--nocapture"])
                .env("WAVEBED_DEADLINE", "1")
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(
                !done.status.success() && told.contains("stops itself"),
                "{told}"
            );
            return;
        }
        let deadline = Deadline::new().unwrap();
        println!("stops itself");
        deadline.put_off(100 * MS).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        process::kill(own, libc::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_secs(10));
    }

    #[test]
    fn steal_time_is_the_eighth_value() {
        let stat = "cpu  10 1 20 60 2 3 4 50 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(ticks(stat), Some((150, 50)));
        assert_eq!(ticks("intr 5"), None);
    }

    #[test]
    fn suspension_and_stolen_time_are_detected() {
        let before = MachineTime {
            total_ticks: 1_000,
            stolen_ticks: 10,
            suspended_ns: 5,
            realtime_offset_ns: 1_000,
        };
        let after = MachineTime {
            total_ticks: 1_200,
            stolen_ticks: 60,
            suspended_ns: 3_000_000_005,
            realtime_offset_ns: 900,
        };
        let lost = after.since(&before);
        assert_eq!(lost.stolen_fraction, Some(0.25));
        assert_eq!(lost.suspended_ns, 3_000_000_000);
        assert_eq!(lost.clock_step_ns, 100);
    }

    #[test]
    fn this_machine_has_the_clocks() {
        let now = MachineTime::now().expect("/proc/stat");
        assert_eq!(now.since(&now).stolen_fraction, None);
    }
}
