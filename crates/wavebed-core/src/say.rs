//! Printing that never ends the program: `println!` and `eprintln!` panic when a stream is closed, full or broken.

use std::fmt::Display;
use std::io::{self, Write};

use crate::problem::Problem;

/// Says a line on standard error. If nobody can hear it, work goes on.
pub fn say(line: impl Display) {
    say_text(&format!("wavebed-core: {line}\n"));
}

/// Says a text on standard error as it is.
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
