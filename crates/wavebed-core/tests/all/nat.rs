//! Laboratories whose far end is the machine itself. The test's machine has a neighbour behind a veth pair.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::thread;

use crate::support::{
    self, assert_clean, lab, on_own_machine, run, run_quietly, start, text_of, traces, wait_until,
};
use serde_json::Value;

/// Gives the machine a network 10.9.0.0/24 with a neighbour 10.9.0.2, which has no route to 198.18.0.0.
fn neighbour() -> std::process::Child {
    let child = std::process::Command::new("unshare")
        .args(["-n", "sleep", "1000"])
        .spawn()
        .expect("starts");
    let pid = child.id().to_string();
    wait_until("its own namespace", || {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
            != std::fs::read_link("/proc/self/ns/net").ok()
    });
    run_quietly(
        "ip",
        &[
            "link", "add", "out0", "type", "veth", "peer", "name", "in0", "netns", &pid,
        ],
    );
    run_quietly("ip", &["addr", "add", "10.9.0.1/24", "dev", "out0"]);
    run_quietly("ip", &["link", "set", "out0", "up"]);
    let inside = |arguments: &[&str]| {
        let mut all = vec!["-t", &pid, "-n", "ip"];
        all.extend(arguments);
        run_quietly("nsenter", &all)
    };
    inside(&["addr", "add", "10.9.0.2/24", "dev", "in0"]);
    inside(&["link", "set", "in0", "up"]);
    child
}

fn nat_lab(name: &str, hosts: usize, command: &[&str]) -> Value {
    let mut file = lab(name, hosts, command);
    file["network"]["nat"] = true.into();
    file
}

/// The program's output besides the counters of the links.
fn remarks(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let own = text
        .lines()
        .filter(|line| line.starts_with("wavebed-core:"));
    own.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_client_reaches_the_machine_and_networks_behind_it() {
    on_own_machine(
        "the_client_reaches_the_machine_and_networks_behind_it",
        || {
            let mut other = neighbour();
            // A new network has the first one's value, which container engines change.
            run_quietly("sysctl", &["-qw", "net.ipv4.ip_forward=0"]);
            let before = traces();
            let rules_before = run_quietly("nft", &["list", "ruleset"]);
            let machine =
                "ping -4 -c1 -W30 server && ping -6 -c1 -W30 server && ping -c1 -W30 10.9.0.1";
            let output = run(&nat_lab("nat", 2, &["sh", "-ec", machine]));
            text_of(&output, 0);
            let remark = remarks(&output.stderr);
            assert!(
                remark.contains("sysctl net.ipv4.ip_forward=1") && remark.lines().count() == 1,
                "{remark}"
            );
            run_quietly(
                "sysctl",
                &[
                    "-qw",
                    "net.ipv4.ip_forward=1",
                    "net.ipv6.conf.all.forwarding=1",
                ],
            );
            for hosts in [2, 3] {
                let output = run(&nat_lab("nat", hosts, &["ping", "-c1", "-W30", "10.9.0.2"]));
                text_of(&output, 0);
                assert_eq!(remarks(&output.stderr), "");
            }
            assert_clean(&before, "laboratories with NAT");
            assert_eq!(run_quietly("nft", &["list", "ruleset"]), rules_before);
            other.kill().expect("kill");
            other.wait().expect("wait");
        },
    );
}

#[test]
fn two_laboratories_with_nat_have_their_own_addresses() {
    on_own_machine("two_laboratories_with_nat_have_their_own_addresses", || {
        let before = traces();
        let first = start(&nat_lab(
            "one",
            2,
            &[
                "sh",
                "-c",
                "echo {client}; sleep 1000; ping -c1 -W30 {server} >/dev/null",
            ],
        ));
        wait_until("the first one runs", || {
            support::process_with("sleep 1000").is_some()
        });
        assert!(run_quietly("nft", &["list", "tables"]).contains("wavebed0"));
        let second = text_of(
            &run(&nat_lab(
                "two",
                2,
                &[
                    "sh",
                    "-c",
                    "echo {client}; ping -c1 -W30 {server} >/dev/null",
                ],
            )),
            0,
        );
        let sleep = support::process_with("sleep 1000").expect("the first one runs still");
        wavebed_os::process::kill(sleep, 9).expect("kill");
        let first = text_of(&first.end(), 0);
        assert_eq!((first.trim(), second.trim()), ("198.18.0.2", "198.18.4.2"));
        assert_clean(&before, "two laboratories with NAT");
    });
}

#[test]
fn laboratories_with_nat_do_not_reach_each_other_where_the_machine_forwards() {
    on_own_machine(
        "laboratories_with_nat_do_not_reach_each_other_where_the_machine_forwards",
        || {
            run_quietly(
                "sysctl",
                &[
                    "-qw",
                    "net.ipv4.ip_forward=1",
                    "net.ipv6.conf.all.forwarding=1",
                ],
            );
            let first = start(&nat_lab("one", 2, &["sleep", "1000"]));
            wait_until("the first one runs", || {
                support::process_with("sleep 1000").is_some()
            });
            // The machine itself and the own addresses answer; the client of the other laboratory does not.
            let script = "ping -c1 -W30 198.18.0.1 && ping -c1 -W30 fd77:6176:6562:0::1 && \
                          ! ping -c1 -W0.3 198.18.0.2 && ! ping -c1 -W0.3 fd77:6176:6562:0::2";
            text_of(&run(&nat_lab("two", 2, &["sh", "-c", script])), 0);
            let sleep = support::process_with("sleep 1000").expect("it runs");
            wavebed_os::process::kill(sleep, 9).expect("kill");
            first.end();
        },
    );
}

#[test]
fn killing_a_laboratory_with_nat_removes_its_table_and_device() {
    on_own_machine(
        "killing_a_laboratory_with_nat_removes_its_table_and_device",
        || {
            let before = traces();
            let running = start(&nat_lab("nat", 2, &["sleep", "1000"]));
            wait_until("it runs", || support::process_with("sleep 1000").is_some());
            assert_ne!(run_quietly("nft", &["list", "tables"]), "");
            wavebed_os::process::kill(i32::try_from(running.child.id()).expect("a pid"), 9)
                .expect("kill");
            running.end();
            assert_clean(&before, "a killed laboratory with NAT");
            wait_until("the table is gone", || {
                run_quietly("nft", &["list", "tables"]).is_empty()
            });
        },
    );
}

/// An answer to a question for an address; cut short if the question came by UDP and `cut` is set.
fn answer_to(question: &[u8], cut: bool) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0);
    let end = 12 + name.expect("an end of the name") + 1 + 4;
    let (kind, address): (u8, &[u8]) = match question[end - 3] {
        28 => (
            28,
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
        ),
        _ => (1, &[198, 51, 100, 7]),
    };
    let mut answer = question[..end].to_vec();
    answer[2] = if cut { 0x83 } else { 0x81 };
    answer[3..12].copy_from_slice(&[0x80, 0, 1, 0, u8::from(!cut), 0, 0, 0, 0]);
    if !cut {
        let length = u8::try_from(address.len()).expect("short");
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, length]);
        answer.extend(address);
    }
    answer
}

