//! Support for tests with real namespaces. Each test runs in a PID, mount and network namespace of its own, which
//! stands for the machine: its processes, mounts and interfaces are separate from all others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wavebed_os::process::{News, kill, news_of_children};

/// Set inside the machine of a test.
const INSIDE: &str = "WAVEBED_TEST_INSIDE";

/// How long what must happen may take: each process may stand still for seconds where others run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub const CORE: &str = env!("CARGO_BIN_EXE_wavebed-core");

/// Runs `body` on a machine of its own. `name` is the name of the calling test, for the second start of the test program.
///
/// # Panics
/// If the machine cannot be made (root is needed), or `body` fails.
#[track_caller]
pub fn on_own_machine(name: &str, body: impl FnOnce()) {
    // The full name starts with the module of the test, which is its file.
    let file = Path::new(Location::caller().file());
    let module = file.file_stem().and_then(OsStr::to_str);
    let name = format!("{}::{name}", module.expect("a file of Rust"));
    if std::env::var_os(INSIDE).is_some() {
        run_quietly("ip", &["link", "set", "lo", "up"]);
        body();
        return;
    }
    let own_files = run_quietly("mktemp", &["-d"]).trim().to_owned();
    let output = Command::new("unshare")
        .args([
            "--pid",
            "--fork",
            "--mount",
            "--mount-proc",
            "--net",
            "--ipc",
            "--kill-child",
            "--",
        ])
        .arg(std::env::current_exe().expect("test program"))
        .args([
            &name,
            "--exact",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(INSIDE, "1")
        .env("TMPDIR", &own_files)
        .output()
        .expect("unshare starts");
    let _ = fs::remove_dir_all(own_files);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("1 passed"),
        "the test {name} was not found: {text}"
    );
}

/// Runs a tool that must succeed.
///
/// # Panics
/// If it does not.
pub fn run_quietly(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("tool starts");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A laboratory file with `hosts` hosts and this command on the client.
pub fn lab(name: &str, hosts: usize, command: &[&str]) -> Value {
    let names = if hosts == 3 {
        vec!["server", "edge", "client"]
    } else {
        vec!["server", "client"]
    };
    let hosts: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "congestion_control": null, "sysctls": {}}))
        .collect();
    let legs: Vec<Value> = (1..names.len())
        .map(|hop| {
            json!({"from": hosts[hop - 1]["name"], "to": hosts[hop]["name"],
                   "hops": [{"name": format!("s{hop}"), "kind": "wired", "down": [], "up": []}]})
        })
        .collect();
    let command = if command.is_empty() {
        Value::Null
    } else {
        json!({"host": "client", "argv": command})
    };
    json!({
        "version": 1, "name": name, "seed": 1,
        "network": {"mtu": 1500, "nat": false, "coalesce": {"kind": "slot"}, "hosts": hosts, "legs": legs},
        "background": [], "command": command,
        "log_dir": null, "pcap_dir": null, "summary_file": null
    })
}

/// Writes a laboratory file to a place of its own.
pub fn write(lab: &Value) -> PathBuf {
    let name = format!(
        "wavebed-test-{}-{}.json",
        std::process::id(),
        lab["name"].as_str().expect("a name")
    );
    let own = PathBuf::from(run_quietly("mktemp", &["-d"]).trim()).join(name);
    fs::write(&own, lab.to_string()).expect("write the laboratory file");
    own
}

/// A laboratory that runs.
pub struct Running {
    pub child: Child,
    file: PathBuf,
}

/// Starts a laboratory.
pub fn start(lab: &Value) -> Running {
    start_with(lab, &mut Command::new(CORE))
}

/// Starts a laboratory by `program`, to which the arguments are added.
pub fn start_with(lab: &Value, program: &mut Command) -> Running {
    let file = write(lab);
    let child = program
        .arg("lab")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    Running { child, file }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(mut self) -> Output {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            assert!(Instant::now() < deadline, "the laboratory does not end");
            thread::sleep(Duration::from_millis(2));
        };
        let mut output = Output {
            status,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        let pipes = (self.child.stdout.take(), self.child.stderr.take());
        pipes
            .0
            .expect("piped")
            .read_to_end(&mut output.stdout)
            .expect("read");
        pipes
            .1
            .expect("piped")
            .read_to_end(&mut output.stderr)
            .expect("read");
        let _ = fs::remove_dir_all(self.file.parent().expect("its own directory"));
        output
    }
}

