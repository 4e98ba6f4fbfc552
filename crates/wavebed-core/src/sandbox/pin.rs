//! Places kernel threads on processors for processes in the sandbox, which cannot see them: one JSON object a line, one answer each.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::json;
use wavebed_os::sched;

/// A request is one short line; whoever sends more without an end is not understood.
const LONGEST_LINE: usize = 4096;

/// `PF_KTHREAD` of the kernel's `sched.h`, in the ninth column of `/proc/N/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What the name of a thread that polls a network interface begins with.
const POLLS_INTERFACE: &str = "napi/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    napi: u32,
    core: usize,
    #[serde(default)]
    fifo: i32,
}

/// The outer end of `$WAVEBED_PIN`.
pub struct PinService {
    stream: Option<UnixStream>,
    pending: Vec<u8>,
}

impl PinService {
    /// A service on `stream`. Whoever asks without reading the answers loses it: the front must not wait for anybody.
    pub fn new(stream: UnixStream) -> Self {
        let answers = stream.set_nonblocking(true).is_ok();
        Self {
            stream: answers.then_some(stream),
            pending: Vec::new(),
        }
    }

    /// What to wait on, while there is somebody inside.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// Reads what has come and answers each whole line.
    pub fn serve(&mut self) {
        let Some(mut stream) = self.stream.as_ref() else {
            return;
        };
        let mut buffer = [0; LONGEST_LINE];
        let count = match stream.read(&mut buffer) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                return;
            }
            Ok(0) | Err(_) => {
                self.stream = None;
                return;
            }
            Ok(count) => count,
        };
        self.pending.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let answer = match place(&line) {
                Ok(()) => json!({"ok": {}}),
                Err(reason) => json!({"error": reason}),
            };
            if stream.write_all(format!("{answer}\n").as_bytes()).is_err() {
                self.stream = None;
                return;
            }
        }
        if self.pending.len() > LONGEST_LINE {
            self.stream = None;
        }
    }
}

fn place(line: &[u8]) -> Result<(), String> {
    let request: Request = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let thread = find_thread(request.napi).ok_or_else(|| {
        format!(
            "napi: no thread {POLLS_INTERFACE}…-{} can be seen on this machine",
            request.napi
        )
    })?;
    let fifo = (request.fifo > 0).then_some(request.fifo);
    if fifo.is_some() && !sched::throttle_is_on() {
        return Err("fifo: kernel.sched_rt_runtime_us is -1, so a busy thread could starve the machine; set it to 950000".to_owned());
    }
    sched::place_thread(thread, request.core, fifo).map_err(|error| {
        format!(
            "the thread of NAPI {} on processor {}: {error}",
            request.napi, request.core
        )
    })
}

/// The kernel thread of a NAPI instance, whose number is unique on the machine and ends the thread's name.
fn find_thread(napi: u32) -> Option<i32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let (_, id) = name
            .trim_end()
            .strip_prefix(POLLS_INTERFACE)?
            .rsplit_once('-')?;
        (id.parse() == Ok(napi) && is_kernel_thread(number)).then_some(number)
    })
}

fn is_kernel_thread(number: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    // The name stands in parentheses and may hold any character; the state, the third column, follows it.
    text.rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(6))
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernel_threads_that_poll_an_interface_are_placed() {
        // A process may take any name; that makes it none of the kernel's.
        let comm = "/proc/self/comm";
        let name = fs::read_to_string(comm).expect("a name");
        fs::write(comm, "napi/x-40000001").expect("another name");
        let answer = place(br#"{"napi": 40000001, "core": 0}"#);
        fs::write(comm, name).expect("the name again");
        assert!(answer.is_err_and(|reason| reason.contains("no thread napi/")));
        assert!(place(br#"{"napi": 1}"#).is_err());
        assert!(place(br#"{"napi": 1, "core": 0, "nice": 1}"#).is_err());
    }

    #[test]
    fn the_kernels_own_threads_are_known_by_their_flag() {
        assert!(!is_kernel_thread(1));
        // Number 2 is the kernel's, where this process can see it.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert!(is_kernel_thread(2));
        }
    }

    #[test]
    fn each_line_has_its_answer() {
        let (inside, outside) = UnixStream::pair().expect("pair");
        let mut service = PinService::new(outside);
        (&inside).write_all(b"{\"napi\"").expect("write");
        service.serve();
        (&inside).write_all(b": 1}\nnothing\n").expect("write");
        service.serve();
        drop(service);
        let mut text = String::new();
        (&inside).read_to_string(&mut text).expect("read");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.starts_with("{\"error\":")));
    }
}
