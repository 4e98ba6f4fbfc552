//! `wavebed-core sandbox -- COMMAND…`: a command in namespaces of its own, of which nothing is left when either end dies.
//!
//! The front stays outside, in the machine's namespaces: it passes on signals, places kernel threads on processors for those
//! inside, and ends with the command's status. Its child is process 1 of the sandbox. The command stays in the front's process
//! group, so that a terminal treats both as one.

mod pin;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use wavebed_os::namespace::{self, Forked, Isolation};
use wavebed_os::process::{self, ChildState, News, Signals};
use wavebed_os::{mount, poll, unix};

use self::pin::PinService;
use crate::ending::Ending;
use crate::isolation;
use crate::problem::{FAILED, Problem};
use crate::say::say;
use crate::signals;

/// Names the descriptor on which the front is asked to place kernel threads.
const PIN_VARIABLE: &str = "WAVEBED_PIN";

/// Signals that are meant for the command.
const PASSED_ON: [i32; 6] = [
    signals::INT,
    signals::TERM,
    signals::HUP,
    signals::QUIT,
    signals::USR1,
    signals::USR2,
];

/// Runs `command` in a sandbox and returns its exit status.
///
/// # Errors
/// The machine cannot make a sandbox, or the command cannot be run.
pub fn run(command: &[String]) -> Result<i32, Problem> {
    let (user, group) = namespace::effective_user();
    let (init_end, front_end) = unix::message_pair()?;
    let (pin_inside, pin_outside) = unix::stream_pair()?;
    let signals = Signals::receive(&PASSED_ON, &[])?;
    let (forked, isolation) = isolation::fork(user)?;
    match forked {
        Forked::Child => {
            drop((init_end, pin_outside, signals));
            let outer_user = (isolation == Isolation::UserLaboratory).then_some((user, group));
            let status = live(command, &front_end, &pin_inside.into(), outer_user);
            std::process::exit(status.unwrap_or_else(|problem| {
                say(&problem);
                problem.status
            }))
        }
        Forked::Parent(child) => {
            drop((front_end, pin_inside));
            let front = Front {
                signals,
                init: init_end,
                init_pid: child.pid,
                pidfd: child.pidfd,
                pins: PinService::new(pin_outside),
                ending: Ending::default(),
            };
            Ok(front.attend())
        }
    }
}

struct Front {
    signals: Signals,
    init: OwnedFd,
    init_pid: i32,
    pidfd: OwnedFd,
    pins: PinService,
    ending: Ending,
}

impl Front {
    /// Waits on everything until init has ended.
    fn attend(mut self) -> i32 {
        loop {
            let mut readable = [false; 3];
            let fds = [
                Some(self.pidfd.as_fd()),
                Some(self.signals.as_fd()),
                self.pins.as_fd(),
            ];
            let fds: Vec<_> = fds.into_iter().flatten().collect();
            if poll::wait(&fds, &mut readable, self.ending.left_ns()).is_err() {
                return FAILED;
            }
            // What has ended by itself has its own status, also if this process was late to see it.
            if self.ending.is_due() && !readable[0] {
                let _ = process::kill(self.init_pid, signals::KILL);
                let _ = process::wait_for(self.init_pid);
                return self.ending.status();
            }
            if readable[1] {
                self.pass_signals();
            }
            if readable[2] {
                self.pins.serve();
            }
            if readable[0] {
                return self.init_ended();
            }
        }
    }

    /// What the kernel sent, as a terminal does, the command has had already.
    fn pass_signals(&mut self) {
        while let Some(signal) = self.signals.next_received() {
            self.ending.hear(signal.number);
            if !signal.from_kernel {
                let number = u8::try_from(signal.number).unwrap_or(0);
                let _ = unix::send(self.init.as_fd(), &[number], &[]);
            }
        }
    }

    fn init_ended(&self) -> i32 {
        match process::wait_for(self.init_pid) {
            Ok(ChildState::Exited(code)) => code,
            Ok(_) => {
                say("the sandbox was killed");
                FAILED
            }
            Err(_) => FAILED,
        }
    }
}

