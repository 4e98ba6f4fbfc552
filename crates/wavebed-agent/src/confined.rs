//! Confined programs: a user of their own, no capabilities, a read-only file system without the homes.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use wavebed_os::capabilities::Set;
use wavebed_os::confinement::{Confinement, User};

use crate::request::{Capability, Needs};

/// Part of the numbers that no account has: systemd gives them (61184 to 65519) to services for as long as they run.
const USERS: Range<u32> = 63_719..65_520;
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// How programs are confined on this machine.
#[derive(Debug)]
pub struct Rules {
    user: u32,
    is_root: bool,
    read: Vec<PathBuf>,
}

impl Rules {
    /// For this machine.
    ///
    /// # Parameters
    /// `is_root`: whether the agent was started by root, so that other users exist. `read`: paths in homes that stay
    /// readable.
    #[must_use]
    pub fn new(is_root: bool, read: Vec<PathBuf>) -> Self {
        let accounts = ["/etc/passwd", "/etc/group"]
            .map(|path| fs::read_to_string(path).unwrap_or_default())
            .concat();
        Self {
            user: free_number(&accounts),
            is_root,
            read,
        }
    }

    /// The user that owns the folders of confined programs; `None`: that of the agent.
    #[must_use]
    pub fn other_user(&self) -> Option<u32> {
        self.is_root.then_some(self.user)
    }

    /// The confinement of a program.
    #[must_use]
    pub fn confinement(&self, needs: &Needs) -> Confinement {
        let mut capabilities = Set::empty();
        for capability in &needs.capabilities {
            match capability {
                Capability::NetAdmin => capabilities = capabilities.union(Set::NET_ADMIN),
            }
        }
        Confinement {
            user: if self.is_root {
                User::Other(self.user)
            } else {
                User::Renamed(self.user)
            },
            hidden: HOMES.map(PathBuf::from).to_vec(),
            read: self.read.iter().chain(&needs.read).cloned().collect(),
            write: needs.write.clone(),
            capabilities,
            own_session: false,
        }
    }
}

fn free_number(accounts: &str) -> u32 {
    let taken: Vec<u32> = accounts
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .collect();
    USERS
        .clone()
        .find(|number| !taken.contains(number))
        .unwrap_or(USERS.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_programs_is_no_account() {
        assert_eq!(free_number("root:x:0:0:root:/root:/bin/sh\n"), USERS.start);
        let taken = format!(
            "a:x:{}:1::/:/bin/sh\nb:x:{}:\n",
            USERS.start,
            USERS.start + 1
        );
        assert_eq!(free_number(&taken), USERS.start + 2);
    }

    #[test]
    fn a_program_has_no_capability_that_it_does_not_name() {
        let rules = Rules::new(true, Vec::new());
        let plain = rules.confinement(&Needs::default());
        assert_eq!(plain.capabilities, Set::empty());
        let needs = Needs {
            capabilities: vec![Capability::NetAdmin],
            ..Needs::default()
        };
        assert_eq!(rules.confinement(&needs).capabilities, Set::NET_ADMIN);
    }
}
