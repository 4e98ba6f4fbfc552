//! Printing without panics: `println!` and `eprintln!` panic when a stream is closed, full or broken.

use std::fmt::Display;
use std::io::{self, Write};

use crate::problem::Problem;

/// Prints a line on standard error. Ignores errors.
pub fn say(line: impl Display) {
    say_text(&format!("wavebed-core: {line}\n"));
}

/// Prints a text on standard error unchanged.
pub fn say_text(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints on standard output.
///
/// # Errors
/// If it is closed, full or broken.
pub fn print(text: &str) -> Result<(), Problem> {
    let mut output = io::stdout();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Problem::failed(format!("standard output: {error}")))
}
