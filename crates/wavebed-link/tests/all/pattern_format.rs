//! The native pattern format: parser and errors.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use wavebed_link::pattern::{End, Kind, Pattern, State};
use wavebed_link::radio::Air;

pub fn parse(header: &str, rows: &str) -> Result<Pattern, String> {
    Pattern::parse(&format!("# wavebed pattern 1\n{header}{rows}"))
        .map_err(|error| error.to_string())
}

fn steps(rows: &str) -> Result<Pattern, String> {
    parse("# kind = steps\n# duration_s = 40\n", rows)
}

#[test]
fn the_example_of_the_reference_is_read() {
    let pattern = parse(
        "# kind = steps\n# duration_s = 40\n# title = kau-e5g scenario 1, long NLOS\n# source = a = b\n",
        "time_s,rate_bps\n0,945000000\n2.1,318000000\n22.1,1005000000\n",
    )
    .expect("it is valid");
    assert_eq!(pattern.kind(), Kind::Steps);
    assert_eq!(pattern.period(), 40_000_000_000);
    assert_eq!(pattern.at(), [0, 2_100_000_000, 22_100_000_000]);
    assert_eq!(
        pattern.rate_bps(),
        Some(&[945_000_000, 318_000_000, 1_005_000_000][..])
    );
    assert_eq!(
        (pattern.delay_ns(), pattern.loss(), pattern.bytes()),
        (None, None, None)
    );
    assert_eq!(
        pattern.headers()[2],
        ("title".into(), "kau-e5g scenario 1, long NLOS".into())
    );
    assert_eq!(pattern.headers()[3], ("source".into(), "a = b".into()));
    // (2.1 * 945 + 20 * 318 + 17.9 * 1005) / 40 Mbit/s
    assert_eq!(pattern.mean_rate_bps(), Some(658_350_000));
}

#[test]
fn every_column_and_kind_is_read() {
    let pattern = steps("time_s,loss,delay_s,rate_bps\n0,0.25,0.000000001,0\r\n39.999999999,1,1000000000,1000000000000")
        .expect("it is valid");
    assert_eq!(pattern.loss(), Some(&[0.25, 1.0][..]));
    assert_eq!(
        pattern.delay_ns(),
        Some(&[1, 1_000_000_000_000_000_000][..])
    );
    assert_eq!(pattern.rate_bps(), Some(&[0, 1_000_000_000_000][..]));
    let pattern = parse(
        "# kind = opportunities\n# duration_s = 0.002\n",
        "time_s,bytes\n0,1\n0.001,1500\n0.001,1500\n0.002,1000000000\n",
    )
    .expect("it is valid");
    assert_eq!(pattern.at(), [0, 1_000_000, 1_000_000, 2_000_000]);
    assert_eq!(pattern.bytes(), Some(&[1, 1500, 1500, 1_000_000_000][..]));
    let pattern = parse(
        "# kind = packets\n# packets = 9\n# duration_s = kept\n",
        "packet,delay_s\n0,1\n8,0\n",
    )
    .expect("it is valid");
    assert_eq!(
        (pattern.kind(), pattern.period(), pattern.at()),
        (Kind::Packets, 9, &[0, 8][..])
    );
}

#[test]
fn block_errors_and_states_of_the_radio_are_read() {
    let pattern = steps(
        "time_s,rate_bps,state,bler\n0,5,los,0.1\n1,4,nlos,1\n2,4,blocked,0\n3,0,outage,0\n4,0,handover,0\n5,9,fallback,0.25\n",
    )
    .expect("it is valid");
    assert_eq!(pattern.bler(), Some(&[0.1, 1.0, 0.0, 0.0, 0.0, 0.25][..]));
    assert_eq!(pattern.state(), Some(&State::ALL[..]));
    assert_eq!((pattern.loss(), pattern.delay_ns()), (None, None));
}

#[test]
fn sinr_and_need_of_the_radio_are_read() {
    let pattern = steps(
        "time_s,need_db,rate_bps,sinr_db,bler\n0,7.9,5,12.345,0\n1,-2.85,4,-0.5,1\n2,-100,0,100,0\n",
    )
    .expect("it is valid");
    assert_eq!(pattern.sinr_mdb(), Some(&[12_345, -500, 100_000][..]));
    assert_eq!(pattern.need_mdb(), Some(&[7_900, -2_850, -100_000][..]));
    assert_eq!(pattern.bler(), Some(&[0.0, 1.0, 0.0][..]));
}

