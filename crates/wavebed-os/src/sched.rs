//! Real-time scheduling without starving the machine.
//!
//! A thread under `SCHED_FIFO` wakes within tens of microseconds even beside busy processes. Three guards prevent it
//! from starving the machine: the kernel's throttle for real-time threads must be on; the loop leaves `SCHED_FIFO` when
//! it was busy for too long; otherwise `RLIMIT_RTTIME` makes the kernel send `SIGXCPU`, whose handler does it.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use std::{fs, io, mem};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, getrlimit, setpriority_process, setrlimit, setsid};
use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_current_timer_slack};

use crate::error::check;

/// The requested scheduling of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Real-time priority, 1 (lowest) to 99; `None` for the normal scheduler.
    pub fifo_priority: Option<i32>,
    /// The processor to stay on; `None` for any.
    pub cpu: Option<usize>,
}

impl Default for Options {
    /// The lowest real-time priority on any processor.
    fn default() -> Self {
        Self {
            fifo_priority: Some(1),
            cpu: None,
        }
    }
}

/// The granted scheduling of the calling thread.
#[derive(Debug)]
pub struct Granted {
    /// Timer slack is 1 ns.
    pub exact_timers: bool,
    /// The real-time priority, if there is one.
    pub fifo_priority: Option<i32>,
    /// Why real time or the processor was refused.
    pub refused: Option<String>,
    /// The processor that the thread stays on.
    pub cpu: Option<usize>,
    stepped_down: bool,
    thread: i32,
}

/// Busy time without a pause after which the kernel itself steps a real-time thread down, microseconds.
const BUSY_LIMIT_US: u64 = 2_000_000;

/// Nice value of a thread in the normal scheduler, also after it left `SCHED_FIFO`: it has priority without starving
/// others.
const NORMAL_NICE: i32 = -20;

/// The policy of a thread that left `SCHED_FIFO`. Only root may take the flag away, and `RLIMIT_RTPRIO` lets others have
/// real-time priorities.
const STEPPED_DOWN: i32 = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;

/// Threads under `SCHED_FIFO`, for the handler of `SIGXCPU`, which may run on any thread.
static GUARDED: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];

/// Gives the calling process priority where the scheduler weighs sessions first (`sched_autogroup_enabled`): it gets a
/// new session with the weight of its threads. Refused without root, which shows in lateness.
pub fn leave_session() {
    if setsid().is_ok() {
        let _ = fs::write("/proc/self/autogroup", NORMAL_NICE.to_string());
    }
}

/// Prepares the calling thread to wake on time: timer slack, then the `options`, where allowed.
#[must_use]
pub fn prepare_thread(options: Options) -> Granted {
    let id = gettid();
    let thread = id.as_raw_pid();
    let mut granted = Granted {
        exact_timers: set_current_timer_slack(NonZeroU64::new(1)).is_ok(),
        fifo_priority: None,
        refused: None,
        cpu: None,
        stepped_down: false,
        thread,
    };
    if let Some(cpu) = options.cpu {
        match pin(cpu) {
            Ok(()) => granted.cpu = Some(cpu),
            Err(error) => granted.refused = Some(format!("processor {cpu}: {error}")),
        }
    }
    // For threads without a real-time priority, and after a step down; a refusal shows in lateness.
    let _ = setpriority_process(Some(id), NORMAL_NICE);
    if let Some(priority) = options.fifo_priority {
        match enter_fifo(thread, priority) {
            Ok(()) => granted.fifo_priority = Some(priority),
            Err(reason) => granted.refused = Some(reason),
        }
    }
    granted
}

impl Granted {
    /// Whether the thread runs under `SCHED_FIFO` now.
    #[must_use]
    pub const fn is_real_time(&self) -> bool {
        self.fifo_priority.is_some() && !self.stepped_down
    }

    /// Returns to the normal scheduler until [`Granted::step_up`], so that other threads get the processor.
    ///
    /// # Errors
    /// The error of `sched_setscheduler(2)`.
    pub fn step_down(&mut self) -> io::Result<()> {
        if !self.is_real_time() {
            return Ok(());
        }
        // The kernel's count of busy time starts again only at a wake-up under SCHED_FIFO: sleep for an instant.
        std::thread::sleep(Duration::from_nanos(1));
        set_policy(self.thread, STEPPED_DOWN, 0)?;
        self.stepped_down = true;
        Ok(())
    }

