//! The summary of a laboratory: packets delivered, packets dropped by reason, and lateness.

use std::fmt::Write as _;

use serde::Serialize;
use wavebed_link::{Counts, Reason};
use wavebed_os::clock::Lost;

use crate::cell_account::CellAccount;
use crate::event_loop::Ended;
use crate::frames::FrameAccount;
use crate::host_counters::{HostCounters, HostCounts};
use crate::link_chain::LinkChain;
use crate::on_time::{Check, Gaps, Late, Severity};
use crate::packet_log::LinkLog;
use crate::sampler::SamplerError;
use crate::{on_time, sampler};

/// The counters of a whole laboratory.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Time zero to the end, seconds.
    pub duration_s: f64,
    /// Every link.
    pub links: Vec<LinkSummary>,
    /// Every direction of a cell that several share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellAccount>,
    /// Every direction of every leg.
    pub departures: Vec<DepartureSummary>,
    /// The frames of every direction between ports of Ethernet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FrameAccount>,
    /// Counters of the hosts.
    pub hosts: Vec<HostSummary>,
    /// Memory limit of packets in flight, bytes.
    pub packet_memory_bytes: usize,
    /// Wire segments left out of a capture.
    pub capture_dropped_segments: u64,
    /// Processor time of the event loops, seconds.
    pub cpu_s: f64,
    /// The sampler's counters; null without.
    pub sampler: Option<SamplerSummary>,
    /// Whether idle processors could be kept awake, so that threads wake up on time.
    pub kept_awake: bool,
    /// Every event loop, with its gaps.
    pub loops: Vec<LoopSummary>,
    /// Time that the machine lost during the run; null if unknown.
    pub machine: Option<MachineSummary>,
    /// Whether the engine was on time: every condition, with its evidence.
    pub checks: Vec<Check>,
    /// Missing rows and counters: a disk was full, a host's counters could not be read.
    pub missing: Vec<String>,
    /// Why the run is suspect besides `checks`, in words, `missing` included; empty when it is not.
    pub doubts: Vec<String>,
    #[serde(skip)]
    lateness: Vec<Late>,
}

/// The counters of a link.
#[derive(Debug, Serialize)]
pub struct LinkSummary {
    /// `HOP.down` or `HOP.up`.
    pub name: String,
    /// Wire segments that entered.
    pub offered_segments: u64,
    /// Their IP bytes.
    pub offered_bytes: u64,
    /// Copies made.
    pub duplicated_segments: u64,
    /// Wire segments that left at the far end.
    pub delivered_segments: u64,
    /// Their IP bytes.
    pub delivered_bytes: u64,
    /// Dropped wire segments by reason.
    pub dropped_segments: std::collections::BTreeMap<&'static str, u64>,
    /// Marked CE.
    pub marked_segments: u64,
    /// Marked segments that were ECT(1).
    pub l4s_marked_segments: u64,
    /// Dropped with ECT(1) or CE.
    pub l4s_dropped_segments: u64,
    /// With a flipped bit.
    pub corrupted_segments: u64,
    /// Transmissions of blocks of a radio, or of frames of Wi-Fi, repetitions included.
    pub blocks_sent: u64,
    /// Number of them that failed.
    pub blocks_failed: u64,
    /// Air time of the blocks of a radio: of each its part of a slot of its carrier, nanoseconds.
    pub air_ns: u64,
    /// Failures of its radio link.
    pub link_failures: u64,
    /// Still in the link at the end.
    pub queued_segments: u64,
    /// `offered + duplicated - delivered - dropped - queued`: a value other than zero is an internal error.
    pub unaccounted_segments: i64,
}