#[test]
fn the_legs_of_a_split_bearer_are_patterns_of_their_own() {
    let whole = steps(
        "time_s,rate_bps,state,fallback_rate_bps,fallback_need_db,fallback_sinr_db\n0,9,los,3,1,2\n1,0,handover,4,1,2\n2,5,fallback,5,1.5,-7\n3,0,handover,6,1,2\n4,9,nlos,0,1,2\n5,0,handover,7,1,2\n",
    )
    .expect("it is valid");
    let primary = whole.primary_leg();
    let [los, nlos, gap, away] = [State::Los, State::Nlos, State::Handover, State::Fallback];
    assert_eq!(primary.rate_bps(), Some(&[9, 0, 0, 0, 9, 0][..]));
    assert_eq!(
        primary.state(),
        Some(&[los, gap, away, away, nlos, gap][..])
    );
    assert_eq!(primary.fallback_leg(), None);
    let fallback = whole.fallback_leg().expect("it has the columns");
    assert_eq!(fallback.rate_bps(), whole.fallback_rate_bps());
    assert_eq!(fallback.rate_bps(), Some(&[3, 4, 5, 6, 0, 7][..]));
    assert_eq!(fallback.state(), Some(&[away; 6][..]));
    assert_eq!(fallback.sinr_mdb().map(|column| column[2]), Some(-7000));
    assert_eq!(fallback.need_mdb().map(|column| column[2]), Some(1500));
    assert_eq!(
        (fallback.at(), fallback.period()),
        (whole.at(), whole.period())
    );
}

#[test]
fn the_serving_base_station_follows_the_pattern() {
    let pattern =
        steps("time_s,rate_bps,state,cell\n0,5,los,0\n1,0,handover,1\n2,7,los,1\n3,7,los,999\n")
            .expect("it is valid");
    assert_eq!(pattern.cell(), Some(&[0, 1, 1, 999][..]));
    let mut air = Air::pattern(Arc::new(pattern), End::Repeat, 0, 0, None).expect("it has rates");
    let second = 1_000_000_000;
    for (at, cell) in [(0, 0), (1, 1), (2, 1), (3, 999), (40, 0)] {
        assert_eq!(air.at(at * second).cell, cell, "{at}");
    }
    assert_eq!(air.held(2 * second, 9).at(7 * second).cell, 1);
    let without = steps("time_s,rate_bps\n0,5\n").expect("it is valid");
    let mut air = Air::pattern(Arc::new(without), End::Repeat, 0, 0, None).expect("it has rates");
    assert_eq!(air.at(0).cell, 0);
}

#[test]
fn a_state_stands_without_a_rate() {
    let pattern = steps("time_s,state\n0,los\n7,outage\n").expect("it is valid");
    assert_eq!(pattern.state(), Some(&[State::Los, State::Outage][..]));
    assert_eq!((pattern.bler(), pattern.rate_bps()), (None, None));
}

#[test]
fn every_state_has_one_name() {
    for state in State::ALL {
        assert_eq!(State::from_name(state.name().as_bytes()), Some(state));
    }
    for word in ["", "LOS", "los ", "busy"] {
        assert_eq!(State::from_name(word.as_bytes()), None, "{word}");
    }
}

