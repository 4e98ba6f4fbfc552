//! The part of the laboratory file that describes links, and how stages are made of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use wavebed_link::config::{Shared, StageConfig, build_shared};
use wavebed_link::pattern::Pattern;
use wavebed_link::{RandomStream, Stage};
use wavebed_os::foreign;

use crate::engine::SegmentSetup;

/// What lies between two hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopConfig {
    /// Segments, the one nearest to the server first.
    #[serde(rename = "hops")]
    pub segments: Vec<SegmentConfig>,
}

/// One segment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentConfig {
    /// Its name.
    pub name: String,
    /// What it stands for; the stages say what it does.
    pub kind: SegmentKind,
    /// Stages towards the client, in the order in which packets meet them.
    pub down: Vec<StageConfig>,
    /// Stages towards the server.
    pub up: Vec<StageConfig>,
}

/// What a segment stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// A cable, or a network of them.
    Wired,
    /// A radio link.
    Radio,
}

/// A link that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A pattern cannot be read, or breaks a rule: its file, the line and the rule.
    #[error("{0}")]
    Pattern(String),
    /// A stage cannot be made.
    #[error("{link}: {message}")]
    Stage {
        /// Which link.
        link: String,
        /// Why.
        message: String,
    },
}

/// Reads patterns once, however many links use them.
#[derive(Default)]
pub struct Patterns {
    read: HashMap<PathBuf, Arc<Pattern>>,
    failure: Option<String>,
}

impl Patterns {
    /// The pattern in `file`.
    ///
    /// # Errors
    /// One line that names the file, the line and the rule.
    pub fn load(&mut self, file: &Path) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.read.get(file) {
            return Ok(Arc::clone(pattern));
        }
        let pattern = Self::parse(file).inspect_err(|line| self.failure = Some(line.clone()))?;
        let pattern = Arc::new(pattern);
        self.read.insert(file.to_owned(), Arc::clone(&pattern));
        Ok(pattern)
    }

    fn parse(file: &Path) -> Result<Pattern, String> {
        let text = foreign::read_text(file, foreign::MAX_BYTES)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Pattern::parse(&text)
            .map_err(|error| format!("{}:{}: {}", file.display(), error.line, error.message))
    }
}

/// Makes the segments of all hops. Random streams are keyed by the place of a stage on the path: segment, direction, stage.
///
/// # Errors
/// The first stage that cannot be made.
pub fn build_hops(
    hops: &[HopConfig],
    seed: u64,
    mtu: u32,
    patterns: &mut Patterns,
) -> Result<Vec<Vec<SegmentSetup>>, LinkError> {
    let mut place = 0;
    let mut built = Vec::with_capacity(hops.len());
    for hop in hops {
        let mut segments = Vec::with_capacity(hop.segments.len());
        for segment in &hop.segments {
            let mut shared = Shared::default();
            let mut side = |name: &str, stages: &[StageConfig], direction: u64| {
                let first_place = (2 * place + direction) << 16;
                build_stages(stages, seed, first_place, mtu, patterns, &mut shared).map_err(
                    |message| {
                        let link = format!("{}.{name}", segment.name);
                        let stage = LinkError::Stage { link, message };
                        patterns.failure.take().map_or(stage, LinkError::Pattern)
                    },
                )
            };
            segments.push(SegmentSetup {
                name: segment.name.clone(),
                down: side("down", &segment.down, 0)?,
                up: side("up", &segment.up, 1)?,
            });
            place += 1;
        }
        built.push(segments);
    }
    Ok(built)
}

fn build_stages(
    stages: &[StageConfig],
    seed: u64,
    first_place: u64,
    mtu: u32,
    patterns: &mut Patterns,
    shared: &mut Shared,
) -> Result<Vec<Box<dyn Stage>>, String> {
    let mut built = Vec::with_capacity(stages.len());
    for (place, stage) in (first_place..).zip(stages) {
        let mut load = |file: &Path| patterns.load(file);
        let made = build_shared(
            stage,
            mtu,
            RandomStream::new(seed, place),
            &mut load,
            shared,
        )
        .map_err(|error| error.to_string())?;
        built.push(made);
    }
    Ok(built)
}