/// Packets that left one direction of a leg.
#[derive(Debug, Serialize)]
pub struct DepartureSummary {
    /// `HOST-HOST.down` or `.up`.
    pub name: String,
    /// Packets read from the input device; a super-packet counts once.
    pub packets_read: u64,
    /// Wire segments in them.
    pub segments_read: u64,
    /// Wire segments of IPv6 in the packets read.
    pub ipv6_segments_read: u64,
    /// Packets written.
    pub packets_written: u64,
    /// Wire segments lost because the output device refused them.
    pub refused_segments: u64,
    /// Median lateness by wire segment, with the wait in the input device, microseconds; null when nothing left.
    pub late_p50_us: Option<f64>,
    /// 99th percentile.
    pub late_p99_us: Option<f64>,
    /// 99.9th percentile.
    pub late_p999_us: Option<f64>,
    /// The worst.
    pub late_max_us: Option<f64>,
    /// The 99th percentile without the wait in the input device, which is known as an upper bound only.
    pub surely_late_p99_us: Option<f64>,
    /// The scheduler of the event loop.
    pub scheduler: String,
    /// How often the busy loop left `SCHED_FIFO` for a while.
    pub step_downs: u64,
}

/// An event loop.
#[derive(Debug, Serialize)]
pub struct LoopSummary {
    /// Its directions.
    pub name: String,
    /// Periods above 1 ms in which it polled no device.
    pub gaps: Gaps,
}

/// Time that the machine lost during the run.
#[derive(Debug, Serialize)]
pub struct MachineSummary {
    /// Fraction of the time of all processors that a hypervisor gave to others; null if no time was counted.
    pub stolen_share: Option<f64>,
    /// Seconds for which it was suspended.
    pub suspended_s: f64,
    /// Movement of the time of day against the monotonic clock, seconds.
    pub clock_step_s: f64,
}

/// Counters of the sampling of TCP connections.
#[derive(Debug, Serialize)]
pub struct SamplerSummary {
    /// Sampling rounds of all hosts.
    pub rounds: u64,
    /// Rounds left out because an earlier one took too long or the machine was busy.
    pub missed: u64,
    /// Delay of a round after its due time at p99, microseconds.
    pub late_p99_us: Option<f64>,
    /// The worst.
    pub late_max_us: Option<f64>,
    /// Processor time of the sampler, seconds.
    pub cpu_s: f64,
}

