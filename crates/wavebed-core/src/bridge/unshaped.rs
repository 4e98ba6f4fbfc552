//! Frames between two ports without the links, after the engine failed.

use std::io::{self, IoSlice};

use wavebed_os::ethernet_port::{EthernetPort, Refusal};
use wavebed_path::FrameAccount;

/// Frames of one port before the other one's turn.
const BATCH: usize = 64;
/// The longest frame with its virtio-net header: 64 KiB of packet and its headers, in whole pages.
const ROOM_BYTES: usize = 17 * 4096;

/// Two ports, and the frames that were carried between them.
pub struct Unshaped {
    ports: [EthernetPort; 2],
    accounts: [FrameAccount; 2],
    room: Vec<u8>,
}

impl Unshaped {
    /// Carries frames between these ports from now on.
    pub fn new(ports: [EthernetPort; 2]) -> Self {
        Self {
            ports,
            accounts: [FrameAccount::default(), FrameAccount::default()],
            room: vec![0; ROOM_BYTES],
        }
    }

    /// The ports.
    pub const fn ports(&self) -> &[EthernetPort; 2] {
        &self.ports
    }

    /// Carries the frames that wait at a port, if they are not too many.
    ///
    /// # Errors
    /// The port is gone.
    pub fn carry(&mut self, from: usize) -> io::Result<()> {
        let (port, other) = (&self.ports[from], &self.ports[1 - from]);
        let account = &mut self.accounts[from];
        for _ in 0..BATCH {
            let Some(length) = port.read(&mut self.room)? else {
                break;
            };
            account.received_frames += 1;
            match other.write(&[IoSlice::new(&self.room[..length])]) {
                Ok(()) => account.around_frames += 1,
                Err(error) => {
                    let reason = Refusal::of(&error).name();
                    *account.dropped_frames.entry(reason).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The accounts of both directions since the engine failed; a super-packet counts once.
    pub fn accounts(&self) -> [FrameAccount; 2] {
        [0_usize, 1].map(|from| {
            let (port, other) = (&self.ports[from], &self.ports[1 - from]);
            let mut account = self.accounts[from].clone();
            let direction = ["down", "up"][from];
            let [a, b] = [0_usize, 1].map(|each| self.ports[each].interface());
            account.name = format!("{a}-{b}.{direction}");
            account.between(port, other)
        })
    }
}
