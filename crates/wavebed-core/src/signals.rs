//! Signal numbers, the same on every supported architecture.

/// Hang-up of the terminal.
pub const HUP: i32 = 1;
/// Ctrl-C.
pub const INT: i32 = 2;
/// Ctrl-\.
pub const QUIT: i32 = 3;
/// Kill; cannot be caught.
pub const KILL: i32 = 9;
/// For programs' own use.
pub const USR1: i32 = 10;
/// For programs' own use.
pub const USR2: i32 = 12;
/// Request to terminate.
pub const TERM: i32 = 15;
/// A child changed its state.
pub const CHLD: i32 = 17;
/// Continue after a stop.
pub const CONT: i32 = 18;
/// Ctrl-Z.
pub const TSTP: i32 = 20;
/// Reading in the background.
pub const TTIN: i32 = 21;
/// Writing in the background.
pub const TTOU: i32 = 22;
/// The window changed its size.
pub const WINCH: i32 = 28;
