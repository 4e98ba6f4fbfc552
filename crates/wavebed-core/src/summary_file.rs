//! The summary of a laboratory or a bridge as a file.

use std::path::Path;

use serde_json::Value;
use wavebed_os::output;

/// Writes the summary, with the name and the seed, if there is a file for it.
///
/// # Errors
/// One line with the file and the system's error.
pub fn write_summary(
    path: Option<&Path>,
    name: &str,
    seed: u64,
    summary: &Value,
) -> Result<(), String> {
    let Some(path) = path else {
        return Ok(());
    };
    let mut summary = summary.clone();
    summary["name"] = name.into();
    summary["seed"] = seed.into();
    let text = serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|error| format!("summary_file: {}: {error}", path.display()))
}
