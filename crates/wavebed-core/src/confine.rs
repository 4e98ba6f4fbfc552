//! Confined programs: their view of the file system, their user, and their environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Deserialize;
use wavebed_os::capabilities::Set;
use wavebed_os::confinement::{Confinement, TEMPORARY, User};
use wavebed_os::mount;

use crate::lab_file::LabFile;

/// Environment variables that every program may have, beside those whose names begin with `LC_`. Of the last three
/// depends whether two guests of virtual time do the same.
const HARMLESS: [&str; 8] = [
    "LANG",
    "LANGUAGE",
    "PATH",
    "TERM",
    "TZ",
    "OPENSSL_ia32cap",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
];

/// Name of the user of confined programs.
const ACCOUNT: &str = "wavebed-confined";

/// How confined programs of a laboratory are confined.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfineFile {
    /// Their user and group, which no other process has.
    pub user: u32,
    /// Folders that are empty to them.
    pub hidden: Vec<PathBuf>,
    /// Paths in these folders, or in folders that only their owner can search, that stay readable.
    pub read: Vec<PathBuf>,
}

/// Additional needs of one program.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Needs {
    /// Further paths that it reads.
    read: Vec<PathBuf>,
    /// Folders that it writes to.
    write: Vec<PathBuf>,
    /// Its capabilities in its host's network namespace.
    capabilities: Vec<Capability>,
}

/// A capability that a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Network configuration of its host.
    NetAdmin,
}

/// The confinement of a laboratory's programs.
pub struct Rules {
    file: ConfineFile,
    /// Whether root runs the laboratory, so that other users exist.
    has_users: bool,
    /// Whether the laboratory may have a terminal.
    may_have_terminal: bool,
}

impl Rules {
    /// Takes the rules from the laboratory file, if it has any.
    pub fn take(lab: &mut LabFile, has_users: bool) -> Option<Self> {
        let may_have_terminal = lab.command.is_some() || !lab.background.is_empty();
        lab.confine.take().map(|file| Self {
            file,
            has_users,
            may_have_terminal,
        })
    }

    /// The user of confined programs on the machine, if it differs from that of the laboratory.
    #[must_use]
    pub fn other_user(&self) -> Option<u32> {
        self.has_users.then_some(self.file.user)
    }

    /// Gives the user of confined programs a name, a group and a home, in the laboratory's view of the files: ssh, psql
    /// and Java ask for them.
    ///
    /// # Errors
    /// There is no such file, or the process may not mount.
    pub fn add_account(&self) -> wavebed_os::Result<()> {
        let number = self.file.user;
        let lines = [
            (
                "/etc/passwd",
                format!("{ACCOUNT}:x:{number}:{number}::{TEMPORARY}:/bin/sh\n"),
            ),
            ("/etc/group", format!("{ACCOUNT}:x:{number}:\n")),
        ];
        for (path, line) in lines {
            let mut text = std::fs::read_to_string(path).unwrap_or_default();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            mount::replace_file(path, &(text + &line))?;
        }
        Ok(())
    }

    /// The confinement of a program with these needs.
    #[must_use]
    pub fn confinement(&self, needs: &Needs) -> Confinement {
        let capabilities = needs.capabilities.iter().fold(Set::empty(), |set, each| {
            set.union(match each {
                Capability::NetAdmin => Set::NET_ADMIN,
            })
        });
        Confinement {
            user: if self.has_users {
                User::Other(self.file.user)
            } else {
                User::Renamed(self.file.user)
            },
            hidden: self.file.hidden.clone(),
            read: self.file.read.iter().chain(&needs.read).cloned().collect(),
            write: needs.write.clone(),
            capabilities,
            own_session: self.may_have_terminal,
        }
    }
}

/// The variables of `all` that a confined program has, and the folders that it may write to.
#[must_use]
pub fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = all
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| HARMLESS.contains(&key.as_str()) || key.starts_with("LC_"))
        .collect();
    for key in ["HOME", "TMPDIR"] {
        variables.insert(key.to_owned(), TEMPORARY.to_owned());
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_variables_are_passed_on() {
        let given = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/root"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "x.so"),
            ("http_proxy", "http://x"),
        ];
        let known = environment(
            given
                .map(|(key, value)| (key.into(), value.into()))
                .into_iter(),
        );
        let known: Vec<(&str, &str)> = known
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            known,
            [
                ("HOME", "/tmp"),
                ("LC_ALL", "C"),
                ("PATH", "/bin"),
                ("TMPDIR", "/tmp")
            ]
        );
    }

    #[test]
    fn a_program_has_no_capability_that_it_does_not_name() {
        let rules = Rules {
            file: ConfineFile {
                user: 65_000,
                hidden: Vec::new(),
                read: vec!["/opt/one".into()],
            },
            has_users: true,
            may_have_terminal: false,
        };
        let plain = rules.confinement(&Needs::default());
        assert_eq!(plain.capabilities, Set::empty());
        assert_eq!(plain.user, User::Other(65_000));
        let text = r#"{"capabilities": ["net_admin"], "read": ["/opt/two"]}"#;
        let needs: Needs = serde_json::from_str(text).expect("needs");
        let more = rules.confinement(&needs);
        assert_eq!(more.capabilities, Set::NET_ADMIN);
        assert_eq!(more.read, [PathBuf::from("/opt/one"), "/opt/two".into()]);
        assert!(serde_json::from_str::<Needs>(r#"{"capabilities": ["sys_admin"]}"#).is_err());
    }
}