/// Serves names at port 53 of `address`, by UDP and TCP, until the test ends.
fn name_server(address: IpAddr, cut: bool) {
    let udp = UdpSocket::bind((address, 53)).expect("port 53");
    let tcp = TcpListener::bind((address, 53)).expect("port 53");
    thread::spawn(move || {
        let mut question = [0; 2048];
        while let Ok((count, from)) = udp.recv_from(&mut question) {
            let _ = udp.send_to(&answer_to(&question[..count], cut), from);
        }
    });
    thread::spawn(move || {
        for mut connection in tcp.incoming().flatten() {
            thread::spawn(move || {
                let mut length = [0; 2];
                while connection.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; u16::from_be_bytes(length).into()];
                    connection.read_exact(&mut question).expect("a question");
                    let answer = answer_to(&question, false);
                    let length = u16::try_from(answer.len()).expect("short");
                    let whole = [&length.to_be_bytes(), &answer[..]].concat();
                    connection.write_all(&whole).expect("it reads");
                }
            });
        }
    });
}

/// Makes the test's machine read another resolv.conf, which `set_resolvers` writes; the file of this machine stays.
fn own_resolvers() {
    set_resolvers("");
    let file = std::env::temp_dir().join("resolv.conf");
    let file = file.to_str().expect("text");
    run_quietly("mount", &["--bind", file, "/etc/resolv.conf"]);
}

fn set_resolvers(text: &str) {
    std::fs::write(std::env::temp_dir().join("resolv.conf"), text).expect("write");
}

