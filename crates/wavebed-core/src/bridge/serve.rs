//! The requests of connections to a bridge.

use serde_json::{Value, json};

use super::{Bridge, End, State};
use crate::control::{Connection, ControlRequest};
use crate::engine::Request;

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
            Ok(ControlRequest::Begin) => self.ask(&Request::Begin),
            Ok(ControlRequest::Run { .. } | ControlRequest::Kill { .. }) => {
                Err("a bridge has no programs".to_owned())
            }
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
