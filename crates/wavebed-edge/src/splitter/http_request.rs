//! Requests for metrics, and their answers.

/// A longer request is refused.
pub const MOST_REQUEST_BYTES: usize = 4096;

/// What a path has to show: its media type and its content.
pub type Page = Option<(&'static str, String)>;

/// The answer to the bytes of a connection; empty as long as they are no whole request. `page` is asked for the path of
/// a GET request.
#[must_use]
pub fn answer(request: &[u8], page: impl FnOnce(&str) -> Page) -> Vec<u8> {
    if !request.windows(4).any(|end| end == b"\r\n\r\n") {
        return if request.len() > MOST_REQUEST_BYTES {
            response("431 Request Header Fields Too Large", "text/plain", "")
        } else {
            Vec::new()
        };
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => match page(path) {
            Some((kind, text)) => response("200 OK", kind, &text),
            None => response(
                "404 Not Found",
                "text/plain",
                "read /metrics, /metrics.json or /flows.json\n",
            ),
        },
        _ => response("405 Method Not Allowed", "text/plain", ""),
    }
}

fn response(status: &str, kind: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}
