//! What a port may be asked, as JSON.

use std::io::ErrorKind;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wavebed_forward::answer::NotFound;
use wavebed_forward::frame::{FrameSpec, Range};
use wavebed_forward::receiver::ReceiverKind;
use wavebed_forward::sender::SenderKind;

/// One request.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What the interface is.
    Describe {},
    /// What went through it.
    Counters {},
    /// Switch a feature.
    Offload {
        /// By the kernel's name.
        name: String,
        /// On or off.
        on: bool,
    },
    /// Which ways to send and to receive there are.
    Probe {},
    /// Answer for these addresses.
    Answer {
        /// None ends it.
        addresses: Addresses,
    },
    /// Find a neighbour.
    Resolve(Resolve),
    /// Start the counters of a trial at zero.
    Receive(Box<Receive>),
    /// The frame counters now.
    FrameCounters {},
    /// Send frames.
    Send(Box<Send>),
    /// Detach the receiver.
    Release {},
    /// How fast sender and receiver are by themselves.
    Ceiling(Ceiling),
}

/// See [`Request::Answer`].
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Addresses {
    /// A row.
    Row(Range<IpAddr>),
    /// Single ones and rows.
    List(Vec<Item>),
}

/// See [`Addresses::List`].
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// One.
    One(IpAddr),
    /// A row.
    Row(Range<IpAddr>),
}

impl Addresses {
    /// As rows.
    pub fn into_ranges(self) -> Vec<Range<IpAddr>> {
        let items = match self {
            Self::Row(range) => vec![Item::Row(range)],
            Self::List(items) => items,
        };
        let one = |first| Range { first, count: 1 };
        let ranges = items.into_iter().map(|item| match item {
            Item::One(address) => one(address),
            Item::Row(range) => range,
        });
        ranges.collect()
    }
}

/// See [`Request::Resolve`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// The address to resolve.
    pub address: IpAddr,
    /// Who asks.
    pub source: IpAddr,
    /// For how long.
    pub timeout_ns: u64,
    /// In which VLAN.
    pub vlan: Option<u16>,
}

/// See [`Request::Receive`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Which frames are expected.
    pub frames: FrameSpec,
    /// The trial to count.
    pub trial: u16,
    /// How many of them are kept.
    pub sample: u32,
    /// How; the best way that works without.
    pub receiver: Option<ReceiverKind>,
}

/// See [`Request::Send`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Which frames.
    pub frames: FrameSpec,
    /// Goes into every stamp.
    pub trial: u16,
    /// How many.
    pub count: u64,
    /// How fast; as fast as it goes without.
    pub rate_pps: Option<f64>,
    /// How many leave together.
    pub batch: u32,
    /// When to give up, from when the first frame is due.
    pub deadline_ns: u64,
    /// How; the best way that works without.
    pub sender: Option<SenderKind>,
}

/// See [`Request::Ceiling`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// Sizes with FCS.
    pub size_bytes: Vec<u16>,
    /// Flows.
    pub flows: u16,
    /// For how long.
    pub seconds: f64,
    /// The best ways that work without.
    pub sender: Option<SenderKind>,
    /// See `sender`.
    pub receiver: Option<ReceiverKind>,
}

/// Longest sample, frames.
const MOST_SAMPLES: u32 = 4096;
/// Longest search for a neighbour, a minute.
const LONGEST_SEARCH_NS: u64 = 60_000_000_000;
/// Longest measurement of the ceiling, seconds.
const LONGEST_CEILING_S: f64 = 10.0;

/// Reads a line, and checks what a type cannot say.
///
/// # Errors
/// One line that says what is wrong.
pub fn read(line: &str) -> Result<Request, String> {
    let request = serde_json::from_str(line).map_err(|error| format!("no request: {error}"))?;
    match &request {
        Request::Receive(receive) if receive.sample > MOST_SAMPLES => Err(format!(
            "sample: {} is more than {MOST_SAMPLES}",
            receive.sample
        )),
        Request::Resolve(resolve) if resolve.timeout_ns > LONGEST_SEARCH_NS => Err(format!(
            "timeout_ns: {} is more than a minute",
            resolve.timeout_ns
        )),
        Request::Resolve(Resolve {
            vlan: Some(vlan @ (0 | 4095..)),
            ..
        }) => Err(format!("vlan: {vlan} is not within 1 to 4094")),
        Request::Ceiling(ceiling)
            if !(ceiling.seconds > 0.0 && ceiling.seconds <= LONGEST_CEILING_S) =>
        {
            Err(format!(
                "seconds: {} is not above 0 and at most {LONGEST_CEILING_S}",
                ceiling.seconds
            ))
        }
        _ => Ok(request),
    }
}

