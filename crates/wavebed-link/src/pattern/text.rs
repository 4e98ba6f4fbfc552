//! Numbers and lines of pattern files, read exactly, and the errors about them.

/// The error of an invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct PatternError {
    /// Number of the line, from 1; one past the last line if a part is missing.
    pub line: usize,
    /// The broken rule, and the remedy.
    pub message: String,
}

pub(super) const MAX_BYTES: u64 = 1_000_000_000;

/// The lines of a text, without their ends.
pub(super) struct Lines<'a> {
    pub rest: &'a [u8],
    pub number: usize,
}

impl<'a> Lines<'a> {
    pub fn next(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        if self.rest.is_empty() {
            return None;
        }
        let length = self.rest.iter().position(|&byte| byte == b'\n');
        let line = &self.rest[..length.unwrap_or(self.rest.len())];
        self.rest = length.map_or(&[], |length| &self.rest[length + 1..]);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, PatternError> {
        Err(PatternError {
            line: self.number,
            message: message.into(),
        })
    }
}

/// A value, shortened for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

pub(super) const SECONDS_RULE: &str = "plain decimal seconds from 0 to 1000000000 with at most nine digits after the point, without exponent or sign";

/// A non-negative whole number of at most `max`. The error is the broken rule.
pub fn whole(text: &[u8], max: u64) -> Result<u64, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    let mut value: u64 = 0;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return Err("is not a whole number written in plain digits");
        }
        value = value
            .saturating_mul(10)
            .saturating_add(u64::from(byte - b'0'));
    }
    if value > max {
        Err("is out of range")
    } else {
        Ok(value)
    }
}

const BILLION: u64 = 1_000_000_000;

/// Seconds of at most nine decimals and at most 10⁹, as nanoseconds.
pub fn seconds(text: &[u8]) -> Result<u64, &'static str> {
    let (integer, fraction) = split(text)?;
    if fraction.len() > 9 {
        return Err("has more than nine digits after the point");
    }
    let mut value: u64 = 0;
    for &digit in integer {
        value = value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'));
    }
    let mut scale = BILLION;
    let mut nanos = 0;
    for &digit in fraction {
        scale /= 10;
        nanos += u64::from(digit - b'0') * scale;
    }
    match value
        .checked_mul(BILLION)
        .and_then(|whole| whole.checked_add(nanos))
    {
        Some(total) if total <= BILLION * BILLION => Ok(total),
        _ => Err("is out of range"),
    }
}

/// A fraction, 0 to 1.
pub fn fraction(text: &[u8]) -> Result<f64, &'static str> {
    split(text)?;
    let text = std::str::from_utf8(text).map_err(|_| "is not a plain decimal number")?;
    let value: f64 = text.parse().map_err(|_| "is not a plain decimal number")?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("is out of range")
    }
}

const MAX_MDB: u32 = 100_000;

/// Decibels of at most three decimals from -100 to 100, as thousandths of a decibel.
pub fn decibels(text: &[u8]) -> Result<i32, &'static str> {
    let magnitude = text.strip_prefix(b"-");
    let (integer, fraction) = split(magnitude.unwrap_or(text))?;
    if fraction.len() > 3 {
        return Err("has more than three digits after the point");
    }
    let missing = std::iter::repeat_n(&b'0', 3 - fraction.len());
    let mut value: u32 = 0;
    for &digit in integer.iter().chain(fraction).chain(missing) {
        value = value
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'));
    }
    if value > MAX_MDB {
        return Err("is out of range");
    }
    let value = value.cast_signed();
    Ok(if magnitude.is_some() { -value } else { value })
}

/// The digits before and after the point; at least one part must have digits.
pub fn split(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    const RULE: &str = "is not a plain decimal number";
    if text.is_empty() {
        return Err("is empty");
    }
    let (integer, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) if point > 0 && point + 1 < text.len() => (&text[..point], &text[point + 1..]),
        Some(_) => return Err(RULE),
        None => (text, &text[text.len()..]),
    };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if digits(integer) && digits(fraction) {
        Ok((integer, fraction))
    } else {
        Err(RULE)
    }
}