/// Header lines after the first, rows, and what the message must begin with and contain.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("", "", "line 2", "column names"),
    (
        "# kind = steps\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "'duration_s' is missing",
    ),
    (
        "# duration_s = 1\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "'kind' is missing",
    ),
    (
        "# kind = packets\n# duration_s = 1\n",
        "packet,loss\n0,1\n",
        "line 4",
        "'packets' is missing",
    ),
    (
        "# kind = stairs\n# duration_s = 1\n",
        "time_s,rate_bps\n0,1\n",
        "line 2",
        "use steps, opportunities or packets",
    ),
    (
        "# kind = steps\n# kind = steps\n# duration_s = 1\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "stands twice",
    ),
    (
        "# kind = steps\n# duration_s = 0\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "more than 0",
    ),
    (
        "# kind = steps\n# duration_s = 1e3\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "plain decimal",
    ),
    (
        "# kind = steps\n# duration_s = 1000000001\n",
        "time_s,rate_bps\n0,1\n",
        "line 3",
        "out of range",
    ),
    (
        "# kind = packets\n# packets = 1.5\n",
        "packet,loss\n0,1\n",
        "line 3",
        "whole number",
    ),
    (
        "# kind\n# duration_s = 1\n",
        "time_s,rate_bps\n0,1\n",
        "line 2",
        "'# key = value'",
    ),
    (
        "# = 1\n",
        "time_s,rate_bps\n0,1\n",
        "line 2",
        "'# key = value'",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "",
        "line 4",
        "column names",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "rate_bps,time_s\n1,0\n",
        "line 4",
        "first column",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s\n0\n",
        "line 4",
        "needs a column",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate\n0,1\n",
        "line 4",
        "use rate_bps, delay_s, loss, bler, sinr_db, need_db, state, cell, fallback_rate_bps, fallback_sinr_db, fallback_need_db, light_rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,bytes\n0,1\n",
        "line 4",
        "does not belong",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s, loss\n0,1\n",
        "line 4",
        "does not belong",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss,loss\n0,1,1\n",
        "line 4",
        "stands twice",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n",
        "line 5",
        "at least one row",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,1\n\n",
        "line 6",
        "blank",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,1\n# end\n",
        "line 6",
        "'#' line",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,1,2\n",
        "line 5",
        "3 values for 2 columns",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0\n",
        "line 5",
        "1 values for 2 columns",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n1,0\n",
        "line 5",
        "must be 0",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,0\n0,1\n",
        "line 6",
        "not more than the row before",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,0\n40,1\n",
        "line 6",
        "not less than duration_s",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,0\n0.0000000001,1\n",
        "line 6",
        "nine digits",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,1.1\n",
        "line 5",
        "loss is out of range",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,nan\n",
        "line 5",
        "plain decimal",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,-0.1\n",
        "line 5",
        "without exponent or sign",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,loss\n0,\n",
        "line 5",
        "loss is empty",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps\n0,1.5\n",
        "line 5",
        "whole number",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps\n0,1000000000001\n",
        "line 5",
        "out of range",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps\n0,1 000\n",
        "line 5",
        "whole number",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps\n0,\"5\"\n",
        "line 5",
        "whole number",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,delay_s\n0,inf\n",
        "line 5",
        "plain decimal",
    ),
    (
        "# kind = opportunities\n# duration_s = 1\n",
        "time_s,bytes\n0.5,0\n",
        "line 5",
        "bytes is out of range",
    ),
    (
        "# kind = opportunities\n# duration_s = 1\n",
        "time_s,bytes\n0.5,1\n0.4,1\n",
        "line 6",
        "less than the row before",
    ),
    (
        "# kind = opportunities\n# duration_s = 1\n",
        "time_s,bytes\n1.1,1\n",
        "line 5",
        "past duration_s",
    ),
    (
        "# kind = packets\n# packets = 3\n",
        "packet,loss\n0,0\n3,1\n",
        "line 6",
        "not less than packets",
    ),
    (
        "# kind = packets\n# packets = 3\n",
        "packet,loss\n0,0\n1.5,1\n",
        "line 6",
        "whole number",
    ),
    (
        "# kind = packets\n# packets = 3\n",
        "packet,rate_bps\n0,0\n",
        "line 4",
        "use loss, delay_s",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,bler\n0,0\n",
        "line 4",
        "'bler' stands without rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,sinr_db,need_db\n0,0,0\n",
        "line 4",
        "'sinr_db' stands without rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,sinr_db\n0,0,0\n",
        "line 4",
        "'sinr_db' stands without need_db",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,need_db\n0,0,0\n",
        "line 4",
        "'need_db' stands without sinr_db",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,sinr_db,need_db\n0,0,1.2345,0\n",
        "line 5",
        "sinr_db has more than three digits after the point ('1.2345'): write plain decimal decibels",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,sinr_db,need_db\n0,0,1,-100.001\n",
        "line 5",
        "need_db is out of range",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,sinr_db,need_db\n0,0,+1,0\n",
        "line 5",
        "sinr_db is not a plain decimal number",
    ),
    (
        "# kind = packets\n# packets = 3\n",
        "packet,loss,sinr_db\n0,0,0\n",
        "line 4",
        "'sinr_db' does not belong",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,bler\n0,1,1.01\n",
        "line 5",
        "bler is out of range",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,bler\n0,1,1e-3\n",
        "line 5",
        "without exponent or sign",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,fallback_rate_bps\n0,1\n",
        "line 4",
        "'fallback_rate_bps' stands without rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,fallback_sinr_db,fallback_need_db\n0,1,2,3\n",
        "line 4",
        "'fallback_sinr_db' stands without fallback_rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,fallback_rate_bps,fallback_need_db\n0,1,2,3\n",
        "line 4",
        "'fallback_need_db' stands without fallback_sinr_db",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,fallback_rate_bps\n0,1,-2\n",
        "line 5",
        "fallback_rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,cell\n0,1\n",
        "line 4",
        "'cell' stands without rate_bps",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps,cell\n0,1,0\n1,1,1000\n",
        "line 6",
        "cell is out of range ('1000'): write the index of a base station from 0 to 999",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,state\n0,los\n1,LOS\n",
        "line 6",
        "state is not a state of the radio ('LOS'): write los, nlos, blocked, outage, handover or fallback",
    ),
    (
        "# kind = steps\n# duration_s = 40\n",
        "time_s,state\n0,\n",
        "line 5",
        "is not a state of the radio",
    ),
    (
        "# kind = opportunities\n# duration_s = 1\n",
        "time_s,bytes,state\n0,1,los\n",
        "line 4",
        "'state' does not belong",
    ),
    (
        "# kind = packets\n# packets = 3\n",
        "packet,loss,bler\n0,0,0\n",
        "line 4",
        "'bler' does not belong",
    ),
];

