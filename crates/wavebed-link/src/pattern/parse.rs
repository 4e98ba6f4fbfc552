//! The parser of the native pattern format.

use super::text::{
    Lines, MAX_BYTES, PatternError, SECONDS_RULE, decibels, fraction, seconds, shown, whole,
};
use super::{Columns, Kind, Pattern, State};

const FIRST_LINE: &str = "# wavebed pattern 1";
const MAX_RATE_BPS: u64 = 1_000_000_000_000;
const MAX_PACKETS: u64 = 1_000_000_000_000;
const MAX_CELL: u64 = 999;

impl Pattern {
    /// Reads a pattern from bytes that should be UTF-8.
    ///
    /// # Errors
    /// The first rule of the format that the text breaks, with its line.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, PatternError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let before = &bytes[..error.valid_up_to()];
                let line = before.split(|&byte| byte == b'\n').count();
                Err(PatternError {
                    line,
                    message: "is not UTF-8: save the file as UTF-8 text".to_owned(),
                })
            }
        }
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// The first rule of the format that the text breaks, with its line.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut lines = Lines {
            rest: text.as_bytes(),
            number: 0,
        };
        let head = Head::read(&mut lines)?;
        let mut rows = Rows::new(&head, text.len() / 8);
        while let Some(line) = lines.next() {
            rows.read(line, &lines)?;
        }
        rows.finish(head, &lines)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    RateBps,
    Delay,
    Loss,
    Bler,
    Sinr,
    Need,
    State,
    Cell,
    FallbackRate,
    FallbackSinr,
    FallbackNeed,
    LightRate,
    Bytes,
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::RateBps => "rate_bps",
            Self::Delay => "delay_s",
            Self::Loss => "loss",
            Self::Bler => "bler",
            Self::Sinr => "sinr_db",
            Self::Need => "need_db",
            Self::State => "state",
            Self::Cell => "cell",
            Self::FallbackRate => "fallback_rate_bps",
            Self::FallbackSinr => "fallback_sinr_db",
            Self::FallbackNeed => "fallback_need_db",
            Self::LightRate => "light_rate_bps",
            Self::Bytes => "bytes",
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::RateBps | Self::FallbackRate | Self::LightRate => {
                "a whole number of bits per second from 0 to 1000000000000"
            }
            Self::Delay => SECONDS_RULE,
            Self::Loss | Self::Bler => {
                "a plain decimal number from 0 to 1, without exponent or sign"
            }
            Self::Sinr | Self::Need | Self::FallbackSinr | Self::FallbackNeed => {
                "plain decimal decibels from -100 to 100 with at most three digits after the point, without exponent"
            }
            Self::State => "los, nlos, blocked, outage, handover or fallback",
            Self::Cell => "the index of a base station from 0 to 999",
            Self::Bytes => "a whole number of bytes from 1 to 1000000000",
        }
    }
}

const fn allowed(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Steps => &[
            Column::RateBps,
            Column::Delay,
            Column::Loss,
            Column::Bler,
            Column::Sinr,
            Column::Need,
            Column::State,
            Column::Cell,
            Column::FallbackRate,
            Column::FallbackSinr,
            Column::FallbackNeed,
            Column::LightRate,
        ],
        Kind::Opportunities => &[Column::Bytes],
        Kind::Packets => &[Column::Loss, Column::Delay],
    }
}

const fn first_column(kind: Kind) -> &'static str {
    match kind {
        Kind::Packets => "packet",
        Kind::Steps | Kind::Opportunities => "time_s",
    }
}

/// The header.
struct Head {
    kind: Kind,
    period: u64,
    headers: Vec<(String, String)>,
    columns: Vec<Column>,
    light: Option<LightKeys>,
}

