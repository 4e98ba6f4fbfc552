//! Names in a laboratory with NAT: a forwarder that asks the machine's own resolver, which only the machine reaches.
//!
//! Programs ask the server's address. Over the path the machine answers there; beside it each host answers for itself.
//! A DNS server of the machine may have port 53 of all addresses, so the forwarder listens on other ports, to which
//! nftables delivers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream,
    UdpSocket,
};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use wavebed_os::confinement::Set;
use wavebed_os::error::Context;
use wavebed_os::namespace::{NetworkNamespace, effective_user};
use wavebed_os::netlink::interface_index;
use wavebed_os::nft::{Delivery, Port, TCP, UDP};
use wavebed_os::{confinement, unix};
use wavebed_path::Way;

use crate::engine;
use crate::problem::{FAILED, Problem, say};

/// Kind of a message between the front process and init: its first byte.
pub mod message {
    /// A signal; its number follows.
    pub const SIGNAL: u8 = b'S';
    /// A connection to the control socket, with its descriptor.
    pub const CONNECTION: u8 = b'C';
    /// Continue the command in the foreground of the terminal.
    pub const FOREGROUND: u8 = b'F';
    /// Continue the command in the background.
    pub const BACKGROUND: u8 = b'B';
    /// From init: the command was stopped, as by Ctrl-Z.
    pub const STOPPED: u8 = b'Z';
    /// From init: a listener in the network namespace of a host, with its descriptor; the name of init's user
    /// namespace follows, as of `/proc/self/ns/user`.
    pub const LISTENER: u8 = b'L';
}

/// The machine's resolvers, resolv.conf(5).
pub const RESOLVERS: &str = "/etc/resolv.conf";
const DNS: u16 = 53;
/// As long as a program waits for an answer, by resolv.conf(5); all resolvers together have it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection of TCP may be idle (RFC 7766, section 6.2.3: in the order of seconds).
const IDLE: Duration = Duration::from_secs(10);
/// Most questions at a time; further ones are lost, as in a full queue.
const MOST_QUESTIONS: usize = 256;
/// Bytes of the header of a message (RFC 1035, section 4.1.1).
const HEADER_BYTES: usize = 12;
/// The highest bit of the third byte: an answer.
const ANSWER: u8 = 0x80;
/// The response code SERVFAIL.
const SERVER_FAILURE: u8 = 2;

/// The resolvers that the forwarder asks, and what the programs read in place of the machine's own file.
#[derive(Debug, PartialEq, Eq)]
pub struct Resolvers {
    asked: Vec<String>,
    file: String,
}

impl Resolvers {
    /// Reads the machine's `resolv.conf`; programs shall ask `address`. None if they reach all resolvers by themselves.
    pub fn read(machines_own: &str, way: Way, address: Ipv4Addr) -> Option<Self> {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            let is_one = words.next() == Some("nameserver");
            words.next().filter(|_| is_one).map(str::to_owned)
        };
        let mut asked = Vec::new();
        let mut file = format!("nameserver {address}\n");
        for line in machines_own.lines() {
            match server(line) {
                Some(name) if way == Way::Beside || is_of_machine_only(&name) => asked.push(name),
                _ => {
                    let _ = writeln!(file, "{line}");
                }
            }
        }
        if !machines_own.lines().any(|line| server(line).is_some()) {
            // As resolv.conf(5) says.
            asked.push(Ipv4Addr::LOCALHOST.to_string());
        }
        (!asked.is_empty()).then_some(Self { asked, file })
    }

    /// The content of the programs' `resolv.conf`.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// Whether only the machine itself reaches a resolver: by its loopback or by a link.
fn is_of_machine_only(name: &str) -> bool {
    match name.split('%').next().unwrap_or_default().parse() {
        Ok(IpAddr::V4(v4)) => v4.is_loopback() || v4.is_unspecified(),
        Ok(IpAddr::V6(v6)) => v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local(),
        Err(_) => false,
    }
}