/// Each pattern of `refused` is refused with its message: header lines after the first, rows, and what the message must
/// begin with and contain.
pub fn assert_refused(refused: &[(&str, &str, &str, &str)]) {
    for (header, rows, line, rule) in refused {
        let message = parse(header, rows).expect_err(rows);
        assert!(
            message.starts_with(&format!("{line}: ")),
            "{header}{rows}: {message}"
        );
        assert!(message.contains(rule), "{header}{rows}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn each_broken_rule_is_named_with_its_line() {
    assert_refused(REFUSED);
}

#[test]
fn the_first_line_and_the_encoding_are_checked() {
    for text in [
        "",
        "# wavebed pattern 2\n",
        "0\n1\n",
        "\u{feff}# wavebed pattern 1\n",
    ] {
        let message = Pattern::parse(text).expect_err(text).to_string();
        assert!(
            message.starts_with("line 1: ") && message.contains("# wavebed pattern 1"),
            "{message}"
        );
    }
    let error =
        Pattern::parse_bytes(b"# wavebed pattern 1\n# title = \xff\n").expect_err("not UTF-8");
    assert_eq!((error.line, error.message.contains("UTF-8")), (2, true));
}

#[test]
fn a_million_rows_are_read() {
    let mut text = String::from(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 1000\ntime_s,rate_bps,delay_s\n",
    );
    for row in 0..1_000_000u32 {
        writeln!(
            text,
            "{}.{:03},{},0.0{:05}",
            row / 1000,
            row % 1000,
            row * 977 % 1_000_000_000,
            row % 9973
        )
        .expect("a string takes it");
    }
    let begin = std::time::Instant::now();
    let pattern = Pattern::parse(&text).expect("it is valid");
    println!(
        "a million rows, {} bytes: {:?}",
        text.len(),
        begin.elapsed()
    );
    assert_eq!(pattern.at()[999_999], 999_999_000_000);
    assert_eq!(pattern.delay_ns().expect("it has delays")[9972], 9_972_000);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(# wavebed pattern 1\n)?(# (kind|duration_s|packets|light_bytes|light_idle_s) = (steps|packets|opportunities|[0-9.]{0,4})\n){0,4}((time_s|packet)(,(loss|delay_s|rate_bps|bytes|bler|sinr_db|need_db|state|cell|light_rate_bps)){0,3}\n)?([0-9.,e#\r-]{0,9}(,(los|nlos|outage))?\n){0,4}") {
        let _ = Pattern::parse(&text);
    }
}
