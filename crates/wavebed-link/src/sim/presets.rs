//! The radio presets of wavebed.

use serde_json::{Map, Value, json};

use super::spec::SpecError;
use crate::config::{RateConfig, StageConfig};
use crate::radio::Direction;

/// The stages of each preset by direction, without their rate: `python -m wavebed.radio.presets` writes it.
const PRESETS: &str = include_str!("presets.json");

fn presets() -> Map<String, Value> {
    serde_json::from_str(PRESETS).expect("a test reads it")
}

/// The names of the radio presets, such as `nr-120khz`.
#[must_use]
pub fn preset_names() -> Vec<String> {
    presets().into_iter().map(|(name, _)| name).collect()
}

/// The stage of a preset with this rate.
pub(super) fn stage(
    preset: &str,
    direction: Direction,
    rate: &RateConfig,
) -> Result<StageConfig, SpecError> {
    let side = match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    };
    let mut known = presets();
    let Some(mut stage) = known.get_mut(preset).map(|preset| preset[side].take()) else {
        let names = known.into_iter().map(|(name, _)| name);
        return Err(SpecError::new(format!(
            "no radio preset '{preset}': use {}",
            names.collect::<Vec<String>>().join(", ")
        )));
    };
    stage["rate"] = rate_json(rate)?;
    serde_json::from_value(stage).map_err(|error| SpecError::new(error.to_string()))
}

fn rate_json(rate: &RateConfig) -> Result<Value, SpecError> {
    match rate {
        RateConfig::Constant { rate_bps } => Ok(json!({"kind": "constant", "rate_bps": rate_bps})),
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => Ok(json!({"kind": "pattern", "file": file, "end": end, "start_ns": start_ns})),
        _ => Err(SpecError::new(
            "the rate of a radio: use a constant or a pattern of kind steps",
        )),
    }
}
