//! The program as an end on a host.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel_ends::PATIENCE;
use crate::tunnel_ends::host::Host;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wavebed-edge");

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("wavebed-tunnel-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Left by a test that was killed, in a process of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    /// Makes the key `name`; its public half.
    pub fn key(&self, name: &str) -> String {
        let output = Command::new(PROGRAM)
            .args(["tunnel", "key"])
            .arg(self.0.join(name))
            .output()
            .expect("the program");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.trim().to_owned()
    }

    /// Writes the configuration `name`.
    pub fn configure(&self, name: &str, kind: &str, key: &str, peer: &str) -> PathBuf {
        self.configure_at(name, kind, "192.0.2.1:4433", key, peer)
    }

    /// The same with another address of the listening end.
    pub fn configure_at(&self, name: &str, kind: &str, at: &str, key: &str, peer: &str) -> PathBuf {
        let last = if kind == "listen" { 1 } else { 2 };
        let key = self.0.join(key);
        let text = format!(
            "kind = \"{kind}\"\nat = \"{at}\"\nkey = \"{}\"\npeer = \"{peer}\"\n\
             address = \"10.88.0.{last}/30\"\nstart-mbit = 50\n",
            key.display()
        );
        let file = self.0.join(name);
        fs::write(&file, text).expect("written");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running end, which is killed with this value, and the file of its state.
pub struct End(pub Child, PathBuf);

impl End {
    pub fn start(host: &Host, config: &std::path::Path) -> Self {
        let file = config.with_extension("state");
        let state = fs::File::create(&file).expect("a file");
        let config = config.to_owned();
        let child = host.run(move || {
            Command::new(PROGRAM)
                .args(["tunnel", "--state", "1", "--config"])
                .arg(config)
                .stdout(state)
                .spawn()
                .expect("the program")
        });
        Self(child, file)
    }

    /// Its last state, a second old at most where the end is not late.
    pub fn state(&self) -> serde_json::Value {
        self.state_after(0)
    }

    /// A state that the end has taken after this call.
    pub fn new_state(&self) -> serde_json::Value {
        // The next one may have been taken before.
        self.state_after(self.states().len() + 1)
    }

    /// Its last state, once there are more than `count`.
    fn state_after(&self, count: usize) -> serde_json::Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let states = self.states();
            if let Some(line) = states.last().filter(|_| states.len() > count) {
                return serde_json::from_str(line).expect("JSON");
            }
            assert!(Instant::now() < end, "only {} states", states.len());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The lines of its states so far.
    fn states(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.1).expect("readable");
        // A line may not be whole yet.
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        whole.lines().map(str::to_owned).collect()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
