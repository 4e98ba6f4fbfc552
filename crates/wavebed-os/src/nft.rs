//! nftables tables that are removed with their owner. One masquerades a laboratory behind the machine's addresses and
//! isolates it from other laboratories; one delivers to other ports; one gives flows other source ports.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use netlink_bindings::nftables::{
    CmpOps, CtKeys, MetaKeys, Nfgenmsg, PayloadBase, PushExprListAttrs, Registers, Request,
    TableFlags, VerdictCode,
};
use netlink_bindings::traits::{NetlinkRequest, Protocol, Pusher};
use rustix::net::netlink::NETFILTER;

use crate::error::{Context, Result};
use crate::netlink::{NLM_F_ACK, Netlink, message, message_of};

const FAMILY_INET: u8 = 1;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;
/// The number of nftables among the subsystems of netfilter.
const SUBSYSTEM: u16 = 10;
/// The message of ctnetlink that removes connections: all of them without an attribute.
const FORGET_CONNECTIONS: u16 = 1 << 8 | 2;
/// Bytes of `struct nfgenmsg`.
const FAMILY_HEADER_BYTES: usize = 4;
const HOOK_PREROUTING: u32 = 0;
const HOOK_INPUT: u32 = 1;
const HOOK_FORWARD: u32 = 2;
const HOOK_OUTPUT: u32 = 3;
const HOOK_POSTROUTING: u32 = 4;
/// Hook priority of filters.
const PRIORITY_FILTER: i32 = 0;
/// Hook priority of destination NAT.
const PRIORITY_DESTINATION_NAT: i32 = -100;
/// Hook priority of source NAT.
const PRIORITY_SOURCE_NAT: i32 = 100;
/// The chain of the filter.
const APART: &CStr = c"apart";
/// The chain of the source NAT.
const LEAVE: &CStr = c"leave";
/// The chains of the destination NAT: for packets from other hosts, and from this one.
const ARRIVE: [(&CStr, u32); 2] = [(c"arrive", HOOK_PREROUTING), (c"own", HOOK_OUTPUT)];
/// The chain that gives other source ports.
const REBIND: &CStr = c"rebind";
/// The chains that discard what no flow of the client asked for. They turn it to the loopback first: a packet that is
/// dropped where it is sent is an error of its sender, which a NAT far away causes to nobody.
const ASIDE: &CStr = c"aside";
const DISCARD: &CStr = c"discard";
const LOOPBACKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// The number of the protocol TCP.
pub const TCP: u8 = 6;
/// The number of the protocol UDP.
pub const UDP: u8 = 17;
/// Offset of the flags in a TCP header.
const TCP_FLAGS: u32 = 13;
const TCP_SYN: u8 = 2;
/// The status of a connection to another destination than was sent to, as `ct status dnat`.
const CONNECTION_DESTINATION_NAT: u32 = 1 << 5;
/// `NFT_NAT_SNAT`.
const SOURCE_NAT: u32 = 0;
/// Offset of the destination in an IPv4 header.
const DESTINATION_V4: u32 = 16;
/// Offset of the destination port in the headers of UDP and TCP.
const DESTINATION_PORT: u32 = 2;
/// `NFT_NAT_DNAT`.
const DESTINATION_NAT: u32 = 1;

/// A table that masquerades packets from one interface. It is removed when dropped and at the end of the process.
#[derive(Debug)]
pub struct Masquerade {
    _owner: Netlink,
}

impl Masquerade {
    /// Masquerades, in the network namespace of the calling thread, packets from interface `index` that leave by
    /// another one; drops those that would leave by an interface whose name begins with `others`. The table is named
    /// `name`.
    ///
    /// # Errors
    /// The kernel has no nftables NAT (Linux 5.12 with `nf_tables`, `nft_masq`, `nft_chain_nat`), or the caller
    /// may not use it.
    pub fn new(name: &str, index: u32, others: &str) -> Result<Self> {
        let parts = [
            table(&inet(), name),
            chain(
                &inet(),
                name,
                APART,
                c"filter",
                (HOOK_FORWARD, PRIORITY_FILTER),
            ),
            keep_apart(name, index, others),
            chain(
                &inet(),
                name,
                LEAVE,
                c"nat",
                (HOOK_POSTROUTING, PRIORITY_SOURCE_NAT),
            ),
            masquerade(name, index),
        ];
        Ok(Self {
            _owner: made_by(&parts, name)?,
        })
    }
}

