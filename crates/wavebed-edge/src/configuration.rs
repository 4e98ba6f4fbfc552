//! Configuration files: their text, and the line of an error in it.

use std::path::Path;

use wavebed_os::unix;

/// No configuration is larger.
const MAX_BYTES: u64 = 1 << 20;

/// The text of `file`.
///
/// # Errors
/// One line: the file, and why it cannot be read.
pub fn read(file: &Path) -> Result<String, String> {
    unix::read_text(file, MAX_BYTES).map_err(|error| format!("{}: {error}", file.display()))
}

/// The number of the line of `text` that `error` is about, from 1; `None` if it is about no place.
#[must_use]
pub fn line(text: &str, error: &toml::de::Error) -> Option<usize> {
    let start = error.span()?.start;
    let before = text.get(..start).unwrap_or(text);
    Some(before.matches('\n').count() + 1)
}
