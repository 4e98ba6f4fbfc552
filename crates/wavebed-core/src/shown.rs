//! The state of links as JSON: whole for `show`, and in columns for the samples of `watch`.

use std::io::{BufRead, stdin};

use serde_json::{Map, Value, json};
use wavebed_link::{Counts, Reason};
use wavebed_path::cell_account::{CellAccount, UserAccount};
use wavebed_path::event_loop::{DirectionState, LinkState, LoopState};
use wavebed_path::{NetworkConfig, Patterns};

use crate::problem::{Problem, print};
use crate::room;

/// A named value of a row.
type Column = (&'static str, Value);

/// The state of a link, its drops by reason.
pub fn link(state: &LinkState) -> Value {
    let counts = &state.counts;
    let mut value: Map<String, Value> = columns(0, state)
        .into_iter()
        .filter(|(name, _)| !["at_ns", "dropped_segments"].contains(name))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let whole = [
        ("name", json!(state.name)),
        ("duplicated_segments", json!(counts.duplicated.segments)),
        ("dropped_segments", dropped(counts)),
        ("l4s_marked_segments", json!(counts.l4s_marked.segments)),
        ("l4s_dropped_segments", json!(counts.l4s_dropped.segments)),
        ("corrupted_segments", json!(counts.corrupted.segments)),
        ("takes", json!(state.takes)),
    ];
    value.extend(whole.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(value)
}

/// The state of a direction.
pub fn direction(state: &DirectionState) -> Value {
    json!({
        "name": state.name,
        "transit_ns": state.transit.sum_ns,
        "transit_segments": state.transit.segments,
    })
}

/// The names of links, directions and their columns, in the order of the values of [`sample`].
pub fn head(loops: &[LoopState]) -> Value {
    let names = |columns: &[Column]| columns.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let links: Vec<&str> = links(loops).map(|(_, link)| link.name.as_str()).collect();
    let directions: Vec<&str> = directions(loops).map(|each| each.name.as_str()).collect();
    let mut head = json!({
        "links": links,
        "directions": directions,
        "link_columns": names(&columns(0, &LinkState::default())),
        "direction_columns": ["transit_ns", "transit_segments"],
    });
    let users: Vec<String> = users(loops)
        .map(|(_, cell, user)| user_link(&cell.name, &user.name))
        .collect();
    if !users.is_empty() {
        head["users"] = json!(users);
        head["user_columns"] = json!(names(&user_columns(0, &UserAccount::default())));
    }
    head
}

/// The name that a link of a modelled user would have: CELL.USER.down.
fn user_link(cell: &str, user: &str) -> String {
    match cell.rsplit_once('.') {
        Some((name, direction)) => format!("{name}.{user}.{direction}"),
        None => format!("{cell}.{user}"),
    }
}

/// The values of all links and directions.
pub fn sample(loops: &[LoopState]) -> Value {
    let row = |columns: [Column; 20]| Value::from(columns.map(|(_, value)| value).to_vec());
    let links: Vec<Value> = links(loops)
        .map(|(at_ns, link)| row(columns(at_ns, link)))
        .collect();
    let directions: Vec<Value> = directions(loops)
        .map(|each| json!([each.transit.sum_ns, each.transit.segments]))
        .collect();
    let mut sample = json!({"links": links, "directions": directions});
    let users: Vec<Value> = users(loops)
        .map(|(at_ns, _, user)| user_columns(at_ns, user).map(|(_, value)| value))
        .map(|row| Value::from(row.to_vec()))
        .collect();
    if !users.is_empty() {
        sample["users"] = users.into();
    }
    sample
}

/// The values of a modelled user, taken at `at_ns`.
fn user_columns(at_ns: u64, user: &UserAccount) -> [Column; 5] {
    [
        ("at_ns", at_ns.into()),
        ("offered_bytes", user.offered_bytes.into()),
        ("served_bytes", user.served_bytes.into()),
        ("queued_bytes", json!(user.queued_bytes)),
        ("air_ns", user.air_ns.into()),
    ]
}

fn users(loops: &[LoopState]) -> impl Iterator<Item = (u64, &CellAccount, &UserAccount)> {
    let cells = loops
        .iter()
        .flat_map(|each| each.cells.iter().map(|cell| (each.at_ns, cell)));
    cells.flat_map(|(at_ns, cell)| cell.background.iter().map(move |user| (at_ns, cell, user)))
}

/// The values of a link, taken at `at_ns`.
fn columns(at_ns: u64, state: &LinkState) -> [Column; 20] {
    let (counts, now) = (&state.counts, &state.conditions);
    [
        ("at_ns", at_ns.into()),
        ("offered_segments", counts.offered.segments.into()),
        ("offered_bytes", counts.offered.bytes.into()),
        ("delivered_segments", counts.delivered.segments.into()),
        ("delivered_bytes", counts.delivered.bytes.into()),
        ("dropped_segments", counts.dropped_total().segments.into()),
        ("marked_segments", counts.marked.segments.into()),
        ("blocks_sent", counts.blocks_sent.into()),
        ("blocks_failed", counts.blocks_failed.into()),
        ("air_ns", counts.air_ns.into()),
        ("link_failures", counts.link_failures.into()),
        ("queued_segments", state.backlog.segments.into()),
        ("queued_bytes", state.backlog.bytes.into()),
        ("waited_ns", state.waited.sum_ns.into()),
        ("waited_segments", state.waited.segments.into()),
        ("rate_bps", json!(now.rate_bps)),
        ("delay_ns", json!(now.delay_ns)),
        ("loss", json!(now.loss)),
        (
            "state",
            json!(now.state.map(wavebed_link::pattern::State::name)),
        ),
        ("sinr_db", json!(now.sinr_db)),
    ]
}

fn dropped(counts: &Counts) -> Value {
    Reason::ALL
        .iter()
        .map(|reason| {
            let segments = counts.dropped[*reason as usize].segments;
            (reason.name().to_owned(), Value::from(segments))
        })
        .collect::<Map<String, Value>>()
        .into()
}

fn links(loops: &[LoopState]) -> impl Iterator<Item = (u64, &LinkState)> {
    loops
        .iter()
        .flat_map(|each| each.links.iter().map(|link| (each.at_ns, link)))
}

fn directions(loops: &[LoopState]) -> impl Iterator<Item = &DirectionState> {
    loops.iter().flat_map(|each| &each.directions)
}

/// Answers each line with `{"problem": null}`, or with the rule that the network breaks. The files of patterns are read
/// with `patterns` only.
///
/// # Errors
/// Standard input cannot be read, or standard output not be written.
pub fn run(patterns: bool) -> Result<i32, Problem> {
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| Problem::failed(format!("standard input: {error}")))?;
        let problem = problem_of(&line, patterns).err();
        print(&format!("{}\n", serde_json::json!({ "problem": problem })))?;
    }
    Ok(0)
}

