//! The packet rules that bring connections to the splitter: an nftables table, and a route for marked packets.
//!
//! The table is removed and made anew in one transaction, so that leftovers of a killed program do no harm. While no
//! splitter listens, `tproxy` finds no socket, ends its rule, and connections pass unsplit.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::process::{Command, Stdio};

use super::settings::Settings;
use super::settings_value::Prefix;

/// The table.
const TABLE: &str = "wavebed_splitter";
/// No machine has more copies of the routing rule; a bound for the removal.
const MOST_COPIES: usize = 16;

/// The packet rules of a configuration.
#[derive(Clone, Debug)]
pub struct Rules {
    mark: u32,
    route_table: u32,
    nft: String,
    families: Vec<&'static str>,
}

impl Rules {
    /// The rules of `settings`.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let has = |is_ipv6: bool| settings.listen.iter().any(|one| one.is_ipv6() == is_ipv6);
        let families = [("-4", has(false)), ("-6", has(true))];
        Self {
            mark: settings.mark,
            route_table: settings.route_table,
            nft: nft(settings),
            families: families
                .into_iter()
                .filter_map(|(family, is_used)| is_used.then_some(family))
                .collect(),
        }
    }

    /// As commands that do the same.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("nft -f - <<'END'\n{}END\n", self.nft);
        for arguments in self.routes("add") {
            let _ = writeln!(text, "ip {}", arguments.join(" "));
        }
        text
    }

    /// Installs them, in place of older ones.
    ///
    /// # Errors
    /// One line: the program that refused, and its error.
    pub fn apply(&self) -> Result<(), String> {
        self.remove_routes();
        run("nft", &["-f".to_owned(), "-".to_owned()], &self.nft)?;
        let routed = self
            .routes("add")
            .iter()
            .try_for_each(|arguments| run("ip", arguments, ""));
        if routed.is_err() {
            let _ = self.remove();
        }
        routed
    }

    /// Removes them; removing what is not there is no error.
    ///
    /// # Errors
    /// One line: the program that refused, and its error.
    pub fn remove(&self) -> Result<(), String> {
        self.remove_routes();
        // Makes the table first, so that its removal cannot fail for its absence.
        let text = format!("table inet {TABLE}\ndelete table inet {TABLE}\n");
        run("nft", &["-f".to_owned(), "-".to_owned()], &text)
    }

    fn remove_routes(&self) {
        for arguments in self.routes("del") {
            let is_rule = arguments.iter().any(|word| word == "rule");
            let copies = if is_rule { MOST_COPIES } else { 1 };
            for _ in 0..copies {
                if run("ip", &arguments, "").is_err() {
                    break;
                }
            }
        }
    }

    fn routes(&self, verb: &str) -> Vec<Vec<String>> {
        let (mark, table) = (self.mark, self.route_table);
        let both = |family: &&'static str| {
            [
                format!("{family} rule {verb} fwmark {mark:#x} lookup {table} priority {table}"),
                format!("{family} route {verb} local default dev lo table {table}"),
            ]
        };
        let lines = self.families.iter().flat_map(both);
        lines
            .map(|line| line.split(' ').map(str::to_owned).collect())
            .collect()
    }
}

fn nft(settings: &Settings) -> String {
    let mark = settings.mark;
    // nftables does not match half-open sockets with `socket wildcard`: only `tproxy` takes the last packet of their
    // handshake then.
    let listening = if settings.keep_established {
        ""
    } else {
        "socket wildcard 0 "
    };
    let mut lines = vec![
        // Packets of split connections, and ICMP errors about them (path MTU).
        format!(
            "meta l4proto {{ tcp, icmp, icmpv6 }} socket transparent 1 {listening}meta mark set {mark:#x} accept"
        ),
        "meta l4proto != tcp accept".to_owned(),
        "fib daddr type != unicast accept".to_owned(),
    ];
    if !settings.client_interfaces.is_empty() {
        let names = settings.client_interfaces.iter();
        let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
        lines.push(format!("iifname != {{ {} }} accept", names.join(", ")));
    }
    for (family, is_ipv6) in [("ip", false), ("ip6", true)] {
        let prefixes = settings.bypass.iter();
        let prefixes: Vec<String> = prefixes
            .filter(|prefix| prefix.address.is_ipv6() == is_ipv6)
            .map(Prefix::to_string)
            .collect();
        if !prefixes.is_empty() {
            lines.push(format!(
                "{family} daddr {{ {} }} accept",
                prefixes.join(", ")
            ));
        }
    }
    if !settings.bypass_ports.is_empty() {
        let ports = settings.bypass_ports.iter();
        let ports: Vec<String> = ports.map(ToString::to_string).collect();
        lines.push(format!("tcp dport {{ {} }} accept", ports.join(", ")));
    }
    // Without CAP_NET_BIND_SERVICE no connection can be made from such a port.
    lines.push("tcp sport < 1024 accept".to_owned());
    if settings.keep_established {
        lines.push("tcp flags & (fin | syn | rst | ack) != syn accept".to_owned());
    }
    for address in &settings.listen {
        let (protocol, family) = match address.ip() {
            IpAddr::V4(_) => ("ipv4", "ip"),
            IpAddr::V6(_) => ("ipv6", "ip6"),
        };
        lines.push(format!(
            "meta nfproto {protocol} meta l4proto tcp tproxy {family} to {address} meta mark set {mark:#x} counter accept"
        ));
    }
    let rules: String = lines.iter().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "    {line}");
        all
    });
    // A priority just behind `mangle`, so that other programs' marks are in place and not overwritten for other packets.
    format!(
        "table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n  chain intercept {{\n    \
         type filter hook prerouting priority -149; policy accept;\n{rules}  }}\n}}\n"
    )
}

/// Runs a program with `input`.
fn run(program: &str, arguments: &[String], input: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot run {program}: {error}: install it, as root");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let line = error.lines().find(|line| !line.trim().is_empty());
    Err(format!(
        "{program} {}: {}",
        arguments.join(" "),
        line.unwrap_or("failed").trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitter::settings_file::read_text;

    #[test]
    fn bypasses_come_before_the_interception() {
        let text = r#"
            client-interfaces = ["wwan0"]
            bypass = ["10.0.0.0/8", "fd00::/8"]
            bypass-ports = [22, "8000-8100"]
        "#;
        let settings = read_text("test", text, &[]).expect("is valid");
        let rules = Rules::new(&settings).text();
        let at = |part: &str| {
            rules
                .find(part)
                .unwrap_or_else(|| panic!("{part} in {rules}"))
        };
        let intercept = at("tproxy ip to 127.0.0.1:5000");
        for part in [
            "socket transparent 1",
            "iifname != { \"wwan0\" }",
            "ip daddr { 10.0.0.0/8 }",
            "ip6 daddr { fd00::/8 }",
            "tcp dport { 22, 8000-8100 }",
        ] {
            assert!(at(part) < intercept, "{part}");
        }
        at("tproxy ip6 to [::1]:5000");
        at("ip -4 rule add fwmark 0x2b50 lookup 2850 priority 2850");
        at("ip -6 route add local default dev lo table 2850");
    }
}
