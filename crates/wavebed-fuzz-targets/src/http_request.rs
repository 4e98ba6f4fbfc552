//! Requests to the splitter's metrics, in pieces as they arrive: an answer is one whole response, and says nothing of
//! the request.

use std::cell::Cell;

use wavebed_edge::splitter::{MOST_REQUEST_BYTES, answer};

const PAGE: &str = "the page";
const STATUSES: [&str; 4] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 405 Method Not Allowed",
    "HTTP/1.1 431 Request Header Fields Too Large",
];

fn check(answer: &[u8], asked: bool) {
    let text = std::str::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines.len(), 4, "{head}");
    assert!(STATUSES.contains(&lines[0]), "{head}");
    assert_eq!(lines[2], format!("Content-Length: {}", body.len()));
    assert_eq!(asked, lines[0] == STATUSES[0] || lines[0] == STATUSES[1]);
}

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    // The first byte says how long the pieces are.
    let Some((piece, request)) = data.split_first() else {
        return;
    };
    let asked = Cell::new(false);
    let page = |path: &str| {
        assert!(!path.contains([' ', '\r']));
        asked.set(true);
        path.starts_with("/metrics")
            .then(|| ("text/plain", PAGE.to_owned()))
    };
    let mut end = 0;
    while end < request.len() {
        end = request.len().min(end + 1 + usize::from(*piece) * 4);
        let answer = answer(&request[..end], page);
        if !answer.is_empty() {
            check(&answer, asked.get());
            return;
        }
        assert!(!asked.get() && end <= MOST_REQUEST_BYTES);
    }
}
