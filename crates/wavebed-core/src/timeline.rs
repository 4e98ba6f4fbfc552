//! The timeline of a laboratory or a bridge: named stretches of the patterns that its links play, and where they are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wavebed_link::Change;
use wavebed_link::pattern::{Clock, End, Kind, Pattern, Playback, Value as Condition};
use wavebed_path::{LinkError, Patterns};

/// Normal speed, in thousandths.
const NORMAL: u32 = 1000;
/// A radio frame (TS 38.211, 4.3.1): duplex frames begin again after this time.
const FRAME_NS: u64 = 10_000_000;
/// The highest speed, in thousandths.
pub const MOST_PERMILLE: u32 = 1_000_000;

/// A timeline as `docs/development/bridge-file.md` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineFile {
    /// Length of one pass.
    duration_ns: u64,
    /// Whether it begins again at its end; otherwise its last values hold.
    #[serde(rename = "loop")]
    loops: bool,
    /// The stretches, in the order of time; the first begins at 0.
    stretches: Vec<StretchFile>,
    /// The patterns that links play.
    patterns: Vec<PlayedFile>,
}

/// A named stretch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StretchFile {
    name: String,
    start_ns: u64,
}

/// A pattern and the link that plays it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlayedFile {
    link: String,
    file: std::path::PathBuf,
}

impl TimelineFile {
    /// Checks the rules; `has` tells whether there is a link of this name.
    ///
    /// # Errors
    /// One line with the broken rule.
    pub fn check(&self, has: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut end_ns = 0;
        for (index, stretch) in self.stretches.iter().enumerate() {
            let first = index == 0;
            if first != (stretch.start_ns == 0) || (!first && stretch.start_ns <= end_ns) {
                return Err("timeline: stretches: must begin at 0 and stand in order".to_owned());
            }
            end_ns = stretch.start_ns;
        }
        if self.stretches.is_empty() || self.duration_ns <= end_ns {
            return Err("timeline: duration_ns: must be after the last stretch begins".to_owned());
        }
        match self.patterns.iter().find(|played| !has(&played.link)) {
            Some(played) => Err(format!(
                "timeline: patterns: there is no link {:?}",
                played.link
            )),
            None => Ok(()),
        }
    }
}

/// A request to a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Goes on; from the beginning if it had ended.
    Play {},
    /// Stands still: the conditions of this position hold.
    Pause {},
    /// Goes to a position.
    Seek {
        /// Nanoseconds from the beginning of the timeline, or of the stretch.
        position_ns: u64,
        /// The stretch.
        stretch: Option<String>,
    },
    /// Sets the speed, in thousandths of the normal one.
    Speed {
        /// 1 to [`MOST_PERMILLE`].
        permille: u32,
    },
    /// Changes a condition of a stretch for this run.
    Edit {
        /// Its name.
        stretch: String,
        /// `down` or `up`; null: both.
        direction: Option<String>,
        /// The condition and its value.
        #[serde(flatten)]
        condition: Edited,
    },
    /// Sets whether it begins again at its end.
    Loop {
        /// Whether.
        on: bool,
    },
}

/// A condition of a stretch, and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "key", content = "value", rename_all = "snake_case")]
pub enum Edited {
    /// Bits per second.
    RateBps(u64),
    /// Nanoseconds.
    DelayNs(u64),
    /// Probability from 0 to 1.
    Loss(f64),
}

impl From<Edited> for Condition {
    fn from(edited: Edited) -> Self {
        match edited {
            Edited::RateBps(rate_bps) => Self::RateBps(rate_bps),
            Edited::DelayNs(delay_ns) => Self::DelayNs(delay_ns),
            Edited::Loss(loss) => Self::Loss(loss.clamp(0.0, 1.0)),
        }
    }
}

