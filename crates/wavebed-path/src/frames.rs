//! The frames of a bridge: which of them go through the links, which pass around them, and the account of all.

use std::collections::BTreeMap;
use std::io::IoSlice;

use serde::Serialize;
use wavebed_link::Reason;
use wavebed_os::ethernet_port::{EthernetPort, Refusal};
use wavebed_packet::ethernet::Content;
use wavebed_packet::{VnetHeader, ethernet};

use crate::link_chain::{LinkChain, Refusals};
use crate::port::Port;
use crate::series::Classes;

/// The frames of one direction that do not go through its links.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    classes: Option<Classes>,
    around: u64,
    runts: u64,
    refusals: Refusals,
}

impl Frames {
    /// The frames of a direction with these classes.
    #[must_use]
    pub fn new(classes: Option<Classes>) -> Self {
        Self {
            classes,
            ..Self::default()
        }
    }

    /// Returns where a frame that goes through links has its IP packet, and whose links these are. Any other one is
    /// written to `output` as it is. `bytes` begin with the virtio-net header.
    pub fn sort(&mut self, bytes: &[u8], output: &mut impl Port) -> Option<Sorted> {
        let frame = bytes.get(VnetHeader::LEN..).unwrap_or_default();
        match ethernet::content(frame) {
            Content::Packet { front } => {
                let classes = self.classes.as_ref();
                let class = classes.and_then(|classes| classes.of(bytes, front));
                return Some(Sorted { front, class });
            }
            Content::Runt => self.runts += 1,
            Content::Local => match output.write(&[IoSlice::new(bytes)]) {
                Ok(()) => self.around += 1,
                Err(error) => self.refusals.count(Refusal::of(&error), 1),
            },
        }
        None
    }

    /// The account of a direction with these chains, without what its ports lost before it was read.
    #[must_use]
    pub fn account<'a>(
        &self,
        name: &str,
        chains: impl IntoIterator<Item = &'a LinkChain>,
    ) -> FrameAccount {
        let mut account = FrameAccount {
            name: name.to_owned(),
            received_frames: self.around + self.runts,
            around_frames: self.around,
            ..FrameAccount::default()
        };
        account.drop_frames("runt", self.runts);
        for refusal in Refusal::ALL {
            account.received_frames += self.refusals.of(refusal);
            account.drop_frames(refusal.name(), self.refusals.of(refusal));
        }
        for chain in chains {
            account.add(chain);
        }
        account
    }
}

/// A frame that goes through links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// Bytes before its IP packet.
    pub front: u8,
    /// The class of its device; `None` for the links of all others.
    pub class: Option<usize>,
}

/// The account of the frames of one direction: `received + duplicated = delivered + around + dropped + queued`. A
/// super-packet counts as the frames that it is on a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameAccount {
    /// `PORT-PORT.down` or `.up`.
    pub name: String,
    /// The port they come from.
    pub from: String,
    /// The port they leave by.
    pub to: String,
    /// Frames that came.
    pub received_frames: u64,
    /// With a cell, frames of none of its devices: they take the links that its devices share, and no slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_no_device_frames: Option<u64>,
    /// Copies made in the links.
    pub duplicated_frames: u64,
    /// Frames that left after the links.
    pub delivered_frames: u64,
    /// Frames that left without the links.
    pub around_frames: u64,
    /// Dropped frames by reason; reasons without frames are not there.
    pub dropped_frames: BTreeMap<&'static str, u64>,
    /// Frames in the links.
    pub queued_frames: u64,
    /// Frames that are in none of the counters: an internal error if there are any.
    pub unaccounted_frames: i64,
}

impl FrameAccount {
    fn drop_frames(&mut self, reason: &'static str, frames: u64) {
        if frames > 0 {
            *self.dropped_frames.entry(reason).or_default() += frames;
        }
    }

    /// Adds the frames of a chain of links.
    fn add(&mut self, chain: &LinkChain) {
        self.received_frames += chain.account.devices.segments_read;
        self.delivered_frames += chain.account.devices.segments_written;
        self.queued_frames += chain.backlog().segments;
        for refusal in Refusal::ALL {
            self.drop_frames(refusal.name(), chain.account.devices.refusals.of(refusal));
        }
        for named in &chain.links {
            let total = named.link.counters().total();
            self.duplicated_frames += total.duplicated.segments;
            for reason in Reason::ALL {
                self.drop_frames(reason.name(), total.dropped[reason as usize].segments);
            }
        }
    }

    /// Adds the ports, and the frames that the first of them lost before they were read.
    #[must_use]
    pub fn between(mut self, from: &EthernetPort, to: &EthernetPort) -> Self {
        from.interface().clone_into(&mut self.from);
        to.interface().clone_into(&mut self.to);
        let lost = [
            ("unread", from.unread_frames()),
            ("unreadable", from.unreadable_frames()),
        ];
        for (reason, frames) in lost {
            self.drop_frames(reason, frames);
            self.received_frames += frames;
        }
        self.unaccounted_frames = self.unaccounted();
        self
    }

    /// Frames dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: &str) -> u64 {
        self.dropped_frames.get(reason).copied().unwrap_or(0)
    }

    /// Frames that are in none of the counters.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let dropped: u64 = self.dropped_frames.values().sum();
        let entered = i128::from(self.received_frames) + i128::from(self.duplicated_frames);
        let found = [
            self.delivered_frames,
            self.around_frames,
            dropped,
            self.queued_frames,
        ];
        let missing = entered - found.map(i128::from).iter().sum::<i128>();
        i64::try_from(missing).unwrap_or(i64::MAX)
    }

    /// The account in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let dropped: Vec<String> = self
            .dropped_frames
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        let dropped = if dropped.is_empty() {
            "0".to_owned()
        } else {
            dropped.join(" + ")
        };
        let copies = if self.duplicated_frames > 0 {
            format!(" + duplicated {}", self.duplicated_frames)
        } else {
            String::new()
        };
        let of_none = self.of_no_device_frames.map_or_else(String::new, |frames| {
            format!("; {frames} of no device, past the cell")
        });
        format!(
            "{} to {}: frames in {}{copies} = through the links {} + around them {} + dropped {dropped} + queued \
             {}{of_none}",
            self.from,
            self.to,
            self.received_frames,
            self.delivered_frames,
            self.around_frames,
            self.queued_frames
        )
    }
}

#[cfg(test)]
mod tests {
    use super::FrameAccount;

    #[test]
    fn the_account_closes_and_is_one_line() {
        let mut account = FrameAccount {
            from: "eth1".into(),
            to: "eth2".into(),
            received_frames: 20,
            duplicated_frames: 1,
            delivered_frames: 10,
            around_frames: 4,
            queued_frames: 2,
            ..FrameAccount::default()
        };
        account.drop_frames("loss", 3);
        account.drop_frames("too_long", 1);
        account.drop_frames("too_long", 1);
        account.drop_frames("runt", 0);
        assert_eq!(account.unaccounted(), 0);
        assert_eq!(
            account.text(),
            "eth1 to eth2: frames in 20 + duplicated 1 = through the links 10 + around them 4 + dropped loss 3 + \
             too_long 2 + queued 2"
        );
        account.of_no_device_frames = Some(3);
        let text = account.text();
        assert!(text.ends_with("queued 2; 3 of no device, past the cell"));
        account.received_frames += 1;
        assert_eq!(account.unaccounted(), 1);
    }
}