fn problem_of(text: &str, read_patterns: bool) -> Result<(), String> {
    let network: NetworkConfig = serde_json::from_str(text).map_err(|error| error.to_string())?;
    network.check()?;
    room::check(network.hops(), network.mtu)?;
    let mut patterns = if read_patterns {
        Patterns::default()
    } else {
        Patterns::unread()
    };
    let built = network.build(0, &mut patterns);
    built.map(|_| ()).map_err(|error| error.to_string())
}

/// Prints the JSON Schema of a network.
///
/// # Errors
/// Standard output cannot be written.
pub fn schema() -> Result<i32, Problem> {
    let schema = schemars::schema_for!(NetworkConfig);
    print(&format!("{:#}\n", schema.as_value()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> Vec<LoopState> {
        let mut counts = Counts::default();
        counts.dropped[Reason::Loss as usize].segments = 2;
        counts.dropped[Reason::Aqm as usize].segments = 3;
        let link = LinkState {
            name: "radio.down".into(),
            counts,
            takes: vec!["rate"],
            ..LinkState::default()
        };
        vec![LoopState {
            at_ns: 7,
            directions: vec![DirectionState::default()],
            links: vec![link],
            ..LoopState::default()
        }]
    }

    #[test]
    fn a_sample_has_a_value_for_each_column() {
        let (head, sample) = (head(&state()), sample(&state()));
        for (columns, rows) in [
            ("link_columns", "links"),
            ("direction_columns", "directions"),
        ] {
            let names = head[columns].as_array().unwrap();
            let values = sample[rows][0].as_array().unwrap();
            assert_eq!(names.len(), values.len());
        }
        let names = head["link_columns"].as_array().unwrap();
        let value = |name: &str| {
            let place = names.iter().position(|other| other == name).unwrap();
            &sample["links"][0][place]
        };
        assert_eq!(
            (value("at_ns"), value("dropped_segments")),
            (&json!(7), &json!(5))
        );
        assert_eq!(
            (value("rate_bps"), value("state")),
            (&Value::Null, &Value::Null)
        );
    }

    #[test]
    fn the_whole_state_has_the_drops_by_reason() {
        let shown = link(&state()[0].links[0]);
        assert_eq!(shown["dropped_segments"]["loss"], 2);
        assert_eq!(shown["dropped_segments"]["aqm"], 3);
        assert_eq!(shown["dropped_segments"]["overflow"], 0);
        assert_eq!(shown["takes"], json!(["rate"]));
        assert_eq!(shown.get("at_ns"), None);
    }

    fn with_stage(stage: &str) -> String {
        format!(
            r#"{{"mtu": 1500, "nat": false, "coalesce": {{"kind": "off"}},
                    "hosts": [{{"name": "server", "congestion_control": null}},
                              {{"name": "client", "congestion_control": null}}],
                    "legs": [{{"from": "server", "to": "client",
                               "hops": [{{"name": "radio", "kind": "radio", "down": [{stage}], "up": []}}]}}]}}"#
        )
    }

    #[test]
    fn a_valid_file_has_no_problem_and_an_invalid_one_names_the_rule() {
        assert_eq!(problem_of(&with_stage(""), false), Ok(()));
        let stage = r#"{"stage": "corrupt", "probability": 2.0}"#;
        let problem = problem_of(&with_stage(stage), false).expect_err("is refused");
        assert!(problem.contains("probability"), "{problem}");
        assert!(problem_of("{", false).is_err());
    }

    #[test]
    fn files_of_patterns_are_read_on_demand_only() {
        let queue = r#"{"kind": "codel", "limit": {"packets": 9}, "target_ns": 9, "interval_ns": INTERVAL}"#;
        let stage = format!(
            r#"{{"stage": "bottleneck", "rate": {{"kind": "pattern", "file": "/gone"}}, "queue": {queue}}}"#
        );
        let right = with_stage(&stage.replace("INTERVAL", "90"));
        assert_eq!(problem_of(&right, false), Ok(()));
        assert!(problem_of(&right, true).is_err_and(|line| line.contains("/gone")));
        let wrong = with_stage(&stage.replace("INTERVAL", "8"));
        assert!(problem_of(&wrong, false).is_err_and(|line| line.contains("queue.interval_ns")));
        let later = format!(
            r#"{}, {{"stage": "corrupt", "probability": 2.0}}"#,
            stage.replace("INTERVAL", "90")
        );
        assert!(
            problem_of(&with_stage(&later), false).is_err_and(|line| line.contains("probability"))
        );
    }
}
