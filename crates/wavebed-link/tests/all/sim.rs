//! The interface for simulators.

use proptest::prelude::*;
use wavebed_link::bottleneck::Outage;
use wavebed_link::config::{LossConfig, QueueConfig, RateConfig, StageConfig, build};
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::Limit;
use wavebed_link::radio::Direction;
use wavebed_link::sim::preset_names;
use wavebed_link::sim::{
    Departure, Fate, LinkSpec, Packet, PathSpec, Rate, SAMPLE_DOWN, SAMPLE_UP, SimLink, SimPath,
    SpecError, Trial,
};
use wavebed_link::{Change, Ecn, Link, RandomStream, Reason, Run, RunFlags, Unit};

const MS: u64 = 1_000_000;

fn droptail(packets: u64) -> QueueConfig {
    QueueConfig::Droptail {
        limit: Limit::Packets(packets),
    }
}

fn sample(text: &str) -> Pattern {
    Pattern::parse(text).expect("a pattern")
}

/// Everything that leaves: all offered first by `packets`, (time, size), then polled to the end.
fn departures(
    link: &mut SimLink<usize>,
    packets: &[(u64, u16)],
    eager: bool,
) -> Vec<Departure<usize>> {
    let mut left = Vec::new();
    for (number, &(at_ns, bytes)) in packets.iter().enumerate() {
        while let Some(next_ns) = link
            .next_event_ns()
            .filter(|&next_ns| eager && next_ns < at_ns)
        {
            left.extend(std::iter::from_fn(|| link.poll(next_ns)));
        }
        link.send(at_ns, Packet::new(bytes), number);
    }
    while let Some(next_ns) = link.next_event_ns() {
        left.extend(std::iter::from_fn(|| link.poll(next_ns)));
    }
    left
}

/// A radio with losses and copies before it.
fn eventful() -> LinkSpec {
    let copies = StageConfig::Duplicate { probability: 0.1 };
    let radio = LinkSpec::new()
        .loss(0.1)
        .stage(copies)
        .radio_of(sample(SAMPLE_DOWN));
    radio.expect("of a radio").delay_ns(5 * MS)
}

fn sorted(mut left: Vec<Departure<usize>>) -> Vec<Departure<usize>> {
    left.sort_by_key(|one| (one.at_ns, one.content, one.fate == Fate::Delivered));
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn packets_leave_once_and_as_often_as_they_were_copied(
        gaps in prop::collection::vec((0u64..2 * MS, 40u16..1500), 1..400),
        seed: u64,
    ) {
        let mut at_ns = 0;
        let packets: Vec<(u64, u16)> = gaps.into_iter().map(|(gap_ns, bytes)| {
            at_ns += gap_ns;
            (at_ns, bytes)
        }).collect();
        let mut link = SimLink::new(&eventful(), seed).expect("a link");
        let eager = departures(&mut link, &packets, true);
        prop_assert!(eager.is_sorted_by_key(|one| one.at_ns));
        let copies = usize::try_from(link.counts().duplicated.segments).expect("few");
        prop_assert_eq!(eager.len(), packets.len() + copies);
        for one in &eager {
            prop_assert_eq!(one.packet.bytes, packets[one.content].1);
            prop_assert!(one.at_ns >= packets[one.content].0);
        }
        let mut seen: Vec<usize> = eager.iter().map(|one| one.content).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), packets.len());
        prop_assert_eq!(link.backlog().segments, 0);
        let mut again = SimLink::new(&eventful(), seed).expect("a link");
        prop_assert_eq!(sorted(departures(&mut again, &packets, false)), sorted(eager));
    }
}

