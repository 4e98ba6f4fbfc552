//! The requests of connections to the laboratory.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use serde::Serialize;
use serde_json::Value;
use wavebed_os::{clock, process};

use super::programs::{Place, digits};
use super::{End, Init};
use crate::control::{Connection, ControlRequest, Watch};
use crate::engine::{Request, Setting};
use crate::lab_file::Rules;
use crate::{control, problem};

/// What is on its way from program to program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Undelivered {
    /// Segments in the links.
    queued_segments: u64,
    /// Bytes that were sent and not acknowledged, at all hosts.
    unacknowledged_bytes: u64,
    /// Bytes that arrived at the server or the edge, and were not read.
    unread_bytes: u64,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} segments in the links, {} bytes unacknowledged, {} bytes unread",
            self.queued_segments, self.unacknowledged_bytes, self.unread_bytes
        )
    }
}

impl Init {
    pub(super) fn hear_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let requests = connection.receive();
        for request in requests {
            self.serve(id, request);
        }
        if self.connections.get(&id).is_none_or(Connection::is_closed) {
            self.connections.remove(&id);
            // Programs started over a connection end with it.
            let orphans: Vec<i32> = self
                .runs
                .iter()
                .filter(|(_, owner)| **owner == id)
                .map(|(pid, _)| *pid)
                .collect();
            for pid in orphans {
                self.runs.remove(&pid);
                let _ = process::kill(-pid, problem::TERM);
            }
        }
    }

    fn serve(&mut self, id: u64, request: Result<ControlRequest, String>) {
        let answer = match request {
            Ok(ControlRequest::Show) => self.show(),
            Ok(ControlRequest::Undelivered) => {
                self.undelivered().map(|each| serde_json::json!(each))
            }
            Ok(ControlRequest::Ports { host }) => self.ports(&host),
            Ok(ControlRequest::Network { host }) => self.network(&host),
            Ok(ControlRequest::Watch { every_ms }) => self.watch(id, every_ms),
            Ok(ControlRequest::Begin) => self.engine.ask(&Request::Begin).map(|zero_ns| {
                self.plan_rebindings(zero_ns.as_u64().unwrap_or_default());
                serde_json::json!({"zero_ns": zero_ns})
            }),
            Ok(ControlRequest::Rebind) => self.rebind().map(|()| serde_json::json!({"ok": true})),
            Ok(ControlRequest::Maps) => Ok(self.maps()),
            Ok(ControlRequest::Set { link, setting }) => self.set(link, setting),
            Ok(ControlRequest::Timeline(action)) => self
                .engine
                .ask(&Request::Timeline(action))
                .map(|state| serde_json::json!({"ok": true, "timeline": state})),
            Ok(ControlRequest::Run {
                process,
                environment,
                directory,
                needs,
                stdio,
            }) => {
                // A program without a given input reads end of file.
                let nothing = File::open("/dev/null").ok();
                let mut fds = stdio.each_ref().map(|fd| fd.as_ref().map(AsFd::as_fd));
                fds[0] = fds[0].or(nothing.as_ref().map(AsFd::as_fd));
                let place = Place {
                    environment: &environment,
                    directory: directory.as_deref(),
                    needs: needs.unwrap_or_default(),
                    stdio: fds,
                    foreground: false,
                };
                let before_ns = self.host_cpu_ns();
                self.start(&process, &place).map(|pid| {
                    self.runs.insert(pid, id);
                    self.stops.started(pid, &process);
                    let mut answer = serde_json::json!({"pid": pid});
                    if let Some(time_ns) = before_ns {
                        answer["host_cpu_before_ns"] = digits(time_ns);
                    }
                    answer
                })
            }
            Ok(ControlRequest::Kill { pid, signal }) => self.kill_run(pid, signal),
            Ok(ControlRequest::Stop) => {
                self.end.get_or_insert(End {
                    status: 0,
                    asked_by: Some(id),
                });
                return;
            }
            Err(line) => Err(line),
        };
        let answer = answer.unwrap_or_else(|line| serde_json::json!({"error": line}));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(&answer);
        }
    }

    fn show(&mut self) -> Result<Value, String> {
        let mut value = self.engine.ask(&Request::Show)?;
        let hosts: Vec<Value> = self
            .hosts
            .iter()
            .map(|host| serde_json::json!({"name": host.name, "ipv4": host.v4, "ipv6": host.v6}))
            .collect();
        value["name"] = self.lab.name.clone().into();
        value["hosts"] = hosts.into();
        value["confined_user"] = self.rules.as_ref().and_then(Rules::other_user).into();
        let hops = self.lab.hops();
        value["hops"] = hops
            .map(|hop| serde_json::json!({"name": hop.name, "kind": hop.kind.name()}))
            .collect();
        Ok(value)
    }

    /// What programs sent and no program has read yet.
    pub(super) fn undelivered(&mut self) -> Result<Undelivered, String> {
        let shown = self.engine.ask(&Request::Show)?;
        let links = shown["links"].as_array().into_iter().flatten();
        let mut found = Undelivered {
            queued_segments: links
                .filter_map(|link| link["queued_segments"].as_u64())
                .sum(),
            ..Undelivered::default()
        };
        // The clients are the last ones, whose programs have ended.
        let first_client = self.hosts.len() - self.lab.network.clients();
        for (index, sockets) in self.host_sockets.iter().enumerate() {
            let Some(sockets) = sockets else { continue };
            let bytes = sockets
                .queued()
                .map_err(|error| format!("{}: sockets: {error}", self.hosts[index].name))?;
            found.unacknowledged_bytes += bytes.unacknowledged;
            if index < first_client {
                found.unread_bytes += bytes.unread;
            }
        }
        Ok(found)
    }

    /// The descriptor of a host's network namespace in this process.
    fn network(&self, host: &str) -> Result<Value, String> {
        let network = &self.hosts[self.lab.host_index(host)?].network;
        Ok(serde_json::json!({"descriptor": network.as_fd().as_raw_fd()}))
    }

    /// The open ports of a host.
    fn ports(&self, host: &str) -> Result<Value, String> {
        let ports = match &self.host_sockets[self.lab.host_index(host)?] {
            Some(sockets) => sockets.open_ports(),
            None => return Err(format!("{host}: it has the ports of this machine")),
        };
        let ports = ports.map_err(|error| format!("{host}: sockets: {error}"))?;
        Ok(serde_json::json!({"ports": ports}))
    }

    fn set(&mut self, link: Option<String>, setting: Setting) -> Result<Value, String> {
        let replaces = matches!(setting, Setting::RateBps(_) | Setting::Pattern(_));
        let request = Request::Set { link, setting };
        self.engine.ask(&request)?;
        if let (true, Request::Set { link, .. }) = (replaces, request) {
            let hops = self.lab.hops();
            let of = |hop: &str| {
                link.as_ref()
                    .is_none_or(|link| *link == format!("{hop}.down"))
            };
            let changed = hops.filter(|hop| of(&hop.name));
            self.replaced
                .extend(changed.map(|hop| hop.name.into_owned()));
        }
        Ok(serde_json::json!({"ok": true}))
    }

    /// The maps, and whether the downlink of each still follows its scene.
    fn maps(&self) -> Value {
        let maps = self.lab.maps.iter().map(|map| {
            let mut value = map.rest.clone();
            value.insert("hop".to_owned(), map.hop.clone().into());
            value.insert(
                "replaced".to_owned(),
                self.replaced.contains(&map.hop).into(),
            );
            Value::Object(value)
        });
        serde_json::json!({"maps": maps.collect::<Vec<_>>()})
    }

    /// Lets samples follow the answer, which has the names of their columns.
    fn watch(&mut self, id: u64, every_ms: u64) -> Result<Value, String> {
        let mut head = self.engine.ask(&Request::Head)?;
        head["every_ms"] = every_ms.into();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.start_watch(Watch::new(every_ms, clock::monotonic_ns()));
        }
        Ok(serde_json::json!({"watching": head}))
    }

    /// When the next sample of a connection is due.
    pub(super) fn sample_due_ns(&self) -> Option<u64> {
        control::sample_due_ns(&self.connections)
    }

    /// Sends the samples that are due: one question to the engine serves all connections.
    pub(super) fn send_samples(&mut self) {
        control::send_samples(&mut self.connections, || {
            self.engine.ask(&Request::Sample).ok()
        });
    }

    fn kill_run(&self, pid: i32, signal: i32) -> Result<Value, String> {
        if !self.runs.contains_key(&pid) {
            return Err(format!(
                "pid: {pid} was not started over a control socket, or has ended"
            ));
        }
        process::kill(-pid, signal).map_err(|error| format!("signal: {signal}: {error}"))?;
        Ok(serde_json::json!({"ok": true}))
    }
}

#[cfg(test)]
mod tests {
    use crate::control::Watch;

    const MS: u64 = 1_000_000;

    #[test]
    fn samples_keep_their_times_and_missed_ones_are_counted() {
        let mut watch = Watch::new(10, 100 * MS);
        assert!(watch.take(100 * MS));
        assert!(!watch.take(109 * MS));
        assert!(watch.take(113 * MS), "late");
        assert_eq!(
            (watch.due_ns(), watch.lost()),
            (120 * MS, 0),
            "no delay adds up"
        );
        assert!(watch.take(145 * MS));
        assert_eq!((watch.due_ns(), watch.lost()), (150 * MS, 2));
        watch.lose();
        assert_eq!(watch.lost(), 3);
    }
}
