//! The modelled users of a cell: their demand, channel and claims, without packets.

use std::collections::BTreeMap;

use super::Radio;
use super::air::{Air, Now};
use super::block::Decoder;
use super::block::Share;
use super::scheduler::Asked;
use super::send::rate_of;
use super::settings::{Aggregation, Slots};
use super::slots::Claim;
use super::traffic::{Background, EndedFile, Fared, TrafficConfig};
use crate::pattern::State;
use crate::random_stream::RandomStream;
use crate::run::{NEVER, Slot};

/// A modelled user of a cell.
#[derive(Debug)]
pub struct ModelledUser {
    name: String,
    demand: Background,
    air: Air,
    random: RandomStream,
    end_ns: u64,
    air_ns: u64,
    /// What it got in each millisecond, if that is kept.
    got: Option<BTreeMap<u64, Got>>,
}

/// What a modelled user got in a millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    air_ns: u64,
    served_bytes: u64,
}

/// A millisecond in which a modelled user got something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRow {
    /// Milliseconds since the origin.
    pub at_ms: u64,
    /// Its place among the modelled users.
    pub user: usize,
    /// Time of the parts of slots that it was given: of those that began in the millisecond.
    pub air_ns: u64,
    /// Bytes that were delivered in the millisecond.
    pub served_bytes: u64,
}

impl ModelledUser {
    /// A user with this demand and radio channel.
    #[must_use]
    pub fn new(name: String, traffic: TrafficConfig, air: Air, random: RandomStream) -> Self {
        Self {
            name,
            demand: Background::new(traffic, random.process(0)),
            end_ns: air.end_ns().unwrap_or(NEVER),
            air,
            random: random.process(1),
            air_ns: 0,
            got: None,
        }
    }

    /// The row of the millisecond of `at_ns`, if rows are kept.
    fn got(&mut self, at_ns: u64) -> Option<&mut Got> {
        Some(self.got.as_mut()?.entry(at_ns / 1_000_000).or_default())
    }

    /// The channel in the slot, if it can carry something.
    fn now(&mut self, start_ns: u64) -> Option<Now> {
        let now = self.air.at(start_ns);
        let serves = !matches!(now.state, State::Handover | State::Fallback)
            && now.rate_bps > 0
            && start_ns < self.end_ns;
        serves.then_some(now)
    }
}

/// How a modelled user fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserReport {
    /// Its name.
    pub name: String,
    /// What it asked for and got.
    pub fared: Fared,
    /// Time of the parts of slots that it was given.
    pub air_ns: u64,
    /// Bytes that it still waits for; `None` of a full buffer.
    pub queued_bytes: Option<u64>,
}

/// The modelled users of a cell. Those in the fall-back of another technology are not modelled.
#[derive(Debug)]
pub(super) struct ModelledUsers {
    users: Vec<ModelledUser>,
    /// The devices' slots; `None` without users.
    slots: Option<Slots>,
    aggregation: Option<Aggregation>,
    /// The first slot that was not decided about.
    next: u64,
}

impl ModelledUsers {
    /// They have the slots and component carriers of `radio`.
    pub(super) fn new(users: Vec<ModelledUser>, radio: Option<&Radio>) -> Self {
        let radio = radio.filter(|_| !users.is_empty());
        Self {
            users,
            slots: radio.map(|radio| radio.config.carriers.primary.clone()),
            aggregation: radio.and_then(|radio| radio.config.aggregation),
            next: 0,
        }
    }

    /// Whether they may use such slots.
    pub(super) const fn have(&self, slot: Slot) -> bool {
        self.slots.is_some() && !slot.fallback
    }

    /// The next slot with demand, and when it was decided about; `None` if that is not before `now_ns`.
    pub(super) fn next_slot(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let slots = self.slots.as_ref()?;
        loop {
            let index = slots.next_own(self.next);
            let decided_ns = (index * slots.slot_ns).saturating_sub(slots.prepare_ns);
            self.next = index;
            if decided_ns >= now_ns {
                return None;
            }
            self.next += 1;
            let mut demand = false;
            let mut arrival_ns = NEVER;
            for user in &mut self.users {
                user.demand.advance(decided_ns);
                demand |= user.demand.backlog_bytes() > 0;
                arrival_ns = arrival_ns.min(user.demand.next_arrival_ns());
            }
            if demand {
                return Some((index, decided_ns));
            }
            let from_ns = arrival_ns.min(now_ns).saturating_add(slots.prepare_ns);
            self.next = self.next.max(from_ns.div_ceil(slots.slot_ns));
        }
    }

    /// Slots of this direction before the slot `index`.
    pub(super) fn slots_before(&self, index: u64) -> u64 {
        let slots = self.slots.as_ref();
        slots.map_or(0, |slots| slots.own_before(index))
    }

    /// The slot `index` of a component carrier.
    pub(super) fn slot(&self, index: u64, carrier: u32) -> Slot {
        let slot_ns = self.slots.as_ref().map_or(0, |slots| slots.slot_ns);
        Slot {
            fallback: false,
            carrier,
            index,
            start_ns: index * slot_ns,
        }
    }

