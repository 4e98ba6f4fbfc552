//! `wavebed-agent`: runs the programs of a trial on a real host. `wavebed-agent probe` is one of them.

use std::io::{BufWriter, Read as _, Write as _};
use std::process::ExitCode;

use wavebed_agent::front;
use wavebed_agent::protocol::Problem;
use wavebed_probe::config::Config;
use wavebed_probe::endpoint;

const USAGE: &str = "wavebed starts this program over ssh, for scenarios with [lab] backend = \"hosts\".\n\
    usage: wavebed-agent [--remove-own-file] | --version\n\
    \u{20}      wavebed-agent probe <SETTINGS >RECEIVED\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let answer = match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => front::run(),
        ["--remove-own-file"] => front::remove_own_file().and_then(|()| front::run()),
        ["probe"] => probe(),
        ["--version"] => print(concat!("wavebed-agent ", env!("CARGO_PKG_VERSION"), "\n")),
        ["--help" | "-h"] => print(USAGE),
        _ => {
            let _ = write!(std::io::stderr(), "wavebed-agent: wrong arguments\n{USAGE}");
            Ok(2)
        }
    };
    match answer {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(problem) => {
            // A closed standard error has no reader.
            let _ = writeln!(std::io::stderr(), "wavebed-agent: {problem}");
            ExitCode::from(3)
        }
    }
}

/// Takes part in a recording; its settings are on standard input.
fn probe() -> Result<i32, Problem> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let config = Config::read(&text)?;
    endpoint::run(&config, BufWriter::new(std::io::stdout().lock()))?;
    Ok(0)
}

fn print(text: &str) -> Result<i32, Problem> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}