/// A host.
#[derive(Debug, Serialize)]
pub struct HostSummary {
    /// The host.
    pub name: String,
    /// Its counters.
    #[serde(flatten)]
    pub counts: HostCounts,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a run fit an f64"
)]
const fn micros(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

impl Summary {
    /// A summary with the hosts' counters and the memory limit of packets in flight.
    #[must_use]
    pub fn new(hosts: &[HostCounters], packet_memory_bytes: usize) -> Self {
        let mut summary = Self {
            packet_memory_bytes,
            ..Self::default()
        };
        for host in hosts {
            match host.counts() {
                Ok(counts) => summary.add_host(host.name(), counts),
                Err(error) => {
                    summary.add_missing(format!("{}: no counters: {error}", host.name()));
                }
            }
        }
        summary
    }

    fn add_host(&mut self, name: &str, counts: HostCounts) {
        if counts.device_dropped_packets > 0 {
            self.doubts.push(format!(
                "{name}: {} packets lost at the device, before the emulated path: the machine is too slow for \
                 this traffic",
                counts.device_dropped_packets
            ));
        }
        if counts.udp_receive_buffer_errors > 0 {
            self.doubts.push(format!(
                "{name}: {} datagrams lost at full socket buffers, after the emulated path: the receiving \
                 program was too slow",
                counts.udp_receive_buffer_errors
            ));
        }
        self.hosts.push(HostSummary {
            name: name.into(),
            counts,
        });
    }

    /// Adds the counters of the directions of a loop.
    pub fn add_loop(&mut self, ended: &Ended) {
        self.duration_s = self.duration_s.max(micros(ended.ended_ns) / 1e6);
        self.cpu_s += micros(ended.cpu_ns) / 1e6;
        self.kept_awake = ended.kept_awake;
        let names: Vec<&str> = ended
            .directions
            .iter()
            .map(|attached| attached.name.as_str())
            .collect();
        self.loops.push(LoopSummary {
            name: names.join("+"),
            gaps: ended.gaps.clone(),
        });
        for attached in &ended.directions {
            let direction = &attached.direction;
            for named in direction.links() {
                let queued = named.link.backlog().segments;
                self.add_link(&named.name, named.link.counters().total(), queued);
                let lost_rows = named.log.as_ref().map_or(0, LinkLog::lost_rows);
                if lost_rows > 0 {
                    let name = &named.name;
                    self.add_missing(format!(
                        "{name}: {lost_rows} rows are missing from the packet log, not from the path: the disk was \
                         too slow"
                    ));
                }
            }
            for (name, chain) in direction.accounts() {
                let name = name.unwrap_or(&attached.name);
                self.add_departures(name, chain, ended);
                let refused = chain.account.devices.refused_segments;
                // The account of frames says why.
                if refused > 0 && direction.frames.is_none() {
                    self.doubts.push(format!(
                        "{name}: {refused} segments were refused by the receiving device"
                    ));
                }
            }
            let cell = direction.cell.as_ref();
            self.cells
                .extend(cell.and_then(|at| at.account(ended.ended_ns)));
            if let Some(account) = attached.frames() {
                self.add_frames(account);
            }
            if let Some(capture) = &attached.direction.capture {
                self.add_capture(&attached.name, capture.dropped_segments());
            }
        }
    }

    /// Adds the counters of the sampler, and its failure.
    pub fn add_sampler(&mut self, (ended, failure): (sampler::Ended, Option<SamplerError>)) {
        if let Some(error) = failure {
            self.add_unwritten("sampler", &error, "rows");
        }
        let p99_ns = ended.late.percentile(0.99);
        self.sampler = Some(SamplerSummary {
            rounds: ended.late.total(),
            missed: ended.missed,
            late_p99_us: p99_ns.map(micros),
            late_max_us: p99_ns.map(|_| micros(ended.late.worst_ns())),
            cpu_s: micros(ended.cpu_ns) / 1e6,
        });
    }

    /// Checks whether the engine was on time. All loops must have been added.
    pub fn judge_time(&mut self, lost: Option<Lost>) {
        self.checks = on_time::lateness(&self.lateness);
        self.checks
            .push(on_time::gaps(self.loops.iter().map(|each| &each.gaps)));
        let Some(lost) = lost else {
            self.doubts
                .push("/proc/stat cannot be read: stolen processor time is unknown".into());
            return;
        };
        self.checks.extend(on_time::machine(&lost, self.duration_s));
        self.machine = Some(MachineSummary {
            stolen_share: lost.stolen_fraction,
            suspended_s: micros(lost.suspended_ns) / 1e6,
            clock_step_s: micros(lost.clock_step_ns) / 1e6,
        });
    }

    /// Checks whether a packet entered a link of a laboratory, whose last hosts are these `clients`. All loops must have been
    /// added; call it after `judge_time`. Packets to nowhere and their ICMP errors alone do not count: no program was at
    /// the other end.
    pub fn judge_traffic(&mut self, clients: usize) {
        let segments: u64 = self.links.iter().map(|link| link.offered_segments).sum();
        let clients = &self.hosts[self.hosts.len().saturating_sub(clients)..];
        let ends = || self.hosts.first().into_iter().chain(clients);
        let around: u64 = clients
            .iter()
            .map(|host| host.counts.loopback_packets)
            .sum();
        let received: u64 = ends().map(|host| host.counts.received_packets).sum();
        let nowhere: u64 = ends().map(|host| host.counts.unroutable_packets).sum();
        let whose = if clients.len() > 1 {
            "devices"
        } else {
            "client"
        };
        // Each is received at one end, and its error at the other.
        let is_all = nowhere > 0 && received <= 2 * nowhere;
        let evidence = match (segments, around) {
            (0, 0) => "no packet entered the links: the programs sent none".to_owned(),
            (0, _) => format!(
                "no packet entered the links: {around} packets stayed on the loopback of the {whose}"
            ),
            _ if is_all => {
                format!("no packet entered the links but {nowhere} to addresses that no host has")
            }
            _ => format!("{segments} segments entered the links{}", self.family()),
        };
        self.checks.push(Check {
            code: "traffic",
            name: "packets crossed the path",
            holds: segments > 0 && !is_all,
            severity: Severity::Suspect,
            evidence,
        });
    }

    /// The family of what was read from the devices, as the end of a sentence; nothing if nothing was read.
    fn family(&self) -> String {
        let all: u64 = self.departures.iter().map(|each| each.segments_read).sum();
        let of_ipv6: u64 = self
            .departures
            .iter()
            .map(|each| each.ipv6_segments_read)
            .sum();
        match (all, of_ipv6) {
            (0, _) => String::new(),
            (_, 0) => ", all of IPv4".to_owned(),
            _ if of_ipv6 == all => ", all of IPv6".to_owned(),
            _ => ", of IPv4 and IPv6".to_owned(),
        }
    }

    /// Records rows that are missing on disk.
    pub fn add_unwritten(&mut self, what: &str, error: &impl std::error::Error, missing: &str) {
        self.add_missing(format!("{what}: {error}: {missing} are missing"));
    }

    fn add_missing(&mut self, line: String) {
        self.missing.push(line.clone());
        self.doubts.push(line);
    }

    fn add_capture(&mut self, name: &str, dropped_segments: u64) {
        self.capture_dropped_segments += dropped_segments;
        if dropped_segments > 0 {
            self.doubts.push(format!(
                "{name}: {dropped_segments} segments are missing from the capture, not from the path: the disk \
                 was too slow"
            ));
        }
    }

    fn add_link(&mut self, name: &str, total: &Counts, queued_segments: u64) {
        let unaccounted = total.unaccounted_segments() - i128::from(queued_segments);
        if unaccounted != 0 {
            self.doubts.push(format!(
                "{name}: {unaccounted} segments are unaccounted for: internal error"
            ));
        }
        let refused = total.dropped[Reason::PacketMemory as usize].segments;
        if refused > 0 {
            self.doubts.push(format!(
                "{name}: {refused} segments dropped at the packet memory limit of {} MiB: the queue was shorter than \
                 configured: limit the queue, or raise packet-memory",
                self.packet_memory_bytes >> 20
            ));
        }
        self.links.push(LinkSummary {
            name: name.into(),
            offered_segments: total.offered.segments,
            offered_bytes: total.offered.bytes,
            duplicated_segments: total.duplicated.segments,
            delivered_segments: total.delivered.segments,
            delivered_bytes: total.delivered.bytes,
            dropped_segments: Reason::ALL
                .iter()
                .map(|&reason| (reason.name(), total.dropped[reason as usize].segments))
                .collect(),
            marked_segments: total.marked.segments,
            l4s_marked_segments: total.l4s_marked.segments,
            l4s_dropped_segments: total.l4s_dropped.segments,
            corrupted_segments: total.corrupted.segments,
            blocks_sent: total.blocks_sent,
            blocks_failed: total.blocks_failed,
            air_ns: total.air_ns,
            link_failures: total.link_failures,
            queued_segments,
            unaccounted_segments: i64::try_from(unaccounted).unwrap_or(i64::MAX),
        });
    }

    fn add_departures(&mut self, name: &str, chain: &LinkChain, ended: &Ended) {
        let late = &chain.account.lateness;
        let p99_ns = late.percentile(0.99);
        self.lateness.push(Late {
            at_most: late.clone(),
            surely: chain.account.surely_late.clone(),
        });
        self.departures.push(DepartureSummary {
            name: name.into(),
            packets_read: chain.account.devices.packets_read,
            segments_read: chain.account.devices.segments_read,
            ipv6_segments_read: chain.account.devices.ipv6_segments_read,
            packets_written: chain.account.devices.packets_written,
            refused_segments: chain.account.devices.refused_segments,
            late_p50_us: late.percentile(0.5).map(micros),
            late_p99_us: p99_ns.map(micros),
            late_p999_us: late.percentile(0.999).map(micros),
            late_max_us: p99_ns.map(|_| micros(late.worst_ns())),
            surely_late_p99_us: chain.account.surely_late.percentile(0.99).map(micros),
            scheduler: ended.scheduler.clone(),
            step_downs: ended.step_downs,
        });
    }

    fn add_frames(&mut self, account: FrameAccount) {
        let name = format!("{} to {}", account.from, account.to);
        let unaccounted = account.unaccounted_frames;
        if unaccounted != 0 {
            self.doubts.push(format!(
                "{name}: {unaccounted} frames are unaccounted for: internal error"
            ));
        }
        let remarks = [
            ("unread", "were not read in time: the machine is too slow"),
            (
                "no_room",
                "found no room in the queue of the port they leave by",
            ),
        ];
        for (reason, remark) in remarks {
            let frames = account.dropped(reason);
            if frames > 0 {
                self.doubts
                    .push(format!("{name}: {frames} frames {remark}"));
            }
        }
        self.frames.push(account);
    }

    /// The summary as text of several lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        for link in &self.links {
            let dropped: Vec<String> = link
                .dropped_segments
                .iter()
                .filter(|&(_, &count)| count > 0)
                .map(|(reason, count)| format!("{reason} {count}"))
                .collect();
            let dropped = if dropped.is_empty() {
                "0".into()
            } else {
                dropped.join(" + ")
            };
            let _ = write!(out, "{:<16} in {}", link.name, link.offered_segments);
            if link.duplicated_segments > 0 {
                let _ = write!(out, " + duplicated {}", link.duplicated_segments);
            }
            let _ = write!(
                out,
                " = delivered {} + dropped {dropped} + queued {}",
                link.delivered_segments, link.queued_segments
            );
            if link.marked_segments > 0 {
                let _ = write!(out, "; marked {}", link.marked_segments);
            }
            if link.l4s_marked_segments + link.l4s_dropped_segments > 0 {
                let _ = write!(
                    out,
                    " (L4S: marked {}, dropped {})",
                    link.l4s_marked_segments, link.l4s_dropped_segments
                );
            }
            if link.corrupted_segments > 0 {
                let _ = write!(out, "; corrupted {}", link.corrupted_segments);
            }
            if link.blocks_sent > 0 {
                let _ = write!(
                    out,
                    "; blocks {}, failed {}",
                    link.blocks_sent, link.blocks_failed
                );
            }
            if link.link_failures > 0 {
                let _ = write!(out, "; link failures {}", link.link_failures);
            }
            out.push('\n');
        }
        self.cells.iter().for_each(|cell| cell.write(&mut out));
        for departure in &self.departures {
            if let (Some(p50), Some(p99), Some(p999), Some(max)) = (
                departure.late_p50_us,
                departure.late_p99_us,
                departure.late_p999_us,
                departure.late_max_us,
            ) {
                let _ = writeln!(
                    out,
                    "{:<16} late p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs, worst {max:.0} µs ({})",
                    departure.name, departure.scheduler
                );
            }
        }
        for account in &self.frames {
            let _ = writeln!(out, "{}", account.text());
        }
        let counts = self.hosts.iter().map(|host| host.counts);
        let (devices, sockets) = counts.fold((0, 0), |(devices, sockets), counts| {
            (
                devices + counts.device_dropped_packets,
                sockets + counts.udp_receive_buffer_errors,
            )
        });
        let refused: u64 = self
            .departures
            .iter()
            .map(|each| each.refused_segments)
            .sum();
        let _ = writeln!(
            out,
            "outside the links: {devices} packets lost at devices on the way in, {refused} segments on the way out, \
             {sockets} datagrams at UDP sockets"
        );
        if let Some(sampler) = &self.sampler {
            let _ = writeln!(
                out,
                "sampler: {} rounds, {} missed, late at most {:.0} µs",
                sampler.rounds,
                sampler.missed,
                sampler.late_max_us.unwrap_or_default()
            );
        }
        for check in self.checks.iter().filter(|check| !check.holds) {
            let _ = writeln!(out, "{}: {}", check.severity.word(), check.evidence);
        }
        for reason in &self.doubts {
            let _ = writeln!(out, "suspect: {reason}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{HostCounts, Summary};
    use wavebed_link::Counts;

    #[test]
    fn a_laboratory_without_a_packet_on_its_links_says_where_packets_went() {
        let judged = |offered: u64, loopback_packets: u64| {
            let mut summary = Summary::default();
            let mut counts = Counts::default();
            counts.offered.segments = offered;
            summary.add_link("radio.up", &counts, offered);
            for (name, loopback_packets) in [("server", 9), ("client", loopback_packets)] {
                summary.add_host(
                    name,
                    HostCounts {
                        loopback_packets,
                        ..HostCounts::default()
                    },
                );
            }
            summary.judge_traffic(1);
            let check = summary.checks.pop().unwrap();
            (check.holds, check.evidence)
        };
        let none = "no packet entered the links: ";
        assert_eq!(judged(3, 5), (true, "3 segments entered the links".into()));
        assert_eq!(
            judged(0, 0),
            (false, format!("{none}the programs sent none"))
        );
        let around = "4 packets stayed on the loopback of the client";
        assert_eq!(judged(0, 4), (false, format!("{none}{around}")));
    }

    #[test]
    fn packets_to_nowhere_and_their_errors_are_no_traffic() {
        let judged = |at_server: (u64, u64), at_client: (u64, u64)| {
            let mut summary = Summary::default();
            let mut counts = Counts::default();
            counts.offered.segments = 30;
            summary.add_link("radio.up", &counts, 30);
            for (name, (received, unroutable)) in [
                ("server", at_server),
                ("edge", (9, 0)),
                ("client", at_client),
            ] {
                let counts = HostCounts {
                    received_packets: received,
                    unroutable_packets: unroutable,
                    ..HostCounts::default()
                };
                summary.add_host(name, counts);
            }
            summary.judge_traffic(1);
            summary.checks.pop().unwrap().holds
        };
        assert!(!judged((3, 3), (3, 0)), "the client asked three times");
        assert!(!judged((3, 3), (2, 0)), "an error was lost");
        assert!(!judged((2, 1), (2, 1)), "both asked");
        assert!(judged((4, 3), (3, 0)), "one more reached the server");
        assert!(judged((1, 0), (1, 0)), "an error in answer to a port");
        assert!(judged((0, 0), (0, 0)), "all were lost on the path");
    }

    #[test]
    fn the_text_has_blocks_for_links_that_sent_some() {
        let mut summary = Summary::default();
        let radio = Counts {
            blocks_sent: 70,
            blocks_failed: 7,
            air_ns: 8_750_000,
            ..Counts::default()
        };
        summary.add_link("radio.down", &radio, 0);
        summary.add_link("wire.down", &Counts::default(), 0);
        let broken = Counts {
            link_failures: 2,
            ..radio
        };
        summary.add_link("broken.down", &broken, 0);
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["links"][0]["blocks_sent"], 70);
        assert_eq!(json["links"][0]["blocks_failed"], 7);
        assert_eq!(json["links"][0]["air_ns"], 8_750_000);
        assert_eq!(json["links"][1]["blocks_sent"], 0);
        assert_eq!(json["links"][2]["link_failures"], 2);
        let text = summary.text();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().ends_with("; blocks 70, failed 7"));
        assert!(lines.next().unwrap().ends_with("queued 0"));
        let broken = lines.next().unwrap();
        assert!(broken.ends_with("; blocks 70, failed 7; link failures 2"));
    }
}
