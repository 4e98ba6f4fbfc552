//! Time limits of the waits of a laboratory. Python's limits in `wavebed/lab/protocol.py` are above these: the caller of
//! a laboratory waits longer than the laboratory itself.

use std::time::Duration;

/// Until the engine runs. The start of a laboratory may take 20 s in all.
pub const ENGINE_START: Duration = Duration::from_secs(15);

/// Until the engine answers a request. An answer of the control socket may take 10 s.
pub const ENGINE_ANSWER: Duration = Duration::from_secs(8);

/// Interval at which a bridge asks its engine whether it runs, and until the engine answers; then it is killed.
pub const HEARTBEAT_EVERY_NS: u64 = 2_000_000_000;
/// See [`HEARTBEAT_EVERY_NS`]. A processor that others use is late by tens of milliseconds.
pub const HEARTBEAT: Duration = Duration::from_secs(4);

/// Until the engine has written captures and series to their end. The stop of a laboratory may take 30 s in all.
pub const ENGINE_STOP: Duration = Duration::from_secs(20);

/// Until programs have ended at the end of the laboratory, unless its file says otherwise.
pub const PROGRAMS_NS: u64 = 200_000_000;

/// [`PROGRAMS_NS`], as the default of a key.
pub const fn programs_ns() -> u64 {
    PROGRAMS_NS
}

/// Time between two looks whether the last data has arrived.
pub const DRAIN_LOOK_NS: u64 = 20_000_000;

/// The path has drained if it was empty for this long: a server that read the last byte may answer.
pub const QUIET_NS: u64 = 100_000_000;

/// Until the command has ended after SIGTERM or SIGHUP.
pub const COMMAND_NS: u64 = 2_000_000_000;

/// Until the command has ended after a second termination signal.
pub const COMMAND_AGAIN_NS: u64 = 500_000_000;

/// Until everything has ended after a second signal; then it is killed. Everything is removed 3 s after that signal: on
/// a loaded machine the kernel takes more than a second to remove the namespaces.
pub const ALL_AGAIN_NS: u64 = 1_000_000_000;

// The outer wait is longer.
const _: () = assert!(ENGINE_START.as_secs() < 20 && ENGINE_ANSWER.as_secs() < 10);
const _: () = assert!(ENGINE_STOP.as_secs() + PROGRAMS_NS.div_ceil(1_000_000_000) < 30);
const _: () =
    assert!(COMMAND_AGAIN_NS + PROGRAMS_NS < ALL_AGAIN_NS && ALL_AGAIN_NS < 3_000_000_000);
