//! The congestion control of a host's connections to another host, by a route; and the words that undo it.
//!
//! Programs whose sockets nobody sets (a web server) take the congestion control of the route to the other host. That
//! host gets a route of its own, like the one that leads to it, with a congestion control.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::problem::Problem;
use crate::programs::SYSTEM_FOLDERS;

/// Words of `ip route show` that are a state and no setting, alone and with a value.
const STATES: [&str; 6] = [
    "dead",
    "linkdown",
    "offload",
    "rt_offload",
    "trap",
    "rt_trap",
];
const STATES_WITH_VALUE: [&str; 3] = ["proto", "metric", "expires"];

/// Gives the connections to `address` a congestion control. Returns the words for `ip` that undo it.
///
/// # Errors
/// There is no `ip`, no such congestion control, or no route over a network.
pub fn set(address: Ipv4Addr, algorithm: &str) -> Result<Vec<String>, Problem> {
    if algorithm.is_empty()
        || !algorithm
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
    {
        return Err(Problem::of(
            "a congestion control",
            format_args!("{algorithm:?} is no name"),
        ));
    }
    let own = format!("{address}/32");
    let before = words(&ip(&["route", "show", "exact", &own])?);
    if before.is_empty() {
        let like = words(&ip(&["route", "get", "fibmatch", &address.to_string()])?);
        if like.first().is_none_or(|word| word == "local") {
            return Err(Problem::of(address, "is no other host"));
        }
        run("add", &with_control(&own, &like, Some(algorithm)))?;
        return Ok(vec!["route".into(), "del".into(), own]);
    }
    run("change", &with_control(&own, &before, Some(algorithm)))?;
    Ok(["route".to_owned(), "change".to_owned()]
        .into_iter()
        .chain(with_control(&own, &before, None))
        .collect())
}

/// Undoes a change.
///
/// # Errors
/// The route is not there any more.
pub fn undo(change: &[String]) -> Result<(), Problem> {
    let words: Vec<&str> = change.iter().map(String::as_str).collect();
    ip(&words).map(drop)
}

fn run(what: &str, route: &[String]) -> Result<(), Problem> {
    let mut words = vec!["route", what];
    words.extend(route.iter().map(String::as_str));
    ip(&words).map(drop)
}

/// The words of a route to `own`, made from those of another; `None`: with the congestion control that it has.
fn with_control(own: &str, like: &[String], algorithm: Option<&str>) -> Vec<String> {
    let mut made = vec![own.to_owned()];
    let mut rest = like.iter().skip(1);
    while let Some(word) = rest.next() {
        if STATES.contains(&word.as_str()) {
            continue;
        }
        if word == "metric" && algorithm.is_none() || !STATES_WITH_VALUE.contains(&word.as_str()) {
            if word == "congctl" && algorithm.is_some() {
                // Its value, which may be two words: `lock bbr`.
                if rest.next().is_some_and(|value| value == "lock") {
                    rest.next();
                }
                continue;
            }
            made.push(word.clone());
        } else {
            rest.next();
        }
    }
    if let Some(algorithm) = algorithm {
        made.extend(["congctl".to_owned(), algorithm.to_owned()]);
    }
    made
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ip(words: &[&str]) -> Result<String, Problem> {
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new("ip")
        .args(words)
        .env("PATH", format!("{path}:{SYSTEM_FOLDERS}"))
        .output()
        .map_err(|error| Problem::of("ip", error))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        let told = told.trim().lines().last().unwrap_or("failed");
        return Err(Problem::of(format_args!("ip {}", words.join(" ")), told));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(like: &str, algorithm: Option<&str>) -> String {
        with_control("192.0.2.1/32", &words(like), algorithm).join(" ")
    }

    #[test]
    fn a_route_of_its_own_is_like_the_one_that_leads_to_the_host() {
        let like =
            "default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.2 metric 100 mtu 1400 linkdown";
        assert_eq!(
            made(like, Some("bbr")),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 src 10.0.0.2 mtu 1400 congctl bbr"
        );
    }

    #[test]
    fn a_host_that_has_a_route_gets_its_own_congestion_control_back() {
        let before = "192.0.2.1 via 10.0.0.1 dev eth0 congctl lock reno mtu 1300";
        assert_eq!(
            made(before, Some("bbr")),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 mtu 1300 congctl bbr"
        );
        assert_eq!(
            made(before, None),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 congctl lock reno mtu 1300"
        );
    }

    #[test]
    fn a_name_that_is_none_reaches_no_program() {
        for name in ["", "bbr dev lo", "-x;y", "b\0r"] {
            let refused = set(Ipv4Addr::LOCALHOST, name).unwrap_err();
            assert!(refused.0.contains("is no name"), "{refused}");
        }
    }
}
