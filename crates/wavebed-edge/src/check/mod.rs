//! `wavebed-edge check`: what this machine can do, found by trying, and which remedies then work.
//!
//! What would change the machine is tried in a network namespace of its own, which ends with the trial.

mod facts;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use crate::problem::Problem;
use facts::{Fact, Name};

/// Arguments of `wavebed-edge check`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A remedy, and what it needs.
struct Needs {
    name: &'static str,
    all: &'static [Name],
    /// What it does without, and what that costs.
    better: &'static [(Name, &'static str)],
}

const UNFILTERED: &str = "all system calls stay allowed";

const REMEDIES: [Needs; 3] = [
    Needs {
        name: "splitter",
        all: &[Name::NetworkAdministration, Name::Tproxy, Name::Forwarding],
        better: &[
            (Name::Bbr, "no BBR towards the client"),
            (
                Name::LeastTimeout,
                "the kernel's least retransmission timeout, 200 ms",
            ),
            (
                Name::Splice,
                "buffers of its own in place of large pipes: copy = \"read-write\"",
            ),
            (Name::SystemCallFilter, UNFILTERED),
        ],
    },
    Needs {
        name: "tunnel",
        all: &[Name::NetworkAdministration, Name::Tun],
        better: &[
            (Name::Forwarding, "for programs on this machine only"),
            (Name::SystemCallFilter, UNFILTERED),
            (
                Name::Landlock,
                "files that everybody may read stay open to it",
            ),
        ],
    },
    Needs {
        name: "syn",
        all: &[Name::NetworkAdministration, Name::LinearSyn],
        better: &[(
            Name::SocketProgram,
            "settings alone: a SYN each second for half a minute",
        )],
    },
];

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Verdict {
    name: &'static str,
    works: bool,
    /// What is missing.
    lacks: Vec<Name>,
    /// What it does worse for want of something.
    without: Vec<&'static str>,
}

/// Prints what works. The exit status is 3 if a remedy does not work here.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(options: &Options) -> Result<ExitCode, Problem> {
    let facts = facts::all();
    let verdicts: Vec<Verdict> = REMEDIES.iter().map(|one| verdict(one, &facts)).collect();
    let text = if options.json {
        let whole = serde_json::json!({"checks": facts, "remedies": verdicts});
        format!("{whole}\n")
    } else {
        lines(&facts, &verdicts)
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Problem::failed(format!("check: {error}")))?;
    Ok(if verdicts.iter().all(|one| one.works) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    })
}

fn verdict(remedy: &Needs, facts: &[Fact]) -> Verdict {
    let holds = |name: Name| facts.iter().any(|fact| fact.name == name && fact.holds);
    let lacks: Vec<Name> = remedy
        .all
        .iter()
        .copied()
        .filter(|name| !holds(*name))
        .collect();
    let better = remedy.better.iter().filter(|(name, _)| !holds(*name));
    Verdict {
        name: remedy.name,
        works: lacks.is_empty(),
        lacks,
        without: better.map(|(_, cost)| *cost).collect(),
    }
}

fn lines(facts: &[Fact], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for fact in facts {
        let answer = if fact.holds { "yes" } else { "no" };
        let _ = write!(text, "{answer:<4}{:<24}{}", fact.name.text(), fact.found);
        if let Some(right) = fact.remedy.as_ref().filter(|_| !fact.holds) {
            let _ = write!(text, ": {right}");
        }
        text.push('\n');
    }
    for one in verdicts {
        let said = if one.works {
            let costs = one.without.join("; ");
            if costs.is_empty() {
                "works".to_owned()
            } else {
                format!("works with less ({costs})")
            }
        } else {
            let lacks: Vec<&str> = one.lacks.iter().map(|name| name.text()).collect();
            format!("does not work here: lacks {}", lacks.join(", "))
        };
        let _ = writeln!(text, "{}: {said}", one.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(missing: &[Name]) -> Vec<Fact> {
        facts::NAMES
            .into_iter()
            .map(|name| Fact {
                name,
                holds: !missing.contains(&name),
                found: "found".to_owned(),
                remedy: Some("do this".to_owned()),
            })
            .collect()
    }

    fn told(missing: &[Name]) -> String {
        let facts = machine(missing);
        let verdicts: Vec<Verdict> = REMEDIES.iter().map(|one| verdict(one, &facts)).collect();
        lines(&facts, &verdicts)
    }

    #[test]
    fn every_remedy_works_where_nothing_is_missing() {
        let text = told(&[]);
        assert!(text.contains("splitter: works\n") && text.contains("tunnel: works\n"));
        assert!(!text.contains("do this"), "{text}");
    }

    #[test]
    fn what_is_missing_is_named_with_what_it_stops_or_costs() {
        let text = told(&[Name::Tproxy, Name::SocketProgram, Name::Landlock]);
        assert!(text.contains("no  TPROXY"), "{text}");
        assert!(text.contains("found: do this"), "{text}");
        assert!(text.contains("splitter: does not work here: lacks TPROXY\n"));
        assert!(text.contains("syn: works with less (settings alone"));
        assert!(text.contains("tunnel: works with less (files"));
    }
}