/// The life of init, process 1 inside. Returns the command's exit status; the kernel then ends what is left.
fn live(
    command: &[String],
    front: &OwnedFd,
    pin: &OwnedFd,
    outer_user: Option<(u32, u32)>,
) -> Result<i32, Problem> {
    if let Some((user, group)) = outer_user {
        namespace::map_root(user, group).map_err(|error| Problem::no_rights(&error))?;
    }
    process::die_with_parent().map_err(|error| Problem::failed(error.to_string()))?;
    if unix::is_hung_up(front) {
        return Err(Problem::failed("the front process is gone"));
    }
    let signals = Signals::receive(&[signals::CHLD], &[])?;
    furnish()?;
    let number = process::let_inherit(pin.as_fd())?;
    let child = Command::new(&command[0])
        .args(&command[1..])
        .env(PIN_VARIABLE, number.to_string())
        .spawn()
        .map_err(|error| Problem::wrong(format!("cannot run {}: {error}", command[0])))?;
    let pid = i32::try_from(child.id()).expect("process numbers are small");
    loop {
        let mut readable = [false; 2];
        let fds = [signals.as_fd(), front.as_fd()];
        poll::wait(&fds, &mut readable, None)
            .map_err(|error| Problem::failed(error.to_string()))?;
        if readable[0]
            && let Some(status) = reap(&signals, pid)
        {
            return Ok(status);
        }
        if readable[1] {
            let mut buffer = [0; 1];
            match unix::receive(front.as_fd(), &mut buffer, &mut Vec::new()) {
                Ok(1) => drop(process::kill(pid, i32::from(buffer[0]))),
                // The front process is gone; nobody is there to hear a status.
                _ => return Ok(FAILED),
            }
        }
    }
}

/// Reaps every child that ended, orphans too. Returns the command's status if it is among them.
fn reap(signals: &Signals, command: i32) -> Option<i32> {
    while signals.next().is_some() {}
    while let News::Of(pid, fate) = process::news_of_children() {
        if pid == command && fate.is_end() {
            return Some(fate.exit_code());
        }
    }
    None
}

/// Makes the mounts of the sandbox and its loopback.
fn furnish() -> Result<(), Problem> {
    mount::make_private().map_err(|error| Problem::no_rights(&error))?;
    // Refused in some containers without root; programs then see the processes and settings of outside.
    let _ = mount::fresh_proc();
    let _ = mount::fresh_sys_for_writing().or_else(|_| mount::fresh_sys());
    // The folder in which iproute2 keeps the names of namespaces. Where it is missing, the folder above is hidden, so that
    // none has to be made on the machine.
    let run =
        fs::canonicalize("/var/run").map_or("/run".to_owned(), |path| path.display().to_string());
    let names = format!("{run}/netns");
    if fs::exists(&names).unwrap_or(false) {
        mount::memory_over(&names)?;
    } else {
        mount::memory_over(&run)?;
        fs::create_dir(&names).map_err(|error| Problem::failed(format!("{names}: {error}")))?;
    }
    let netlink = wavebed_os::netlink::Netlink::route()?;
    netlink
        .set_up(wavebed_os::netlink::interface_index("lo")?)
        .map_err(|error| Problem::cannot(format!("the kernel refuses lo: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::tests::late_for_an_ended_child;

    #[test]
    fn an_init_that_has_ended_by_itself_keeps_its_status_though_its_time_is_over() {
        let (ending, init_pid, pidfd) = late_for_an_ended_child();
        let (init, _inside) = unix::message_pair().expect("pair");
        let (_asks, pins) = unix::stream_pair().expect("pair");
        let front = Front {
            signals: Signals::receive(&[signals::USR2], &[]).expect("signals"),
            init,
            init_pid,
            pidfd,
            pins: PinService::new(pins),
            ending,
        };
        assert_eq!(front.attend(), 7);
    }
}
