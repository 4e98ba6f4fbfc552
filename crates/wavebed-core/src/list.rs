//! Which laboratories run: their control sockets are in the kernel's list.

use std::fs;

use wavebed_os::namespace::effective_user;

/// A running laboratory.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// The user that it belongs to.
    pub uid: u32,
}

/// The running laboratories that the caller may speak with: its own, or everybody's for root.
#[must_use]
pub fn running() -> Vec<Running> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let (user, _) = effective_user();
    parse(&text)
        .into_iter()
        .filter(|lab| user == 0 || lab.uid == user)
        .collect()
}

/// Listening sockets called `@wavebed/UID/NAME` (flag 00010000 in the fourth column).
fn parse(text: &str) -> Vec<Running> {
    let mut found: Vec<Running> = text
        .lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let rest = columns.get(7)?.strip_prefix("@wavebed/")?;
            let (uid, name) = rest.split_once('/')?;
            (columns[3] == "00010000").then_some(())?;
            Some(Running {
                name: name.to_owned(),
                uid: uid.parse().ok()?,
            })
        })
        .collect();
    found.sort_by(|a, b| (a.uid, &a.name).cmp(&(b.uid, &b.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_of_laboratories_count() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0: 00000002 00000000 00010000 0001 01 77 @wavebed/1000/b\n\
                    0: 00000003 00000000 00000000 0001 03 78 @wavebed/1000/b\n\
                    0: 00000002 00000000 00010000 0001 01 79 /run/other\n\
                    0: 00000002 00000000 00010000 0001 01 80 @wavebed/0/a\n";
        let names: Vec<_> = parse(text)
            .into_iter()
            .map(|lab| (lab.uid, lab.name))
            .collect();
        assert_eq!(names, [(0, "a".to_owned()), (1000, "b".to_owned())]);
    }
}
