//! The rate that the first bytes after an idle time get.

use super::parse::{Lines, MAX_BYTES, PatternError, SECONDS_RULE, shown};
use super::{Kind, Pattern, number};

/// The light rate of a pattern: the column and its two header keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Light {
    pub(super) rate_bps: Box<[u64]>,
    pub(super) bytes: u64,
    pub(super) idle_ns: u64,
}

impl Light {
    /// Bits per second, one for each row.
    #[must_use]
    pub const fn rate_bps(&self) -> &[u64] {
        &self.rate_bps
    }

    /// Bytes that are served at this rate after an idle time, at least 1.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The shortest idle time before them, nanoseconds, at least 1.
    #[must_use]
    pub const fn idle_ns(&self) -> u64 {
        self.idle_ns
    }
}

impl Pattern {
    /// The rate of the first bytes after an idle time, where the pattern has one. A pattern with it has rates.
    #[must_use]
    pub const fn light(&self) -> Option<&Light> {
        self.light.as_ref()
    }

    /// The pattern of the light rate alone: it is 0 where [`Pattern::rate_bps`] is 0, for an outage is one of all bytes.
    /// `None` without a light rate.
    #[must_use]
    pub fn light_pattern(&self) -> Option<Self> {
        let pairs = self.light()?.rate_bps.iter().zip(self.rate_bps()?);
        let rates: Box<[u64]> = pairs
            .map(|(&light, &full)| if full == 0 { 0 } else { light })
            .collect();
        Some(Self {
            kind: Kind::Steps,
            period: self.period,
            at: self.at.clone(),
            rate_bps: Some(rates),
            delay_ns: None,
            loss: None,
            bler: None,
            sinr_mdb: None,
            need_mdb: None,
            state: None,
            bytes: None,
            fallback: super::legs::Columns::default(),
            light: None,
            headers: Vec::new(),
        })
    }
}

/// The header keys of a light rate: bytes, and nanoseconds.
pub(super) type LightKeys = (u64, u64);

/// Reads the header keys of the column `light_rate_bps`, which stand beside it and only there.
pub(super) fn read_light(
    headers: &[(String, String, usize)],
    has_column: bool,
    lines: &Lines<'_>,
) -> Result<Option<LightKeys>, PatternError> {
    const BYTES_RULE: &str = "a whole number of bytes from 1 to 1000000000";
    const BYTES: &str = "light_bytes";
    const IDLE: &str = "light_idle_s";
    let column = "light_rate_bps";
    let find = |key: &str| headers.iter().find(|(known, ..)| known == key);
    if !has_column {
        return match find(BYTES).or_else(|| find(IDLE)) {
            None => Ok(None),
            Some((key, _, line)) => Err(PatternError {
                line: *line,
                message: format!(
                    "header '{key}' stands without the column {column}: add {column} or remove {key}"
                ),
            }),
        };
    }
    let value = |key: &str,
                 example: &str,
                 rule: &str,
                 read: fn(&[u8]) -> Result<u64, &'static str>| {
        let Some((_, value, line)) = find(key) else {
            return lines.error(format!(
                "column '{column}' stands without the header '{key}': add '# {key} = {example}' or remove {column}"
            ));
        };
        let read = read(value.as_bytes())
            .and_then(|value| if value == 0 { Err("is 0") } else { Ok(value) });
        read.map_err(|broken| PatternError {
            line: *line,
            message: format!(
                "header '{key}' {broken} ('{}'): write {rule}",
                shown(value.as_bytes())
            ),
        })
    };
    let bytes = value(BYTES, "15000", BYTES_RULE, |text| {
        number::whole(text, MAX_BYTES)
    })?;
    let idle_ns = value(
        IDLE,
        "0.1",
        &format!("{SECONDS_RULE}, more than 0"),
        number::seconds,
    )?;
    Ok(Some((bytes, idle_ns)))
}