/// Standard error of a laboratory where a host finds IPv4 and IPv6 of a name; `names` is the way of the questions.
fn found_names(names: &str, hosts: usize, host: &str) -> String {
    let script = "getent ahostsv4 www.example.org | grep -q 198.51.100.7 \
                  && getent ahostsv6 www.example.org | grep -q 2001:db8::7";
    let mut file = nat_lab("names", hosts, &["sh", "-c", script]);
    file["network"]["names"] = names.into();
    file["command"]["host"] = host.into();
    let output = run(&file);
    text_of(&output, 0);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn names_of_a_resolver_that_only_the_machine_reaches_are_found() {
    on_own_machine(
        "names_of_a_resolver_that_only_the_machine_reaches_are_found",
        || {
            own_resolvers();
            let before = traces();
            for address in ["127.0.0.53", "127.0.0.11", "127.0.0.1", "::1"] {
                name_server(
                    address.parse().expect("an address"),
                    address == "127.0.0.11",
                );
                for options in ["", "options use-vc\n"] {
                    set_resolvers(&format!("nameserver {address}\n{options}"));
                    let over = found_names("path", 2, "client");
                    assert!(!over.contains("in 0 = delivered 0"), "{over}");
                    let beside = found_names("beside", 3, "client");
                    assert_eq!(beside.matches("in 0 = delivered 0").count(), 4, "{beside}");
                }
            }
            // The server is the machine, whose programs read the same file.
            for names in ["path", "beside"] {
                found_names(names, 3, "server");
                found_names(names, 3, "edge");
            }
            // The first resolver is not there, or none is named.
            for text in ["nameserver 127.0.0.9\nnameserver ::1\n", "search lan\n"] {
                set_resolvers(text);
                let over = found_names("path", 3, "client");
                let said = over.matches("resolver 127.0.0.9 cannot be asked (Connection refused");
                assert_eq!(said.count(), usize::from(text.contains(".9")), "{over}");
            }
            assert_clean(&before, "laboratories with names");
        },
    );
}

#[test]
fn names_are_found_beside_a_name_server_on_all_addresses_of_the_machine() {
    on_own_machine(
        "names_are_found_beside_a_name_server_on_all_addresses_of_the_machine",
        || {
            own_resolvers();
            name_server(Ipv4Addr::UNSPECIFIED.into(), false);
            set_resolvers("nameserver 127.0.0.1\n");
            found_names("path", 2, "client");
        },
    );
}

#[test]
fn without_an_answering_resolver_names_fail_and_one_line_says_why() {
    on_own_machine(
        "without_an_answering_resolver_names_fail_and_one_line_says_why",
        || {
            own_resolvers();
            set_resolvers("nameserver 127.0.0.53\noptions attempts:1\n");
            let script = "! getent ahosts www.example.org && ! getent ahosts www.example.com";
            let silent = || UdpSocket::bind("127.0.0.53:53").expect("port 53");
            for (resolver, why) in [
                (None, "Connection refused"),
                (Some(silent as fn() -> UdpSocket), "no answer"),
            ] {
                let _resolver = resolver.map(|bind| bind());
                let output = run(&nat_lab("names", 2, &["sh", "-c", script]));
                text_of(&output, 0);
                let said = remarks(&output.stderr);
                let line = format!("the machine's resolver 127.0.0.53 cannot be asked ({why}");
                assert_eq!(said.matches("names:").count(), 1, "{said}");
                assert!(said.contains(&line) && said.contains("start it"), "{said}");
            }
        },
    );
}

#[test]
fn a_laboratory_with_nat_inside_another_reaches_what_the_other_reaches() {
    on_own_machine(
        "a_laboratory_with_nat_inside_another_reaches_what_the_other_reaches",
        || {
            own_resolvers();
            name_server("127.0.0.53".parse().expect("an address"), false);
            set_resolvers("nameserver 127.0.0.53\n");
            let script = "ping -4 -c1 -W30 198.18.0.1 && ping -6 -c1 -W30 fd77:6176:6562::1 \
                          && getent ahostsv4 www.example.org";
            let inner = support::write(&nat_lab("inner", 2, &["sh", "-c", script]));
            let inner = inner.to_str().expect("text");
            let output = run(&nat_lab("outer", 2, &[support::CORE, "lab", inner]));
            let text = text_of(&output, 0);
            assert!(text.contains("198.51.100.7"), "{text}");
            let said = remarks(&output.stderr);
            assert_eq!(said.lines().count(), 1, "of the outer one alone: {said}");
        },
    );
}

#[test]
fn a_program_on_the_machines_loopback_is_named_when_a_connection_fails() {
    on_own_machine(
        "a_program_on_the_machines_loopback_is_named_when_a_connection_fails",
        || {
            let bound = ["127.0.0.1:8000", "[::1]:8001", "127.0.0.1:8002"];
            let _bound = bound.map(|place| TcpListener::bind(place).expect("a port"));
            let _open = TcpListener::bind("[::]:8003").expect("a port");
            let connect = |place: &str| {
                let script = format!("exec 3<>/dev/tcp/{place}");
                let output = run(&nat_lab("nat", 2, &["bash", "-c", &script]));
                remarks(&output.stderr)
            };
            for place in ["server/8000", "127.0.0.1/8000", "::1/8001"] {
                let said = connect(place);
                assert!(
                    said.contains("listen ports 8000, 8001, 8002: let the"),
                    "{said}"
                );
            }
            let said = connect("server/8003");
            assert!(!said.contains("listen"), "{said}");
        },
    );
}
