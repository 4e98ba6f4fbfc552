//! The loop that all senders of user space share: wait until a batch is due, hand it over, note how late it was.

use std::hint;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wavebed_os::clock::{monotonic_ns, sleep_until};
use wavebed_os::packet_socket::MAX_BATCH;

use crate::frame::Frames;
use crate::sender::{Job, Sent};

/// A batch that leaves later than this is counted (see [`Sent::late_batches`]).
const LATE_NS: u64 = 100_000;
/// Waits longer than this begin with sleep; shorter ones burn the processor.
const SLEEP_OVER_NS: u64 = 200_000;
/// How long before a batch is due the sleep ends: a normal thread's timer slack (50 µs), and as much again to wake up.
const WAKE_BEFORE_NS: u64 = 100_000;
/// How soon a sleep sees that it is to stop.
const LONGEST_SLEEP_NS: u64 = 20_000_000;

/// Sends the frames of `job` by `hand_over`, which is given the numbers of frames to send and the time, and answers how
/// many of them the interface took, in order. The others are tried again: no number is left out.
///
/// Lateness is the lateness of a batch's last try, and known only of a job with a pace.
///
/// # Errors
/// The errors of `hand_over`.
pub(crate) fn send_paced<E>(
    job: &Job,
    stop: &AtomicBool,
    mut hand_over: impl FnMut(Range<u64>, u64) -> Result<u64, E>,
) -> Result<Sent, E> {
    let batch = u64::from(job.batch).clamp(1, MAX_BATCH as u64);
    let mut sent = Sent::default();
    let mut last_ns = job.start_ns;
    while sent.frames < job.frames {
        let due_ns = job.due_ns(sent.frames);
        let end = job.frames.min(sent.frames + batch);
        let Some(mut now_ns) = wait(due_ns, job, stop) else {
            break;
        };
        loop {
            sent.frames += hand_over(sent.frames..end, now_ns)?;
            last_ns = now_ns;
            if sent.frames == end {
                break;
            }
            // What must make room may need this processor.
            thread::yield_now();
            now_ns = monotonic_ns();
            if given_up(now_ns, job, stop) {
                break;
            }
        }
        sent.batches += 1;
        if job.interval_q32 > 0 {
            let late_ns = now_ns - due_ns;
            sent.late_max_ns = sent.late_max_ns.max(late_ns);
            sent.late_batches += u64::from(late_ns > LATE_NS);
        }
    }
    if sent.frames > 0 {
        last_ns = last_ns.max(monotonic_ns());
    }
    sent.took_ns = last_ns - job.start_ns;
    Ok(sent)
}

/// Waits until `due_ns` and answers the time; `None` if the job was given up before.
fn wait(due_ns: u64, job: &Job, stop: &AtomicBool) -> Option<u64> {
    loop {
        let now_ns = monotonic_ns();
        if given_up(now_ns, job, stop) {
            return None;
        }
        let left_ns = due_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            return Some(now_ns);
        }
        if left_ns > SLEEP_OVER_NS {
            sleep_until(now_ns + (left_ns - WAKE_BEFORE_NS).min(LONGEST_SLEEP_NS));
        } else {
            hint::spin_loop();
        }
    }
}

fn given_up(now_ns: u64, job: &Job, stop: &AtomicBool) -> bool {
    now_ns >= job.deadline_ns || stop.load(Ordering::Relaxed)
}

/// Refuses frames that are longer than `interface` takes.
///
/// # Errors
/// `EMSGSIZE`, with the lengths.
pub(crate) fn check_longest(
    frames: &Frames,
    longest: usize,
    interface: &str,
) -> wavebed_os::Result<()> {
    if frames.longest() <= longest {
        return Ok(());
    }
    Err(wavebed_os::Error {
        operation: "send",
        object: format!(
            "frames of {} bytes through {interface}, which takes {longest}",
            frames.longest()
        ),
        source: io::Error::from_raw_os_error(EMSGSIZE),
    })
}

