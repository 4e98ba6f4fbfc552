//! The agent of the backend `hosts`: it runs the programs of one trial on a real host.
//!
//! The machine that runs the experiment starts it over ssh and talks to it by frames on its standard input and output
//! ([`frame`]). Its programs and its files live in namespaces and in memory of its own: when it ends, even by SIGKILL
//! or because the connection is lost, the kernel ends every program, and nothing is left on the disk.

pub mod confined;
pub mod files;
pub mod front;
pub mod guardian;
pub mod init;
pub mod machine;
pub mod programs;
pub mod protocol;
