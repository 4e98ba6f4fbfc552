//! The interface of the engine, and the process that runs it.
//!
//! The engine has threads and may hold gigabytes, so it runs in its own process beside the laboratory's init: starting
//! a program stays cheap, and init waits for the engine only here.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wavebed_link::radio::Handover;
use wavebed_os::confinement::Set;
use wavebed_os::{confinement, poll, process, sched};

use crate::problem::say as report;
use crate::timeline::Action;
use crate::{limits, problem};

/// Capabilities that the engine's process keeps: real-time priority for its loops, and files in other users' folders.
const NEEDED: Set = Set::SYS_NICE.union(Set::DAC_OVERRIDE);

/// Interval at which the engine's process checks that the engine runs. A bridge fails open within 100 ms.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// Key of the summary's text form; removed before the summary is stored.
pub const TEXT: &str = "text";

/// The requests to a running engine. Errors are one line.
pub trait Engine {
    /// Starts time, once. Returns time zero on the monotonic clock, nanoseconds.
    ///
    /// # Errors
    /// Time has started, or the engine cannot start.
    fn begin(&mut self) -> Result<u64, String>;

    /// The counters of every link, in the form of the summary.
    ///
    /// # Errors
    /// The engine does not answer.
    fn show(&self) -> Result<Value, String>;

    /// The names of links and directions and the columns of their samples.
    ///
    /// # Errors
    /// Time has not begun, or the engine does not answer.
    fn head(&self) -> Result<Value, String>;

    /// The values of all links and directions, in the order of the head.
    ///
    /// # Errors
    /// As in the head.
    fn sample(&self) -> Result<Value, String>;

    /// Changes links while they run: one, or every link that takes the change.
    ///
    /// # Errors
    /// There is no such link, or it does not take the change.
    fn set(&self, link: Option<&str>, change: Setting) -> Result<(), String>;

    /// Obeys a request to the timeline, if there is one, and returns its state.
    ///
    /// # Errors
    /// There is no timeline, time has not begun, or the request is wrong.
    fn timeline(&mut self, action: &Action) -> Result<Value, String>;

    /// Whether it has ended without a stop request.
    fn has_failed(&self) -> bool;

    /// Stops it and returns the summary, with its [`TEXT`].
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
    /// For how long from now on nothing enters the links, nanoseconds; it waits before them.
    OutageNs(u64),
    /// Several outages one after another.
    Flap {
        /// How many.
        times: u32,
        /// From one beginning to the next, nanoseconds.
        period_ns: u64,
        /// How long each lasts, nanoseconds; less than the period.
        down_ns: u64,
    },
    /// A handover of radios: nothing is sent for a while.
    Handover {
        /// For how long, nanoseconds.
        for_ns: u64,
        /// What becomes of the buffer; null: as the radio does.
        handling: Option<Handover>,
    },
}

/// A request of init to the engine's process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// [`Engine::begin`].
    Begin,
    /// [`Engine::show`].
    Show,
    /// [`Engine::head`].
    Head,
    /// [`Engine::sample`].
    Sample,
    /// [`Engine::set`].
    Set {
        /// The link; null for all.
        link: Option<String>,
        /// The change.
        #[serde(flatten)]
        setting: Setting,
    },
    /// [`Engine::timeline`].
    Timeline(Action),
    /// [`Engine::stop`]; the process ends.
    Stop,
}

/// Runs the engine's process: starts the engine and serves init's requests. Returns the exit status.
#[must_use]
pub fn serve(start: impl FnOnce() -> Result<Box<dyn Engine>, String>, mut init: UnixStream) -> i32 {
    be_apart();
    sched::open_many_files();
    // After devices and tables are open, and before there are threads, which would keep their capabilities.
    if let Err(error) = confinement::renounce(NEEDED) {
        let _ = say(&mut init, &Err(error.to_string()));
        return 1;
    }
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
        // One request at a time: the reader's buffer is empty between requests.
        let mut asked = [false];
        if poll::wait(&[init.as_fd()], &mut asked, Some(LOOK_EVERY_NS)).is_err()
            || engine.has_failed()
        {
            return i32::from(engine.stop().map_err(report).is_err());
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
            Ok(Request::Head) => engine.head(),
            Ok(Request::Sample) => engine.sample(),
            Ok(Request::Set { link, setting }) => {
                engine.set(link.as_deref(), setting).map(|()| Value::Null)
            }
            Ok(Request::Timeline(action)) => engine.timeline(&action),
            Ok(Request::Stop) => return i32::from(say(&mut init, &engine.stop()).is_err()),
            Err(error) => Err(error.to_string()),
        };
        if say(&mut init, &answer).is_err() {
            return 1;
        }
    }
}

/// Takes the calling process out of reach of signals that are sent to all processes of the laboratory.
pub fn be_apart() {
    // Signals that the terminal or the end of the laboratory sends to all processes do not concern it.
    process::ignore(&[
        problem::INT,
        problem::TERM,
        problem::HUP,
        problem::QUIT,
        problem::TSTP,
        problem::TTIN,
        problem::TTOU,
        problem::USR1,
        problem::USR2,
    ]);
    sched::leave_session();
}

