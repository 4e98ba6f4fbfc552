//! The addresses of a laboratory, and the legs that each host ends and reaches.
//!
//! Leg `i` uses `198.18.(base + i).0/30` (RFC 2544) and `fd77:6176:6562:(base + i)::/126`. The host nearer to the
//! server has address 1, the other one address 2. The second leg of the client comes after all others. The leg to a cell
//! has a /24 and a /120: its devices have the addresses 2, 3, ...

use std::net::{Ipv4Addr, Ipv6Addr};

/// One end of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nearer to the server.
    Near,
    /// Nearer to the client; of the devices of a cell the one with this index, otherwise 0.
    Far(u8),
}

/// The end of a leg at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegEnd {
    /// Index of the leg.
    pub leg: usize,
    /// Which end.
    pub end: End,
}

/// The legs of a laboratory: a row, and perhaps a second one between its last two hosts, or more hosts at its end.
#[derive(Clone, Copy, Debug)]
pub struct Legs {
    /// Legs of the row: one fewer than there are hosts, without further devices of a cell.
    pub row: usize,
    /// Whether there is a second leg to the client; its index is `row`.
    pub has_second: bool,
    /// Whether the last hosts are the devices of a cell.
    pub has_cell: bool,
}

impl Legs {
    /// The number of legs.
    pub fn count(self) -> usize {
        self.row + usize::from(self.has_second)
    }

    /// The ends of legs at a host, in the order of its devices.
    pub fn ends_of(self, host: usize) -> Vec<LegEnd> {
        let row = [
            (host > 0).then(|| self.home(host)),
            (host < self.row).then_some((host, End::Near)),
        ];
        let second = [
            (host + 1 == self.row).then_some((self.row, End::Near)),
            (host == self.row).then_some((self.row, End::Far(0))),
        ];
        row.into_iter()
            .chain(second.into_iter().filter(|_| self.has_second))
            .flatten()
            .map(|(leg, end)| LegEnd { leg, end })
            .collect()
    }

    /// The legs that a host reaches through one of its ends first of all.
    pub fn reached(self, host: usize, through: LegEnd) -> Vec<usize> {
        if through.leg == self.row {
            return vec![self.row];
        }
        match through.end {
            End::Far(_) => (0..=through.leg).collect(),
            End::Near if host + 1 < self.row => (host..self.count()).collect(),
            End::Near => (host..self.row).collect(),
        }
    }

    /// The legs that a host reaches through one of its ends only if a socket is bound to it: through the client's second
    /// leg, the legs of the row.
    pub fn reached_when_bound(self, through: LegEnd) -> std::ops::Range<usize> {
        let is_second = through.leg == self.row && matches!(through.end, End::Far(_));
        0..if is_second { self.row } else { 0 }
    }

    /// The leg and end that have a host's main address.
    pub fn home(self, host: usize) -> (usize, End) {
        match host.checked_sub(1) {
            None => (0, End::Near),
            Some(leg) if leg < self.row => (leg, End::Far(0)),
            Some(leg) => {
                let device =
                    u8::try_from(leg + 1 - self.row).expect("a cell has 250 devices at most");
                (self.row - 1, End::Far(device))
            }
        }
    }

    /// The lengths of a leg's prefixes of IPv4 and IPv6.
    pub fn prefix_bits(self, leg: usize) -> (u8, u8) {
        if self.has_cell && leg + 1 == self.row {
            (24, 120)
        } else {
            (30, 126)
        }
    }
}

/// The addresses of one end of a leg.
pub fn addresses(base: u8, leg: usize, end: End) -> (Ipv4Addr, Ipv6Addr) {
    let third = base + u8::try_from(leg).expect("three legs at most");
    let last = match end {
        End::Near => 1,
        End::Far(device) => 2 + device,
    };
    let v6 = Ipv6Addr::new(0xfd77, 0x6176, 0x6562, third.into(), 0, 0, 0, last.into());
    (Ipv4Addr::new(198, 18, third, last), v6)
}

/// The first addresses of the prefixes of a leg.
pub fn prefix(base: u8, leg: usize) -> (Ipv4Addr, Ipv6Addr) {
    let (v4, v6) = addresses(base, leg, End::Near);
    (
        Ipv4Addr::from_bits(v4.to_bits() & !3),
        Ipv6Addr::from_bits(v6.to_bits() & !3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_leg_have_one_prefix() {
        let (near, near6) = addresses(4, 1, End::Near);
        let (far, far6) = addresses(4, 1, End::Far(0));
        assert_eq!(
            (near.to_string(), far.to_string()),
            ("198.18.5.1".to_owned(), "198.18.5.2".to_owned())
        );
        let (v4, v6) = prefix(4, 1);
        assert_eq!(v4.to_bits(), near.to_bits() & !3);
        assert_eq!(v4.to_bits(), far.to_bits() & !3);
        assert_eq!(
            (v6.to_bits(), v6.to_bits()),
            (near6.to_bits() & !3, far6.to_bits() & !3)
        );
    }

    fn near(leg: usize) -> LegEnd {
        let end = End::Near;
        LegEnd { leg, end }
    }

    fn far(leg: usize) -> LegEnd {
        let end = End::Far(0);
        LegEnd { leg, end }
    }

    #[test]
    fn every_end_of_a_second_leg_is_at_the_last_two_hosts() {
        for row in [1, 2] {
            let legs = Legs {
                row,
                has_second: true,
                has_cell: false,
            };
            for host in 0..=row {
                let ends = legs.ends_of(host);
                assert_eq!(ends.contains(&near(row)), host + 1 == row);
                assert_eq!(ends.contains(&far(row)), host == row);
            }
        }
    }

    #[test]
    fn every_host_reaches_every_leg_once() {
        for (row, has_second) in [(1, false), (1, true), (2, false), (2, true)] {
            for (has_cell, devices) in [(false, 1), (true, 3)] {
                if has_cell && has_second {
                    continue;
                }
                let legs = Legs {
                    row,
                    has_second,
                    has_cell,
                };
                for host in 0..row + devices {
                    let mut reached: Vec<usize> = legs
                        .ends_of(host)
                        .into_iter()
                        .flat_map(|through| legs.reached(host, through))
                        .collect();
                    reached.sort_unstable();
                    let all: Vec<usize> = (0..legs.count()).collect();
                    assert_eq!(reached, all, "host {host} of {legs:?}");
                }
            }
        }
    }

    #[test]
    fn bound_to_its_second_leg_the_client_reaches_all_others() {
        let legs = Legs {
            row: 2,
            has_second: true,
            has_cell: false,
        };
        assert_eq!(legs.reached_when_bound(far(2)), 0..2);
        for other in [near(2), far(1), far(0), near(1), near(0)] {
            assert!(legs.reached_when_bound(other).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn each_device_of_a_cell_has_an_address_in_its_prefix() {
        let legs = Legs {
            row: 2,
            has_second: false,
            has_cell: true,
        };
        let address = |host| {
            let (leg, end) = legs.home(host);
            let (v4, v6) = addresses(4, leg, end);
            (v4.to_string(), v6.to_string())
        };
        let last = |last: &str| {
            (
                format!("198.18.5.{last}"),
                format!("fd77:6176:6562:5::{last}"),
            )
        };
        assert_eq!(address(1).0, "198.18.4.2");
        assert_eq!(address(2), last("2"));
        assert_eq!(address(9).0, "198.18.5.9");
        assert_eq!(legs.prefix_bits(0), (30, 126));
        assert_eq!(legs.prefix_bits(1), (24, 120));
    }
}