    /// Returns to `SCHED_FIFO`, if that was granted (also after the `SIGXCPU` handler left it).
    ///
    /// # Errors
    /// The error of `sched_setscheduler(2)`.
    pub fn step_up(&mut self) -> io::Result<()> {
        if let Some(priority) = self.fifo_priority {
            set_policy(
                self.thread,
                libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
                priority,
            )?;
            self.stepped_down = false;
        }
        Ok(())
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if self.fifo_priority.is_some() {
            for slot in &GUARDED {
                let _ = slot.compare_exchange(self.thread, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

fn enter_fifo(thread: i32, priority: i32) -> Result<(), String> {
    if !throttle_is_on() {
        return Err("SCHED_FIFO is not used: kernel.sched_rt_runtime_us is -1, so a busy thread could starve \
                    the machine; set it to 950000"
            .to_owned());
    }
    guard(thread)?;
    set_policy(
        thread,
        libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
        priority,
    )
    .map_err(|error| {
        format!("SCHED_FIFO is not allowed ({error}): run as root or raise RLIMIT_RTPRIO")
    })
}

/// Pins thread `thread` of any process to processor `cpu`, under `SCHED_FIFO` with priority `fifo_priority`, or under
/// the normal scheduler.
///
/// # Errors
/// There is no such thread or processor, or the caller may not.
pub fn place_thread(thread: i32, cpu: usize, fifo_priority: Option<i32>) -> io::Result<()> {
    pin_thread(thread, cpu)?;
    match fifo_priority {
        Some(priority) => set_policy(thread, libc::SCHED_FIFO, priority),
        None => set_policy(thread, libc::SCHED_OTHER, 0),
    }
}

/// Whether the kernel reserves a fraction of each second for normal threads.
#[must_use]
pub fn throttle_is_on() -> bool {
    match fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us") {
        Ok(text) => text.trim().parse::<i64>().is_ok_and(|value| value >= 0),
        Err(_) => false,
    }
}

/// Arms the last guard for `thread`: a busy-time limit, and the handler that steps it down.
fn guard(thread: i32) -> Result<(), String> {
    let free = GUARDED.iter().any(|slot| {
        slot.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    });
    if !free {
        return Err("SCHED_FIFO is not used: 16 threads have it already".to_owned());
    }
    // SAFETY: `action` is valid for the call; the handler makes one system call and touches only atomics, which is
    // allowed in a signal handler.
    let handled = check(unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = step_all_down as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXCPU, &raw const action, std::ptr::null_mut())
    });
    let mut limit = getrlimit(Resource::Rttime);
    limit.current = Some(BUSY_LIMIT_US.min(limit.maximum.unwrap_or(u64::MAX)));
    handled
        .and_then(|_| Ok(setrlimit(Resource::Rttime, limit)?))
        .map_err(|error| format!("SCHED_FIFO is not used: no busy-time limit: {error}"))
}

/// Lifts the soft busy-time limit again, for programs that are started from a guarded process.
pub fn lift_busy_limit() {
    let mut limit = getrlimit(Resource::Rttime);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Rttime, limit);
}

/// Lets the process open as many files as it is allowed: the logs of many links are some hundreds.
pub fn open_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

extern "C" fn step_all_down(_signal: libc::c_int) {
    for slot in &GUARDED {
        let thread = slot.load(Ordering::Relaxed);
        if thread != 0 {
            let _ = set_policy(thread, STEPPED_DOWN, 0);
        }
    }
}

fn set_policy(thread: i32, policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: all zeros is a valid sched_param, and it is valid for the call.
    let answer = unsafe {
        let mut parameter: libc::sched_param = mem::zeroed();
        parameter.sched_priority = priority;
        libc::sched_setscheduler(thread, policy, &raw const parameter)
    };
    check(answer).map(drop)
}

fn pin(cpu: usize) -> io::Result<()> {
    pin_thread(0, cpu)
}

fn pin_thread(thread: i32, cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(Pid::from_raw(thread), &set)?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::confinement::{Set, keep};

    fn policy() -> i32 {
        // SAFETY: 0 names the calling thread.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn a_thread_steps_down_and_up_again() {
        std::thread::spawn(|| {
            let mut granted = prepare_thread(Options::default());
            assert!(granted.exact_timers);
            if granted.fifo_priority.is_none() {
                assert!(granted.refused.is_some(), "a refusal has a reason");
                return;
            }
            assert_eq!(policy(), libc::SCHED_FIFO);
            granted.step_down().expect("down");
            assert_eq!(policy(), libc::SCHED_OTHER);
            granted.step_up().expect("up");
            assert_eq!(policy(), libc::SCHED_FIFO);
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn a_thread_without_rights_steps_down() {
        std::thread::spawn(|| {
            let mut granted = prepare_thread(Options::default());
            keep(Set::empty()).expect("of this thread alone");
            granted.step_down().expect("down");
            assert_eq!(policy(), libc::SCHED_OTHER);
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn a_runaway_thread_is_stepped_down_by_the_kernel() {
        std::thread::spawn(|| {
            let granted = prepare_thread(Options::default());
            if granted.fifo_priority.is_none() {
                return;
            }
            let start = Instant::now();
            while policy() == libc::SCHED_FIFO && start.elapsed() < Duration::from_secs(10) {}
            assert_eq!(policy(), libc::SCHED_OTHER);
        })
        .join()
        .expect("thread");
    }
}