/// A table that delivers to other ports. It is removed when dropped and at the end of the process.
#[derive(Debug)]
pub struct Delivery {
    _owner: Netlink,
}

/// Where packets of a protocol go instead.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The number of the protocol.
    pub protocol: u8,
    /// An address and a port of the same namespace.
    pub to: SocketAddrV4,
}

impl Delivery {
    /// Delivers, in the network namespace of the calling thread, what is sent to `port` of `address` to `instead`. The
    /// table is named `name`.
    ///
    /// # Errors
    /// The kernel has no nftables NAT (Linux 5.12 with `nf_tables`, `nft_nat`, `nft_chain_nat`), or the caller may not
    /// use it.
    pub fn new(name: &str, address: Ipv4Addr, port: u16, instead: &[Port]) -> Result<Self> {
        let mut parts = vec![table(&ipv4(), name)];
        for (own, hook) in ARRIVE {
            let place = (hook, PRIORITY_DESTINATION_NAT);
            parts.push(chain(&ipv4(), name, own, c"nat", place));
            let rules = instead
                .iter()
                .map(|each| deliver(name, own, address, port, *each));
            parts.extend(rules);
        }
        Ok(Self {
            _owner: made_by(&parts, name)?,
        })
    }
}

/// A table that gives flows from other hosts other source ports, as a NAT before this one does. It is removed when
/// dropped and at the end of the process; flows keep their ports until they are forgotten.
#[derive(Debug)]
pub struct SourcePorts {
    _owner: Netlink,
}

impl SourcePorts {
    /// Gives, in the network namespace of the calling thread, flows of TCP and UDP that come through interfaces whose
    /// names begin with `devices` a source port from `least` to `most`. Packets out of these interfaces that begin no
    /// connection and belong to no flow are discarded, as a NAT does. The table is named `name`.
    ///
    /// # Errors
    /// The kernel has no nftables NAT (Linux 5.12 with `nf_tables`, `nft_nat`, `nft_ct`, `nft_chain_nat`), or the
    /// caller may not use it.
    pub fn new(name: &str, devices: &str, (least, most): (u16, u16)) -> Result<Self> {
        let place = (HOOK_INPUT, PRIORITY_SOURCE_NAT);
        let aside = (HOOK_OUTPUT, PRIORITY_DESTINATION_NAT);
        let filter = (HOOK_INPUT, PRIORITY_FILTER);
        let mut parts = vec![
            table(&inet(), name),
            chain(&inet(), name, REBIND, c"nat", place),
            give_port(name, devices, TCP, (least, most)),
            give_port(name, devices, UDP, (least, most)),
            chain(&inet(), name, ASIDE, c"nat", aside),
            chain(&inet(), name, DISCARD, c"filter", filter),
            discard_aside(name),
        ];
        for protocol in [TCP, UDP] {
            parts.extend(LOOPBACKS.map(|to| turn_aside(name, devices, protocol, to)));
        }
        Ok(Self {
            _owner: made_by(&parts, name)?,
        })
    }
}

/// Forgets all connections of the network namespace of the calling thread, with their ports.
///
/// # Errors
/// The kernel has no `nf_conntrack_netlink`, or the caller may not use it.
pub fn forget_connections() -> Result<()> {
    let socket = Netlink::open(Some(NETFILTER))?;
    let any_family = [0; FAMILY_HEADER_BYTES];
    let request = message_of(FORGET_CONNECTIONS, NLM_F_ACK, 1, &any_family);
    socket
        .send(&request)
        .and_then(|()| socket.acknowledged())
        .during("forget connections by", "nf_conntrack_netlink")
}

/// Executes `parts` together, which make the table `name`; returns its owner.
pub(crate) fn made_by(parts: &[Vec<u8>], name: &str) -> Result<Netlink> {
    let socket = Netlink::open(Some(NETFILTER))?;
    let ends = Nfgenmsg {
        _res_id_be: SUBSYSTEM.to_be(),
        ..Nfgenmsg::new()
    };
    let begin = encoded(0, &Request::new().op_batch_begin_do(&ends));
    let end = encoded(0, &Request::new().op_batch_end_do(&ends));
    let batch = [begin, parts.concat(), end].concat();
    let answer = socket
        .send(&batch)
        .and_then(|()| (0..parts.len()).try_for_each(|_| socket.acknowledged()));
    answer.during("make the nftables table", name)?;
    Ok(socket)
}

