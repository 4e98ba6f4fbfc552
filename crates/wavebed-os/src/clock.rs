//! Clocks, in integer nanoseconds.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_timeout};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
