//! Reads the configuration from TOML and from `--set KEY=VALUE`.

use std::path::Path;

use super::settings::Settings;
use crate::configuration;

/// The configuration of `file` (defaults without one), changed by `sets`, each `KEY=VALUE`.
///
/// # Errors
/// One line: the file and its line, or the option; the key, the error and what would be right.
pub fn read(file: Option<&Path>, sets: &[String]) -> Result<Settings, String> {
    let text = match file {
        Some(file) => configuration::read(file)?,
        None => String::new(),
    };
    let name = file.map_or_else(|| "--set".to_owned(), |file| file.display().to_string());
    read_text(&name, &text, sets)
}

/// The same for the text of a file called `name`.
///
/// # Errors
/// As [`read`].
pub fn read_text(name: &str, text: &str, sets: &[String]) -> Result<Settings, String> {
    let settings: Settings = toml::from_str(text).map_err(|error| located(name, text, &error))?;
    if sets.is_empty() {
        settings
            .check()
            .map_err(|error| format!("{name}: {error}"))?;
        return Ok(settings);
    }
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| located(name, text, &error))?;
    for set in sets {
        let (key, value) = set
            .split_once('=')
            .ok_or_else(|| format!("--set {set}: write KEY=VALUE, such as `idle=10min`"))?;
        table.insert(key.trim().to_owned(), value_of(value.trim()));
    }
    let settings: Settings = table
        .try_into()
        .map_err(|error: toml::de::Error| format!("--set: {}", one_line(error.message())))?;
    settings
        .check()
        .map_err(|error| format!("--set: {error}"))?;
    Ok(settings)
}

/// A TOML value, or else text.
fn value_of(text: &str) -> toml::Value {
    let parsed: Option<toml::Table> = toml::from_str(&format!("value = {text}")).ok();
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn located(name: &str, text: &str, error: &toml::de::Error) -> String {
    let message = one_line(error.message());
    match configuration::line(text, error) {
        Some(number) => {
            let line = text.lines().nth(number - 1).unwrap_or("");
            let key = line.split('=').next().unwrap_or("").trim();
            format!("{name}:{number}: {key}: {message}")
        }
        None => format!("{name}: {message}"),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
