//! Any JSON is a stage or an error; a stage carries packets and accounts for each of them.
use std::path::Path;
use std::sync::Arc;

use wavebed_link::config::{StageConfig, build};
use wavebed_link::pattern::Pattern;
use wavebed_link::{Change, Ecn, Link, RandomStream, Run, RunFlags};

/// Patterns by the first letter of their file.
fn load(file: &Path) -> Result<Arc<Pattern>, String> {
    let text = match file.to_str().and_then(|name| name.chars().next()) {
        Some('s') => {
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.01\ntime_s,rate_bps,delay_s,loss,bler\n0,1000000000,0.001,0,0.1\n0.005,0,0,0.5,1\n"
        }
        Some('o') => {
            "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 0.01\ntime_s,bytes\n0.001,3000\n"
        }
        Some('r') => {
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.01\ntime_s,rate_bps,sinr_db,need_db\n0,1000000000,-2.5,-2\n0.005,900000000,30,2\n"
        }
        Some('f') => {
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.01\ntime_s,rate_bps,state,fallback_rate_bps\n0,1000000000,los,90000000\n0.002,0,handover,80000000\n0.004,80000000,fallback,80000000\n0.008,0,handover,80000000\n"
        }
        Some('l') => {
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.01\n# light_bytes = 4000\n# light_idle_s = 0.0001\ntime_s,rate_bps,light_rate_bps\n0,1000000000,90000000\n0.002,0,1\n0.004,80000000,0\n0.008,100000000,900000000\n"
        }
        Some('p') => {
            "# wavebed pattern 1\n# kind = packets\n# packets = 5\npacket,loss,delay_s\n0,0,0\n3,1,0.001\n"
        }
        _ => return Err("no such pattern".to_owned()),
    };
    Pattern::parse(text)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Ok(config) = serde_json::from_slice::<StageConfig>(bytes) else {
        return;
    };
    let Ok(stage) = build(&config, RandomStream::new(1, 1), &mut load) else {
        return;
    };
    let mut link = Link::new(vec![stage], true);
    let mut delivered = Vec::new();
    for packet in 0..40u32 {
        let at_ns = u64::from(packet / 4) * 300_000;
        if packet == 20 {
            link.poll(at_ns, &mut delivered);
            link.apply(
                at_ns,
                &Change::RateBps(u64::from(bytes.len() as u32 % 3) * 10_000_000),
            );
        }
        link.accept(Run {
            at_ns,
            packet,
            first: 0,
            count: 1 + (packet % 5) as u16 * 9,
            segment_bytes: 1500,
            last_bytes: 40 + packet as u16,
            flow: packet % 3,
            flip: 0,
            ecn: Ecn::from_bits((packet % 4) as u8),
            flags: RunFlags::default(),
        });
        link.poll(at_ns + 100_000, &mut delivered);
    }
    link.poll(1 << 50, &mut delivered);
    let held = i128::from(link.backlog().segments);
    assert_eq!(link.counters().total().unaccounted_segments(), held);
}
