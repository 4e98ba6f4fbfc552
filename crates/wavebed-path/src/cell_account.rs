//! Where the slots of a cell went: what its modelled users asked for and got, and what control information took.

use std::fmt::Write as _;

use serde::Serialize;
use wavebed_link::radio::{Cell, EndedFile, UserReport};

use crate::on_time::Lateness;

/// One direction of a cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CellAccount {
    /// `CELL.down` or `CELL.up`.
    pub name: String,
    /// Time of all slots of the direction, of each carrier at each base station, nanoseconds. Devices (the `air_ns` of
    /// their links), modelled users and control information have parts of it; the rest was idle.
    pub slots_ns: u64,
    /// Time of the parts of slots that control information took, nanoseconds.
    pub control_ns: u64,
    /// The modelled users.
    pub background: Vec<UserAccount>,
}

/// A modelled user of a cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct UserAccount {
    /// Its name.
    pub name: String,
    /// Bytes that it asked for; of a full buffer, those that it got.
    pub offered_bytes: u64,
    /// Bytes that it got.
    pub served_bytes: u64,
    /// Bytes that it waits for; null of a full buffer.
    pub queued_bytes: Option<u64>,
    /// Time of its parts of the slots, nanoseconds.
    pub air_ns: u64,
    /// Files or segments that it has.
    pub files: u64,
    /// Mean time from the request of a file to its end, milliseconds; null without files.
    pub file_mean_ms: Option<f64>,
    /// The 95th percentile (at most 1/32 too high); null without files.
    pub file_p95_ms: Option<f64>,
    /// Time for which its video stood still, nanoseconds.
    pub stalled_ns: u64,
}

/// The times of the files of each modelled user, by its place.
#[derive(Clone, Debug, Default)]
pub struct FileTimes(Vec<Lateness>);

impl FileTimes {
    /// Counts files that ended.
    pub fn count(&mut self, files: &[(usize, EndedFile)]) {
        for (user, file) in files {
            if self.0.len() <= *user {
                self.0.resize_with(user + 1, Lateness::default);
            }
            self.0[*user].record(file.ended_ns.saturating_sub(file.requested_ns), 1);
        }
    }

    fn percentile_ns(&self, user: usize, fraction: f64) -> Option<u64> {
        self.0.get(user)?.percentile(fraction)
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of a run fit an f64")]
const fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl CellAccount {
    /// Writes a line for each modelled user, and one for the control information.
    pub(crate) fn write(&self, out: &mut String) {
        let percent = |time_ns: u64| 100.0 * millis(time_ns) / millis(self.slots_ns.max(1));
        // Writing to a string cannot fail.
        for user in &self.background {
            let _ = writeln!(
                out,
                "{:<16} {} {:.1} % of the slots, {} of {} bytes, files {}",
                self.name,
                user.name,
                percent(user.air_ns),
                user.served_bytes,
                user.offered_bytes,
                user.files
            );
        }
        if self.control_ns > 0 {
            let percent = percent(self.control_ns);
            let _ = writeln!(out, "{:<16} control {percent:.1} % of the slots", self.name);
        }
    }
}

impl CellAccount {
    /// Where the slots went up to `now_ns`; `None` of a cell with one device and nothing else. It must have been advanced
    /// to then.
    #[must_use]
    pub fn new(name: &str, cell: &Cell, file_times: &FileTimes, now_ns: u64) -> Option<Self> {
        if !cell.is_shared() {
            return None;
        }
        let air = cell.air(now_ns);
        let users = cell.background().into_iter().enumerate();
        let account = |(place, user): (usize, UserReport)| {
            let mean_ns = user.fared.files_ns.checked_div(user.fared.files);
            UserAccount {
                name: user.name,
                offered_bytes: user.fared.offered_bytes,
                served_bytes: user.fared.served_bytes,
                queued_bytes: user.queued_bytes,
                air_ns: user.air_ns,
                files: user.fared.files,
                file_mean_ms: mean_ns.map(millis),
                file_p95_ms: file_times.percentile_ns(place, 0.95).map(millis),
                stalled_ns: user.fared.stalled_ns,
            }
        };
        Some(Self {
            name: name.to_owned(),
            slots_ns: air.slots_ns,
            control_ns: air.control_ns,
            background: users.map(account).collect(),
        })
    }
}