#[test]
fn a_drop_has_its_reason_and_time() {
    let spec = LinkSpec::new()
        .loss(1.0)
        .bottleneck(Rate::constant(12_000_000), droptail(1));
    let lost = departures(
        &mut SimLink::new(&spec, 1).expect("a link"),
        &[(3, 1500)],
        true,
    );
    assert_eq!(lost[0].fate, Fate::Dropped(Reason::Loss));
    assert_eq!(lost[0].at_ns, 3);
    let spec = LinkSpec::new().bottleneck(Rate::constant(12_000_000), droptail(1));
    let mut link = SimLink::new(&spec, 1).expect("a link");
    let full = departures(&mut link, &[(0, 1500), (0, 1500), (7, 1500)], true);
    let fates: Vec<_> = full
        .iter()
        .map(|one| (one.content, one.at_ns, one.fate))
        .collect();
    let expected = [
        (2, 7, Fate::Dropped(Reason::Overflow)),
        (0, MS, Fate::Delivered),
        (1, 2 * MS, Fate::Delivered),
    ];
    assert_eq!(fates, expected);
}

#[test]
fn marks_and_flows_come_out() {
    let queue = QueueConfig::Codel {
        limit: Limit::Packets(1000),
        target_ns: MS,
        interval_ns: 10 * MS,
        ecn: true,
        ce_threshold_ns: None,
    };
    let spec = LinkSpec::new().bottleneck(Rate::constant(12_000_000), queue);
    let mut link = SimLink::new(&spec, 1).expect("a link");
    for number in 0..100 {
        link.send(
            0,
            Packet::new(1500).with_ecn(Ecn::Ect0).of_flow(number),
            number,
        );
    }
    let left: Vec<_> = std::iter::from_fn(|| link.poll(1000 * MS)).collect();
    assert!(left.iter().all(|one| one.packet.flow == one.content));
    let marked = left.iter().filter(|one| one.packet.ecn == Ecn::Ce).count();
    assert!(marked > 0);
    assert_eq!(marked as u64, link.counts().marked.segments);
}

#[test]
fn a_time_that_goes_back_counts_as_the_latest() {
    let mut link = SimLink::new(&LinkSpec::new().delay_ns(MS), 1).expect("a link");
    link.send(5 * MS, Packet::new(100), "late");
    link.send(0, Packet::new(100), "too late");
    assert!(link.poll(0).is_none());
    let left: Vec<u64> = std::iter::from_fn(|| link.poll(6 * MS))
        .map(|one| one.at_ns)
        .collect();
    assert_eq!(left, [6 * MS, 6 * MS]);
}

#[test]
fn a_live_change_acts_at_its_time() {
    let spec = LinkSpec::new().bottleneck(Rate::constant(12_000_000), droptail(100));
    let mut link = SimLink::new(&spec, 1).expect("a link");
    link.send(0, Packet::new(1500), ());
    link.send(0, Packet::new(1500), ());
    assert!(link.apply(MS, &Change::RateBps(1_200_000)));
    assert!(!link.apply(MS, &Change::DelayNs(1)));
    let left: Vec<u64> = std::iter::from_fn(|| link.poll(100 * MS))
        .map(|one| one.at_ns)
        .collect();
    assert_eq!(left, [MS, 11 * MS]);
    assert_eq!(link.conditions().rate_bps, Some(1_200_000));
}

#[test]
fn packets_to_the_server_pass_the_hop_of_the_client_first() {
    let hop = |bps, packets| LinkSpec::new().bottleneck(Rate::constant(bps), droptail(packets));
    let (slow, fast) = (hop(1_200_000, 1), hop(12_000_000, 100));
    let path = PathSpec::new(slow.clone(), slow).then(fast.clone(), fast);
    let SimPath {
        mut down, mut up, ..
    } = path.build(1).expect("a path");
    let burst = [(0, 1500); 30];
    let delivered = |link: &mut SimLink<usize>| {
        let left = departures(link, &burst, true);
        left.iter()
            .filter(|one| one.fate == Fate::Delivered)
            .count()
    };
    // The fast hop spreads the burst, if it comes first: the short queue of the slow one takes more of it.
    assert_eq!((delivered(&mut down), delivered(&mut up)), (2, 4));
}

