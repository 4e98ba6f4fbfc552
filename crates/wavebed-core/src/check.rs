//! Checks laboratory files: one file per line of standard input, one answer per line.

use std::io::{BufRead, stdin};

use crate::lab_file::LabFile;
use crate::path_engine::build_hops;
use crate::problem::Problem;
use crate::say::print;

/// Answers each line with `{"problem": null}`, or with the rule that the file breaks.
///
/// # Errors
/// Standard input cannot be read, or standard output not be written.
pub fn run() -> Result<i32, Problem> {
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| Problem::failed(format!("standard input: {error}")))?;
        let problem = problem_of(&line);
        print(&format!("{}\n", serde_json::json!({ "problem": problem })))?;
    }
    Ok(0)
}

fn problem_of(text: &str) -> Option<String> {
    let lab = match LabFile::parse(text) {
        Ok(lab) => lab,
        Err(line) => return Some(line),
    };
    build_hops(&lab).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::problem_of;

    fn with_stage(stage: &str) -> String {
        format!(
            r#"{{"version": 1, "name": "a", "seed": 1, "mtu": 1500, "nat": false, "coalesce": {{"kind": "off"}},
                "hosts": [{{"name": "server", "congestion_control": null, "sysctls": {{}}}},
                          {{"name": "client", "congestion_control": null, "sysctls": {{}}}}],
                "legs": [{{"hops": [{{"name": "radio", "kind": "radio", "down": [{stage}], "up": []}}]}}],
                "background": [], "command": null, "log_dir": null, "pcap_dir": null, "summary_file": null}}"#
        )
    }

    #[test]
    fn a_valid_file_has_no_problem_and_an_invalid_one_names_the_rule() {
        assert_eq!(problem_of(&with_stage("")), None);
        let stage = r#"{"stage": "corrupt", "probability": 2.0}"#;
        let problem = problem_of(&with_stage(stage)).expect("is refused");
        assert!(problem.contains("probability"), "{problem}");
        assert!(problem_of("{").is_some());
    }
}
