//! One nftables table that hides a laboratory behind the machine's addresses, keeps it apart from other laboratories, and
//! vanishes with its owner.

use std::io;

use rustix::net::netlink::NETFILTER;

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
const HOOK_FORWARD: u32 = 2;
const HOOK_POSTROUTING: u32 = 4;
/// Where filters stand among the hooks.
const PRIORITY_FILTER: u32 = 0;
/// Where source NAT stands among the hooks.
const PRIORITY_SOURCE_NAT: u32 = 100;
const META_INCOMING_INTERFACE: u32 = 4;
const META_OUTGOING_INTERFACE_NAME: u32 = 7;
const REGISTER_VERDICT: u32 = 0;
const REGISTER_1: u32 = 1;
const COMPARE_EQUAL: u32 = 0;
const VERDICT_DROP: u32 = 0;
/// The chain of the filter.
const APART: &str = "apart";
/// The chain of the source NAT.
const LEAVE: &str = "leave";

/// A table that masquerades what comes in by one interface. Dropping it, or the end of the process, removes it.
#[derive(Debug)]
pub struct Masquerade {
    _owner: Netlink,
}

impl Masquerade {
    /// Masquerades, in the network namespace of the calling thread, everything that came in by interface
    /// `index` and leaves by another; what would leave by an interface whose name begins with `others` is dropped. The
    /// table is called `name`.
    ///
    /// # Errors
    /// The kernel has no nftables NAT (Linux 5.12 with `nf_tables`, `nft_masq`, `nft_chain_nat`), or the caller
    /// may not use it.
    pub fn new(name: &str, index: u32, others: &str) -> Result<Self> {
        let socket = Netlink::open(Some(NETFILTER))?;
        let parts = [
            table(name),
            chain(name, APART, "filter", (HOOK_FORWARD, PRIORITY_FILTER)),
            keep_apart(name, index, others),
            chain(name, LEAVE, "nat", (HOOK_POSTROUTING, PRIORITY_SOURCE_NAT)),
            masquerade(name, index),
        ];
        let count = parts.len();
        let mut batch = message(BATCH_BEGIN, 0, FAMILY_NONE, SUBSYSTEM).finish();
        for part in parts {
            batch.extend(part.finish());
        }
        batch.extend(message(BATCH_END, 0, FAMILY_NONE, SUBSYSTEM).finish());
        let answer = socket
            .send(&batch)
            .and_then(|()| (0..count).try_for_each(|_| socket.acknowledged()));
        answer.during("make the nftables table", name)?;
        Ok(Self { _owner: socket })
    }
}

fn message(kind: u16, flags: u16, family: u8, resource: u16) -> Message {
    let mut message = Message::new(kind, flags, 0);
    let [high, low] = resource.to_be_bytes();
    message.put(&[family, 0, high, low]);
    message
}

fn new(kind: u16) -> Message {
    message(kind, NLM_F_CREATE | NLM_F_ACK, FAMILY_INET, 0)
}

fn string(value: &str) -> Vec<u8> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn table(name: &str) -> Message {
    let mut message = new(NEW_TABLE);
    message
        .attribute(1, &string(name))
        .attribute(2, &TABLE_OWNER.to_be_bytes());
    message
}

fn chain(table: &str, name: &str, kind: &str, (hook, priority): (u32, u32)) -> Message {
    let mut message = new(NEW_CHAIN);
    message
        .attribute(1, &string(table))
        .attribute(3, &string(name))
        .nest(4, |place| {
            place
                .attribute(1, &hook.to_be_bytes())
                .attribute(2, &priority.to_be_bytes());
        })
        .attribute(7, &string(kind));
    message
}

fn rule(table: &str, chain: &str, fill: impl FnOnce(&mut Message)) -> Message {
    let mut message = new(NEW_RULE);
    message
        .attribute(1, &string(table))
        .attribute(2, &string(chain))
        .nest(4, fill);
    message
}

/// What came in by interface `index` does not leave by one whose name begins with `others`.
fn keep_apart(table: &str, index: u32, others: &str) -> Message {
    rule(table, APART, |list| {
        compare(list, META_INCOMING_INTERFACE, &index.to_ne_bytes());
        compare(list, META_OUTGOING_INTERFACE_NAME, others.as_bytes());
        expression(list, "immediate", |data| {
            data.attribute(1, &REGISTER_VERDICT.to_be_bytes())
                .nest(2, |value| {
                    value.nest(2, |verdict| {
                        verdict.attribute(1, &VERDICT_DROP.to_be_bytes());
                    });
                });
        });
    })
}

/// What came in by interface `index` leaves with an address of the machine.
fn masquerade(table: &str, index: u32) -> Message {
    rule(table, LEAVE, |list| {
        compare(list, META_INCOMING_INTERFACE, &index.to_ne_bytes());
        expression(list, "masq", |_| {});
    })
}

/// Goes on only if the packet's `key` begins with `value`.
fn compare(list: &mut Message, key: u32, value: &[u8]) {
    expression(list, "meta", |data| {
        data.attribute(1, &REGISTER_1.to_be_bytes())
            .attribute(2, &key.to_be_bytes());
    });
    expression(list, "cmp", |data| {
        data.attribute(1, &REGISTER_1.to_be_bytes())
            .attribute(2, &COMPARE_EQUAL.to_be_bytes())
            .nest(3, |data| {
                data.attribute(1, value);
            });
    });
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
    Masquerade::new(&name, 1, &name)
        .map(drop)
        .map_err(|error| error.source)
}