/// The address of a resolver in the network namespace of the calling thread; none if it has none.
fn address_of(name: &str) -> Option<SocketAddr> {
    let (address, link) = name.split_once('%').unwrap_or((name, ""));
    match address.parse().ok()? {
        IpAddr::V4(v4) if v4.is_unspecified() => Some((Ipv4Addr::LOCALHOST, DNS).into()),
        IpAddr::V4(v4) => Some((v4, DNS).into()),
        IpAddr::V6(v6) if v6.is_unspecified() => Some((Ipv6Addr::LOCALHOST, DNS).into()),
        IpAddr::V6(v6) => {
            let index = interface_index(link).unwrap_or(0);
            Some(SocketAddrV6::new(v6, DNS, 0, index).into())
        }
    }
}

/// Where a host's programs get answers.
pub struct Door {
    udp: UdpSocket,
    tcp: TcpListener,
    _delivery: Delivery,
}

impl Door {
    /// Answers at port 53 of `address` in the network namespace of the calling thread, whose own address is `own`. The
    /// table is named `table`.
    ///
    /// # Errors
    /// The kernel cannot deliver to another port.
    pub fn open(table: &str, address: Ipv4Addr, own: Ipv4Addr) -> Result<Self, Problem> {
        let of =
            |bound: io::Result<SocketAddr>| bound.map(|bound| SocketAddrV4::new(own, bound.port()));
        let during = "answer questions for names at";
        let at = || own.to_string();
        let udp = UdpSocket::bind((own, 0)).during(during, at())?;
        let tcp = TcpListener::bind((own, 0)).during(during, at())?;
        let instead = [
            (UDP, of(udp.local_addr()).during(during, at())?),
            (TCP, of(tcp.local_addr()).during(during, at())?),
        ];
        let instead = instead.map(|(protocol, to)| Port { protocol, to });
        let delivery = Delivery::new(table, address, DNS, &instead).map_err(|error| {
            Problem::cannot(format!("{error}: no names with nat: modprobe -a nft_nat"))
        })?;
        Ok(Self {
            udp,
            tcp,
            _delivery: delivery,
        })
    }
}

/// Runs the forwarder's process, which the end of the laboratory ends.
pub fn serve(resolvers: &Resolvers, doors: &[Door], machine: &NetworkNamespace) -> ! {
    if let Err(problem) = forward(resolvers, doors, machine) {
        say(problem);
    }
    std::process::exit(FAILED)
}

/// Asks from the machine's network namespace.
fn forward(
    resolvers: &Resolvers,
    doors: &[Door],
    machine: &NetworkNamespace,
) -> Result<(), Problem> {
    engine::be_apart();
    machine.enter()?;
    confinement::renounce(Set::empty()).map_err(|error| Problem::failed(error.to_string()))?;
    let asked = resolvers.asked.iter();
    let forwarder = Arc::new(Forwarder {
        resolvers: asked.filter_map(|name| address_of(name)).collect(),
        questions: AtomicUsize::new(0),
        silent: Mutex::new(BTreeSet::new()),
    });
    thread::scope(|scope| {
        for door in doors {
            scope.spawn(|| forwarder.answer_datagrams(&door.udp));
            scope.spawn(|| forwarder.answer_connections(&door.tcp));
        }
    });
    Ok(())
}

struct Forwarder {
    resolvers: Vec<SocketAddr>,
    /// Number of questions and connections that are served.
    questions: AtomicUsize,
    /// Resolvers about which a line was printed.
    silent: Mutex<BTreeSet<SocketAddr>>,
}

impl Forwarder {
    fn answer_datagrams(self: &Arc<Self>, socket: &UdpSocket) {
        let mut question = vec![0; 1 << 16];
        loop {
            // An error of one program's socket, such as a closed port, concerns no other program.
            let Ok((count, program)) = socket.recv_from(&mut question) else {
                continue;
            };
            let Ok(socket) = socket.try_clone() else {
                continue;
            };
            let question = question[..count].to_vec();
            self.beside(move |forwarder| {
                if let Some(answer) = forwarder.ask(&question, datagram) {
                    let _ = socket.send_to(&answer, program);
                }
            });
        }
    }