/// Runs a laboratory to its end.
pub fn run(lab: &Value) -> Output {
    start(lab).end()
}

/// Its output, as text; it must have ended with `status`.
///
/// # Panics
/// If it did not.
pub fn text_of(output: &Output, status: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}\n{errors}");
    text
}

/// Objects that a laboratory might leave on a machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    pub processes: BTreeSet<String>,
    pub namespaces: BTreeSet<String>,
    pub interfaces: BTreeSet<String>,
    pub mounts: String,
    pub sockets: BTreeSet<String>,
}

/// Lists the machine's objects.
pub fn traces() -> Traces {
    let processes = pids();
    let namespaces = processes
        .iter()
        .flat_map(|pid| {
            ["net", "mnt", "pid", "uts", "ipc", "user"].map(|kind| format!("/proc/{pid}/ns/{kind}"))
        })
        .filter_map(|path| Some(fs::read_link(path).ok()?.to_string_lossy().into_owned()))
        .collect();
    let interfaces = fs::read_to_string("/proc/net/dev").expect("interfaces");
    let sockets = fs::read_to_string("/proc/net/unix").expect("sockets");
    Traces {
        processes: processes.iter().map(ToString::to_string).collect(),
        namespaces,
        interfaces: interfaces
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
            .collect(),
        mounts: fs::read_to_string("/proc/self/mounts").expect("mounts"),
        sockets: sockets
            .lines()
            .filter_map(|line| line.find("@wavebed").map(|at| line[at..].to_owned()))
            .collect(),
    }
}

/// Every process on the machine of the test.
pub fn pids() -> BTreeSet<i32> {
    fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Waits until the machine looks as it did `before`.
///
/// # Panics
/// If it never does.
pub fn assert_clean(before: &Traces, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The test is process 1 of its machine: orphans come to it.
        while matches!(news_of_children(), News::Of(..)) {}
        let now = traces();
        if now == *before {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: left behind: {now:#?}\nbefore: {before:#?}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it never does.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal and waits until the process has taken it: of two of a kind that wait, the kernel keeps one.
pub fn signal(pid: i32, number: i32) {
    kill(pid, number).expect("it runs");
    wait_until("the signal is taken", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let waiting = u64::from_str_radix(&field("ShdPnd:"), 16).unwrap_or(0);
        field("State:").starts_with('Z') || waiting & (1 << (number - 1)) == 0
    });
}

/// Whether a process has ended, although its parent has not waited for it.
pub fn has_ended(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| {
        text.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}

/// The process whose command line holds `words`, and is not a shell's copy of them.
pub fn process_with(words: &str) -> Option<i32> {
    pids().into_iter().find(|pid| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").trim_end() == words)
    })
}

/// Connects to the laboratory `name` of `user`, once it listens.
pub fn connect(user: u32, name: &str) -> std::os::unix::net::UnixStream {
    let head = format!("@wavebed/{user}/{name}/");
    let mut found = None;
    wait_until("the laboratory listens", || {
        found = traces()
            .sockets
            .iter()
            .filter(|socket| socket.starts_with(&head))
            .find_map(|socket| wavebed_os::unix::connect(&socket[1..]).ok());
        found.is_some()
    });
    found.expect("just found")
}

/// Sends a line to a control socket and returns the answer.
pub fn ask(stream: &std::os::unix::net::UnixStream, line: &str) -> Value {
    use std::io::Write;
    (&*stream)
        .write_all(format!("{line}\n").as_bytes())
        .expect("send");
    answer(stream)
}

/// The next answer from a control socket.
pub fn answer(mut stream: &std::os::unix::net::UnixStream) -> Value {
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).expect("an answer");
        if byte[0] == b'\n' {
            return serde_json::from_slice(&line).expect("JSON");
        }
        line.push(byte[0]);
    }
}
