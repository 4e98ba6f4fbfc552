//! `wavebed-path` as the laboratory's engine.

use std::sync::Arc;

use serde_json::{Value, json};
use wavebed_link::{Change, pattern::Pattern};
use wavebed_os::clock;
use wavebed_os::tun::Tun;
use wavebed_path::{HopSetup, HostBooks, Patterns, SegmentSetup, Setup, build_hops};

use crate::engine::{Engine, Setting, TEXT};
use crate::lab_file::LabFile;

/// The running engine, and its time zero.
struct PathEngine {
    engine: wavebed_path::Engine,
    origin_ns: u64,
}

/// The segments of every hop, their stages built; patterns are read here, before the laboratory exists.
///
/// # Errors
/// A stage that cannot be made, one line.
pub fn build_segments(lab: &LabFile) -> Result<Vec<Vec<SegmentSetup>>, String> {
    let mut patterns = Patterns::default();
    build_hops(&lab.hops, lab.seed, lab.mtu, &mut patterns).map_err(|error| error.to_string())
}

/// Starts the engine on these devices.
///
/// # Errors
/// A device, a log or a capture failed.
pub fn start(
    lab: &LabFile,
    segments: Vec<Vec<SegmentSetup>>,
    devices: Vec<(Tun, Tun)>,
    hosts: Vec<HostBooks>,
) -> Result<Box<dyn Engine>, String> {
    let origin_ns = clock::monotonic_ns();
    let hops = segments.into_iter().zip(devices).zip(lab.hosts.windows(2));
    let hops = hops.map(|((segments, (near, far)), ends)| HopSetup {
        name: format!("{}-{}", ends[0].name, ends[1].name),
        segments,
        near,
        far,
    });
    let setup = Setup {
        origin_ns,
        join: lab.join,
        hops: hops.collect(),
        hosts,
        log_dir: lab.log_dir.clone(),
        pcap_dir: lab.pcap_dir.clone(),
    };
    let engine = wavebed_path::Engine::start(setup).map_err(|error| error.to_string())?;
    // The laboratory is ready when every loop runs, and a loop that answers does.
    engine.show().map_err(|error| error.to_string())?;
    Ok(Box::new(PathEngine { engine, origin_ns }))
}

impl Engine for PathEngine {
    fn show(&self) -> Result<Value, String> {
        let hops = self.engine.show().map_err(|error| error.to_string())?;
        let links: Vec<Value> = hops
            .iter()
            .flat_map(|hop| &hop.links)
            .map(|link| {
                let tally = &link.tally;
                let dropped: serde_json::Map<String, Value> = wavebed_link::Reason::ALL
                    .iter()
                    .map(|reason| {
                        (
                            reason.name().to_owned(),
                            tally.dropped[*reason as usize].segments.into(),
                        )
                    })
                    .collect();
                json!({
                    "name": link.name,
                    "offered_segments": tally.offered.segments,
                    "offered_bytes": tally.offered.bytes,
                    "duplicated_segments": tally.duplicated.segments,
                    "delivered_segments": tally.delivered.segments,
                    "delivered_bytes": tally.delivered.bytes,
                    "dropped_segments": dropped,
                    "marked_segments": tally.marked.segments,
                    "corrupted_segments": tally.corrupted.segments,
                    "blocks_sent": tally.blocks_sent,
                    "blocks_failed": tally.blocks_failed,
                    "queued_segments": link.backlog.segments,
                    "queued_bytes": link.backlog.bytes,
                })
            })
            .collect();
        Ok(json!({
            "now_ns": clock::monotonic_ns() - self.origin_ns,
            "links": links,
            "in_flight_bytes": hops.iter().map(|hop| hop.in_flight_bytes).sum::<u64>(),
            "pool_bytes": hops.iter().map(|hop| hop.pool_bytes).sum::<usize>(),
        }))
    }

    fn set(&self, link: Option<&str>, change: Setting) -> Result<(), String> {
        let change = match change {
            Setting::RateBps(rate) => Change::RateBps(rate),
            Setting::DelayNs(delay) => Change::DelayNs(delay),
            Setting::Loss(share) if (0.0..=1.0).contains(&share) => Change::Loss(share),
            Setting::Loss(share) => return Err(format!("loss: {share} is outside 0 to 1")),
            Setting::Pattern(text) => {
                let pattern = Pattern::parse(&text)
                    .map_err(|error| format!("pattern: line {}: {}", error.line, error.message))?;
                Change::Pattern(Arc::new(pattern))
            }
        };
        if let Some(link) = link {
            return self
                .engine
                .apply(link, &change)
                .map_err(|error| error.to_string());
        }
        let mut taken = false;
        for name in self.engine.link_names() {
            match self.engine.apply(&name, &change) {
                Ok(()) => taken = true,
                Err(wavebed_path::EngineError::NotTaken(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if taken {
            Ok(())
        } else {
            Err("no link has a stage that takes this change".to_owned())
        }
    }

    fn has_failed(&self) -> bool {
        self.engine.has_failed()
    }

    fn stop(self: Box<Self>) -> Result<Value, String> {
        let summary = self.engine.stop().map_err(|error| error.to_string())?;
        let mut value = serde_json::to_value(&summary).map_err(|error| error.to_string())?;
        value[TEXT] = summary.text().into();
        Ok(value)
    }
}