/// `EPERM`, `ENOMEM`, `EACCES`, `EBUSY`, `EINVAL`, `ENOSYS`, `EPROTONOSUPPORT`, `EOPNOTSUPP`: what the kernel answers when it will
/// not, or cannot.
const CANNOT: [i32; 8] = [1, 12, 13, 16, 22, 38, 93, 95];

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request's.
    Wrong,
    /// This machine's.
    Cannot,
    /// It went wrong.
    Failed,
}

/// One line, and whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line.
    pub line: String,
    /// See [`Kind`].
    pub kind: Kind,
}

impl Refusal {
    /// The request breaks a rule.
    pub fn wrong(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Wrong)
    }

    /// The machine cannot.
    pub fn cannot(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Cannot)
    }

    /// It was tried and went wrong.
    pub fn failed(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Failed)
    }

    fn new(line: impl Into<String>, kind: Kind) -> Self {
        Self {
            line: line.into().replace('\n', " "),
            kind,
        }
    }
}

/// By the system's answer.
pub fn cannot_or_failed(error: &wavebed_os::Error) -> Refusal {
    let refused = error.errno().is_some_and(|number| CANNOT.contains(&number));
    if refused || error.source.kind() == ErrorKind::Unsupported {
        Refusal::cannot(error.to_string())
    } else {
        Refusal::failed(error.to_string())
    }
}

impl From<NotFound> for Refusal {
    fn from(error: NotFound) -> Self {
        match error {
            NotFound::Families(..) => Self::wrong(error.to_string()),
            NotFound::NoAnswer { .. } => Self::failed(error.to_string()),
            NotFound::System(error) => cannot_or_failed(&error),
        }
    }
}

/// The answer to a request: what stands under `ok`.
pub(super) type Answer = Result<Value, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> String {
        read(line).expect_err("refused")
    }

    #[test]
    fn requests_are_read() {
        assert!(matches!(
            read(r#"{"do": "describe"}"#),
            Ok(Request::Describe {})
        ));
        let line = r#"{"do": "resolve", "address": "::1", "source": "::2", "timeout_ns": 5, "vlan": null}"#;
        let Ok(Request::Resolve(resolve)) = read(line) else {
            panic!("a request");
        };
        assert_eq!((resolve.timeout_ns, resolve.vlan), (5, None));
    }

    #[test]
    fn addresses_come_one_by_one_and_in_rows() {
        for (text, counts) in [
            ("[]", vec![]),
            (r#"["198.18.0.2", "::1"]"#, vec![1, 1]),
            (r#"{"first": "198.18.0.2", "count": 16}"#, vec![16]),
            (r#"["::1", {"first": "::2", "count": 3}]"#, vec![1, 3]),
        ] {
            let line = format!(r#"{{"do": "answer", "addresses": {text}}}"#);
            let Ok(Request::Answer { addresses }) = read(&line) else {
                panic!("a request: {line}");
            };
            let read: Vec<u16> = addresses
                .into_ranges()
                .iter()
                .map(|row| row.count)
                .collect();
            assert_eq!(read, counts);
        }
    }

    #[test]
    fn what_is_no_request_is_said_in_one_line() {
        for (line, expected) in [
            ("", "no request: EOF"),
            ("{}", "missing field `do`"),
            (r#"{"do": "dance"}"#, "unknown variant `dance`"),
            (r#"{"do": "describe", "x": 1}"#, "unknown field `x`"),
            (r#"{"do": "offload", "name": "tso"}"#, "missing field `on`"),
            (
                r#"{"do": "resolve", "address": "::1", "source": "::2", "timeout_ns": 5, "vlan": 4095}"#,
                "vlan: 4095",
            ),
            (
                r#"{"do": "ceiling", "size_bytes": [64], "flows": 1, "seconds": 0, "sender": null, "receiver": null}"#,
                "seconds: 0",
            ),
            (
                r#"{"do": "ceiling", "size_bytes": [64], "flows": 1, "seconds": 1, "sender": "dpdk", "receiver": null}"#,
                "unknown variant `dpdk`",
            ),
        ] {
            let said = refusal(line);
            assert!(said.contains(expected) && !said.contains('\n'), "{said}");
        }
    }
}