fn say(stream: &mut UnixStream, answer: &Result<Value, String>) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Init's connection to the engine's process.
pub struct EngineLink {
    reader: BufReader<UnixStream>,
    pid: i32,
    fault: Option<String>,
}

impl EngineLink {
    /// A connection over `stream` to the process `pid`; waits until the engine runs.
    ///
    /// # Errors
    /// The engine could not start.
    pub fn new(stream: UnixStream, pid: i32) -> Result<Self, String> {
        let mut link = Self {
            reader: BufReader::new(stream),
            pid,
            fault: None,
        };
        link.answer(limits::ENGINE_START).map(|_| link)
    }

    /// Sends a request and waits for the answer. An engine that does not answer in time is killed.
    ///
    /// # Errors
    /// The engine refuses, has ended, or did not answer.
    pub fn ask(&mut self, request: &Request) -> Result<Value, String> {
        let limit = match request {
            Request::Stop => limits::ENGINE_STOP,
            _ => limits::ENGINE_ANSWER,
        };
        self.ask_within(request, limit)
    }

    /// Asks whether the engine and all its loops run. One that does not answer in time is killed.
    ///
    /// # Errors
    /// The engine has ended, or did not answer.
    pub fn check(&mut self, limit: Duration) -> Result<(), String> {
        self.ask_within(&Request::Show, limit).map(drop)
    }

    /// Stops the engine and waits for its counters, but no longer than until `enough` can be read: then it is killed.
    ///
    /// # Errors
    /// The engine has ended, was killed, or did not answer.
    pub fn stop_unless(&mut self, enough: BorrowedFd<'_>) -> Result<Value, String> {
        let limit = limits::ENGINE_STOP;
        self.request(&Request::Stop, limit)?;
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let mut readable = [false; 2];
        let answered = [self.reader.get_ref().as_fd(), enough];
        // Without an answer the read below reports what is wrong.
        let _ = poll::wait(&answered, &mut readable, Some(limit_ns));
        if readable == [false, true] {
            let _ = process::kill(self.pid, problem::KILL);
            return Err("ended before the counters were complete".to_owned());
        }
        self.answer(limit)
    }

    /// Why the engine was killed, if it was.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub fn ask_within(&mut self, request: &Request, limit: Duration) -> Result<Value, String> {
        self.request(request, limit)?;
        self.answer(limit)
    }

    fn request(&mut self, request: &Request, limit: Duration) -> Result<(), String> {
        let mut line = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let stream = self.reader.get_mut();
        stream
            .set_write_timeout(Some(limit))
            .map_err(|error| error.to_string())?;
        stream
            .write_all(&line)
            .map_err(|error| self.lost(&error, limit))
    }

    fn answer(&mut self, limit: Duration) -> Result<Value, String> {
        self.reader
            .get_ref()
            .set_read_timeout(Some(limit))
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(count) if count > 0 => {
                serde_json::from_str::<Result<Value, String>>(&line).map_err(|_| gone())?
            }
            Ok(_) => Err(gone()),
            Err(error) => Err(self.lost(&error, limit)),
        }
    }

    /// The connection failed. A late answer would be taken for that to the next request, so the engine is killed.
    fn lost(&mut self, error: &std::io::Error, limit: Duration) -> String {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return gone();
        }
        let line = format!(
            "the link engine did not answer within {} s and was killed",
            limit.as_secs_f64()
        );
        let _ = process::kill(self.pid, problem::KILL);
        self.fault = Some(line.clone());
        line
    }
}

fn gone() -> String {
    "the link engine has ended".to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    /// A process that reports that it runs, and never answers.
    fn silent() -> (std::process::Child, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        let child = Command::new("sh")
            .args(["-c", "echo '{\"Ok\":null}'; exec sleep 1000"])
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .spawn()
            .expect("starts");
        (child, ours)
    }

    #[test]
    fn an_engine_that_does_not_answer_is_killed() {
        let (mut child, stream) = silent();
        let pid = i32::try_from(child.id()).expect("a pid");
        let mut link = EngineLink::new(stream, pid).expect("it runs");
        assert_eq!(link.fault(), None);
        let began = Instant::now();
        let answer = link.ask_within(&Request::Show, Duration::from_millis(50));
        // The engine would end after 1000 s.
        assert!(began.elapsed() < Duration::from_secs(60));
        let refusal = answer.expect_err("no answer");
        assert_eq!(
            refusal,
            "the link engine did not answer within 0.05 s and was killed"
        );
        assert_eq!(link.fault(), Some(refusal.as_str()));
        assert!(!child.wait().expect("it was killed").success());
        assert_eq!(
            link.ask(&Request::Show),
            Err("the link engine has ended".to_owned())
        );
    }
}