    fn answer_connections(self: &Arc<Self>, listener: &TcpListener) {
        for connection in listener.incoming().flatten() {
            self.beside(move |forwarder| {
                let _ = forwarder.answer_connection(connection);
            });
        }
    }

    fn answer_connection(&self, mut connection: TcpStream) -> io::Result<()> {
        connection.set_read_timeout(Some(IDLE))?;
        loop {
            let question = read_message(&mut connection)?;
            match self.ask(&question, stream) {
                Some(answer) => write_message(&mut connection, &answer)?,
                None => return Ok(()),
            }
        }
    }

    /// Runs `job` in a thread of its own. Drops it if `MOST_QUESTIONS` jobs are running.
    fn beside(self: &Arc<Self>, job: impl FnOnce(&Self) + Send + 'static) {
        let forwarder = Arc::clone(self);
        if self.questions.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
            self.questions.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let thread = thread::Builder::new().spawn(move || {
            job(&forwarder);
            forwarder.questions.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.questions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The answer of the first resolver that answers; SERVFAIL if none can be reached, nothing if one is silent.
    fn ask(
        &self,
        question: &[u8],
        by: fn(&[u8], SocketAddr, Duration) -> io::Result<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        if question.len() < HEADER_BYTES {
            return None;
        }
        let share = u32::try_from(self.resolvers.len().max(1)).unwrap_or(u32::MAX);
        let mut is_silent = false;
        for resolver in &self.resolvers {
            match by(question, *resolver, PATIENCE / share) {
                Ok(answer) => return Some(answer),
                Err(error) => {
                    is_silent |= is_late(&error);
                    self.say_silent(*resolver, &error);
                }
            }
        }
        (!is_silent).then(|| failure(question))
    }

    fn say_silent(&self, resolver: SocketAddr, error: &io::Error) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if !silent.insert(resolver) {
            return;
        }
        let why = if is_late(error) {
            "no answer".to_owned()
        } else {
            error.to_string()
        };
        say(format_args!(
            "names: the machine's resolver {} cannot be asked ({why}): start it, or name another one in {RESOLVERS}",
            resolver.ip()
        ));
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Asks a resolver over UDP.
fn datagram(question: &[u8], resolver: SocketAddr, patience: Duration) -> io::Result<Vec<u8>> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(resolver)?;
    socket.send(question)?;
    let deadline = Instant::now() + patience;
    let mut answer = vec![0; 1 << 16];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let count = socket.recv(&mut answer)?;
        if count >= HEADER_BYTES && answer[..2] == question[..2] {
            answer.truncate(count);
            return Ok(answer);
        }
    }
}

/// Asks a resolver over TCP.
fn stream(question: &[u8], resolver: SocketAddr, patience: Duration) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect_timeout(&resolver, patience)?;
    connection.set_read_timeout(Some(patience))?;
    write_message(&mut connection, question)?;
    read_message(&mut connection)
}

/// Reads a message with its length before it (RFC 1035, section 4.2.2).
fn read_message(connection: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    connection.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    connection.read_exact(&mut message)?;
    Ok(message)
}

fn write_message(connection: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    connection.write_all(&[&length.to_be_bytes(), message].concat())
}

/// SERVFAIL to a question, which it repeats.
fn failure(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] |= ANSWER;
    answer[3] = SERVER_FAILURE;
    answer
}

// The directory of running laboratories: each listens on an abstract socket `wavebed/UID/NAME/RANDOM`.
//
// Every process may bind any abstract name. The random part prevents other users from binding the name first. The
// kernel reports the user of a listener: only a listener of the user in its name is accepted.

/// Most names that are examined.
const MOST_NAMES: usize = 4096;

/// Hexadecimal digits of the random part.
const RANDOM_DIGITS: usize = 32;

/// A running laboratory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Running {
    /// Its user.
    pub uid: u32,
    /// Its name.
    pub name: String,
    /// The abstract name of its control socket.
    pub socket: String,
}

