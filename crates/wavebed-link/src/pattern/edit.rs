//! A change of one value of a pattern over time, in a part of it.

use super::Pattern;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Bits per second, of the first bytes after an idle time too. Block errors become those that an MCS for this SINR has, and certain failure becomes none.
    RateBps(u64),
    /// Nanoseconds.
    DelayNs(u64),
    /// Probability from 0 to 1.
    Loss(f64),
}

impl Pattern {
    /// The same pattern with this value from position `from` until `to`; `None` if it has no such values, or no such part.
    #[must_use]
    pub fn with(&self, from: u64, to: u64, value: Value) -> Option<Self> {
        if from >= to || to > self.period {
            return None;
        }
        let mut edited = self.clone();
        edited.begin_row(from);
        if to < self.period {
            edited.begin_row(to);
        }
        let rows =
            edited.at.partition_point(|&at| at < from)..edited.at.partition_point(|&at| at < to);
        match value {
            Value::RateBps(rate_bps) => {
                edited.rate_bps.as_mut()?[rows.clone()].fill(rate_bps);
                if let Some(light) = &mut edited.light {
                    light.rate_bps[rows.clone()].fill(rate_bps);
                }
                if let (Some(needs), Some(sinrs)) = (&mut edited.need_mdb, &edited.sinr_mdb) {
                    for (need, sinr) in needs[rows.clone()].iter_mut().zip(&sinrs[rows.clone()]) {
                        *need = (*need).min(*sinr);
                    }
                }
                for bler in edited
                    .bler
                    .iter_mut()
                    .flat_map(|blers| &mut blers[rows.clone()])
                {
                    *bler = if *bler < 1.0 { *bler } else { 0.0 };
                }
            }
            Value::DelayNs(delay_ns) => edited.delay_ns.as_mut()?[rows].fill(delay_ns),
            Value::Loss(loss) => edited.loss.as_mut()?[rows].fill(loss),
        }
        Some(edited)
    }

    /// Lets a row begin at `at`, with the values that hold there.
    fn begin_row(&mut self, at: u64) {
        let row = self.at.partition_point(|&each| each <= at) - 1;
        if self.at[row] == at {
            return;
        }
        let fallback = &mut self.fallback;
        repeat(&mut self.rate_bps, row);
        repeat(&mut self.delay_ns, row);
        repeat(&mut self.loss, row);
        repeat(&mut self.bler, row);
        repeat(&mut self.sinr_mdb, row);
        repeat(&mut self.need_mdb, row);
        repeat(&mut self.state, row);
        repeat(&mut self.cell, row);
        repeat(&mut self.bytes, row);
        repeat(&mut fallback.rate_bps, row);
        repeat(&mut fallback.sinr_mdb, row);
        repeat(&mut fallback.need_mdb, row);
        if let Some(light) = &mut self.light {
            light.rate_bps = with_repeated(&light.rate_bps, row);
        }
        let mut times = self.at.to_vec();
        times.insert(row + 1, at);
        self.at = times.into();
    }
}

/// Puts a copy of the value of `row` after it.
fn repeat<T: Copy>(column: &mut Option<Box<[T]>>, row: usize) {
    if let Some(values) = column {
        *values = with_repeated(values, row);
    }
}

fn with_repeated<T: Copy>(values: &[T], row: usize) -> Box<[T]> {
    let mut longer = values.to_vec();
    longer.insert(row + 1, values[row]);
    longer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern() -> Pattern {
        let text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 10\n\
                    time_s,rate_bps,bler,state\n0,100,0.5,los\n2,200,1,outage\n8,300,0,nlos\n";
        Pattern::parse(text).expect("it is valid")
    }

    #[test]
    fn a_value_holds_in_its_part_and_nowhere_else() {
        let second = 1_000_000_000;
        let before = pattern();
        let after = before
            .with(second, 5 * second, Value::RateBps(7))
            .expect("edited");
        assert_eq!(
            after.at().iter().map(|at| at / second).collect::<Vec<_>>(),
            [0, 1, 2, 5, 8]
        );
        assert_eq!(after.rate_bps(), Some(&[100, 7, 7, 200, 300][..]));
        assert_eq!(after.bler(), Some(&[0.5, 0.5, 0.0, 1.0, 0.0][..]));
        assert_eq!(after.state().map(<[_]>::len), Some(5));
        // A part that begins and ends with rows, and one until the end.
        let after = before
            .with(2 * second, 8 * second, Value::RateBps(7))
            .expect("edited");
        assert_eq!(after.rate_bps(), Some(&[100, 7, 300][..]));
        let after = before
            .with(9 * second, 10 * second, Value::RateBps(7))
            .expect("edited");
        assert_eq!(after.rate_bps(), Some(&[100, 200, 300, 7][..]));
        assert_eq!(before, pattern());
    }

    #[test]
    fn the_first_bytes_after_an_idle_time_get_the_edited_rate_too() {
        let text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 10\n# light_bytes = 9\n\
                    # light_idle_s = 1\ntime_s,rate_bps,light_rate_bps\n0,100,50\n2,200,60\n";
        let second = 1_000_000_000;
        let before = Pattern::parse(text).expect("it is valid");
        let after = before
            .with(second, 3 * second, Value::RateBps(7))
            .expect("edited");
        let light = after.light().expect("a light rate");
        assert_eq!(after.rate_bps(), Some(&[100, 7, 7, 200][..]));
        assert_eq!(light.rate_bps(), [50, 7, 7, 60]);
    }

    #[test]
    fn what_a_pattern_has_not_cannot_be_edited() {
        let pattern = pattern();
        assert_eq!(pattern.with(0, 1, Value::Loss(0.1)), None);
        assert_eq!(pattern.with(0, 1, Value::DelayNs(1)), None);
        for (from, to) in [(1, 1), (2, 1), (0, 10_000_000_001)] {
            assert_eq!(pattern.with(from, to, Value::RateBps(1)), None);
        }
    }
}