/// A request as bytes.
pub(crate) fn encoded(flags: u16, request: &impl NetlinkRequest) -> Vec<u8> {
    match request.protocol() {
        Protocol::Raw { request_type, .. } => message(request_type, flags, 0, request),
        Protocol::Generic(_) => unreachable!("nftables has numbers of its own"),
    }
}

/// For tables of IPv4 and IPv6 together.
fn inet() -> Nfgenmsg {
    Nfgenmsg {
        nfgen_family: FAMILY_INET,
        ..Nfgenmsg::new()
    }
}

/// A table that only this socket may change, and that is removed when the socket is closed.
pub(crate) fn table(family: &Nfgenmsg, name: &str) -> Vec<u8> {
    let mut request = Request::new().set_create().op_newtable_do(family);
    let attributes = request.encode().push_name_bytes(name.as_bytes());
    attributes.push_flags(TableFlags::Owner as u32);
    encoded(NLM_F_ACK, &request)
}

/// For tables of IPv4.
fn ipv4() -> Nfgenmsg {
    Nfgenmsg {
        nfgen_family: FAMILY_IPV4,
        ..Nfgenmsg::new()
    }
}

fn chain(
    family: &Nfgenmsg,
    table: &str,
    name: &CStr,
    kind: &CStr,
    (hook, priority): (u32, i32),
) -> Vec<u8> {
    let mut request = Request::new().set_create().op_newchain_do(family);
    let attributes = request.encode().push_table_bytes(table.as_bytes());
    let place = attributes.push_name(name).nested_hook();
    let attributes = place.push_num(hook).push_priority(priority).end_nested();
    attributes.push_type(kind);
    encoded(NLM_F_ACK, &request)
}

/// A rule of these expressions.
fn rule(
    family: &Nfgenmsg,
    table: &str,
    chain: &CStr,
    expressions: impl FnOnce(PushExprListAttrs<&mut Vec<u8>>),
) -> Vec<u8> {
    let mut request = Request::new().set_create().op_newrule_do(family);
    let attributes = request.encode().push_table_bytes(table.as_bytes());
    let mut attributes = attributes.push_chain(chain).nested_expressions();
    expressions(PushExprListAttrs::new(attributes.as_vec_mut()));
    drop(attributes);
    encoded(NLM_F_ACK, &request)
}

/// Drops packets from interface `index` to interfaces whose names begin with `others`.
fn keep_apart(table: &str, index: u32, others: &str) -> Vec<u8> {
    rule(&inet(), table, APART, |list| {
        let list = compare(list, MetaKeys::Iif, &index.to_ne_bytes());
        let list = compare(list, MetaKeys::Oifname, others.as_bytes());
        verdict(list, VerdictCode::Drop);
    })
}

/// Masquerades packets from interface `index`.
fn masquerade(table: &str, index: u32) -> Vec<u8> {
    rule(&inet(), table, LEAVE, |list| {
        let list = compare(list, MetaKeys::Iif, &index.to_ne_bytes());
        list.nested_elem().push_name(c"masq");
    })
}

/// Delivers packets of a protocol to `port` of `address` somewhere else.
fn deliver(table: &str, chain: &CStr, address: Ipv4Addr, port: u16, instead: Port) -> Vec<u8> {
    rule(&ipv4(), table, chain, |list| {
        let list = compare(list, MetaKeys::L4Proto, &[instead.protocol]);
        let (base, octets) = (PayloadBase::NetworkHeader, address.octets());
        let list = compare_bytes(list, base, DESTINATION_V4, &octets);
        let (base, number) = (PayloadBase::TransportHeader, port.to_be_bytes());
        let list = compare_bytes(list, base, DESTINATION_PORT, &number);
        let list = load(list, Registers::Reg1, &instead.to.ip().octets());
        let list = load(list, Registers::Reg2, &instead.to.port().to_be_bytes());
        let nat = list.nested_elem().nested_data_nat();
        let nat = nat
            .push_type(DESTINATION_NAT)
            .push_family(FAMILY_IPV4.into());
        nat.push_reg_addr_min(Registers::Reg1 as u32)
            .push_reg_proto_min(Registers::Reg2 as u32);
    })
}