/// The caller's running laboratories. For root, `all_users` adds the laboratories of other users.
#[must_use]
pub fn running(all_users: bool) -> Vec<Running> {
    let (user, _) = effective_user();
    let mut found = candidates();
    found.retain(|lab| lab.uid == user || (all_users && user == 0));
    found
        .into_iter()
        .take(MOST_NAMES)
        .filter(is_authentic)
        .collect()
}

/// Listens for `user`'s laboratory called `name`.
///
/// # Errors
/// A laboratory of this user and name is running.
pub fn listen(name: &str, user: u32) -> Result<UnixListener, Problem> {
    let socket = format!("wavebed/{user}/{name}/{}", random()?);
    let listener = unix::listen(&socket)?;
    // After binding: of two that start at once, at least one finds the other.
    let mut others = candidates();
    others.retain(|lab| lab.uid == user && lab.name == name && lab.socket != socket);
    if others
        .into_iter()
        .take(MOST_NAMES)
        .any(|lab| is_authentic(&lab))
    {
        return Err(Problem::wrong(format!(
            "name: a laboratory {name:?} runs already: stop it, or choose another name"
        )));
    }
    Ok(listener)
}

/// Listens in the calling thread's network namespace too, where the programs of a host find the laboratory, and sends
/// the listener to the front process.
///
/// # Errors
/// The socket cannot be made or sent.
pub fn listen_inside(name: &str, front: BorrowedFd<'_>) -> Result<(), Problem> {
    let (user, _) = effective_user();
    let listener = listen(name, user)?;
    let problem = |error: std::io::Error| Problem::failed(format!("the listener inside: {error}"));
    let users = fs::read_link("/proc/self/ns/user").map_err(problem)?;
    let line = [&[message::LISTENER], users.as_os_str().as_bytes()].concat();
    unix::send(front, &line, &[listener.as_fd()])
        .map(drop)
        .map_err(problem)
}

fn random() -> Result<String, Problem> {
    let mut bytes = [0; RANDOM_DIGITS / 2];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .during("read", "/dev/urandom")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Whether the kernel reports the user in the name as the listener. Does not wait: a listener that accepts no
/// connection does not count.
fn is_authentic(lab: &Running) -> bool {
    unix::connect(&lab.socket)
        .is_ok_and(|stream| unix::peer_user(&stream).is_ok_and(|user| user == lab.uid))
}

/// Listeners on names of laboratories, by user and name.
fn candidates() -> BTreeSet<Running> {
    // Other programs choose names in this list, which need not be UTF-8.
    let bytes = fs::read("/proc/net/unix").unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes))
}

