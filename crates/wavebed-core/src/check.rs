//! Checks networks, one per line of standard input, with one answer per line; and describes what they are.

use std::io::{BufRead, stdin};

use wavebed_path::{NetworkConfig, Patterns, build_legs};

use crate::problem::Problem;
use crate::room;
use crate::say::print;

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
    let hops = network.legs.iter().map(|leg| leg.hops.as_slice());
    room::check(hops.clone().flatten(), network.mtu)?;
    let mut patterns = if read_patterns {
        Patterns::default()
    } else {
        Patterns::unread()
    };
    let built = build_legs(hops, 0, network.mtu, &mut patterns);
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
    use super::problem_of;

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