#[test]
fn random_decisions_are_those_of_a_laboratory() {
    // A laboratory keys the stages of hop h by 2 h and 2 h + 1, shifted by 16 bits, and their places.
    let spec = LinkSpec::new().delay_ns(1).loss(0.3);
    let path = PathSpec::new(LinkSpec::new(), LinkSpec::new()).then(LinkSpec::new(), spec);
    let mut up = path.build::<u32>(9).expect("a path").up;
    let stage = StageConfig::Loss {
        model: LossConfig::Independent { probability: 0.3 },
        unit: Unit::Packet,
    };
    let mut no_patterns = |_: &std::path::Path| Err("none".to_owned());
    let stage = build(
        &stage,
        RandomStream::new(9, (3 << 16) + 1),
        &mut no_patterns,
    );
    let mut link = Link::new(vec![stage.expect("a stage")], false);
    let mut expected = Vec::new();
    for packet in 0..200 {
        up.send(0, Packet::new(100), packet);
        link.accept(Run {
            at_ns: 0,
            packet,
            first: 0,
            count: 1,
            segment_bytes: 100,
            last_bytes: 100,
            flow: 0,
            flip: 0,
            ecn: Ecn::NotEct,
            flags: RunFlags::default(),
        });
        expected.extend(link.take_lost().map(|run| run.packet));
    }
    let left = std::iter::from_fn(|| up.poll(1));
    let lost = left
        .filter(|one| one.fate != Fate::Delivered)
        .map(|one| one.content);
    assert_eq!(lost.collect::<Vec<u32>>(), expected);
    assert!((40..80).contains(&expected.len()));
}

#[test]
fn every_preset_makes_both_directions() {
    let names = preset_names();
    assert!(
        names.contains(&"nr-120khz".to_owned()) && names.len() == 6,
        "{names:?}"
    );
    for name in names {
        let side = |direction| {
            let rate = Rate::constant(50_000_000);
            LinkSpec::new()
                .radio(&name, direction, rate)
                .expect("a preset")
        };
        let (down, up) = (side(Direction::Down), side(Direction::Up));
        let mut path = SimPath::new(&down, &up, 1).expect("a path");
        for link in [&mut path.down, &mut path.up] {
            link.send(0, Packet::new(1200), ());
            let left = link.poll(100 * MS).expect("a packet");
            assert_eq!(left.fate, Fate::Delivered);
            assert!(left.at_ns > 100_000, "{name}: {}", left.at_ns);
        }
    }
}

#[test]
fn the_sample_carries_what_it_says() {
    for text in [SAMPLE_DOWN, SAMPLE_UP] {
        let pattern = sample(text);
        let mean_bps = pattern.mean_rate_bps().expect("it has rates");
        let mut link = SimLink::new(&LinkSpec::new().radio_of(pattern).expect("of a radio"), 1)
            .expect("a link");
        let mut bytes = 0;
        for slot in 0..30_000 {
            while let Some(left) = link.poll(slot * MS) {
                bytes += u64::from(left.packet.bytes) * u64::from(left.fate == Fate::Delivered);
            }
            while link.backlog().bytes < 2_000_000 {
                link.send(slot * MS, Packet::new(9000), ());
            }
        }
        // Retransmissions and the headers of the radio take a part.
        let used = bytes * 8 / 30 * 100 / mean_bps;
        assert!((75..100).contains(&used), "{used} %");
    }
}

fn no_files(name: &str) -> Result<Vec<u8>, String> {
    Err(format!("is not there ({name})"))
}

#[test]
fn a_trial_of_wavebed_is_a_path() {
    let text = r#"{"seed": 4, "network": {"mtu": 1400, "legs": [
        {"from": "server", "to": "client", "hops": [
            {"name": "wire", "kind": "wired",
             "down": [{"stage": "delay", "delay": {"kind": "constant", "delay_ns": 3000000}}], "up": []},
            {"name": "radio", "kind": "radio",
             "down": [{"stage": "bottleneck", "rate": {"kind": "pattern", "file": "patterns/a.csv"},
                       "queue": {"kind": "infinite"}}], "up": []}]},
        {"from": "server", "to": "client", "hops": [{"name": "second", "kind": "radio",
             "down": [{"stage": "delay", "delay": {"kind": "constant", "delay_ns": 9000000}}], "up": []}]}]}}"#;
    let mut asked = Vec::new();
    let mut load = |name: &str| {
        asked.push(name.to_owned());
        let rows = "time_s,rate_bps\n0,12000000\n";
        Ok(format!("# wavebed pattern 1\n# kind = steps\n# duration_s = 1\n{rows}").into_bytes())
    };
    let trial = Trial::from_json(text, &mut load).expect("a trial");
    assert_eq!((trial.seed, trial.path.mtu_bytes()), (4, 1400));
    assert_eq!(asked, ["patterns/a.csv"]);
    let mut path = trial.path.build(trial.seed).expect("a path");
    path.down.send(0, Packet::new(1500), ());
    assert_eq!(path.next_event_ns(), Some(3 * MS));
    assert_eq!(path.down.poll(9 * MS).expect("a packet").at_ns, 4 * MS);
}

