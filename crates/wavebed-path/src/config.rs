//! The links of the laboratory file, and the stages built from them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use wavebed_link::config::{Shared, StageConfig, build_shared};
use wavebed_link::pattern::Pattern;
use wavebed_link::{RandomStream, Stage};
use wavebed_os::foreign;

use crate::engine::HopSetup;

/// A leg: the hops between two adjacent hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegConfig {
    /// Hops, the one nearest to the server first.
    pub hops: Vec<HopConfig>,
}

/// One hop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopConfig {
    /// Its name.
    pub name: String,
    /// Its kind, for reports; the stages define its behaviour.
    pub kind: HopKind,
    /// Stages towards the client, in the order that packets pass them.
    pub down: Vec<StageConfig>,
    /// Stages towards the server.
    pub up: Vec<StageConfig>,
}

/// The kind of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopKind {
    /// A cable or a wired network.
    Wired,
    /// A radio link.
    Radio,
}

impl HopKind {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wired => "wired",
            Self::Radio => "radio",
        }
    }
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

/// Patterns, each read once and shared by all links that use it.
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

/// Builds the hops of all legs. Random streams are keyed by the position of the stage on the path: hop, direction,
/// stage.
///
/// # Errors
/// The first stage that cannot be made.
pub fn build_legs<'a>(
    legs: impl IntoIterator<Item = &'a LegConfig>,
    seed: u64,
    mtu: u32,
    patterns: &mut Patterns,
) -> Result<Vec<Vec<HopSetup>>, LinkError> {
    let mut place = 0;
    let mut built = Vec::new();
    for leg in legs {
        let mut hops = Vec::with_capacity(leg.hops.len());
        for hop in &leg.hops {
            let mut shared = Shared::default();
            let mut side = |name: &str, stages: &[StageConfig], direction: u64| {
                let first_place = (2 * place + direction) << 16;
                build_stages(stages, seed, first_place, mtu, patterns, &mut shared).map_err(
                    |message| {
                        let link = format!("{}.{name}", hop.name);
                        let stage = LinkError::Stage { link, message };
                        patterns.failure.take().map_or(stage, LinkError::Pattern)
                    },
                )
            };
            hops.push(HopSetup {
                name: hop.name.clone(),
                down: side("down", &hop.down, 0)?,
                up: side("up", &hop.up, 1)?,
            });
            place += 1;
        }
        built.push(hops);
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
