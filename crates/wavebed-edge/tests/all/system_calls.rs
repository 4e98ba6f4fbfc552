//! The filters of system calls: what running programs may do, and what the kernel refuses them.
//!
//! A filter holds for the whole process and for good, so each test runs itself again as a process of its own.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use wavebed_edge::system_calls;

const INSIDE: &str = "WAVEBED_TEST_INSIDE";

/// Runs `body` in the test of this name, in a process of its own.
fn in_a_process(test: &str, body: impl FnOnce()) {
    if env::var(INSIDE).is_ok() {
        return body();
    }
    let output = Command::new(env::current_exe().expect("a program"))
        .args([
            "--exact",
            &format!("system_calls::{test}"),
            "--test-threads=1",
        ])
        .env(INSIDE, "1")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("1 passed"), "{said}");
}

fn is_refused<T>(answer: io::Result<T>) -> bool {
    answer.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn start_a_program() -> io::Error {
    Command::new("/bin/true").exec()
}

fn refuses_what_programs_of_both_kinds_do_not_do() {
    // execve(2) itself, and the fork before it.
    assert!(is_refused::<()>(Err(start_a_program())));
    assert!(is_refused(Command::new("/bin/true").status()));
    assert!(is_refused(File::open("/proc/version")));
    assert!(is_refused(UnixDatagram::unbound()));
    assert!(is_refused(thread::Builder::new().spawn(|| ())));
    let status = rustix::thread::set_name(c"other");
    assert!(is_refused(status.map_err(io::Error::from)));
}

#[test]
fn a_running_splitter_starts_no_program_and_opens_no_file() {
    in_a_process(
        "a_running_splitter_starts_no_program_and_opens_no_file",
        || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            assert!(system_calls::allow_splitter().expect("is set"), "a filter");
            refuses_what_programs_of_both_kinds_do_not_do();
            let address = listener.local_addr().expect("is bound");
            let mut client = TcpStream::connect(address).expect("connects");
            let (mut server, _) = listener.accept().expect("accepts");
            server.write_all(b"x").expect("sends");
            client.read_exact(&mut [0]).expect("arrives");
            let netlink = rustix::net::socket(
                rustix::net::AddressFamily::NETLINK,
                rustix::net::SocketType::RAW,
                None,
            );
            assert!(is_refused(netlink.map_err(io::Error::from)));
        },
    );
}

#[test]
fn a_running_end_of_the_tunnel_makes_no_socket() {
    in_a_process("a_running_end_of_the_tunnel_makes_no_socket", || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(system_calls::allow_tunnel().expect("is set"), "a filter");
        refuses_what_programs_of_both_kinds_do_not_do();
        assert!(is_refused(UdpSocket::bind("127.0.0.1:0")));
        let address = socket.local_addr().expect("is bound");
        socket.send_to(b"x", address).expect("sends");
        assert_eq!(socket.recv(&mut [0; 2]).expect("arrives"), 1);
    });
}

#[test]
fn threads_that_run_already_have_the_filter_too() {
    in_a_process("threads_that_run_already_have_the_filter_too", || {
        let (tell, told) = mpsc::channel();
        let (ask, asked) = mpsc::channel();
        thread::spawn(move || {
            ask.send(start_is_free()).expect("is asked");
            told.recv().expect("is told");
            ask.send(is_refused::<()>(Err(start_a_program())))
        });
        assert_eq!(asked.recv(), Ok(true));
        system_calls::allow_tunnel().expect("is set");
        tell.send(()).expect("runs");
        assert_eq!(asked.recv(), Ok(true));
    });
}

fn start_is_free() -> bool {
    Command::new("/bin/true")
        .status()
        .is_ok_and(|status| status.success())
}
