//! Unix sockets with a name in the file system. Such a name belongs to no network namespace: a program reaches it
//! wherever it sees the file.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use netlink_bindings::utils::find_attr;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::error::{Context, Result};
use crate::namespace;
use crate::netlink::{NLM_F_DUMP, Netlink, message_of};
use crate::sock_diag::read_dump;

/// Folder of the sockets of services, also of those in other network namespaces, such as a container engine of a user.
const SERVICES: &str = "/run";
/// How deep folders of services are searched.
const MOST_DEPTH: usize = 4;
/// How many entries of them are looked at.
const MOST_ENTRIES: usize = 20_000;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UNIX_DIAG_PEER: u16 = 2;
/// `UDIAG_SHOW_PEER`.
const SHOW_PEER: u32 = 4;
/// `struct unix_diag_msg`.
const SOCKET_BYTES: usize = 16;

/// The named sockets of one network namespace, whichever thread reads them.
#[derive(Debug)]
pub struct NamedSockets {
    table: File,
}

/// A row of `/proc/net/unix` with a path.
struct Row {
    /// Whether other programs can connect to it, or send to it.
    takes: bool,
    inode: u32,
    path: PathBuf,
}

impl NamedSockets {
    /// The sockets of the calling thread's network namespace.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn of_this_thread() -> io::Result<Self> {
        let table = File::open("/proc/thread-self/net/unix")?;
        Ok(Self { table })
    }

    fn rows(&self) -> io::Result<Vec<Row>> {
        let mut text = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            match self.table.read_at(&mut piece, text.len() as u64)? {
                0 => return Ok(text.split(|byte| *byte == b'\n').filter_map(row).collect()),
                count => text.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// The files of those that programs can connect to or send to.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn open(&self) -> io::Result<BTreeSet<PathBuf>> {
        let rows = self.rows()?.into_iter().filter(|row| row.takes);
        Ok(rows
            .map(|row| row.path)
            .filter(|path| is_socket(path))
            .collect())
    }

    /// The file of a socket; none where it has no name.
    #[must_use]
    pub fn name_of(&self, inode: u32) -> Option<PathBuf> {
        let mut rows = self.rows().ok()?.into_iter();
        rows.find(|row| row.inode == inode).map(|row| row.path)
    }
}

/// Reads a line: address, references, protocol, flags, type, state, inode, and a path that may have spaces.
fn row(line: &[u8]) -> Option<Row> {
    const LISTENS: &[u8] = b"00010000";
    const DATAGRAMS: &[u8] = b"0002";
    let slash = line.windows(2).position(|pair| pair == b" /")?;
    let (head, path) = (line.get(..slash)?, &line[slash + 1..]);
    let columns: Vec<&[u8]> = head
        .split(u8::is_ascii_whitespace)
        .filter(|column| !column.is_empty())
        .collect();
    let [_, _, _, flags, kind, _, inode] = columns[..] else {
        return None;
    };
    Some(Row {
        takes: flags == LISTENS || kind == DATAGRAMS,
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        path: OsStr::from_bytes(path).into(),
    })
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The files of services' sockets that belong to other network namespaces and are open: a connection tells.
#[must_use]
pub fn open_services(known: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![(PathBuf::from(SERVICES), 0)];
    let mut left = MOST_ENTRIES;
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else {
                return found;
            };
            left = fewer;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_dir() && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_socket() && !known.contains(&path) && is_open(&path) {
                found.insert(path);
            }
        }
    }
    found
}

/// Whether a program listens there. A socket whose program has ended refuses.
fn is_open(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let tried = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    !matches!(
        tried,
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::ACCESS | Errno::NAMETOOLONG)
    )
}

/// Makes a socket refuse connections from the caller's mount namespace. Its file is not changed.
///
/// # Errors
/// The error of mount(2).
pub fn close(path: &Path) -> io::Result<()> {
    namespace::bind_all(Path::new("/dev/null"), path)
}

/// Lets the kernel set the access time of a socket's file whenever a program of the caller's mount namespace connects.
/// Returns the present access time.
///
/// # Errors
/// The error of mount(2): in a user namespace the mount's own setting stays.
pub fn note_connections(path: &Path) -> io::Result<SystemTime> {
    namespace::bind_all(path, path)?;
    mount_remount(path, MountFlags::BIND | MountFlags::STRICTATIME, c"")?;
    fs::metadata(path)?.accessed()
}

/// The Unix sockets of a network namespace and those that they are connected to, by `sock_diag(7)`.
#[derive(Debug)]
pub struct Peers {
    netlink: Netlink,
    answer: Vec<u8>,
    sequence: u32,
}

impl Peers {
    /// The peers in the calling thread's network namespace.
    ///
    /// # Errors
    /// The error of socket(2), or this kernel has no `unix_diag`.
    pub fn of_this_thread() -> Result<Self> {
        let mut peers = Self {
            netlink: Netlink::open(Some(SOCK_DIAG))?,
            answer: vec![0; 16 << 10],
            sequence: 0,
        };
        peers
            .list(&mut HashSet::new(), &mut Vec::new())
            .during("list", "Unix sockets (modprobe unix_diag)")?;
        Ok(peers)
    }

    /// Adds the inodes of all sockets, and those that they are connected to.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn list(&mut self, own: &mut HashSet<u32>, others: &mut Vec<u32>) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        // struct unix_diag_req: AF_UNIX, all states.
        let mut body = [0; 24];
        body[0] = 1;
        body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        body[12..16].copy_from_slice(&SHOW_PEER.to_ne_bytes());
        let question = message_of(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, self.sequence, &body);
        self.netlink.send(&question)?;
        let word = |bytes: &[u8]| Some(u32::from_ne_bytes(*bytes.first_chunk()?));
        loop {
            let length = self.netlink.receive(&mut self.answer)?;
            let (bytes, kind) = (&self.answer[..length], SOCK_DIAG_BY_FAMILY);
            let is_last = read_dump(bytes, self.sequence, kind, &mut |body| {
                if let Some((head, attributes)) = body.split_first_chunk::<SOCKET_BYTES>() {
                    own.extend(word(&head[4..]));
                    others.extend(find_attr(attributes, UNIX_DIAG_PEER).and_then(word));
                }
            })?;
            if is_last {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    #[test]
    fn open_sockets_are_listed_by_their_whole_names() {
        let folder = std::env::temp_dir().join(format!("wavebed named {}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let [stream, datagrams, ended] = ["a stream", "datagrams", "ended"].map(|n| folder.join(n));
        let listener = UnixListener::bind(&stream).unwrap();
        let _taker = UnixDatagram::bind(&datagrams).unwrap();
        drop(UnixListener::bind(&ended).unwrap());
        let near = UnixStream::connect(&stream).unwrap();
        let _far = listener.accept().unwrap();
        let sockets = NamedSockets::of_this_thread().unwrap();
        let ours: Vec<PathBuf> = sockets
            .open()
            .unwrap()
            .into_iter()
            .filter(|path| path.starts_with(&folder))
            .collect();
        assert_eq!(ours, [stream.clone(), datagrams]);
        assert!(is_open(&stream));
        assert!(!is_open(&ended));
        // The other end of a connection has the name of its listener.
        let (mut own, mut others) = (HashSet::new(), Vec::new());
        let mut peers = Peers::of_this_thread().unwrap();
        peers.list(&mut own, &mut others).unwrap();
        assert!(
            others
                .iter()
                .any(|inode| sockets.name_of(*inode).as_ref() == Some(&stream))
        );
        drop(near);
        fs::remove_dir_all(&folder).unwrap();
    }
}
