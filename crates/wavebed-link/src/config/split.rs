//! The split bearer of a radio stage in the laboratory file.

use std::sync::Arc;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::build::{Loader, fail, lacks, load};
use super::radio::{RlcKeys, rlc};
use super::{ConfigError, RateConfig};
use crate::bounds::MAX_TIME_NS;
use crate::queue::{Infinite, Queue};
use crate::radio::{
    Air, Carriers, Connection, Grants, Radio, RadioConfig, SplitBearer, SplitConfig,
};
use crate::random_stream::RandomStream;
use crate::stage::Stage;
use crate::unit::Unit;

/// A split bearer: how it gives data to its legs, and the leg on the fallback carrier.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Split")]
pub struct SplitKeys {
    /// A leg takes data while less waits in it than its rate carries in this time.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    target_ns: u64,
    /// Waiting bytes from which on both carriers have new data; null: only one has.
    #[garde(range(max = MAX_THRESHOLD_BYTES))]
    threshold_bytes: Option<u64>,
    /// RLC of the leg on the fallback carrier.
    #[garde(dive)]
    rlc: RlcKeys,
    /// Grants of that leg.
    #[garde(dive)]
    grants: Option<Grants>,
}

const MAX_THRESHOLD_BYTES: u64 = 1_000_000_000_000;
/// Random streams of the leg on the fallback carrier.
const FALLBACK: u64 = 5 << 40;

/// The channels of the two legs.
fn airs(
    config: &RateConfig,
    bler: Option<f64>,
    loader: &mut Loader<'_>,
) -> Result<[Air; 2], ConfigError> {
    let RateConfig::Pattern {
        file,
        end,
        start_ns,
    } = config
    else {
        return fail("rate.kind", "does not fit a split bearer: use pattern");
    };
    let pattern = load("rate", file, *start_ns, loader)?;
    let play = |leg| Air::pattern(Arc::new(leg), *end, *start_ns, 0, bler);
    let fallback = pattern.fallback_leg().and_then(play);
    let (Some(primary), Some(fallback)) = (play(pattern.primary_leg()), fallback) else {
        let needs = "a pattern with the column fallback_rate_bps, or remove split";
        return lacks("rate", file, pattern.kind(), needs);
    };
    Ok([primary, fallback])
}

/// Builds the stage from the settings of the carrier.
pub(super) fn build(
    keys: &SplitKeys,
    config: RadioConfig,
    (rate, bler): (&RateConfig, Option<f64>),
    loader: &mut Loader<'_>,
    queue: Box<dyn Queue>,
    connection: Option<Arc<Connection>>,
    random: RandomStream,
) -> Result<Box<dyn Stage>, ConfigError> {
    let Some(fallback) = config.carriers.fallback.clone() else {
        return fail(
            "split",
            "has no second carrier: add fallback, or remove split",
        );
    };
    let bearer = SplitConfig {
        direction: config.direction,
        overhead_bytes: config.overhead_bytes,
        discard_ns: config.discard_ns,
        reordering: config.reordering,
        target_ns: keys.target_ns,
        threshold_bytes: keys.threshold_bytes,
    };
    let leg = RadioConfig {
        discard_ns: None,
        reordering: None,
        carriers: Carriers {
            fallback: None,
            ..config.carriers
        },
        ..config
    };
    let fallback = RadioConfig {
        carriers: Carriers {
            primary: fallback.clone(),
            fallback: Some(fallback),
        },
        rlc: rlc(keys.rlc).map_err(in_split)?,
        grants: keys.grants,
        aggregation: None,
        ..leg.clone()
    };
    let [primary_air, fallback_air] = airs(rate, bler, loader)?;
    let radio = |config, air, random| {
        let queue = Box::new(Infinite::new(Unit::Packet));
        Radio::new(config, air, queue, connection.clone(), random)
    };
    let primary = radio(leg, primary_air, random);
    let fallback = radio(fallback, fallback_air, random.process(FALLBACK));
    Ok(Box::new(SplitBearer::new(
        bearer, queue, connection, primary, fallback,
    )))
}

fn in_split(error: ConfigError) -> ConfigError {
    ConfigError {
        key: format!("split.{}", error.key),
        ..error
    }
}