/// A running timeline.
#[derive(Clone, Debug)]
pub struct Timeline {
    file: TimelineFile,
    patterns: Vec<(String, Arc<Pattern>)>,
    /// At normal speed or its own; stands still in a pause.
    clock: Clock,
    playing: bool,
    permille: u32,
    loops: bool,
}

impl Timeline {
    /// Reads the patterns of `file`; it plays from time zero on.
    ///
    /// # Errors
    /// A pattern cannot be read, or is not one over time of this length.
    pub fn new(file: &TimelineFile, patterns: &mut Patterns) -> Result<Self, LinkError> {
        let mut played = Vec::new();
        for PlayedFile { link, file: name } in &file.patterns {
            let pattern = patterns.load(name).map_err(LinkError::Pattern)?;
            if pattern.kind() != Kind::Steps || pattern.period() != file.duration_ns {
                return Err(LinkError::Pattern(format!(
                    "{}: the pattern of a timeline is of kind steps and as long as it",
                    name.display()
                )));
            }
            played.push((link.clone(), pattern));
        }
        Ok(Self::of(file.clone(), played))
    }

    const fn of(file: TimelineFile, patterns: Vec<(String, Arc<Pattern>)>) -> Self {
        Self {
            patterns,
            clock: Clock::new(0, 0),
            playing: true,
            permille: NORMAL,
            loops: file.loops,
            file,
        }
    }

    /// Obeys a request that comes at `now_ns`. Returns the changes of links, by name.
    ///
    /// # Errors
    /// There is no such stretch or position: one line.
    pub fn obey(&mut self, action: &Action, now_ns: u64) -> Result<Vec<(String, Change)>, String> {
        let mut position_ns = self.position_ns(now_ns);
        match action {
            Action::Play {} => {
                if position_ns == self.file.duration_ns {
                    position_ns = 0;
                }
                self.playing = true;
            }
            Action::Pause {} => self.playing = false,
            Action::Seek {
                position_ns: wanted_ns,
                stretch,
            } => position_ns = self.sought(*wanted_ns, stretch.as_deref())?,
            Action::Speed { permille } if (1..=MOST_PERMILLE).contains(permille) => {
                self.permille = *permille;
            }
            Action::Speed { permille } => {
                return Err(format!(
                    "speed: {permille} thousandths are outside 1 to {MOST_PERMILLE}"
                ));
            }
            Action::Edit {
                stretch,
                direction,
                condition,
            } => self.edit(stretch, direction.as_deref(), (*condition).into())?,
            Action::Loop { on } => self.loops = *on,
        }
        if self.loops {
            position_ns %= self.file.duration_ns;
        }
        let permille = if self.playing { self.permille } else { 0 };
        if permille == NORMAL {
            position_ns = with_frames_of(position_ns, now_ns);
        }
        self.clock = Clock::new(position_ns, now_ns).at_speed(permille);
        let end = if self.loops { End::Repeat } else { End::Hold };
        let changes = self.patterns.iter().map(|(link, pattern)| {
            let playback = Playback {
                pattern: Arc::clone(pattern),
                end,
                clock: self.clock,
            };
            (link.clone(), Change::Play(playback))
        });
        Ok(changes.collect())
    }

    /// The links whose rate the action changes, and their new rate, bits per second.
    #[must_use]
    pub fn new_rates(&self, action: &Action) -> Vec<(&str, u64)> {
        let Action::Edit {
            direction,
            condition: Edited::RateBps(rate_bps),
            ..
        } = action
        else {
            return Vec::new();
        };
        let links = self.patterns.iter().map(|(link, _)| link.as_str());
        links
            .filter(|link| is_concerned(link, direction.as_deref()))
            .map(|link| (link, *rate_bps))
            .collect()
    }

