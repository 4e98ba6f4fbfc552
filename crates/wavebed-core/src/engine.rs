//! The engine as the laboratory sees it, and the process in which it runs.
//!
//! The engine has threads and may hold gigabytes, so it lives in a process of its own beside the laboratory's
//! init: starting a program stays cheap, and init never waits for it but here.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wavebed_os::{poll, process, sched};

use crate::say::say as tell;
use crate::signals;

/// How long the engine may take to answer init.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// How long it may take to stop: captures and series are written to the end.
const STOP_TIME: Duration = Duration::from_secs(120);

/// How often the engine's process looks whether the engine still runs.
const LOOK_EVERY_NS: u64 = 500_000_000;

/// Where a summary has itself as a person reads it; taken out before it is stored.
pub const TEXT: &str = "text";

/// What can be asked of a running engine. Refusals are one line.
pub trait Engine {
    /// Lets time begin, once. Answers when it did, on the monotonic clock, nanoseconds.
    ///
    /// # Errors
    /// It has begun, or the engine cannot start.
    fn begin(&mut self) -> Result<u64, String>;

    /// The counters of every link, in the form of the summary.
    ///
    /// # Errors
    /// The engine does not answer.
    fn show(&self) -> Result<Value, String>;

    /// Changes links while they run: one, or every link that takes the change.
    ///
    /// # Errors
    /// There is no such link, or it does not take the change.
    fn set(&self, link: Option<&str>, change: Setting) -> Result<(), String>;

    /// Whether it has ended by itself.
    fn has_failed(&self) -> bool;

    /// Stops it and draws up the summary, with its [`TEXT`].
    ///
    /// # Errors
    /// A loop, a log or a capture failed.
    fn stop(self: Box<Self>) -> Result<Value, String>;
}

/// A live change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "key", content = "value", rename_all = "snake_case")]
pub enum Setting {
    /// Constant rate, bits per second.
    RateBps(u64),
    /// Constant one-way delay, nanoseconds.
    DelayNs(u64),
    /// Probability of independent loss.
    Loss(f64),
    /// The text of a native pattern that starts now.
    Pattern(String),
}

/// What init asks of the engine's process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// [`Engine::begin`].
    Begin,
    /// [`Engine::show`].
    Show,
    /// [`Engine::set`].
    Set {
        /// The link; all without.
        link: Option<String>,
        /// The change.
        #[serde(flatten)]
        setting: Setting,
    },
    /// [`Engine::stop`]; the process ends.
    Stop,
}

/// The life of the engine's process: starts the engine, serves init's requests, ends. Returns the exit status.
#[must_use]
pub fn serve(start: impl FnOnce() -> Result<Box<dyn Engine>, String>, mut init: UnixStream) -> i32 {
    // Whatever the terminal or the end of the laboratory sends to everybody is not for the engine.
    process::ignore(&[
        signals::INT,
        signals::TERM,
        signals::HUP,
        signals::QUIT,
        signals::TSTP,
        signals::TTIN,
        signals::TTOU,
        signals::USR1,
        signals::USR2,
    ]);
    sched::leave_session();
    let mut engine = match start() {
        Ok(engine) => engine,
        Err(line) => {
            let _ = say(&mut init, &Err(line));
            return 1;
        }
    };
    if say(&mut init, &Ok(Value::Null)).is_err() {
        return 1;
    }
    let Ok(reader) = init.try_clone() else {
        return 1;
    };
    let mut reader = BufReader::new(reader);
    loop {
        // One demand at a time: between two of them nothing is left in the reader's buffer.
        let mut asked = [false];
        if poll::wait(&[init.as_fd()], &mut asked, Some(LOOK_EVERY_NS)).is_err()
            || engine.has_failed()
        {
            return i32::from(engine.stop().map_err(tell).is_err());
        }
        if !asked[0] {
            continue;
        }
        let mut line = String::new();
        if !reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            return 1;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(Request::Begin) => engine.begin().map(Value::from),
            Ok(Request::Show) => engine.show(),
            Ok(Request::Set { link, setting }) => {
                engine.set(link.as_deref(), setting).map(|()| Value::Null)
            }
            Ok(Request::Stop) => return i32::from(say(&mut init, &engine.stop()).is_err()),
            Err(error) => Err(error.to_string()),
        };
        if say(&mut init, &answer).is_err() {
            return 1;
        }
    }
}

fn say(stream: &mut UnixStream, answer: &Result<Value, String>) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Init's end of the conversation with the engine's process.
pub struct EngineLink {
    reader: BufReader<UnixStream>,
}

impl EngineLink {
    /// A conversation over `stream`; waits until the engine runs.
    ///
    /// # Errors
    /// The engine could not start.
    pub fn new(stream: UnixStream) -> Result<Self, String> {
        stream
            .set_read_timeout(Some(ANSWER_TIME))
            .map_err(|error| error.to_string())?;
        let mut link = Self {
            reader: BufReader::new(stream),
        };
        link.answer().map(|_| link)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The engine refuses, or is gone.
    pub fn ask(&mut self, request: &Request) -> Result<Value, String> {
        let mut line = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let patience = if matches!(request, Request::Stop) {
            STOP_TIME
        } else {
            ANSWER_TIME
        };
        let stream = self.reader.get_mut();
        stream
            .set_read_timeout(Some(patience))
            .map_err(|error| error.to_string())?;
        stream.write_all(&line).map_err(|_| gone())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(count) if count > 0 => {
                serde_json::from_str::<Result<Value, String>>(&line).map_err(|_| gone())?
            }
            _ => Err(gone()),
        }
    }
}

fn gone() -> String {
    "the link engine does not answer".to_owned()
}