/// Listening sockets (flag 00010000 in the fourth column) with names of laboratories.
fn parse(text: &str) -> BTreeSet<Running> {
    text.lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            (columns.len() == 8 && columns[3] == "00010000").then_some(())?;
            let socket = columns[7].strip_prefix('@')?;
            let [head, uid, name, random] = *socket.split('/').collect::<Vec<_>>() else {
                return None;
            };
            let is_random = random.len() == RANDOM_DIGITS
                && random
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let uid: u32 = uid.parse().ok()?;
            (head == "wavebed" && is_random && wavebed_path::is_name(name)).then(|| Running {
                uid,
                name: name.to_owned(),
                socket: socket.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

    fn read(text: &str, way: Way) -> Option<(Vec<String>, String)> {
        let found = Resolvers::read(text, way, HERE)?;
        Some((found.asked, found.file))
    }

    #[test]
    fn resolvers_of_the_machine_alone_are_asked_by_the_forwarder() {
        let own = [
            "127.0.0.53",
            "127.0.0.11",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "fe80::1%eth0",
        ];
        for name in own {
            let text = format!("# x\nnameserver {name}\noptions edns0 trust-ad\nsearch lan\n");
            let file = "nameserver 198.18.0.1\n# x\noptions edns0 trust-ad\nsearch lan\n";
            let wanted = Some((vec![name.to_owned()], file.to_owned()));
            assert_eq!(read(&text, Way::Path), wanted);
        }
    }

    #[test]
    fn others_are_asked_by_the_programs_over_the_path() {
        let text = "nameserver 192.0.2.1\nnameserver 2001:db8::1\n";
        assert_eq!(read(text, Way::Path), None);
        let both = vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()];
        let file = "nameserver 198.18.0.1\n".to_owned();
        assert_eq!(read(text, Way::Beside), Some((both, file)));
        let mixed = "nameserver 192.0.2.1\nnameserver 127.0.0.1\n";
        let file = "nameserver 198.18.0.1\nnameserver 192.0.2.1\n".to_owned();
        let wanted = Some((vec!["127.0.0.1".to_owned()], file));
        assert_eq!(read(mixed, Way::Path), wanted);
    }

    #[test]
    fn without_a_line_the_resolver_is_the_loopback() {
        let wanted = (
            vec!["127.0.0.1".to_owned()],
            "nameserver 198.18.0.1\noptions rotate\n".to_owned(),
        );
        assert_eq!(read("options rotate\n", Way::Path), Some(wanted));
    }

    #[test]
    fn a_failure_repeats_the_question() {
        let question = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01x\0\0\x01\0\x01";
        let answer = failure(question);
        assert_eq!(answer[..4], [0x12, 0x34, 0x81, 2]);
        assert_eq!(answer[4..], question[4..]);
    }

    const RANDOM: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_listening_sockets_with_whole_names_of_laboratories_count() {
        let line = |flags: &str, name: &str| {
            format!("0000000000000000: 00000002 00000000 {flags} 0001 01 77 {name}\n")
        };
        let listens = "00010000";
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n".to_owned()
            + &line(listens, &format!("@wavebed/1000/b/{RANDOM}"))
            + &line("00000000", &format!("@wavebed/1000/c/{RANDOM}"))
            + &line(listens, "/run/other")
            + &line(listens, "@wavebed/0/a")
            + &line(listens, &format!("@wavebed/0/a\u{1b}[2J/{RANDOM}"))
            + &line(listens, &format!("@wavebed/0/a/b/{RANDOM}"))
            + &line(listens, &format!("@wavebed/root/a/{RANDOM}"))
            + &line(listens, "@wavebed/0/a/0123")
            + &line(listens, &format!("@wavebed/0/a/{RANDOM}"))
            + &line(listens, &format!("@wavebed/0/{}/{RANDOM}", "a".repeat(33)));
        let names: Vec<_> = parse(&text)
            .into_iter()
            .map(|lab| (lab.uid, lab.name))
            .collect();
        assert_eq!(names, [(0, "a".to_owned()), (1000, "b".to_owned())]);
    }

    #[test]
    fn a_listener_of_another_user_than_in_its_name_is_ignored() {
        let (user, _) = effective_user();
        let socket = |uid: u32| format!("wavebed/{uid}/theft-{}/{RANDOM}", std::process::id());
        let lab = |uid: u32| Running {
            uid,
            name: "theft".to_owned(),
            socket: socket(uid),
        };
        let _ours = unix::listen(&socket(user)).expect("listen");
        let _claimed = unix::listen(&socket(user + 1)).expect("listen");
        assert!(is_authentic(&lab(user)));
        assert!(!is_authentic(&lab(user + 1)));
        assert!(!is_authentic(&lab(user + 2)), "no listener");
    }

    #[test]
    fn a_name_is_used_once_at_a_time() {
        let (user, _) = effective_user();
        let name = format!("once-{}", std::process::id());
        let first = listen(&name, user).expect("listen");
        let refusal = listen(&name, user).expect_err("taken").to_string();
        assert!(refusal.contains("runs already"), "{refusal}");
        assert!(running(false).iter().any(|lab| lab.name == name));
        drop(first);
        // A process that another test starts at this moment holds the listener too until its exec.
        let deadline = Instant::now() + Duration::from_secs(60);
        while listen(&name, user).is_err() {
            let late = Instant::now() > deadline;
            assert!(!late, "a name whose laboratory has ended is free");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