/// "Message too long" of Linux.
const EMSGSIZE: i32 = 90;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::pace::interval_q32;

    fn job(frames: u64, rate_pps: Option<f64>, batch: u32) -> Job {
        let now = monotonic_ns();
        Job {
            trial: 1,
            frames,
            interval_q32: rate_pps.map_or(0, |rate| interval_q32(rate).expect("a rate")),
            batch,
            start_ns: now,
            deadline_ns: now + 60_000_000_000,
        }
    }

    /// All numbers that were taken, when the interface takes at most `takes(try)` of a batch.
    fn taken(job: &Job, mut takes: impl FnMut(u64) -> u64) -> (Vec<u64>, Sent) {
        let mut numbers = Vec::new();
        let mut tries = 0;
        let sent = send_paced(job, &AtomicBool::new(false), |range, _| {
            let count = takes(tries).min(range.end - range.start);
            tries += 1;
            numbers.extend(range.start..range.start + count);
            Ok::<u64, ()>(count)
        });
        (numbers, sent.expect("no error"))
    }

    #[test]
    fn what_was_not_taken_is_tried_again_and_no_number_is_left_out() {
        let (numbers, sent) = taken(&job(1000, None, 7), |n| n % 4);
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert_eq!((sent.frames, sent.batches), (1000, 143));
    }

    #[test]
    fn a_batch_never_leaves_before_its_first_frame_is_due() {
        let job = job(40, Some(2000.0), 4);
        let sent = send_paced(&job, &AtomicBool::new(false), |range, now_ns| {
            assert!(now_ns >= job.due_ns(range.start));
            Ok::<u64, ()>(range.end - range.start)
        })
        .expect("no error");
        assert!(sent.took_ns >= 18_000_000, "ten batches, 2 ms apart");
        assert_eq!((sent.frames, sent.batches), (40, 10));
    }

    #[test]
    fn a_job_that_is_not_paced_is_never_late() {
        let (_, sent) = taken(&job(500, None, 1), |_| 1);
        assert_eq!((sent.late_max_ns, sent.late_batches), (0, 0));
    }

    #[test]
    fn a_batch_that_has_to_wait_for_room_is_late() {
        let job = job(1, Some(1000.0), 1);
        let sent = send_paced(&job, &AtomicBool::new(false), |_, now_ns| {
            Ok::<u64, ()>(u64::from(now_ns - job.start_ns > 3_000_000))
        })
        .expect("no error");
        assert!(sent.late_max_ns > 3_000_000, "{}", sent.late_max_ns);
        assert_eq!(sent.late_batches, 1);
    }

    #[test]
    fn the_deadline_ends_a_job_that_nobody_takes() {
        let mut job = job(10, None, 1);
        job.deadline_ns = job.start_ns + 5_000_000;
        let (numbers, sent) = taken(&job, |_| 0);
        assert_eq!((numbers.len(), sent.frames), (0, 0));
        assert!(monotonic_ns() - job.start_ns < 60_000_000_000);
    }

    #[test]
    fn a_stop_is_seen_while_the_next_frame_is_far_away() {
        // The second batch is due after 200 s, at four seconds for a frame.
        let mut job = job(51, Some(0.25), 50);
        job.deadline_ns = job.start_ns + 400_000_000_000;
        let stop = AtomicBool::new(false);
        let (tell, told) = mpsc::channel();
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| {
                send_paced(&job, &stop, |range, _| {
                    tell.send(()).expect("the test waits");
                    Ok::<u64, ()>(range.end - range.start)
                })
            });
            told.recv().expect("the first batch");
            stop.store(true, Ordering::Relaxed);
            sending.join().expect("the sender")
        });
        assert_eq!(sent.expect("no error").frames, 50);
        assert!(monotonic_ns() - job.start_ns < 60_000_000_000);
    }
}