    /// The base stations at which users with demand are in the slot `index`, with each of their component carriers.
    pub(super) fn places(&mut self, index: u64) -> Vec<(u32, u32)> {
        let start_ns = self.slot(index, 0).start_ns;
        let with_demand = self.users.iter_mut();
        let with_demand = with_demand.filter(|user| user.demand.backlog_bytes() > 0);
        let mut stations: Vec<u32> = with_demand
            .filter_map(|user| Some(user.now(start_ns)?.cell))
            .collect();
        stations.sort_unstable();
        stations.dedup();
        let carriers = self.aggregation.map_or(1, |settings| settings.carriers);
        let of = |station| (0..carriers).map(move |carrier| (station, carrier));
        stations.into_iter().flat_map(of).collect()
    }

    /// What they ask of a slot of a base station that is decided about at `now_ns` and has `units` parts; `device` is the
    /// place of the user.
    pub(super) fn claims(
        &mut self,
        station: u32,
        slot: Slot,
        now_ns: u64,
        units: u32,
    ) -> impl Iterator<Item = Asked> {
        let Self {
            users,
            slots,
            aggregation,
            ..
        } = self;
        let slots = slots.as_ref();
        let aggregation = *aggregation;
        users
            .iter_mut()
            .enumerate()
            .filter_map(move |(place, user)| {
                user.demand.advance(now_ns);
                let bytes = user.demand.backlog_bytes();
                if bytes == 0 {
                    return None;
                }
                let now = user.now(slot.start_ns)?;
                if now.cell != station {
                    return None;
                }
                let rate_bps = rate_of(aggregation, now, slot.carrier);
                let capacity = slots?.capacity_bytes(slot.index, rate_bps).max(1);
                let need = bytes.saturating_mul(units.into()).div_ceil(capacity);
                Some(Asked {
                    device: place,
                    claim: Claim {
                        slot,
                        station,
                        again_since_ns: None,
                        rate_bps,
                    },
                    need: Some((u32::try_from(need).unwrap_or(units).min(units), capacity)),
                    users: u32::try_from(user.demand.users()).unwrap_or(u32::MAX),
                    given: 0,
                })
            })
    }

    /// A user has this share of the slot that it asked for. Returns the bytes that it sent; if their block fails, they are
    /// not delivered and the user still has them to send.
    pub(super) fn use_slot(&mut self, place: usize, asked: &Asked, share: Share) -> u64 {
        let Some(slots) = &self.slots else {
            return 0;
        };
        let user = &mut self.users[place];
        let Slot {
            start_ns,
            index,
            carrier,
            ..
        } = asked.claim.slot;
        let air_ns = share.of(slots.slot_ns);
        user.air_ns += air_ns;
        if let Some(got) = user.got(start_ns) {
            got.air_ns += air_ns;
        }
        let (_, capacity) = asked.need.unwrap_or((0, 0));
        let bytes = share.of(capacity).min(user.demand.backlog_bytes());
        let now = user.air.at(start_ns);
        let fails = now.sinr.map_or(now.bler, |sinr| {
            let full_bytes = slots.full_bytes(asked.claim.rate_bps);
            let mut decoder = Decoder::new(slots.code, sinr.need_db, bytes, full_bytes);
            decoder.receive(1, sinr.sinr_db)
        });
        let carriers = self.aggregation.map_or(1, |settings| settings.carriers);
        let number = index * u64::from(carriers) + u64::from(carrier);
        if user.random.unit(number) >= fails {
            let at_ns = start_ns + slots.slot_ns;
            let served_bytes = user.demand.take(bytes, at_ns);
            if let Some(got) = user.got(at_ns) {
                got.served_bytes += served_bytes;
            }
        }
        bytes
    }

    /// Keeps what each gets in each millisecond, and the files that it ends, from now on.
    pub(super) fn keep(&mut self, rows: bool) {
        for user in &mut self.users {
            user.demand.keep_files();
            if rows {
                user.got.get_or_insert_default();
            }
        }
    }

    /// Takes the rows of the milliseconds before `end_ms`.
    pub(super) fn take_rows(&mut self, end_ms: u64) -> Vec<UserRow> {
        let mut rows = Vec::new();
        for (user, each) in self.users.iter_mut().enumerate() {
            let Some(got) = &mut each.got else { continue };
            let later = got.split_off(&end_ms);
            let before = std::mem::replace(got, later);
            rows.extend(before.into_iter().map(|(at_ms, got)| UserRow {
                at_ms,
                user,
                air_ns: got.air_ns,
                served_bytes: got.served_bytes,
            }));
        }
        rows
    }

    /// Takes the files that ended, each with the place of its user.
    pub(super) fn take_files(&mut self) -> Vec<(usize, EndedFile)> {
        let users = self.users.iter_mut().enumerate();
        let files = users.flat_map(|(place, user)| {
            let files = user.demand.take_files().into_iter();
            files.map(move |file| (place, file))
        });
        files.collect()
    }

    /// The base stations at which they are at some time.
    pub(super) fn stations(&self) -> impl Iterator<Item = u32> {
        self.users.iter().flat_map(|user| user.air.stations())
    }

    /// How each has fared.
    pub(super) fn reports(&self) -> Vec<UserReport> {
        let report = |user: &ModelledUser| UserReport {
            name: user.name.clone(),
            fared: user.demand.fared(),
            air_ns: user.air_ns,
            queued_bytes: Some(user.demand.backlog_bytes()).filter(|&bytes| bytes < u64::MAX),
        };
        self.users.iter().map(report).collect()
    }
}
