//! Limits of queues against the MTU: a packet of the MTU must fit each queue, or no full packet ever passes.

use std::collections::BTreeMap;

use wavebed_link::config::StageConfig;
use wavebed_path::HopView;

/// Checks the limits in bytes, and those in time at a constant rate. Rates of patterns change: the caller that has
/// read them judges these.
///
/// # Errors
/// The first limit that is too small, with the smallest that is not.
pub fn check<'a>(hops: impl Iterator<Item = HopView<'a>>, mtu: u32) -> Result<(), String> {
    for (link, stage) in links(hops) {
        let least = stage
            .limit()
            .and_then(|limit| limit.too_small_for(mtu, stage.constant_rate_bps()));
        if let Some(least) = least {
            return Err(format!(
                "{link}: queue.limit: no packet of the MTU, {mtu} bytes, fits: use at least {least}"
            ));
        }
    }
    Ok(())
}

/// The lowest rate of each link at which a packet of the MTU fits its queues; for live changes.
#[derive(Default)]
pub struct LeastRates {
    mtu: u32,
    by_link: BTreeMap<String, u64>,
}

impl LeastRates {
    /// The least rates of the links of these hops.
    pub fn new<'a>(hops: impl Iterator<Item = HopView<'a>>, mtu: u32) -> Self {
        let mut by_link = BTreeMap::new();
        for (link, stage) in links(hops) {
            let least = stage.limit().map_or(0, |limit| limit.least_rate_bps(mtu));
            let known = by_link.entry(link).or_insert(0);
            *known = least.max(*known);
        }
        Self { mtu, by_link }
    }

    /// Checks a new rate of a link, or of all. Zero stops the link for a while, and its packets wait.
    ///
    /// # Errors
    /// A queue would let no packet of the MTU pass.
    pub fn check(&self, link: Option<&str>, rate_bps: u64) -> Result<(), String> {
        let concerned = |name: &str| link.is_none_or(|link| link == name);
        let tight = self
            .by_link
            .iter()
            .find(|(name, least)| concerned(name) && (1..**least).contains(&rate_bps));
        tight.map_or(Ok(()), |(name, least)| {
            Err(format!(
                "{name}: at {rate_bps}bit the queue's limit in time lets no packet of {} bytes pass: \
                 write {least}bit or more, or start with a longer limit",
                self.mtu
            ))
        })
    }
}

pub fn links<'a>(
    hops: impl Iterator<Item = HopView<'a>>,
) -> impl Iterator<Item = (String, &'a StageConfig)> {
    hops.flat_map(|hop| {
        [("down", hop.down), ("up", hop.up)]
            .into_iter()
            .flat_map(move |(direction, stages)| {
                let link = format!("{}.{direction}", hop.name);
                stages.iter().map(move |stage| (link.clone(), stage))
            })
    })
}

#[cfg(test)]
mod tests {
    use wavebed_path::HopConfig;

    use super::*;

    fn hop(limit: &str, rate: &str) -> HopConfig {
        let stage = format!(
            r#"{{"stage": "bottleneck", "rate": {rate}, "queue": {{"kind": "droptail", "limit": {limit}}}}}"#
        );
        let text = format!(r#"{{"name": "radio", "kind": "radio", "down": [{stage}], "up": []}}"#);
        serde_json::from_str(&text).expect("a hop")
    }

    const SLOW: &str = r#"{"kind": "constant", "rate_bps": 128000}"#;

    #[test]
    fn a_limit_that_no_packet_of_the_mtu_fits_is_refused_with_the_smallest_that_one_fits() {
        for (limit, least) in [
            (r#"{"bytes": 1499}"#, Some("1500 bytes")),
            (r#"{"bytes": 1500}"#, None),
            (r#"{"time_ns": 93749999}"#, Some("93750000 ns")),
            (r#"{"time_ns": 93750000}"#, None),
            (r#"{"packets": 1}"#, None),
        ] {
            let leg = hop(limit, SLOW);
            let refusal = check([leg.view()].into_iter(), 1500).err();
            let expected = least.map(|least| {
                format!(
                    "radio.down: queue.limit: no packet of the MTU, 1500 bytes, fits: use at least {least}"
                )
            });
            assert_eq!(refusal, expected, "{limit}");
        }
    }

    #[test]
    fn the_rate_of_a_pattern_is_judged_by_who_has_read_it() {
        let leg = hop(
            r#"{"time_ns": 1}"#,
            r#"{"kind": "pattern", "file": "walk.csv"}"#,
        );
        assert_eq!(check([leg.view()].into_iter(), 1500), Ok(()));
    }

    #[test]
    fn a_live_rate_must_let_a_packet_of_the_mtu_pass_or_stop_the_link() {
        let leg = hop(
            r#"{"time_ns": 50000000}"#,
            r#"{"kind": "constant", "rate_bps": 9000000}"#,
        );
        let rates = LeastRates::new([leg.view()].into_iter(), 1500);
        let refusal = rates.check(None, 128_000).expect_err("is refused");
        assert!(refusal.contains("radio.down: at 128000bit"), "{refusal}");
        assert!(refusal.contains("write 240000bit or more"), "{refusal}");
        assert!(rates.check(Some("radio.down"), 239_999).is_err());
        assert_eq!(rates.check(None, 240_000), Ok(()));
        assert_eq!(rates.check(None, 0), Ok(()), "it stops");
        assert_eq!(rates.check(Some("radio.up"), 1), Ok(()), "it has no queue");
    }
}
