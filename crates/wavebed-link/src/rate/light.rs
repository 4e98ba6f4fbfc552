//! A server that gives the first bytes after an idle time a rate of their own.

use std::sync::Arc;

use super::Server;
use super::profile::{NANOBITS_PER_BYTE, Place, Profile};

/// Serves bits at a light rate until the bytes that an idle time gives are used up, and at the full rate from then on.
///
/// The nanosecond in which these bytes end is divided: the rest of it serves at the full rate, rounded down to a
/// nanobit. As in [`super::Fluid`], the rest of the nanosecond in which a segment ends serves the next segment if it
/// waits already.
#[derive(Debug)]
pub struct Light {
    full: Profile,
    /// The light rate.
    first: Profile,
    /// The work at the light rate that an idle time gives, nanobits.
    grant: u64,
    /// The shortest idle time that gives it.
    idle_ns: u64,
    /// What is left of it, nanobits.
    left: u64,
    spare: Spare,
    serving: Serving,
}

/// Unused work of the previous nanosecond, nanobits: first at the light rate, then at the full rate.
#[derive(Clone, Copy, Debug, Default)]
struct Spare {
    light: u64,
    full: u64,
}

/// The service that was begun last.
#[derive(Clone, Copy, Debug)]
struct Serving {
    start_ns: u64,
    need: u64,
    left: u64,
    places: (Place, Place),
}

impl Light {
    /// A server with the full rate of `profile` and the light rate of its pattern, or `None` if that has none. Nothing
    /// is left to serve at the light rate before the first idle time.
    #[must_use]
    pub fn new(profile: &Profile) -> Option<Self> {
        let played = profile.cursor()?;
        let pattern = played.pattern();
        let (grant, idle_ns) = pattern
            .light()
            .map(|light| (light.bytes() * NANOBITS_PER_BYTE, light.idle_ns()))?;
        let first = Profile::play(played.beside(Arc::new(pattern.light_pattern()?)))?;
        let serving = Serving {
            start_ns: 0,
            need: 0,
            left: 0,
            places: (profile.place(), first.place()),
        };
        Some(Self {
            full: profile.clone(),
            first,
            grant,
            idle_ns,
            left: 0,
            spare: Spare::default(),
            serving,
        })
    }

    fn places(&self) -> (Place, Place) {
        (self.full.place(), self.first.place())
    }

    fn restore(&mut self, places: (Place, Place)) {
        self.full.restore(places.0);
        self.first.restore(places.1);
    }

    /// The work at the full rate in the rest of the nanosecond before `end_ns`, in which `unused` nanobits at the light
    /// rate are not needed.
    fn rest_at_full(&mut self, end_ns: u64, unused: u64) -> u64 {
        if unused == 0 {
            return 0;
        }
        let full = u128::from(self.full.rate_at(end_ns - 1));
        let light = u128::from(self.first.rate_at(end_ns - 1));
        u64::try_from(full * u128::from(unused) / light).unwrap_or(u64::MAX)
    }

    /// Serves `work` at the light rate, all that is left of it if it is less. Returns when, and the work at the full
    /// rate in the rest of that nanosecond once nothing is left.
    fn work_off_light(&mut self, start_ns: u64, work: u64) -> Option<(u64, Spare)> {
        if work == 0 {
            return Some((start_ns, Spare::default()));
        }
        let (end_ns, unused) = self.first.work_off(start_ns, work)?;
        self.left -= work;
        let light = unused.min(self.left);
        let full = self.rest_at_full(end_ns, unused - light);
        Some((end_ns, Spare { light, full }))
    }

    /// Serves work without unused work of an earlier nanosecond.
    fn work_off(&mut self, start_ns: u64, need: u64) -> Option<u64> {
        self.serving = Serving {
            start_ns,
            need,
            left: self.left,
            places: self.places(),
        };
        let at_light = need.min(self.left);
        let (end_ns, spare) = self.work_off_light(start_ns, at_light)?;
        let rest = need - at_light;
        if rest <= spare.full {
            self.spare = Spare {
                full: spare.full - rest,
                ..spare
            };
            return Some(end_ns);
        }
        let (end_ns, unused) = self.full.work_off(end_ns, rest - spare.full)?;
        self.spare = Spare {
            light: 0,
            full: unused,
        };
        Some(end_ns)
    }
}

impl Server for Light {
    fn ready(&mut self, at_ns: u64, _bytes: u64) -> Option<u64> {
        // With spare work, the segment was begun in the nanosecond before.
        if self.spare.light > 0 || self.spare.full > 0 {
            return Some(at_ns);
        }
        let places = self.places();
        let profile = if self.left > 0 {
            &mut self.first
        } else {
            &mut self.full
        };
        let found = profile.next_service(at_ns);
        self.restore(places);
        found
    }

    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64> {
        let work = bytes * NANOBITS_PER_BYTE;
        let at_light = work.min(self.spare.light);
        self.spare.light -= at_light;
        self.left -= at_light;
        // Work at the full rate is spare only where it follows the last of the light bytes.
        let at_full = (work - at_light).min(self.spare.full);
        self.spare.full -= at_full;
        let need = work - at_light - at_full;
        if need == 0 {
            self.serving = Serving {
                start_ns,
                need,
                left: self.left,
                places: self.places(),
            };
            return Some(start_ns);
        }
        self.work_off(start_ns, need)
    }

    fn idle(&mut self, _at_ns: u64, for_ns: u64) {
        self.spare = Spare::default();
        if for_ns >= self.idle_ns {
            self.left = self.grant;
        }
    }

    fn break_off(&mut self, at_ns: u64) -> u64 {
        let Serving {
            start_ns,
            need,
            left,
            places,
        } = self.serving;
        self.restore(places);
        self.left = left;
        self.spare = Spare::default();
        let at_light = need.min(left);
        let done = self.first.work_done(start_ns, at_ns, at_light);
        if done < at_light {
            self.left -= done;
            return need - done;
        }
        self.first.restore(places.1);
        // The light part ends by `at_ns`, so that this cannot be `None`.
        let Some((end_ns, spare)) = self.work_off_light(start_ns, at_light) else {
            return need;
        };
        let rest = (need - at_light).saturating_sub(spare.full);
        rest - self.full.work_done(end_ns, at_ns, rest)
    }

    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64> {
        self.work_off(at_ns, work)
    }

    fn set_profile(&mut self, _at_ns: u64, profile: Profile) -> bool {
        Self::new(&profile).map(|server| *self = server).is_some()
    }

    fn profile(&self) -> Profile {
        self.full.clone()
    }

    fn end_ns(&self) -> Option<u64> {
        self.full.end_ns()
    }
}
