//! Frames: a JSON header and bytes beside it, over a stream.
//!
//! ```text
//! u32, little-endian: bytes of the header    u32: bytes of the payload    header (JSON)    payload
//! ```

use std::io::{self, Write};

use serde_json::Value;

/// The largest header, bytes: a command line with its environment.
pub const MOST_HEADER_BYTES: usize = 1 << 20;
/// The largest payload, bytes.
pub const MOST_PAYLOAD_BYTES: usize = 1 << 20;
const LENGTHS_BYTES: usize = 8;

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// A JSON object.
    pub header: Value,
    /// Bytes beside it.
    pub payload: Vec<u8>,
}

/// The stream is no sequence of frames.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// A length is beyond its limit.
    #[error("a frame has a {part} of {bytes} bytes: at most {most}")]
    TooLong {
        /// `header` or `payload`.
        part: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The header is no JSON object.
    #[error("the header of a frame is no JSON object")]
    Header,
}

/// Cuts a stream into frames, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame; `None` until all of it is there.
    ///
    /// # Errors
    /// The stream is no sequence of frames; nothing after that can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((header_bytes, payload_bytes)) = self.lengths()? else {
            return Ok(None);
        };
        let end = LENGTHS_BYTES + header_bytes + payload_bytes;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let after_header = LENGTHS_BYTES + header_bytes;
        let header: Value = serde_json::from_slice(&self.bytes[LENGTHS_BYTES..after_header])
            .map_err(|_| FrameError::Header)?;
        if !header.is_object() {
            return Err(FrameError::Header);
        }
        let payload = self.bytes[after_header..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some(Frame { header, payload }))
    }

    fn lengths(&self) -> Result<Option<(usize, usize)>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<LENGTHS_BYTES>() else {
            return Ok(None);
        };
        let length = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        Ok(Some((
            checked("header", length(0), MOST_HEADER_BYTES)?,
            checked("payload", length(4), MOST_PAYLOAD_BYTES)?,
        )))
    }
}

fn checked(part: &'static str, bytes: usize, most: usize) -> Result<usize, FrameError> {
    if bytes > most {
        return Err(FrameError::TooLong { part, bytes, most });
    }
    Ok(bytes)
}

/// Writes a frame.
///
/// # Errors
/// The stream is closed, or a part is beyond its limit.
pub fn write_frame(stream: &mut impl Write, header: &Value, payload: &[u8]) -> io::Result<()> {
    let header = header.to_string();
    let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
    if header.len() > MOST_HEADER_BYTES || payload.len() > MOST_PAYLOAD_BYTES {
        return Err(too_long());
    }
    let header_bytes = u32::try_from(header.len()).map_err(|_| too_long())?;
    let payload_bytes = u32::try_from(payload.len()).map_err(|_| too_long())?;
    let mut all = Vec::with_capacity(LENGTHS_BYTES + header.len() + payload.len());
    all.extend_from_slice(&header_bytes.to_le_bytes());
    all.extend_from_slice(&payload_bytes.to_le_bytes());
    all.extend_from_slice(header.as_bytes());
    all.extend_from_slice(payload);
    stream.write_all(&all)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_that_is_no_object_ends_the_stream() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(b"[]");
        let mut frames = Frames::default();
        frames.add(&bytes);
        assert_eq!(frames.next_frame(), Err(FrameError::Header));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_arrive() {
        let mut frames = Frames::default();
        frames.add(&4_u32.to_le_bytes());
        frames.add(&u32::MAX.to_le_bytes());
        assert!(matches!(
            frames.next_frame(),
            Err(FrameError::TooLong {
                part: "payload",
                ..
            })
        ));
    }

    proptest! {
        #[test]
        fn frames_arrive_as_written_in_pieces_of_any_size(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            piece in 1_usize..50,
        ) {
            let mut stream = Vec::new();
            for (number, payload) in payloads.iter().enumerate() {
                write_frame(&mut stream, &json!({"id": number}), payload).unwrap();
            }
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.add(bytes);
                while let Some(frame) = frames.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found.len(), payloads.len());
            for (number, (frame, payload)) in found.iter().zip(&payloads).enumerate() {
                prop_assert_eq!(&frame.header["id"], &json!(number));
                prop_assert_eq!(&frame.payload, payload);
            }
        }

        #[test]
        fn any_bytes_give_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut frames = Frames::default();
            frames.add(&bytes);
            while let Ok(Some(_)) = frames.next_frame() {}
        }
    }
}
