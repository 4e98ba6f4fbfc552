//! An nftables table that keeps the frames of some interfaces from this machine's own network stack, and is removed with
//! its owner.

use std::ffi::CStr;

use netlink_bindings::nftables::{Nfgenmsg, Request};

use crate::error::Result;
use crate::netlink::{NLM_F_ACK, Netlink};
use crate::nft::{encoded, made_by, table};

const FAMILY_NETDEV: u8 = 5;
const HOOK_INGRESS: u32 = 0;
/// Hook priority: before all filters of the machine.
const PRIORITY_FIRST: i32 = -500;
const POLICY_DROP: u32 = 0;
/// The names of the chains, one for each interface.
const CHAINS: [&CStr; 2] = [c"first", c"second"];

/// A table that drops what comes to two interfaces, after packet sockets got it. It is removed when dropped and at the
/// end of the last process that has it.
#[derive(Debug)]
pub struct Ingress {
    _owner: Netlink,
}

impl Ingress {
    /// Drops what comes to `interfaces` in the network namespace of the calling thread. The table is named `name`.
    ///
    /// # Errors
    /// The kernel has no nftables for interfaces (Linux 5.12 with `nf_tables`), or the caller may not use it.
    pub fn drop_all(name: &str, interfaces: [&str; 2]) -> Result<Self> {
        let mut parts = vec![table(&netdev(), name)];
        let chains = CHAINS.iter().zip(interfaces);
        parts.extend(chains.map(|(chain, interface)| dropping(name, chain, interface)));
        Ok(Self {
            _owner: made_by(&parts, name)?,
        })
    }
}

/// For tables of interfaces.
fn netdev() -> Nfgenmsg {
    Nfgenmsg {
        nfgen_family: FAMILY_NETDEV,
        ..Nfgenmsg::new()
    }
}

/// A chain without rules that drops what comes to `interface`.
fn dropping(table: &str, name: &CStr, interface: &str) -> Vec<u8> {
    let mut request = Request::new().set_create().op_newchain_do(&netdev());
    let attributes = request.encode().push_table_bytes(table.as_bytes());
    let place = attributes.push_name(name).nested_hook();
    let place = place.push_num(HOOK_INGRESS).push_priority(PRIORITY_FIRST);
    let attributes = place.push_dev_bytes(interface.as_bytes()).end_nested();
    attributes.push_policy(POLICY_DROP).push_type(c"filter");
    encoded(NLM_F_ACK, &request)
}