    /// Where a stretch begins and ends.
    fn range(&self, name: &str) -> Result<(u64, u64), String> {
        let stretches = &self.file.stretches;
        let found = stretches.iter().position(|each| each.name == name);
        let index = found.ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            format!(
                "there is no stretch {name:?}: write one of {}",
                names.join(", ")
            )
        })?;
        let end_ns = (stretches.get(index + 1)).map_or(self.file.duration_ns, |next| next.start_ns);
        Ok((stretches[index].start_ns, end_ns))
    }

    /// Gives a condition of a stretch one value, in the patterns that have it.
    fn edit(
        &mut self,
        stretch: &str,
        direction: Option<&str>,
        condition: Condition,
    ) -> Result<(), String> {
        let (from_ns, to_ns) = self.range(stretch)?;
        let mut edited = false;
        for (link, pattern) in &mut self.patterns {
            if is_concerned(link, direction)
                && let Some(changed) = pattern.with(from_ns, to_ns, condition)
            {
                *pattern = Arc::new(changed);
                edited = true;
            }
        }
        if edited {
            Ok(())
        } else {
            Err(
                "no pattern of the timeline has this condition: give it to a stretch in the file"
                    .to_owned(),
            )
        }
    }

    /// The position `position_ns` after the beginning of a stretch, or of the whole.
    fn sought(&self, position_ns: u64, stretch: Option<&str>) -> Result<u64, String> {
        let (from_ns, to_ns, what) = match stretch {
            None => (0, self.file.duration_ns, "the timeline".to_owned()),
            Some(name) => {
                let (from_ns, to_ns) = self.range(name)?;
                (from_ns, to_ns, format!("the stretch {name}"))
            }
        };
        let length_ns = to_ns - from_ns;
        if position_ns < length_ns {
            return Ok(from_ns + position_ns);
        }
        let seconds = |ns: u64| std::time::Duration::from_nanos(ns).as_secs_f64();
        Err(format!(
            "{what} lasts {} s: {} s are beyond its end",
            seconds(length_ns),
            seconds(position_ns)
        ))
    }

    /// The position at `now_ns`; the duration once it has ended.
    #[must_use]
    pub fn position_ns(&self, now_ns: u64) -> u64 {
        let position_ns = self.clock.position(now_ns);
        if self.loops {
            position_ns % self.file.duration_ns
        } else {
            position_ns.min(self.file.duration_ns)
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.file.stretches.iter().map(|each| each.name.as_str())
    }

    /// The index of the stretch at `position_ns`.
    fn stretch(&self, position_ns: u64) -> usize {
        let stretches = &self.file.stretches;
        stretches.partition_point(|each| each.start_ns <= position_ns) - 1
    }

    /// Its state at `now_ns`, for `show`.
    #[must_use]
    pub fn state(&self, now_ns: u64) -> Value {
        let position_ns = self.position_ns(now_ns);
        let stretches = self.file.stretches.iter();
        let stretches = stretches.map(|each| json!({"name": each.name, "start_ns": each.start_ns}));
        json!({
            "position_ns": position_ns,
            "duration_ns": self.file.duration_ns,
            "stretch": self.file.stretches[self.stretch(position_ns)].name,
            "playing": self.playing,
            "ended": position_ns == self.file.duration_ns,
            "speed": f64::from(self.permille) / f64::from(NORMAL),
            "loop": self.loops,
            "stretches": stretches.collect::<Vec<_>>(),
        })
    }

    /// The names of the values of [`Timeline::sample`].
    pub const COLUMNS: [&'static str; 4] = ["position_ns", "stretch", "playing", "speed"];

    /// Its state at `now_ns` in a row, the stretch by its index, for samples.
    #[must_use]
    pub fn sample(&self, now_ns: u64) -> Value {
        let position_ns = self.position_ns(now_ns);
        let speed = f64::from(self.permille) / f64::from(NORMAL);
        json!([position_ns, self.stretch(position_ns), self.playing, speed])
    }
}

/// The first position from `position_ns` on whose radio frames begin when radio frames of the links begin: at most 10 ms
/// later. So slots are where they were in every other pass.
const fn with_frames_of(position_ns: u64, now_ns: u64) -> u64 {
    let behind_ns = (now_ns % FRAME_NS + FRAME_NS - position_ns % FRAME_NS) % FRAME_NS;
    position_ns + behind_ns
}

/// Whether a link is of this direction; `None`: of either.
fn is_concerned(link: &str, direction: Option<&str>) -> bool {
    direction.is_none_or(|direction| link.rsplit('.').next() == Some(direction))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Stretches of 10, 20 and 30 s.
    fn timeline(loops: bool) -> Timeline {
        let head = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\ntime_s,rate_bps\n";
        let text = format!("{head}0,1000000\n10,2000000\n30,3000000\n");
        let pattern = Arc::new(Pattern::parse(&text).expect("it is valid"));
        let file = json!({
            "duration_ns": 60 * SECOND,
            "loop": loops,
            "stretches": [
                {"name": "home", "start_ns": 0},
                {"name": "lift", "start_ns": 10 * SECOND},
                {"name": "street", "start_ns": 30 * SECOND},
            ],
            "patterns": [{"link": "radio.down", "file": "x.csv"}],
        });
        let file: TimelineFile = serde_json::from_value(file).expect("it is valid");
        file.check(|link| link == "radio.down")
            .expect("it is valid");
        Timeline::of(file, vec![("radio.down".to_owned(), pattern)])
    }

    fn at(timeline: &Timeline, now_s: u64) -> (u64, String, bool) {
        let state = timeline.state(now_s * SECOND);
        let position = state["position_ns"].as_u64().expect("a number") / SECOND;
        let name = state["stretch"].as_str().expect("a name").to_owned();
        (position, name, state["ended"] == json!(true))
    }

    fn seek(stretch: Option<&str>, seconds: u64) -> Action {
        Action::Seek {
            position_ns: seconds * SECOND,
            stretch: stretch.map(str::to_owned),
        }
    }

    #[test]
    fn it_plays_to_its_end_and_stays_there_or_begins_again() {
        let once = timeline(false);
        assert_eq!(at(&once, 0), (0, "home".into(), false));
        assert_eq!(at(&once, 10), (10, "lift".into(), false));
        assert_eq!(at(&once, 90), (60, "street".into(), true));
        assert_eq!(at(&timeline(true), 95), (35, "street".into(), false));
    }

    #[test]
    fn every_action_counts_from_where_it_is() {
        let mut line = timeline(false);
        line.obey(&Action::Pause {}, 5 * SECOND).expect("obeyed");
        assert_eq!(at(&line, 50), (5, "home".into(), false));
        line.obey(&Action::Speed { permille: 2000 }, 50 * SECOND)
            .expect("obeyed");
        assert_eq!(at(&line, 60), (5, "home".into(), false));
        line.obey(&Action::Play {}, 60 * SECOND).expect("obeyed");
        assert_eq!(at(&line, 65), (15, "lift".into(), false));
        line.obey(&seek(Some("street"), 10), 70 * SECOND)
            .expect("obeyed");
        assert_eq!(at(&line, 72), (44, "street".into(), false));
        line.obey(&seek(None, 3), 73 * SECOND).expect("obeyed");
        assert_eq!(at(&line, 74), (5, "home".into(), false));
        assert_eq!(at(&line, 200), (60, "street".into(), true));
        line.obey(&Action::Play {}, 200 * SECOND).expect("obeyed");
        assert_eq!(at(&line, 201), (2, "home".into(), false));
        line.obey(&Action::Loop { on: true }, 202 * SECOND)
            .expect("obeyed");
        assert_eq!(at(&line, 230), (0, "home".into(), false));
    }

    #[test]
    fn a_change_has_the_position_of_its_time_and_ends_as_it_loops() {
        let mut played = timeline(true);
        let changes = played
            .obey(&seek(Some("lift"), 1), 100 * SECOND)
            .expect("obeyed");
        let [(name, Change::Play(playback))] = &changes[..] else {
            panic!("{changes:?}");
        };
        assert_eq!((name.as_str(), playback.end), ("radio.down", End::Repeat));
        assert_eq!(playback.clock.position(101 * SECOND), 12 * SECOND);
    }

    #[test]
    fn a_position_at_normal_speed_has_the_radio_frames_of_the_links() {
        let ms = 1_000_000;
        let mut line = timeline(false);
        for (now_ns, wanted_ns) in [(70_007 * ms, 35_007 * ms), (80_000 * ms, 35_000 * ms)] {
            line.obey(&seek(Some("street"), 5), now_ns).expect("obeyed");
            assert_eq!(line.position_ns(now_ns), wanted_ns);
            // What follows at normal speed moves nothing.
            let later_ns = now_ns + 123_456_789;
            line.obey(&Action::Loop { on: false }, later_ns)
                .expect("obeyed");
            assert_eq!(line.position_ns(later_ns), wanted_ns + 123_456_789);
        }
        // Standing still, it is where it was asked to be.
        line.obey(&Action::Pause {}, 90_003 * ms).expect("obeyed");
        line.obey(&seek(None, 3), 90_003 * ms).expect("obeyed");
        assert_eq!(line.position_ns(95_000 * ms), 3 * SECOND);
    }

    #[test]
    fn an_edited_stretch_has_the_new_value_and_the_others_theirs() {
        let mut line = timeline(false);
        let edit = |direction: &str, condition| Action::Edit {
            stretch: "lift".to_owned(),
            direction: Some(direction.to_owned()),
            condition,
        };
        let changes = line
            .obey(&edit("down", Edited::RateBps(5)), 12 * SECOND)
            .expect("obeyed");
        let [(_, Change::Play(playback))] = &changes[..] else {
            panic!("{changes:?}");
        };
        let rates = playback.pattern.rate_bps().expect("it has rates");
        assert_eq!(rates, [1_000_000, 5, 3_000_000]);
        // It plays on from where it is.
        assert_eq!(playback.clock.position(13 * SECOND), 13 * SECOND);
        for (direction, condition) in [
            ("up", Edited::RateBps(5)),
            ("down", Edited::Loss(0.5)),
            ("down", Edited::DelayNs(5)),
        ] {
            let refused = line.obey(&edit(direction, condition), 0);
            let said = refused.expect_err("refused");
            assert!(said.starts_with("no pattern of the timeline has"), "{said}");
        }
    }

    #[test]
    fn an_edited_rate_names_the_links_that_get_it() {
        let line = timeline(false);
        let edit = |direction: Option<&str>, condition| Action::Edit {
            stretch: "lift".to_owned(),
            direction: direction.map(str::to_owned),
            condition,
        };
        let rate = Edited::RateBps(5);
        assert_eq!(line.new_rates(&edit(None, rate)), [("radio.down", 5)]);
        assert_eq!(line.new_rates(&edit(Some("up"), rate)), []);
        assert_eq!(line.new_rates(&edit(None, Edited::DelayNs(5))), []);
        assert_eq!(line.new_rates(&seek(None, 1)), []);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let mut line = timeline(false);
        for (action, said) in [
            (
                seek(Some("train"), 0),
                "there is no stretch \"train\": write one of home, lift, street",
            ),
            (
                seek(Some("lift"), 20),
                "the stretch lift lasts 20 s: 20 s are beyond its end",
            ),
            (
                seek(None, 61),
                "the timeline lasts 60 s: 61 s are beyond its end",
            ),
            (
                Action::Speed { permille: 0 },
                "speed: 0 thousandths are outside 1 to 1000000",
            ),
        ] {
            assert_eq!(line.obey(&action, 0).expect_err("refused"), said);
        }
        assert_eq!(at(&line, 7), (7, "home".into(), false));
    }
}
