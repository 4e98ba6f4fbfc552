//! Builds a queue from its configuration.

use super::build::fail;
use super::{ConfigError, QueueConfig};
use crate::queue::{
    Codel, CodelSettings, Delay, DropHead, DropTail, DualPi2, DualPi2Settings, FqCodel,
    FqCodelSettings, Infinite, Queue,
};
use crate::random_stream::RandomStream;
use crate::unit::Unit;

/// Builds a queue.
pub(super) fn queue_of(
    config: &QueueConfig,
    unit: Unit,
    mtu_bytes: u32,
    random: RandomStream,
) -> Result<Box<dyn Queue>, ConfigError> {
    Ok(match config {
        QueueConfig::Droptail { limit } => Box::new(DropTail::new(*limit, unit)),
        QueueConfig::Drophead { limit } => Box::new(DropHead::new(*limit, unit)),
        QueueConfig::Infinite {} => Box::new(Infinite::new(unit)),
        QueueConfig::Codel {
            limit,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
        } => {
            let settings = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            Box::new(Codel::new(settings, *limit, unit))
        }
        QueueConfig::FqCodel {
            limit,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
            flows,
            quantum_bytes,
        } => {
            let codel = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            let settings = FqCodelSettings {
                codel,
                flows: *flows,
                quantum_bytes: *quantum_bytes,
            };
            Box::new(FqCodel::new(settings, *limit, unit, random))
        }
        QueueConfig::DualPi2 {
            limit,
            target_ns,
            rtt_max_ns,
            coupling,
            threshold_ns,
            range_ns,
            predict_ns,
        } => {
            let settings = DualPi2Settings {
                target_ns: *target_ns,
                rtt_max_ns: *rtt_max_ns,
                coupling: *coupling,
                threshold_ns: *threshold_ns,
                range_ns: *range_ns,
                delay: predict_ns.map_or(Delay::Measured, Delay::Predicted),
            };
            Box::new(DualPi2::new(settings, *limit, unit))
        }
    })
}

fn codel(
    target_ns: u64,
    interval_ns: u64,
    ecn: bool,
    ce_threshold_ns: Option<u64>,
    mtu_bytes: u32,
) -> Result<CodelSettings, ConfigError> {
    if interval_ns < target_ns {
        return fail(
            "queue.interval_ns",
            format!(
                "is {interval_ns}, less than target_ns {target_ns}: use more, usually 20 times target_ns"
            ),
        );
    }
    if ce_threshold_ns.is_some() && !ecn {
        return fail(
            "queue.ce_threshold_ns",
            "requires ecn, which is false: remove it, or set ecn to true",
        );
    }
    Ok(CodelSettings {
        target_ns,
        interval_ns,
        ecn,
        ce_threshold_ns,
        mtu_bytes,
    })
}
