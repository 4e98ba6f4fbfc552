//! Datagrams at a steady rate through the tunnel, and when they arrive.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::tunnel_ends::host::Host;

/// Each flow has a port of its own, from here on.
static PORT: AtomicU16 = AtomicU16::new(6000);

/// A flow in one direction only.
pub struct Flow {
    ended: &'static AtomicBool,
    arrivals: mpsc::Receiver<Instant>,
    lateness: JoinHandle<Vec<(Instant, Duration)>>,
}

/// How late a thread is woken that sleeps a millisecond, each time: what the machine adds to a gap.
fn lateness(ended: &AtomicBool) -> Vec<(Instant, Duration)> {
    let nap = Duration::from_millis(1);
    let mut all = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let before = Instant::now();
        thread::sleep(nap);
        all.push((before, before.elapsed().saturating_sub(nap)));
    }
    all
}

/// Looks at the machine until the returned function is called: how late a thread was woken at most.
pub fn watch_lateness() -> impl FnOnce() -> Duration {
    let ended: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let naps = thread::spawn(|| lateness(ended));
    move || {
        ended.store(true, Ordering::Relaxed);
        let naps = naps.join().expect("no panic").into_iter();
        naps.map(|(_, late)| late).max().unwrap_or_default()
    }
}

impl Flow {
    /// Starts a flow to `address` of `to`.
    pub fn start(from: &Host, to: &Host, address: &'static str, every: Duration) -> Self {
        // A thread of a host outlives the value: a few bytes of a test.
        let ended: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let receiver = to.run(move || UdpSocket::bind((address, port)).expect("a socket"));
        let limit = Some(Duration::from_millis(50));
        receiver.set_read_timeout(limit).expect("set");
        let sender = from.run(|| UdpSocket::bind("0.0.0.0:0").expect("a socket"));
        let (tell, arrivals) = mpsc::channel();
        thread::spawn(move || {
            let mut datagram = [0; 200];
            while !ended.load(Ordering::Relaxed) {
                if receiver.recv_from(&mut datagram).is_ok() {
                    let _ = tell.send(Instant::now());
                }
            }
        });
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let _ = sender.send_to(&[0; 200], (address, port));
                thread::sleep(every);
            }
        });
        let lateness = thread::spawn(|| lateness(ended));
        Self {
            ended,
            arrivals,
            lateness,
        }
    }

    /// Waits until a datagram arrives a tenth of a second or more after `since`, when none is left of the path before.
    pub fn goes_on(self, since: Instant, patience: Duration) {
        let new = since + Duration::from_millis(100);
        let limit = Instant::now() + patience;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            let at = self.arrivals.recv_timeout(left).expect("an arrival");
            if at >= new {
                break;
            }
        }
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Ends the flow; the longest time without an arrival in the second after `since`, and the greatest lateness of the
    /// machine in it.
    pub fn gap(self, since: Instant) -> (Duration, Duration) {
        let second = Duration::from_secs(1);
        let end = since + second;
        // What the second lets through may wait in a queue for a while.
        thread::sleep((end + second).saturating_duration_since(Instant::now()));
        self.ended.store(true, Ordering::Relaxed);
        let arrivals = self.arrivals.iter().filter(|at| (since..end).contains(at));
        let times: Vec<Instant> = [since].into_iter().chain(arrivals).chain([end]).collect();
        let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        let naps = self.lateness.join().expect("no panic");
        let naps = naps.into_iter().filter(|(at, _)| (since..end).contains(at));
        let late = naps.map(|(_, late)| late).max();
        (gap.expect("two times"), late.unwrap_or(second))
    }
}
