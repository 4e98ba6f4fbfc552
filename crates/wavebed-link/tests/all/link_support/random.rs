//! Random stages, written as the laboratory file writes them, and random events.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use wavebed_link::config::{StageConfig, build};
use wavebed_link::pattern::Pattern;
use wavebed_link::{Change, Ecn, Link, RandomStream, Run, RunFlags};

use super::Event;

const STEPS: &str = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.00001\n\
    time_s,rate_bps,delay_s,loss\n0,10000000000,0.000002,0\n0.000003,0,0,0.5\n0.000005,2000000000,0.000001,0.1\n";
const OPPORTUNITIES: &str = "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 0.000004\n\
    time_s,bytes\n0.000001,3000\n0.000001,500\n0.000004,1\n";
const PACKETS: &str = "# wavebed pattern 1\n# kind = packets\n# packets = 7\npacket,loss,delay_s\n\
    0,0,0\n3,1,0.000003\n4,0.2,0.000001\n";

const RADIO: &str = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.00006\ntime_s,rate_bps,bler,state\n\
    0,10000000000,0.1,los\n0.00002,2000000000,0.5,nlos\n0.00003,0,1,outage\n0.00004,1,1,handover\n\
    0.000045,4000000000,0.2,fallback\n0.00005,8000000000,0.3,blocked\n";

const SINR: &str = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.00006\n\
    time_s,rate_bps,sinr_db,need_db,state\n0,10000000000,18.5,17,los\n0.00002,2000000000,-4,-2.4,nlos\n\
    0.00003,0,-12,0,outage\n0.00004,1000000000,3,3,handover\n0.000045,4000000000,5,8.125,fallback\n0.00005,8000000000,9,9,blocked\n";

const SPLIT: &str = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.00009\n\
    time_s,rate_bps,state,fallback_rate_bps,fallback_sinr_db,fallback_need_db\n0,10000000000,los,2000000000,9,8\n\
    0.00002,2000000000,nlos,0,0,0\n0.00003,9000000000,handover,3000000000,9,2\n\
    0.000045,4000000000,fallback,4000000000,5,8.125\n0.00006,0,handover,1000000000,3,-2\n\
    0.00007,8000000000,blocked,2000000000,9,9\n0.00008,0,outage,2000000000,9,9\n";

const LIGHT: &str = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.00002\n# light_bytes = 4000\n\
    # light_idle_s = 0.000002\ntime_s,rate_bps,light_rate_bps\n0,10000000000,3000000000\n0.000003,0,7\n\
    0.000005,2000000000,9000000000\n0.000011,7000000000,0\n0.000012,9000000000,700000000\n";

