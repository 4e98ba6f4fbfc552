//! Common code of the tests of cells: the links of the devices of one cell, and their driver.

use wavebed_link::config::{
    Member, Policy, SchedulerConfig, ServiceConfig, Shared, StageConfig, build_cell,
};
use wavebed_link::radio::{Cell, ModelledUser, Radio};
use wavebed_link::{Link, Run};

use crate::link_support::random::load;
use crate::link_support::{Event, Outcome};

/// One direction of a cell with the links of its devices.
pub struct CellLinks {
    pub cell: Cell,
    pub links: Vec<Link>,
}

/// A scheduler of this policy with this number of parts of a slot.
pub fn scheduler(policy: Policy, units: u32) -> SchedulerConfig {
    SchedulerConfig {
        policy,
        units,
        average_slots: 99.0,
        devices_per_slot: None,
        control_units: 0,
        slices: Vec::new(),
    }
}

/// A cell; each device has stages, each a JSON object, and what it is entitled to.
pub fn cell(
    config: &SchedulerConfig,
    devices: &[(Vec<String>, ServiceConfig)],
    seed: u64,
) -> CellLinks {
    let parsed: Vec<Vec<StageConfig>> = devices
        .iter()
        .map(|(stages, _)| {
            let stages = stages.iter();
            stages
                .map(|text| serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}")))
                .collect()
        })
        .collect();
    let mut shared: Vec<Shared> = devices.iter().map(|_| Shared::default()).collect();
    let members = (0u64..)
        .zip(parsed.iter().zip(devices))
        .zip(&mut shared)
        .map(|((place, (stages, (_, service))), shared)| Member {
            stages,
            service: Some(service),
            shared,
            random: (seed, place << 16),
        });
    let (cell, stages) = build_cell(config, &[], members.collect(), 1500, &mut load)
        .unwrap_or_else(|(place, error)| panic!("{place:?}: {error}"));
    let links = stages.into_iter().map(|stages| Link::new(stages, true));
    CellLinks {
        cell,
        links: links.collect(),
    }
}

/// A cell of these radios and modelled users; each link is the radio's port alone.
pub fn cell_of(
    config: &SchedulerConfig,
    devices: Vec<(Radio, ServiceConfig)>,
    background: Vec<(ModelledUser, ServiceConfig)>,
) -> CellLinks {
    let count = devices.len();
    let cell = Cell::new(config.clone(), devices, background);
    let links = (0..count).map(|place| Link::new(vec![cell.port(place)], true));
    CellLinks {
        links: links.collect(),
        cell,
    }
}

impl CellLinks {
    /// Advances all to `now_ns`; `delivered` has a list for each device.
    pub fn poll(&mut self, now_ns: u64, delivered: &mut [Vec<Run>]) {
        for link in &mut self.links {
            link.poll_to_port(now_ns);
        }
        self.cell.advance(now_ns);
        for (link, delivered) in self.links.iter_mut().zip(delivered) {
            link.poll(now_ns, delivered);
        }
    }

    /// The next event of the cell or of a link.
    pub fn next_event_ns(&self) -> Option<u64> {
        let links = self.links.iter().filter_map(Link::next_event_ns);
        links.chain(self.cell.next_event_ns()).min()
    }

    /// Drives the links through events, each of one device, as `link_support::drive` does with one link.
    pub fn drive(&mut self, events: &[(usize, Event)], until_ns: u64, eager: bool) -> Vec<Outcome> {
        let mut delivered = vec![Vec::new(); self.links.len()];
        for (device, event) in events {
            while eager
                && let Some(at_ns) = self.next_event_ns()
                && at_ns < event.at_ns()
            {
                self.poll(at_ns, &mut delivered);
            }
            match event {
                Event::Arrival(run) => self.links[*device].accept(*run),
                Event::Poll(at_ns) => self.poll(*at_ns, &mut delivered),
                Event::Change(at_ns, change) => {
                    self.poll(*at_ns, &mut delivered);
                    self.links[*device].apply(*at_ns, change);
                }
            }
        }
        while let Some(at_ns) = self
            .next_event_ns()
            .filter(|&at_ns| eager && at_ns < until_ns)
        {
            self.poll(at_ns, &mut delivered);
        }
        self.poll(until_ns, &mut delivered);
        let links = self.links.iter_mut().zip(delivered);
        links
            .map(|(link, delivered)| Outcome {
                delivered,
                lost: link.take_lost().collect(),
            })
            .collect()
    }
}
