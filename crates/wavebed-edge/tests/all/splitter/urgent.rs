//! Urgent data (RFC 9293, 3.8.5; RFC 6093) arrives in line, where it was sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::net::{SendFlags, send};

use crate::splitter::running::{COPIES, pair, rest};

fn send_urgent(stream: &TcpStream, bytes: &[u8]) {
    let sent = send(stream, bytes, SendFlags::OOB).expect("sends");
    assert_eq!(sent, bytes.len());
}

#[test]
fn urgent_bytes_arrive_in_line_in_both_directions() {
    for copy in COPIES {
        let (_running, mut client, mut server) = pair(&format!("copy = \"{copy}\""));
        for stream in [&mut client, &mut server] {
            stream.write_all(b"before").expect("sends");
            send_urgent(stream, b"!");
            stream.write_all(b"between").expect("sends");
            send_urgent(stream, b"?");
            stream.write_all(b"after").expect("sends");
        }
        // No end of stream helps here.
        for stream in [&mut client, &mut server] {
            let mut text = [0; 20];
            stream.read_exact(&mut text).expect("arrives");
            assert_eq!(&text, b"before!between?after", "{copy}");
        }
    }
}

#[test]
fn an_urgent_byte_before_the_end_is_not_lost() {
    for copy in COPIES {
        for _ in 0..20 {
            let (_running, client, mut server) = pair(&format!("copy = \"{copy}\""));
            send_urgent(&client, b"last!");
            client.shutdown(Shutdown::Write).expect("ends");
            assert_eq!(rest(&mut server).expect("an end"), b"last!", "{copy}");
        }
    }
}
