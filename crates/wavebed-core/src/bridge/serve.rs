//! The requests of connections to a bridge.

use serde_json::{Value, json};
use wavebed_os::clock;

use super::{Bridge, End, State};
use crate::control::{self, Connection, ControlRequest};
use crate::engine::Request;
use crate::limits;
use crate::watch::Watch;

impl Bridge {
    pub(super) fn hear_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        for request in connection.receive() {
            self.serve(id, request);
        }
        if self.connections.get(&id).is_none_or(Connection::is_closed) {
            self.connections.remove(&id);
        }
    }

    fn serve(&mut self, id: u64, request: Result<ControlRequest, String>) {
        let answer = match request {
            Ok(ControlRequest::Show) => self.show(),
            Ok(ControlRequest::Set { link, setting }) => self
                .ask(&Request::Set { link, setting })
                .map(|_| json!({"ok": true})),
            Ok(ControlRequest::Timeline(action)) => self
                .ask(&Request::Timeline(action))
                .map(|state| json!({"ok": true, "timeline": state})),
            Ok(ControlRequest::Begin) => self.ask(&Request::Begin),
            Ok(ControlRequest::Watch { every_ms }) => self.watch(id, every_ms),
            Ok(ControlRequest::Maps) => Ok(json!({"maps": []})),
            Ok(
                ControlRequest::Run { .. }
                | ControlRequest::Kill { .. }
                | ControlRequest::Ports { .. }
                | ControlRequest::Undelivered,
            ) => Err("a bridge has no programs".to_owned()),
            Ok(ControlRequest::Rebind) => Err(
                "a bridge has no server, which would see other ports: write it to a laboratory"
                    .to_owned(),
            ),
            Ok(ControlRequest::Stop) => {
                self.end.get_or_insert(End {
                    status: 0,
                    asked_by: Some(id),
                });
                return;
            }
            Err(line) => Err(line),
        };
        let answer = answer.unwrap_or_else(|line| json!({"error": line}));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(&answer);
        }
    }

    /// Lets samples follow the answer, which has the names of their columns.
    fn watch(&mut self, id: u64, every_ms: u64) -> Result<Value, String> {
        let mut head = self.ask(&Request::Head)?;
        head["every_ms"] = every_ms.into();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.start_watch(Watch::new(every_ms, clock::monotonic_ns()));
        }
        Ok(json!({"watching": head}))
    }

    /// Sends the samples that are due. An engine that hangs is killed, as by the heartbeat.
    pub(super) fn send_samples(&mut self) {
        let (engine, state) = (&mut self.engine, &self.state);
        control::send_samples(&mut self.connections, || {
            matches!(state, State::Shaping(_))
                .then(|| engine.ask_within(&Request::Sample, limits::HEARTBEAT).ok())?
        });
    }

    fn ask(&mut self, request: &Request) -> Result<Value, String> {
        match self.state {
            State::Shaping(_) => self.engine.ask(request),
            State::Unshaped(_) => {
                Err("the link engine has ended: frames pass without the links".to_owned())
            }
            State::Closed => Err("the link engine has ended".to_owned()),
        }
    }

    fn show(&mut self) -> Result<Value, String> {
        let (mut value, state) = if let State::Unshaped(unshaped) = &self.state {
            let frames = unshaped.accounts();
            (json!({"links": [], "frames": frames}), "unshaped")
        } else {
            (self.ask(&Request::Show)?, "shaping")
        };
        value["name"] = self.file.name.clone().into();
        value["state"] = state.into();
        value["ports"] = json!({"a": self.file.a, "b": self.file.b});
        value["hosts"] = json!([]);
        value["hops"] = self
            .file
            .all_hops()
            .map(|hop| json!({"name": hop.name, "kind": hop.kind.name()}))
            .collect();
        Ok(value)
    }
}
