"""The state of a laboratory when its trial was stopped: links, queues, and the connections of its hosts."""

from __future__ import annotations

import gzip
import subprocess
from typing import TYPE_CHECKING, Any, cast

import msgspec

from wavebed.errors import UserError, WavebedError
from wavebed.foreign import read_bytes
from wavebed.prepared import prepared
from wavebed.printable import printable
from wavebed.result.names import INCOMPLETE
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
else:
    Json = Any  # what msgspec takes for any JSON value

STATE_FILE = "state.json"
"""In the raw outputs of a trial that was stopped."""
_SS_S = 10.0
_MOST_LINES = 24
"""Of the connections of a host."""


class State(msgspec.Struct, frozen=True):
    """The content of the file.

    Parameters
    ----------
    links : list
        The links of `wavebed.path.control.LabState`.
    links_s, connections_s : float
        When each was taken, seconds since time zero.
    connections : dict
        What ``ss -tin`` printed on each host.
    """

    links: list[dict[str, Json]]
    links_s: float
    connections: dict[str, str]
    connections_s: float

    def lines(self, at_s: float) -> Iterator[str]:
        """Yield it for people, of a trial that was stopped at `at_s`."""
        head = ("link", "queue", "rate", "delay", "loss", "state")
        yield f"links {_later(self.links_s - at_s)}:"
        yield table_text([head, *(_row(link) for link in self.links)])
        yield f"connections {_later(self.connections_s - at_s)}:"
        for host, text in self.connections.items():
            lines = printable(text, keep="\n\t").expandtabs(2).splitlines()
            yield f"{host}:" if lines else f"{host}: none"
            yield from (f"  {line}" for line in lines[:_MOST_LINES])
            if len(lines) > _MOST_LINES:
                yield f"  and {len(lines) - _MOST_LINES} more lines"


def state_of(lab: Lab) -> bytes:
    """Return the content of the file: links first, since a program that prints connections takes time."""
    shown = cast("dict[str, Any]", lab.show())
    connections = {}
    for host in shown["hosts"]:
        try:
            done = lab.host(host["name"]).run(["ss", "-tinH"], capture_output=True, timeout=_SS_S)
            connections[host["name"]] = done.stdout or done.stderr
        except (WavebedError, subprocess.SubprocessError) as error:
            connections[host["name"]] = str(error)
    return msgspec.json.encode(State(shown["links"], shown["now_ns"] / 1e9, connections, lab.clock.now_s()))


def read_state(file: Path) -> State:
    """Return the state in a compressed file.

    Raises
    ------
    UserError
        If it is missing or damaged.
    """
    try:
        return msgspec.json.decode(gzip.decompress(read_bytes(file, INCOMPLETE)), type=prepared(State))
    except (msgspec.MsgspecError, OSError, EOFError) as error:
        raise UserError(f"{file}: is not as documented ({error}): {INCOMPLETE}") from None


def _later(seconds: float) -> str:
    return f"{max(seconds, 0.0) * 1e3:.3f} ms later"


def _row(link: dict[str, Any]) -> tuple[str, ...]:
    rate, delay, loss = link.get("rate_bps"), link.get("delay_ns"), link.get("loss")
    size = link.get("queued_bytes") or 0
    queue = f"{link.get('queued_segments') or 0} packets, {size} B"
    if rate and size:
        queue += f", {size * 8e3 / rate:.1f} ms"
    state = link.get("state") or ("outage" if rate == 0 else "")
    sinr = link.get("sinr_db")
    return (
        str(link.get("name")),
        queue,
        "" if rate is None else f"{rate / 1e6:g} Mbit/s",
        "" if delay is None else f"{delay / 1e6:g} ms",
        "" if loss is None else f"{100 * loss:g} %",
        state if sinr is None else f"{state} {sinr:.1f} dB".strip(),
    )