#[test]
fn mistakes_are_one_line() {
    let bad = |spec: LinkSpec| {
        SimLink::<()>::new(&spec, 1)
            .expect_err("an error")
            .to_string()
    };
    assert_eq!(
        bad(LinkSpec::new().delay_ns(1).loss(2.0)),
        "stage 2: model.probability: use at most 1"
    );
    let named = StageConfig::Bottleneck {
        rate: RateConfig::Pattern {
            file: "walk.csv".into(),
            end: wavebed_link::pattern::End::Repeat,
            start_ns: 0,
        },
        queue: droptail(1),
        overhead_bytes: 0,
        unit: Unit::Packet,
        outage: Outage::Hold,
    };
    assert_eq!(
        bad(LinkSpec::new().stage(named.clone())),
        "stage 1: rate.file: walk.csv: no such pattern: give it by with_pattern"
    );
    let known = LinkSpec::new()
        .stage(named)
        .with_pattern("walk.csv", sample(SAMPLE_DOWN));
    SimLink::<()>::new(&known, 1).expect("it is given");
    let of = |text: &str| {
        LinkSpec::new()
            .radio_of(sample(text))
            .err()
            .map(|error| error.to_string())
    };
    let plain = "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\n";
    assert_eq!(
        of(&format!("{plain}time_s,rate_bps\n0,1\n")).expect("an error"),
        "the pattern has no header key 'radio': take one of wavebed channel, or name preset and direction"
    );
    let unknown = format!("{plain}# radio = 6g\n# direction = down\ntime_s,rate_bps\n0,1\n");
    assert_eq!(
        of(&unknown).expect("an error"),
        "no radio preset '6g': use nr-15khz, nr-30khz, nr-60khz, nr-120khz, lte, 802.11ad"
    );
    let sideways = format!("{plain}# radio = lte\n# direction = left\ntime_s,rate_bps\n0,1\n");
    assert_eq!(
        of(&sideways).expect("an error"),
        "the pattern's direction is 'left': use down or up"
    );
}

#[test]
fn mistakes_in_files_name_their_place() {
    let read = |text: &str| -> Result<LinkSpec, SpecError> {
        LinkSpec::new().radio_of(Pattern::parse(text)?)
    };
    let error = read("").expect_err("an error").to_string();
    assert!(error.starts_with("a pattern: line 1: is empty"), "{error}");
    let from = |text: &str| {
        LinkSpec::from_json(text, &mut no_files)
            .expect_err("an error")
            .to_string()
    };
    assert!(from("[{").starts_with("stages: EOF while parsing"));
    assert!(from(r#"[{"stage": "wormhole"}]"#).contains("unknown variant `wormhole`"));
    let file = r#"[{"stage": "loss", "model": {"kind": "pattern", "file": "walk.csv"}}]"#;
    assert_eq!(
        from(file),
        "stage 1: model.file: walk.csv: is not there (walk.csv)"
    );
    let mut bad = |_: &str| Ok(b"time,rate\n".to_vec());
    let error = LinkSpec::from_json(file, &mut bad)
        .expect_err("an error")
        .to_string();
    assert!(
        error.starts_with("stage 1: model.file: walk.csv: line 1: the first line must be"),
        "{error}"
    );
    let trial = Trial::from_json("{}", &mut no_files)
        .expect_err("an error")
        .to_string();
    assert!(
        trial.starts_with("a trial of wavebed resolve: missing field `seed`"),
        "{trial}"
    );
}
