//! Power control of an uplink: what a device gains on fewer resource blocks (TS 38.213, clause 7.1.1; TS 36.213, clause
//! 5.1.1). A pattern has all power of the device on the blocks that it uses. The MCS rises with the SINR.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::air::Sinr;
use super::block::{Share, information, ratio};

const MAX_DB: f64 = 400.0;

/// Open-loop power control of an uplink: fewer resource blocks have more power each.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UplinkPower")]
pub struct Power {
    /// Bits per second of one layer on the whole band per bit of a symbol.
    #[garde(range(min = 1.0, max = 1e12))]
    pub symbols_per_s: f64,
    /// SINR that the fastest MCS needs, dB.
    #[garde(range(min = -MAX_DB, max = MAX_DB))]
    pub most_need_db: f64,
    /// Error vector magnitude of the device.
    #[garde(range(min = 0.0, max = 1.0))]
    pub evm: f64,
    /// What the receiver loses, dB.
    #[garde(range(min = -MAX_DB, max = MAX_DB))]
    pub loss_db: f64,
    /// Most power of a block over its power on the whole band, dB, at a SINR of 0 dB there.
    #[garde(range(min = -MAX_DB, max = MAX_DB))]
    pub limit_db: f64,
    /// Compensated part of the path loss: so much lower is the limit for each decibel of SINR.
    #[garde(range(min = 0.0, max = 1.0))]
    pub alpha: f64,
}

impl Power {
    /// The part of the band that is used at `rate_bps` with an MCS that needs `need_db`.
    #[expect(clippy::cast_precision_loss, reason = "rates are below 2^53")]
    fn width(&self, rate_bps: u64, need_db: f64) -> f64 {
        let bits = information(ratio(need_db)) / std::f64::consts::LN_2;
        (rate_bps as f64 / (self.symbols_per_s * bits)).clamp(1e-4, 1.0)
    }

    /// The SINR and its need on this share of a slot in which all parts would have `sinr` and `rate_bps`; and the part of
    /// the whole slot's bytes that the share carries.
    fn concentrated(&self, share: Share, rate_bps: u64, sinr: Sinr) -> (Sinr, f64) {
        let width = self.width(rate_bps, sinr.need_db);
        let given = f64::from(share.given) / f64::from(share.all);
        if given >= width {
            return (sinr, 1.0);
        }
        let floor = self.evm * self.evm;
        let noise = (ratio(-sinr.sinr_db) - floor).max(f64::MIN_POSITIVE);
        let band_db = self.loss_db + 10.0 * (width / noise).log10();
        let limit = ratio(self.limit_db - self.alpha * band_db) * width;
        let gain = (width / given).min(limit.max(1.0));
        let sinr_db = -10.0 * (noise / gain + floor).log10();
        let raised_db = sinr.need_db + (sinr_db - sinr.sinr_db).max(0.0);
        let need_db = raised_db.min(self.most_need_db.max(sinr.need_db));
        let bits = information(ratio(need_db)) / information(ratio(sinr.need_db));
        let raised = Sinr {
            sinr_db: sinr_db.max(sinr.sinr_db),
            need_db,
        };
        (raised, (given / width * bits).clamp(given, 1.0))
    }

    /// The SINR of this share, and what its MCS needs.
    pub(super) fn sinr(&self, share: Share, rate_bps: u64, sinr: Sinr) -> Sinr {
        if share.given == share.all {
            return sinr;
        }
        self.concentrated(share, rate_bps, sinr).0
    }

    /// Bytes of this share of a slot of `capacity` bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "bytes of a slot are few"
    )]
    pub(super) fn bytes(&self, share: Share, capacity: u64, rate_bps: u64, sinr: Sinr) -> u64 {
        if share.given == share.all {
            return capacity;
        }
        let (_, part) = self.concentrated(share, rate_bps, sinr);
        ((capacity as f64 * part) as u64).clamp(share.of(capacity), capacity)
    }

    /// The least share that carries `bytes`, or as many as the whole slot: up to this one.
    pub(super) fn share(
        &self,
        most: Share,
        bytes: u64,
        capacity: u64,
        rate_bps: u64,
        sinr: Sinr,
    ) -> Share {
        let bytes = bytes.min(capacity);
        let (mut low, mut high) = (1, most.given.max(1));
        while low < high {
            let given = low.midpoint(high);
            let share = Share { given, ..most };
            if self.bytes(share, capacity, rate_bps, sinr) < bytes {
                low = given + 1;
            } else {
                high = given;
            }
        }
        Share { given: low, ..most }
    }
}
