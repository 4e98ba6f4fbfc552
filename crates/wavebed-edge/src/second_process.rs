//! A second process of this program, which takes back at its end what the first one has changed in the system.
//!
//! It waits on its standard input, a pipe from the first process, whose end it notices whatever ended it.

use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;

use wavebed_os::process::{self, ChildState, Spawn};

/// SIGHUP, SIGINT, SIGTERM: they end the first process, and its end ends this one.
const IGNORED: [i32; 3] = [1, 2, 15];

/// For the second process: from now on no signal that is for the first one ends it.
pub fn ignore_signals() {
    process::ignore(&IGNORED);
}

/// For the second process: tells the first one that it waits.
pub fn say_ready() {
    let _ = io::stdout().write_all(b"\n");
}

/// The second process, as the first one has it. Dropping it closes the pipe and waits for its end.
#[derive(Debug)]
pub struct SecondProcess {
    pipe: Option<PipeWriter>,
    process: i32,
}

impl SecondProcess {
    /// Starts a job of this program, and returns when it waits. The calling process must have one thread.
    ///
    /// # Errors
    /// It cannot be started, or ended before it waited.
    pub fn start(
        job: &str,
        arguments: impl IntoIterator<Item = String>,
        environment: &[(String, String)],
    ) -> io::Result<Self> {
        let mut argv = vec!["/proc/self/exe".to_owned(), job.to_owned()];
        argv.extend(arguments);
        let (input, pipe) = io::pipe()?;
        let (mut ready, output) = io::pipe()?;
        let process = process::spawn(&Spawn {
            argv: &argv,
            environment,
            directory: None,
            network: None,
            hostname: "",
            stdio: [Some(input.as_fd()), Some(output.as_fd()), None],
            terminal: None,
            confinement: None,
        })
        .map_err(|error| error.source)?;
        drop((input, output));
        let started = Self {
            pipe: Some(pipe),
            process,
        };
        // From then on no signal ends it before its time.
        ready.read_exact(&mut [0])?;
        Ok(started)
    }

    /// Sends it a byte.
    ///
    /// # Errors
    /// It has ended.
    pub fn tell(&mut self) -> io::Result<()> {
        self.pipe
            .as_mut()
            .map_or(Ok(()), |pipe| pipe.write_all(b"\n"))
    }

    /// Closes the pipe, and waits for its end.
    ///
    /// # Errors
    /// It was not this process that started it.
    pub fn end(&mut self) -> io::Result<ChildState> {
        drop(self.pipe.take());
        process::wait_for(self.process)
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        if self.pipe.is_some() {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_NAME: &str = "second_process::tests::its_end_is_awaited_and_its_status_told";
    const IS_SECOND: &str = "WAVEBED_TEST_IS_SECOND";

    #[test]
    fn its_end_is_awaited_and_its_status_told() {
        if std::env::var_os(IS_SECOND).is_some() {
            // What the test runner has written before says that this process is ready.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::process::exit(3);
        }
        let environment = [(IS_SECOND.to_owned(), "1".to_owned())];
        let mut second = SecondProcess::start("--exact", [OWN_NAME.to_owned()], &environment)
            .expect("this program");
        assert_eq!(second.end().expect("its end"), ChildState::Exited(3));
    }
}
