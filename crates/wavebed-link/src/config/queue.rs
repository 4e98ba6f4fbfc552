//! Builds a queue from its configuration.

use super::build::{fail, positive_time, time};
use super::{ConfigError, QueueConfig};
use crate::queue::{
    Codel, CodelSettings, Delay, DropHead, DropTail, DualPi2, DualPi2Settings, FqCodel,
    FqCodelSettings, Infinite, Limit, Queue,
};
use crate::random_stream::RandomStream;
use crate::unit::Unit;

const MAX_FLOWS: u32 = 65_536;
const MAX_COUPLING: f64 = 16.0;

/// Builds a queue.
pub(super) fn queue_of(
    config: &QueueConfig,
    unit: Unit,
    mtu_bytes: u32,
    random: RandomStream,
) -> Result<Box<dyn Queue>, ConfigError> {
    Ok(match config {
        QueueConfig::Droptail { limit } => Box::new(DropTail::new(checked_limit(*limit)?, unit)),
        QueueConfig::Drophead { limit } => Box::new(DropHead::new(checked_limit(*limit)?, unit)),
        QueueConfig::Infinite {} => Box::new(Infinite::new(unit)),
        QueueConfig::Codel {
            limit,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
        } => {
            let settings = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            Box::new(Codel::new(settings, checked_limit(*limit)?, unit))
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
            if !(1..=MAX_FLOWS).contains(flows) {
                return fail("queue.flows", format!("is {flows}: use 1 to {MAX_FLOWS}"));
            }
            if *quantum_bytes == 0 {
                return fail(
                    "queue.quantum_bytes",
                    "is 0: use at least 1, usually the MTU",
                );
            }
            let codel = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            let settings = FqCodelSettings {
                codel,
                flows: *flows,
                quantum_bytes: *quantum_bytes,
            };
            Box::new(FqCodel::new(settings, checked_limit(*limit)?, unit, random))
        }
        QueueConfig::DualPi2 { limit, .. } => {
            let settings = dualpi2(config)?;
            Box::new(DualPi2::new(settings, checked_limit(*limit)?, unit))
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
    if target_ns == 0 {
        return fail("queue.target_ns", "is 0: use at least 1, usually 5000000");
    }
    time("queue.interval_ns", interval_ns)?;
    if interval_ns < target_ns {
        return fail(
            "queue.interval_ns",
            format!(
                "is {interval_ns}, less than target_ns {target_ns}: use more, usually 20 times target_ns"
            ),
        );
    }
    if let Some(threshold_ns) = ce_threshold_ns {
        time("queue.ce_threshold_ns", threshold_ns)?;
        if !ecn {
            return fail(
                "queue.ce_threshold_ns",
                "requires ecn, which is false: remove it, or set ecn to true",
            );
        }
    }
    Ok(CodelSettings {
        target_ns,
        interval_ns,
        ecn,
        ce_threshold_ns,
        mtu_bytes,
    })
}

fn dualpi2(config: &QueueConfig) -> Result<DualPi2Settings, ConfigError> {
    let QueueConfig::DualPi2 {
        limit: _,
        target_ns,
        rtt_max_ns,
        coupling,
        threshold_ns,
        range_ns,
        predict_ns,
    } = *config
    else {
        return fail("queue.kind", "is not dualpi2");
    };
    if !(0.5..=MAX_COUPLING).contains(&coupling) {
        return fail(
            "queue.coupling",
            format!("is {coupling}: use 0.5 to {MAX_COUPLING}, usually 2"),
        );
    }
    let predicted = predict_ns
        .map(|window_ns| positive_time("queue.predict_ns", window_ns))
        .transpose()?;
    Ok(DualPi2Settings {
        target_ns: positive_time("queue.target_ns", target_ns)?,
        rtt_max_ns: positive_time("queue.rtt_max_ns", rtt_max_ns)?,
        coupling,
        threshold_ns: time("queue.threshold_ns", threshold_ns)?,
        range_ns: time("queue.range_ns", range_ns)?,
        delay: predicted.map_or(Delay::Measured, Delay::Predicted),
    })
}

/// Checks a limit.
pub(super) fn checked_limit(limit: Limit) -> Result<Limit, ConfigError> {
    match limit {
        Limit::Bytes(0) => fail(
            "queue.limit.bytes",
            "is 0: use at least 1, or more than the MTU to let packets through",
        ),
        Limit::Packets(0) => fail("queue.limit.packets", "is 0: use at least 1"),
        Limit::TimeNs(0) => fail("queue.limit.time_ns", "is 0: use at least 1"),
        Limit::TimeNs(value) => time("queue.limit.time_ns", value).map(|_| limit),
        Limit::Bytes(_) | Limit::Packets(_) => Ok(limit),
    }
}