/// Gives packets of a protocol from other hosts a source port between two.
fn give_port(table: &str, devices: &str, protocol: u8, (least, most): (u16, u16)) -> Vec<u8> {
    rule(&inet(), table, REBIND, |list| {
        let list = compare(list, MetaKeys::Iifname, devices.as_bytes());
        let list = compare(list, MetaKeys::L4Proto, &[protocol]);
        let list = load(list, Registers::Reg1, &least.to_be_bytes());
        let list = load(list, Registers::Reg2, &most.to_be_bytes());
        let nat = list.nested_elem().nested_data_nat();
        let nat = nat.push_type(SOURCE_NAT).push_family(FAMILY_INET.into());
        nat.push_reg_proto_min(Registers::Reg1 as u32)
            .push_reg_proto_max(Registers::Reg2 as u32);
    })
}

/// Turns packets of a protocol to other hosts aside if they belong to no connection; a SYN may begin one. A chain of NAT
/// gets the first packet of a connection only.
fn turn_aside(table: &str, devices: &str, protocol: u8, loopback: IpAddr) -> Vec<u8> {
    rule(&inet(), table, ASIDE, |list| {
        let list = compare(list, MetaKeys::Oifname, devices.as_bytes());
        let list = compare(list, MetaKeys::L4Proto, &[protocol]);
        let (family, address) = match loopback {
            IpAddr::V4(v4) => (FAMILY_IPV4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (FAMILY_IPV6, v6.octets().to_vec()),
        };
        let mut list = compare(list, MetaKeys::Nfproto, &[family]);
        if protocol == TCP {
            list = payload(list, PayloadBase::TransportHeader, TCP_FLAGS, 1);
            list = is_equal(masked(list, &[TCP_SYN]), &[0]);
        }
        let list = load(list, Registers::Reg1, &address);
        let nat = list.nested_elem().nested_data_nat();
        let nat = nat.push_type(DESTINATION_NAT).push_family(family.into());
        nat.push_reg_addr_min(Registers::Reg1 as u32);
    })
}

/// Discards what was turned aside, where it arrives on the loopback.
fn discard_aside(table: &str) -> Vec<u8> {
    rule(&inet(), table, DISCARD, |list| {
        let list = compare(list, MetaKeys::Iifname, b"lo\0");
        let status = list.nested_elem().nested_data_ct();
        let status = status
            .push_dreg(Registers::Reg1 as u32)
            .push_key(CtKeys::Status as u32);
        let is_aside = CONNECTION_DESTINATION_NAT.to_ne_bytes();
        let list = masked(status.end_nested().end_nested(), &is_aside);
        verdict(is_equal(list, &is_aside), VerdictCode::Drop);
    })
}

/// Matches packets whose `key` begins with `value`.
fn compare<P: Pusher>(
    list: PushExprListAttrs<P>,
    key: MetaKeys,
    value: &[u8],
) -> PushExprListAttrs<P> {
    let meta = list.nested_elem().nested_data_meta();
    let meta = meta.push_key(key as u32).push_dreg(Registers::Reg1 as u32);
    is_equal(meta.end_nested().end_nested(), value)
}

/// Matches packets with `value` at `offset` of a header.
fn compare_bytes<P: Pusher>(
    list: PushExprListAttrs<P>,
    header: PayloadBase,
    offset: u32,
    value: &[u8],
) -> PushExprListAttrs<P> {
    let length = u32::try_from(value.len()).expect("values are short");
    is_equal(payload(list, header, offset, length), value)
}

/// Puts bytes at `offset` of a header into the first register.
fn payload<P: Pusher>(
    list: PushExprListAttrs<P>,
    header: PayloadBase,
    offset: u32,
    length: u32,
) -> PushExprListAttrs<P> {
    let payload = list.nested_elem().nested_data_payload();
    let payload = payload
        .push_dreg(Registers::Reg1 as u32)
        .push_base(header as u32);
    let payload = payload.push_offset(offset).push_len(length);
    payload.end_nested().end_nested()
}

/// Keeps the bits of `mask` in the first register.
fn masked<P: Pusher>(list: PushExprListAttrs<P>, mask: &[u8]) -> PushExprListAttrs<P> {
    let length = u32::try_from(mask.len()).expect("values are short");
    let bitwise = list.nested_elem().nested_data_bitwise();
    let bitwise = bitwise
        .push_sreg(Registers::Reg1 as u32)
        .push_dreg(Registers::Reg1 as u32)
        .push_len(length);
    let bitwise = bitwise.nested_mask().push_value(mask).end_nested();
    let nothing = vec![0; mask.len()];
    let bitwise = bitwise.nested_xor().push_value(&nothing).end_nested();
    bitwise.end_nested().end_nested()
}

/// Decides about the packets that match.
fn verdict<P: Pusher>(list: PushExprListAttrs<P>, code: VerdictCode) {
    let verdict = list
        .nested_elem()
        .nested_data_immediate()
        .push_dreg(Registers::RegVerdict as u32)
        .nested_data()
        .nested_verdict();
    verdict.push_code(code as u32);
}

/// Matches if the first register begins with `value`.
fn is_equal<P: Pusher>(list: PushExprListAttrs<P>, value: &[u8]) -> PushExprListAttrs<P> {
    let compared = list.nested_elem().nested_data_cmp();
    let compared = compared.push_sreg(Registers::Reg1 as u32);
    let value = compared
        .push_op(CmpOps::Eq as u32)
        .nested_data()
        .push_value(value);
    value.end_nested().end_nested().end_nested()
}

/// Puts `value` into a register.
fn load<P: Pusher>(
    list: PushExprListAttrs<P>,
    register: Registers,
    value: &[u8],
) -> PushExprListAttrs<P> {
    let immediate = list.nested_elem().nested_data_immediate();
    let data = immediate.push_dreg(register as u32).nested_data();
    data.push_value(value)
        .end_nested()
        .end_nested()
        .end_nested()
}

/// Checks that this machine can masquerade, by a short trial in the calling thread's namespace.
///
/// # Errors
/// The kernel's refusal.
pub fn try_masquerade() -> io::Result<()> {
    let name = format!("wavebed-doctor-{}", std::process::id());
    Masquerade::new(&name, 1, &name)
        .map(drop)
        .map_err(|error| error.source)
}

/// Checks that this machine can give flows other source ports, in the calling thread's network namespace, whose
/// connections are forgotten.
///
/// # Errors
/// The kernel's refusal.
pub fn try_source_ports() -> io::Result<()> {
    let name = format!("wavebed-doctor-{}", std::process::id());
    SourcePorts::new(&name, &name, (1024, 2048))
        .and_then(|_table| forget_connections())
        .map_err(|error| error.source)
}

// An nftables table that keeps the frames of some interfaces from this machine's own network stack, and is removed with
// its owner.

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
    /// Drops what comes to `interfaces`, two at most, in the network namespace of the calling thread. The table is named
    /// `name`.
    ///
    /// # Errors
    /// The kernel has no nftables for interfaces (Linux 5.12 with `nf_tables`), or the caller may not use it.
    pub fn drop_all(name: &str, interfaces: &[&str]) -> Result<Self> {
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

const FAMILY_BRIDGE: u8 = 7;
/// The chains: for frames between the ports of a Linux bridge, and from the bridge itself.
const LEAVES: [(&CStr, u32); 2] = [(c"between", HOOK_FORWARD), (c"from", HOOK_OUTPUT)];

/// A table that keeps a Linux bridge from sending by one of its ports. It is removed when dropped and at the end of the
/// last process that has it.
#[derive(Debug)]
pub struct Silence {
    _owner: Netlink,
}

impl Silence {
    /// Drops what a Linux bridge in the network namespace of the calling thread sends by its port `interface`. The table
    /// is named `name`.
    ///
    /// # Errors
    /// The kernel has no nftables for bridges (Linux 5.12 with `nf_tables_bridge`), or the caller may not use it.
    pub fn of_port(name: &str, interface: &str) -> Result<Self> {
        let family = Nfgenmsg {
            nfgen_family: FAMILY_BRIDGE,
            ..Nfgenmsg::new()
        };
        let port = format!("{interface}\0");
        let mut parts = vec![table(&family, name)];
        for (own, hook) in LEAVES {
            let place = (hook, PRIORITY_FIRST);
            parts.push(chain(&family, name, own, c"filter", place));
            parts.push(rule(&family, name, own, |list| {
                let list = compare(list, MetaKeys::Oifname, port.as_bytes());
                verdict(list, VerdictCode::Drop);
            }));
        }
        Ok(Self {
            _owner: made_by(&parts, name)?,
        })
    }
}
