//! Exact parsing of plain decimal numbers into integers.

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
fn split(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
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

#[cfg(test)]
mod tests {
    use super::{decibels, fraction, seconds, whole};

    #[test]
    fn seconds_are_exact_nanoseconds() {
        assert_eq!(seconds(b"0"), Ok(0));
        assert_eq!(seconds(b"2.1"), Ok(2_100_000_000));
        assert_eq!(seconds(b"0.000000001"), Ok(1));
        assert_eq!(seconds(b"1000000000"), Ok(1_000_000_000_000_000_000));
        assert_eq!(seconds(b"999999999.999999999"), Ok(999_999_999_999_999_999));
        for bad in [
            "", ".", "1.", ".5", "1e3", "-1", "+1", " 1", "1 ", "nan", "inf", "0x1", "1_0", "1.2.3",
        ] {
            assert!(seconds(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(seconds(b"1000000000.000000001").is_err());
        assert!(seconds(b"99999999999999999999999").is_err());
        assert!(seconds(b"0.0000000001").is_err());
    }

    #[test]
    fn whole_numbers_and_fractions_have_ranges() {
        assert_eq!(
            whole(b"1000000000000", 1_000_000_000_000),
            Ok(1_000_000_000_000)
        );
        assert!(whole(b"1000000000001", 1_000_000_000_000).is_err());
        assert!(whole(b"99999999999999999999999999", u64::MAX - 1).is_err());
        assert!(whole(b"1.0", 9).is_err());
        assert_eq!(fraction(b"0.25"), Ok(0.25));
        assert_eq!(fraction(b"1"), Ok(1.0));
        assert!(fraction(b"1.0000001").is_err());
        assert!(fraction(b"1e-3").is_err());
    }

    #[test]
    fn decibels_are_exact_thousandths_with_a_sign() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("7.9", 7_900),
            ("-2.85", -2_850),
            ("12.345", 12_345),
            ("-0.001", -1),
            ("100", 100_000),
            ("-100.000", -100_000),
            ("0000000000000001.5", 1_500),
        ] {
            assert_eq!(decibels(text.as_bytes()), Ok(value), "{text}");
        }
        for bad in [
            "",
            "-",
            "--1",
            "+1",
            "1-",
            "-.5",
            "1.",
            "-1e1",
            "1.0000",
            "100.001",
            "-100.001",
            "99999999999999999999",
            "nan",
            "-inf",
            " 1",
        ] {
            assert!(decibels(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