impl Head {
    fn read(lines: &mut Lines<'_>) -> Result<Self, PatternError> {
        match lines.next() {
            None => return lines.error(format!("is empty: the first line must be '{FIRST_LINE}'")),
            Some(line) if line == FIRST_LINE.as_bytes() => {}
            Some(line) => {
                let found = shown(line);
                return lines.error(format!(
                    "the first line must be '{FIRST_LINE}', not '{found}': convert other formats with 'wavebed trace convert'"
                ));
            }
        }
        let mut headers: Vec<(String, String, usize)> = Vec::new();
        let names = loop {
            let Some(line) = lines.next() else {
                return lines.error(
                    "the line with the column names is missing: add it after the header lines",
                );
            };
            if line.first() != Some(&b'#') {
                break line;
            }
            let (key, value) = header(line, lines)?;
            if headers.iter().any(|(known, ..)| *known == key) {
                return lines.error(format!("header '{key}' stands twice: remove one of them"));
            }
            headers.push((key, value, lines.number));
        };
        let find = |key: &str| headers.iter().find(|(known, ..)| known == key);
        let kind = read_kind(find("kind"), lines)?;
        let key = if kind == Kind::Packets {
            "packets"
        } else {
            "duration_s"
        };
        let period = read_period(kind, key, find(key), lines)?;
        let columns = read_columns(kind, names, lines)?;
        let light = read_light(&headers, columns.contains(&Column::LightRate), lines)?;
        let headers = headers
            .into_iter()
            .map(|(key, value, _)| (key, value))
            .collect();
        Ok(Self {
            kind,
            period,
            headers,
            columns,
            light,
        })
    }
}

fn header(line: &[u8], lines: &Lines<'_>) -> Result<(String, String), PatternError> {
    let text = String::from_utf8_lossy(&line[1..]);
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => lines.error("a header line must read '# key = value': write it so or remove it"),
    }
}

fn read_kind(
    found: Option<&(String, String, usize)>,
    lines: &Lines<'_>,
) -> Result<Kind, PatternError> {
    let Some((_, value, line)) = found else {
        return lines.error(
            "header 'kind' is missing: add '# kind = steps' (or opportunities, packets) before the column names",
        );
    };
    [Kind::Steps, Kind::Opportunities, Kind::Packets]
        .into_iter()
        .find(|kind| kind.name() == value)
        .ok_or_else(|| PatternError {
            line: *line,
            message: format!(
                "kind is '{}': use steps, opportunities or packets",
                shown(value.as_bytes())
            ),
        })
}

fn read_period(
    kind: Kind,
    key: &str,
    found: Option<&(String, String, usize)>,
    lines: &Lines<'_>,
) -> Result<u64, PatternError> {
    let Some((_, value, line)) = found else {
        return lines.error(format!(
            "header '{key}' is missing: a pattern of kind {} needs it before the column names",
            kind.name()
        ));
    };
    let (read, rule) = match kind {
        Kind::Packets => (
            whole(value.as_bytes(), MAX_PACKETS),
            "a whole number from 1 to 1000000000000",
        ),
        Kind::Steps | Kind::Opportunities => (seconds(value.as_bytes()), SECONDS_RULE),
    };
    let fail = |broken: &str| {
        let message = format!(
            "header '{key}' {broken} ('{}'): write {rule}, more than 0",
            shown(value.as_bytes())
        );
        Err(PatternError {
            line: *line,
            message,
        })
    };
    match read {
        Ok(0) => fail("is 0"),
        Ok(period) => Ok(period),
        Err(broken) => fail(broken),
    }
}

fn read_columns(kind: Kind, names: &[u8], lines: &Lines<'_>) -> Result<Vec<Column>, PatternError> {
    let mut fields = names.split(|&byte| byte == b',');
    let first = fields.next().unwrap_or_default();
    let wanted = first_column(kind);
    if first != wanted.as_bytes() {
        return lines.error(format!(
            "the first column of kind {} must be '{wanted}', not '{}'",
            kind.name(),
            shown(first)
        ));
    }
    let mut columns = Vec::new();
    for name in fields {
        let Some(&column) = allowed(kind)
            .iter()
            .find(|column| column.name().as_bytes() == name)
        else {
            let names: Vec<&str> = allowed(kind).iter().map(|column| column.name()).collect();
            return lines.error(format!(
                "column '{}' does not belong to kind {}: use {}",
                shown(name),
                kind.name(),
                names.join(", ")
            ));
        };
        if columns.contains(&column) {
            return lines.error(format!(
                "column '{}' stands twice: remove one of them",
                column.name()
            ));
        }
        columns.push(column);
    }
    if columns.is_empty() {
        return lines.error(format!(
            "a pattern needs a column after '{wanted}': add its name and its values"
        ));
    }
    for (column, other) in [
        (Column::Bler, Column::RateBps),
        (Column::Cell, Column::RateBps),
        (Column::Sinr, Column::RateBps),
        (Column::Sinr, Column::Need),
        (Column::Need, Column::Sinr),
        (Column::FallbackRate, Column::RateBps),
        (Column::FallbackSinr, Column::FallbackRate),
        (Column::FallbackSinr, Column::FallbackNeed),
        (Column::FallbackNeed, Column::FallbackSinr),
        (Column::LightRate, Column::RateBps),
    ] {
        if columns.contains(&column) && !columns.contains(&other) {
            let (column, other) = (column.name(), other.name());
            return lines.error(format!(
                "column '{column}' stands without {other}: add {other} or remove {column}"
            ));
        }
    }
    Ok(columns)
}