/// The patterns by name; a real file for anything else is an error.
pub fn load(file: &Path) -> Result<Arc<Pattern>, String> {
    let text = match file.to_str() {
        Some("steps") => STEPS,
        Some("light") => LIGHT,
        Some("opportunities") => OPPORTUNITIES,
        Some("packets") => PACKETS,
        Some("radio") => RADIO,
        Some("sinr") => SINR,
        Some("split") => SPLIT,
        _ => return Err(format!("{}: no such pattern", file.display())),
    };
    Pattern::parse(text)
        .map(Arc::new)
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// A link of the stages in `configs`, each a JSON object.
pub fn link(configs: &[String], seed: u64) -> Link {
    let stages = (0u64..).zip(configs).map(|(number, text)| {
        let config: StageConfig =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        build(&config, RandomStream::new(seed, number), &mut load)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    });
    Link::new(stages.collect(), true)
}

fn limits() -> impl Strategy<Value = String> {
    prop_oneof![
        (1u32..30_000).prop_map(|bytes| format!(r#"{{"bytes":{bytes}}}"#)),
        (1u32..20).prop_map(|packets| format!(r#"{{"packets":{packets}}}"#)),
        (1u32..20_000).prop_map(|time_ns| format!(r#"{{"time_ns":{time_ns}}}"#)),
    ]
}

fn ends() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just("repeat"), 3 => Just("hold"), 1 => Just("stop")]
}

fn queues() -> impl Strategy<Value = String> {
    let codel = r#""target_ns":500,"interval_ns":4000"#;
    let kinds = prop_oneof![
        Just(String::from(r#""kind":"droptail""#)),
        Just(String::from(r#""kind":"drophead""#)),
        any::<bool>().prop_map(move |ecn| format!(r#""kind":"codel",{codel},"ecn":{ecn}"#)),
        (0u32..2000).prop_map(move |threshold| format!(
            r#""kind":"codel",{codel},"ecn":true,"ce_threshold_ns":{threshold}"#
        )),
        prop_oneof![Just("null"), Just("1000"), Just("20000")].prop_map(|predict| format!(
            r#""kind":"dualpi2","target_ns":1500,"rtt_max_ns":10000,"threshold_ns":80,"range_ns":40,"predict_ns":{predict}"#
        )),
        any::<bool>().prop_map(move |ecn| format!(
            r#""kind":"fq_codel",{codel},"ecn":{ecn},"flows":4,"quantum_bytes":300"#
        )),
    ];
    prop_oneof![
        1 => Just(String::from(r#"{"kind":"infinite"}"#)),
        6 => (kinds, limits()).prop_map(|(kind, limit)| format!("{{{kind},\"limit\":{limit}}}")),
    ]
}

/// A bottleneck with any server and queue.
pub fn bottlenecks() -> impl Strategy<Value = String> {
    let rates = prop_oneof![
        (500_000_000u64..20_000_000_000)
            .prop_map(|rate| format!(r#"{{"kind":"constant","rate_bps":{rate}}}"#)),
        (
            prop_oneof![Just("steps"), Just("light")],
            ends(),
            0u64..10_000
        )
            .prop_map(|(file, end, start)| format!(
                r#"{{"kind":"pattern","file":"{file}","end":"{end}","start_ns":{start}}}"#
            )),
        (500_000_000u64..20_000_000_000, 1500u32..9_000).prop_map(|(rate, burst)| format!(
            r#"{{"kind":"token_bucket","rate_bps":{rate},"burst_bytes":{burst}}}"#
        )),
    ];
    let opportunities = (ends(), 0u64..4_000).prop_map(|(end, start)| {
        let end = if end == "hold" { "repeat" } else { end };
        format!(
            r#"{{"kind":"opportunities","file":"opportunities","end":"{end}","start_ns":{start}}}"#
        )
    });
    let units = || prop_oneof![Just("packet"), Just("superpacket")];
    let outages = prop_oneof![Just("hold"), Just("drop")];
    let either =
        prop_oneof![3 => (rates, outages), 1 => opportunities.prop_map(|rate| (rate, "hold"))];
    let served = (either, queues(), units(), 0u32..50).prop_map(|((rate, outage), queue, unit, overhead)| format!(
        r#"{{"stage":"bottleneck","rate":{rate},"queue":{queue},"unit":"{unit}","outage":"{outage}","overhead_bytes":{overhead}}}"#
    ));
    let sampled = (limits(), units(), ends()).prop_map(|(limit, unit, end)| format!(
        r#"{{"stage":"bottleneck","rate":{{"kind":"sampled","file":"steps","end":"{end}"}},"queue":{{"kind":"droptail","limit":{limit}}},"unit":"{unit}"}}"#
    ));
    let device = (200_000u64..20_000_000, queues(), units()).prop_filter_map(
        "limits in time need bytes per second",
        |(rate, queue, unit)| {
            (!queue.contains("time_ns")).then(|| format!(
                r#"{{"stage":"bottleneck","rate":{{"kind":"packets","packets_per_s":{rate}}},"queue":{queue},"unit":"{unit}"}}"#
            ))
        },
    );
    prop_oneof![5 => served, 1 => sampled, 1 => device]
}

/// An impairment beside queues and radios.
pub fn others() -> impl Strategy<Value = String> {
    let delays = prop_oneof![
        (0u64..5_000).prop_map(|delay| format!(r#"{{"kind":"constant","delay_ns":{delay}}}"#)),
        (ends(), prop_oneof![Just("steps"), Just("packets")])
            .prop_map(|(end, file)| format!(r#"{{"kind":"pattern","file":"{file}","end":"{end}"}}"#)),
        prop_oneof![Just("uniform"), Just("normal"), Just("pareto"), Just("paretonormal")].prop_map(|shape| format!(
            r#"{{"kind":"distribution","shape":"{shape}","mean_ns":2000,"spread_ns":900,"correlation":0.3}}"#
        )),
    ];
    let losses = prop_oneof![
        Just(String::from(r#"{"kind":"independent","probability":0.1}"#)),
        Just(String::from(
            r#"{"kind":"gilbert_elliott","p":0.1,"r":0.4,"good_loss":0.01,"bad_loss":0.7}"#
        )),
        Just(String::from(
            r#"{"kind":"four_state","p13":0.1,"p31":0.4,"p23":0.3,"p32":0.2,"p14":0.05}"#
        )),
        (ends(), prop_oneof![Just("steps"), Just("packets")]).prop_map(|(end, file)| format!(
            r#"{{"kind":"pattern","file":"{file}","end":"{end}"}}"#
        )),
    ];
    let units = prop_oneof![Just("packet"), Just("superpacket")];
    prop_oneof![
        (delays, any::<bool>()).prop_map(|(delay, reorder)| format!(
            r#"{{"stage":"delay","delay":{delay},"reorder":{reorder}}}"#
        )),
        (losses, units).prop_map(|(model, unit)| format!(
            r#"{{"stage":"loss","model":{model},"unit":"{unit}"}}"#
        )),
        Just(String::from(r#"{"stage":"duplicate","probability":0.1}"#)),
        (0u64..5_000).prop_map(|delay| format!(
            r#"{{"stage":"reorder","probability":0.2,"delay_ns":{delay}}}"#
        )),
        Just(String::from(r#"{"stage":"corrupt","probability":0.1}"#)),
    ]
}

fn slots() -> impl Strategy<Value = String> {
    let frames = prop_oneof![Just(""), Just("DDSU"), Just("UD"), Just("SSU")];
    let harq = prop_oneof![
        1 => Just(String::from("null")),
        4 => (1u32..6, 0u64..4, 1u64..4, 1u32..4).prop_map(|(processes, feedback, schedule, limit)| format!(
            r#"{{"processes":{processes},"feedback_slots":{feedback},"schedule_slots":{schedule},"limit":{limit},"combining_gain_db":3.0,"slope_per_db":0.5}}"#
        )),
        2 => (2u32..6, 1u32..4, 0u32..4).prop_map(|(processes, limit, loss)| format!(
            r#"{{"processes":{processes},"feedback_slots":1,"schedule_slots":1,"limit":{limit},"combining_gain_db":3.0,"slope_per_db":0.5,"ack_loss":0.{loss},"nack_loss":0.2}}"#
        )),
    ];
    let codes = prop_oneof![Just("ldpc"), Just("turbo")];
    (1000u64..6000, frames, 0u64..3000, 0u64..9000, codes, harq).prop_map(
        |(slot, frame, prepare, decode, code, harq)| format!(
            r#"{{"slot_ns":{slot},"frame":"{frame}","special_symbols":[6,4,4],"prepare_ns":{prepare},"decode_ns":{decode},"code":"{code}","harq":{harq}}}"#
        ),
    )
}

/// A radio link with any of its parts on or off, or a split bearer of two.
pub fn radios() -> BoxedStrategy<String> {
    prop_oneof![3 => single_radios(), 2 => split_radios()].boxed()
}

/// A split bearer with any of its parts on or off.
pub fn split_radios() -> BoxedStrategy<String> {
    let ways = prop_oneof![
        Just(r#"{"mode":"um"},"grants":null"#),
        Just(
            r#"{"mode":"am","reassembly_ns":9000,"poll_ns":30000,"status_ns":5000,"retransmissions":1,"reestablish_ns":20000},"grants":{"request_slots":3,"schedule_slots":2,"prepare_slots":2,"first_bytes":300}"#
        ),
    ];
    let thresholds = prop_oneof![Just("null"), Just("0"), Just("9000")];
    (
        single_radios(),
        slots(),
        1u64..30_000,
        thresholds,
        ways,
        ends(),
    )
        .prop_map(move |(radio, fallback, target, threshold, ways, end)| {
            let mut stage: serde_json::Value = serde_json::from_str(&radio).expect("it is JSON");
            let rate = format!(r#"{{"kind":"pattern","file":"split","end":"{end}"}}"#);
            let text =
                format!(r#"{{"target_ns":{target},"threshold_bytes":{threshold},"rlc":{ways}}}"#);
            for (key, text) in [("rate", &rate), ("fallback", &fallback), ("split", &text)] {
                stage[key] = serde_json::from_str(text).expect("it is JSON");
            }
            stage.to_string()
        })
        .boxed()
}

/// A radio link with any of its parts on or off.
pub fn single_radios() -> BoxedStrategy<String> {
    let rates = prop_oneof![
        (500_000_000u64..20_000_000_000)
            .prop_map(|rate| format!(r#"{{"kind":"constant","rate_bps":{rate}}},"bler":0.3"#)),
        (
            ends(),
            prop_oneof![Just("steps"), Just("radio"), Just("sinr")]
        )
            .prop_map(|(end, file)| format!(
                r#"{{"kind":"pattern","file":"{file}","end":"{end}"}}"#
            )),
    ];
    let rlc = prop_oneof![
        Just(r#"{"mode":"um"}"#),
        Just(
            r#"{"mode":"am","reassembly_ns":9000,"poll_ns":30000,"status_ns":5000,"retransmissions":2,"reestablish_ns":40000}"#
        ),
        Just(
            r#"{"mode":"am","reassembly_ns":9000,"poll_ns":30000,"status_ns":5000,"retransmissions":2,"reestablish_ns":40000,"status_loss":0.4,"sn_bits":12}"#
        ),
        Just(
            r#"{"mode":"am","reassembly_ns":9000,"poll_ns":30000,"status_ns":5000,"retransmissions":1,"reestablish_ns":7000}"#
        ),
    ];
    let reordering = prop_oneof![
        Just("null"),
        Just(r#"{"timer_ns":null}"#),
        Just(r#"{"timer_ns":20000}"#)
    ];
    let grants = prop_oneof![
        2 => Just("null"),
        1 => Just(r#"{"request_slots":3,"schedule_slots":1,"prepare_slots":2,"first_bytes":300,"configured":null}"#),
        1 => Just(r#"{"request_slots":5,"schedule_slots":2,"prepare_slots":1,"first_bytes":300,"configured":{"slots":4,"bytes":500}}"#),
        1 => Just(r#"{"request_slots":3,"schedule_slots":1,"prepare_slots":2,"first_bytes":300,"losses":{"request":0.5,"report":0.3,"prohibit_ns":9000,"most_requests":3,"access_ns":30000,"retry_ns":50000}}"#),
    ];
    let sleep = prop_oneof![
        Just("null"),
        Just(
            r#"{"drx":{"inactivity_ns":5000,"short_cycle_ns":4000,"short_cycles":2,"long_cycle_ns":16000,"on_ns":1000},"rrc":{"inactivity_ns":40000,"promotion_ns":20000,"paging_ns":7000}}"#
        ),
    ];
    let directions = prop_oneof![Just("down"), Just("up")];
    let handovers = prop_oneof![Just("forward"), Just("lose")];
    let discards = prop_oneof![Just("null"), Just("20000")];
    let loads = prop_oneof![3 => Just("null"), 1 => Just(r#"{"mean":0.7,"burst_ns":100000}"#)];
    let aggregations = prop_oneof![
        2 => Just(String::from("null")),
        2 => (2u32..5, 0u64..20_000, 1u64..30_000).prop_map(|(carriers, activation, deactivation)| format!(
            r#"{{"carriers":{carriers},"activation_ns":{activation},"deactivation_ns":{deactivation}}}"#
        )),
    ];
    let parts = (
        rlc,
        reordering,
        grants,
        sleep,
        directions,
        (handovers, loads, aggregations),
    );
    (
        rates,
        slots(),
        prop::option::of(slots()),
        queues(),
        parts,
        discards,
        0u32..30,
    )
        .prop_map(|(rate, slots, fallback, queue, parts, discard, overhead)| {
            let (rlc, reordering, grants, sleep, direction, (handover, load, aggregation)) = parts;
            let aggregation = if direction == "up" || grants != "null" { "null".into() } else { aggregation };
            let fallback = fallback.unwrap_or_else(|| "null".into());
            let discard = if queue.contains("fq_codel") { "null" } else { discard };
            format!(
                r#"{{"stage":"radio","direction":"{direction}","rate":{rate},"slots":{slots},"fallback":{fallback},"queue":{queue},"discard_ns":{discard},"overhead_bytes":{overhead},"rlc":{rlc},"reordering":{reordering},"grants":{grants},"connection":{sleep},"handover":"{handover}","load":{load},"aggregation":{aggregation}}}"#
            )
        })
        .boxed()
}

/// A wifi link.
pub fn wifis() -> impl Strategy<Value = String> {
    let rates = prop_oneof![
        (500_000_000u64..10_000_000_000)
            .prop_map(|rate| format!(r#"{{"kind":"constant","rate_bps":{rate}}},"bler":0.3"#)),
        (ends(), prop_oneof![Just("steps"), Just("radio")]).prop_map(|(end, file)| format!(
            r#"{{"kind":"pattern","file":"{file}","end":"{end}"}}"#
        )),
    ];
    let aggregates = (1550u32..30_000, 1u32..20, 0u64..1000);
    (rates, queues(), aggregates, 0u32..4, 0u32..50).prop_map(
        |(rate, queue, (bytes, frames, overhead_ns), retries, overhead)| {
            format!(
                r#"{{"stage":"wifi","rate":{rate},"queue":{queue},"aggregate_bytes":{bytes},"aggregate_frames":{frames},"overhead_ns":{overhead_ns},"retries":{retries},"overhead_bytes":{overhead}}}"#
            )
        },
    )
}

/// One to five stages of any kind.
pub fn stages() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        prop_oneof![2 => bottlenecks(), 2 => others(), 1 => radios(), 1 => wifis()],
        1..6,
    )
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop_oneof![Just(0u64), 500_000_000u64..20_000_000_000].prop_map(Change::RateBps),
        (0u64..5_000).prop_map(Change::DelayNs),
        (0.0..0.3).prop_map(Change::Loss),
        prop_oneof![
            Just("steps"),
            Just("light"),
            Just("opportunities"),
            Just("packets"),
            Just("sinr"),
            Just("split")
        ]
        .prop_map(|name| Change::Pattern(load(Path::new(name)).expect("it is there"))),
    ]
}

/// Arrivals and, rarely, changes, in order of time. Polls are for the caller to add.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let arrival = (
        1u16..50,
        40u16..1500,
        1u16..1500,
        0u32..5,
        0u8..4,
        prop::bool::weighted(0.05),
    );
    let one = (
        prop_oneof![Just(0u64), 0u64..9_000],
        arrival,
        prop::option::weighted(0.05, changes()),
    );
    prop::collection::vec(one, 1..80).prop_map(|list| {
        let mut at_ns = 0;
        let mut events = Vec::new();
        for (packet, (gap_ns, (count, bytes, last, flow, ecn, control), change)) in
            (0u32..).zip(list)
        {
            at_ns += gap_ns;
            if let Some(change) = change {
                events.push(Event::Change(at_ns, change));
                continue;
            }
            events.push(Event::Arrival(Run {
                at_ns,
                packet,
                first: 0,
                count,
                segment_bytes: bytes,
                last_bytes: last.min(bytes),
                flow,
                flip: 0,
                ecn: Ecn::from_bits(ecn),
                flags: if control {
                    RunFlags::CONTROL
                } else {
                    RunFlags::default()
                },
            }));
        }
        events
    })
}

/// `events` with polls at other moments between them, as many as `seed` says.
pub fn with_polls(events: &[Event], seed: u64) -> Vec<Event> {
    let random = RandomStream::new(seed, 0);
    let mut polled = Vec::new();
    let mut last_ns = 0;
    for (index, event) in (0u64..).zip(events) {
        let span_ns = event.at_ns() - last_ns;
        let count = random.word(index) % 4;
        let mut polls: Vec<u64> = (0..count)
            .map(|poll| last_ns + random.word(index * 8 + poll + 1000) % (span_ns + 1))
            .collect();
        polls.sort_unstable();
        polled.extend(polls.into_iter().map(Event::Poll));
        polled.push(event.clone());
        last_ns = event.at_ns();
    }
    polled
}
