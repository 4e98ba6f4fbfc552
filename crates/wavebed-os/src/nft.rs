//! One nftables table that hides a laboratory behind the machine's addresses, and vanishes with its owner.

use std::io;

use crate::error::{Context, Result};
use crate::netlink::{Message, Netlink};

const NLM_F_ACK: u16 = 0x4;
const NLM_F_CREATE: u16 = 0x400;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const FAMILY_NONE: u8 = 0;
const FAMILY_INET: u8 = 1;
/// `NFT_TABLE_F_OWNER`: only this socket may change the table, and closing it removes the table.
const TABLE_OWNER: u32 = 2;
const HOOK_POSTROUTING: u32 = 4;
/// Where source NAT stands among the hooks.
const PRIORITY_SOURCE_NAT: u32 = 100;
const META_INCOMING_INTERFACE: u32 = 4;
const REGISTER_1: u32 = 1;
const COMPARE_EQUAL: u32 = 0;

/// A table that masquerades what comes in by one interface. Dropping it, or the end of the process, removes it.
#[derive(Debug)]
pub struct Masquerade {
    _owner: Netlink,
}

impl Masquerade {
    /// Masquerades, in the network namespace of the calling thread, everything that came in by interface
    /// `index` and leaves by another. The table is called `name`.
    ///
    /// # Errors
    /// The kernel has no nftables NAT (Linux 5.12 with `nf_tables`, `nft_masq`, `nft_chain_nat`), or the caller
    /// may not use it.
    pub fn new(name: &str, index: u32) -> Result<Self> {
        let socket = Netlink::open(libc::NETLINK_NETFILTER)?;
        let mut batch = message(BATCH_BEGIN, 0, FAMILY_NONE, SUBSYSTEM, 0).finish();
        batch.extend(table(name).finish());
        batch.extend(chain(name).finish());
        batch.extend(rule(name, index).finish());
        batch.extend(message(BATCH_END, 0, FAMILY_NONE, SUBSYSTEM, 4).finish());
        let answer = socket
            .send(&batch)
            .and_then(|()| (0..3).try_for_each(|_| socket.acknowledged()));
        answer.during("make the nftables table", name)?;
        Ok(Self { _owner: socket })
    }
}

fn message(kind: u16, flags: u16, family: u8, resource: u16, sequence: u32) -> Message {
    let mut message = Message::new(kind, flags, sequence);
    let [high, low] = resource.to_be_bytes();
    message.put(&[family, 0, high, low]);
    message
}

fn string(value: &str) -> Vec<u8> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn table(name: &str) -> Message {
    let mut message = message(NEW_TABLE, NLM_F_CREATE | NLM_F_ACK, FAMILY_INET, 0, 1);
    message
        .attribute(1, &string(name))
        .attribute(2, &TABLE_OWNER.to_be_bytes());
    message
}

fn chain(name: &str) -> Message {
    let mut message = message(NEW_CHAIN, NLM_F_CREATE | NLM_F_ACK, FAMILY_INET, 0, 2);
    message
        .attribute(1, &string(name))
        .attribute(3, &string("leave"))
        .nest(4, |hook| {
            hook.attribute(1, &HOOK_POSTROUTING.to_be_bytes())
                .attribute(2, &PRIORITY_SOURCE_NAT.to_be_bytes());
        })
        .attribute(7, &string("nat"));
    message
}

fn rule(name: &str, index: u32) -> Message {
    let mut message = message(NEW_RULE, NLM_F_CREATE | NLM_F_ACK, FAMILY_INET, 0, 3);
    message
        .attribute(1, &string(name))
        .attribute(2, &string("leave"))
        .nest(4, |list| {
            expression(list, "meta", |data| {
                data.attribute(1, &REGISTER_1.to_be_bytes())
                    .attribute(2, &META_INCOMING_INTERFACE.to_be_bytes());
            });
            expression(list, "cmp", |data| {
                data.attribute(1, &REGISTER_1.to_be_bytes())
                    .attribute(2, &COMPARE_EQUAL.to_be_bytes())
                    .nest(3, |value| {
                        value.attribute(1, &index.to_ne_bytes());
                    });
            });
            expression(list, "masq", |_| {});
        });
    message
}

fn expression(list: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    list.nest(1, |element| {
        element.attribute(1, &string(name)).nest(2, fill);
    });
}

/// Whether this machine can masquerade, found by doing it for an instant in the calling thread's namespace.
///
/// # Errors
/// Why not.
pub fn try_masquerade() -> io::Result<()> {
    let name = format!("wavebed-doctor-{}", std::process::id());
    Masquerade::new(&name, 1)
        .map(drop)
        .map_err(|error| error.source)
}