/// The rows read so far.
struct Rows {
    kind: Kind,
    period: u64,
    columns: Vec<Column>,
    at: Vec<u64>,
    rate_bps: Vec<u64>,
    delay_ns: Vec<u64>,
    loss: Vec<f64>,
    bler: Vec<f64>,
    sinr_mdb: Vec<i32>,
    need_mdb: Vec<i32>,
    state: Vec<State>,
    cell: Vec<u32>,
    fallback_rate_bps: Vec<u64>,
    fallback_sinr_mdb: Vec<i32>,
    fallback_need_mdb: Vec<i32>,
    light_rate_bps: Vec<u64>,
    bytes: Vec<u32>,
}

impl Rows {
    fn new(head: &Head, guess: usize) -> Self {
        Self {
            kind: head.kind,
            period: head.period,
            columns: head.columns.clone(),
            at: Vec::with_capacity(guess.min(1 << 16)),
            rate_bps: Vec::new(),
            delay_ns: Vec::new(),
            loss: Vec::new(),
            bler: Vec::new(),
            sinr_mdb: Vec::new(),
            need_mdb: Vec::new(),
            state: Vec::new(),
            cell: Vec::new(),
            fallback_rate_bps: Vec::new(),
            fallback_sinr_mdb: Vec::new(),
            fallback_need_mdb: Vec::new(),
            light_rate_bps: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn read(&mut self, line: &[u8], lines: &Lines<'_>) -> Result<(), PatternError> {
        if line.is_empty() {
            return lines.error("is blank: remove blank lines after the column names");
        }
        if line[0] == b'#' {
            return lines.error(
                "is a '#' line among the rows: move it before the column names or remove it",
            );
        }
        let mut fields = line.split(|&byte| byte == b',');
        self.read_at(fields.next().unwrap_or_default(), lines)?;
        for index in 0..self.columns.len() {
            let Some(field) = fields.next() else {
                return self.wrong_count(line, lines);
            };
            self.read_value(self.columns[index], field, lines)?;
        }
        if fields.next().is_some() {
            return self.wrong_count(line, lines);
        }
        Ok(())
    }

    fn wrong_count(&self, line: &[u8], lines: &Lines<'_>) -> Result<(), PatternError> {
        let found = line.split(|&byte| byte == b',').count();
        let wanted = self.columns.len() + 1;
        lines.error(format!(
            "has {found} values for {wanted} columns: write one value for each column"
        ))
    }

    fn read_at(&mut self, field: &[u8], lines: &Lines<'_>) -> Result<(), PatternError> {
        let name = first_column(self.kind);
        let (read, rule) = match self.kind {
            Kind::Packets => (
                whole(field, MAX_PACKETS),
                "a whole number from 0 to 1000000000000",
            ),
            Kind::Steps | Kind::Opportunities => (seconds(field), SECONDS_RULE),
        };
        let at = match read {
            Ok(at) => at,
            Err(broken) => {
                return lines.error(format!(
                    "{name} {broken} ('{}'): write {rule}",
                    shown(field)
                ));
            }
        };
        let shown = shown(field);
        let previous = self.at.last().copied();
        let period = if self.kind == Kind::Packets {
            "packets"
        } else {
            "duration_s"
        };
        match (self.kind, previous) {
            (Kind::Opportunities, Some(previous)) if at < previous => {
                return lines.error(format!(
                    "{name} {shown} is less than the row before: sort the rows by time"
                ));
            }
            (Kind::Opportunities, _) if at > self.period => {
                return lines.error(format!(
                    "{name} {shown} is past {period}: raise {period} or remove the row"
                ));
            }
            (Kind::Opportunities, _) => {}
            (_, None) if at != 0 => {
                return lines.error(format!("{name} of the first row is {shown}: it must be 0"));
            }
            (_, Some(previous)) if at <= previous => {
                return lines.error(format!(
                    "{name} {shown} is not more than the row before: sort the rows and merge equal ones"
                ));
            }
            _ if at >= self.period => {
                return lines.error(format!(
                    "{name} {shown} is not less than {period}: raise {period} or remove the row"
                ));
            }
            _ => {}
        }
        self.at.push(at);
        Ok(())
    }

    fn read_value(
        &mut self,
        column: Column,
        field: &[u8],
        lines: &Lines<'_>,
    ) -> Result<(), PatternError> {
        let rate = |to: &mut Vec<u64>| whole(field, MAX_RATE_BPS).map(|rate| to.push(rate));
        let decibels = |to: &mut Vec<i32>| decibels(field).map(|value| to.push(value));
        let read = match column {
            Column::RateBps => rate(&mut self.rate_bps),
            Column::FallbackRate => rate(&mut self.fallback_rate_bps),
            Column::LightRate => rate(&mut self.light_rate_bps),
            Column::Delay => seconds(field).map(|delay| self.delay_ns.push(delay)),
            Column::Loss => fraction(field).map(|loss| self.loss.push(loss)),
            Column::Bler => fraction(field).map(|bler| self.bler.push(bler)),
            Column::Sinr => decibels(&mut self.sinr_mdb),
            Column::Need => decibels(&mut self.need_mdb),
            Column::FallbackSinr => decibels(&mut self.fallback_sinr_mdb),
            Column::FallbackNeed => decibels(&mut self.fallback_need_mdb),
            Column::State => State::from_name(field)
                .ok_or("is not a state of the radio")
                .map(|state| self.state.push(state)),
            Column::Cell => whole(field, MAX_CELL)
                .map(|cell| self.cell.push(u32::try_from(cell).expect("at most 999"))),
            Column::Bytes => match whole(field, MAX_BYTES) {
                Ok(0) => Err("is out of range"),
                Ok(bytes) => {
                    self.bytes
                        .push(u32::try_from(bytes).expect("at most a billion"));
                    Ok(())
                }
                Err(broken) => Err(broken),
            },
        };
        read.or_else(|broken| {
            lines.error(format!(
                "{} {broken} ('{}'): write {}",
                column.name(),
                shown(field),
                column.rule()
            ))
        })
    }

    fn finish(self, head: Head, lines: &Lines<'_>) -> Result<Pattern, PatternError> {
        if self.at.is_empty() {
            return lines
                .error("a pattern needs at least one row: add rows after the column names");
        }
        let has = |column| self.columns.contains(&column);
        Ok(Pattern {
            kind: head.kind,
            period: head.period,
            rate_bps: has(Column::RateBps).then(|| self.rate_bps.into_boxed_slice()),
            delay_ns: has(Column::Delay).then(|| self.delay_ns.into_boxed_slice()),
            loss: has(Column::Loss).then(|| self.loss.into_boxed_slice()),
            bler: has(Column::Bler).then(|| self.bler.into_boxed_slice()),
            sinr_mdb: has(Column::Sinr).then(|| self.sinr_mdb.into_boxed_slice()),
            need_mdb: has(Column::Need).then(|| self.need_mdb.into_boxed_slice()),
            state: has(Column::State).then(|| self.state.into_boxed_slice()),
            cell: has(Column::Cell).then(|| self.cell.into_boxed_slice()),
            bytes: has(Column::Bytes).then(|| self.bytes.into_boxed_slice()),
            fallback: Columns {
                rate_bps: has(Column::FallbackRate).then(|| self.fallback_rate_bps.into()),
                sinr_mdb: has(Column::FallbackSinr).then(|| self.fallback_sinr_mdb.into()),
                need_mdb: has(Column::FallbackNeed).then(|| self.fallback_need_mdb.into()),
            },
            light: head.light.map(|(bytes, idle_ns)| Light {
                rate_bps: self.light_rate_bps.into(),
                bytes,
                idle_ns,
            }),
            at: self.at.into_boxed_slice(),
            headers: head.headers,
        })
    }
}

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
            cell: None,
            bytes: None,
            fallback: super::Columns::default(),
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
    let bytes = value(BYTES, "15000", BYTES_RULE, |text| whole(text, MAX_BYTES))?;
    let idle_ns = value(
        IDLE,
        "0.1",
        &format!("{SECONDS_RULE}, more than 0"),
        seconds,
    )?;
    Ok(Some((bytes, idle_ns)))
}

#[cfg(test)]
mod tests {
    use crate::pattern::text::{decibels, fraction, seconds, whole};

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
