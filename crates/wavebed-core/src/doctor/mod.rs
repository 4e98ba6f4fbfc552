//! Checks by trial what this machine supports, with a remedy for each failure.

mod checks;
mod probe;

use serde::Serialize;

use crate::problem::{CANNOT, Problem};
use crate::say::print;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    Ok,
    /// A feature is missing or limited.
    Warn,
    /// No laboratory can run.
    Fail,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Its result.
    pub status: Verdict,
    /// The finding.
    pub found: String,
    /// The remedy; null if the check passed.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Warn,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Fail,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn as_text(&self) -> String {
        let mark = match self.status {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let remedy = self
            .remedy
            .as_ref()
            .map_or(String::new(), |remedy| format!("      {remedy}\n"));
        format!("{mark}  {}: {}\n{remedy}", self.name, self.found)
    }
}

/// Runs every check, prints them, and returns the exit status: 0, or 3 if no laboratory can run.
///
/// # Errors
/// They cannot be printed.
pub fn examine(json: bool) -> Result<i32, Problem> {
    let checks = checks::all();
    let can_run = checks.iter().all(|check| check.status != Verdict::Fail);
    let text = if json {
        format!(
            "{}\n",
            serde_json::json!({"can_run": can_run, "checks": checks})
        )
    } else {
        checks.iter().map(Check::as_text).collect()
    };
    print(&text)?;
    Ok(if can_run { 0 } else { CANNOT })
}
