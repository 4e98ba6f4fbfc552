"""A transparent TCP splitter: ``wavebed-edge splitter`` on the edge host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.remedy.model import EDGE, Remedy
from wavebed.remedy.program import edge_program

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.remedy.program import RunningProgram

__all__ = ["Splitter", "SplitterOptions"]

_DRAIN = "1s"
"""Workloads have ended before: connections that are left wait for nothing."""


class SplitterOptions(Struct, frozen=True, kw_only=True):
    """Its keys: a part of those of ``wavebed-edge splitter``."""

    down: Annotated[
        str | None,
        Key(values.text, "congestion control towards the client", write="NAME", absent="that of the host"),
    ] = None
    up: Annotated[
        str | None,
        Key(values.text, "congestion control towards the server", write="NAME", absent="that of the host"),
    ] = None
    down_min_rto_s: Annotated[
        float | None,
        Key(
            values.seconds(0.002, 10.0),
            "shortest retransmission timeout towards the client, in whole ticks of the kernel (Linux 6.15 or later)",
            absent="that of the kernel, 200 ms",
        ),
    ] = None
    up_min_rto_s: Annotated[
        float | None,
        Key(values.seconds(0.002, 10.0), "the same towards the server", absent="that of the kernel, 200 ms"),
    ] = None
    copy: Annotated[
        Literal["splice", "read-write"],
        Key(values.word("splice", "read-write"), "how bytes are copied from one connection to the other"),
    ] = "splice"
    window_s: Annotated[
        float | None,
        Key(
            values.seconds(0.001, 10.0),
            "time that data may wait at the edge for the radio; the window towards the server follows the radio's rate",
            absent="no limit beyond the buffers",
        ),
    ] = None


class Splitter(Remedy[SplitterOptions]):
    """Each TCP connection is two, one on each side of the edge."""

    kind = "splitter"
    summary = "Splits forwarded TCP connections in two, so that losses of the radio are repaired over the radio only."
    options_type = SplitterOptions
    hosts = ("edge",)
    programs = (EDGE, "ip", "nft")

    def start(self, lab: Lab, host: str, log: Path) -> RunningProgram:
        """Start it; it installs its packet rules before it says that it listens."""
        program = edge_program(lab.host(host), self.arguments(), log)
        program.wait_for_line(lambda line: line.startswith("listening "))
        return program

    def arguments(self) -> list[str]:
        """Return the arguments of ``wavebed-edge``."""
        options = self.options
        settings = {
            "rules": "true",
            "drain": _DRAIN,
            "copy": options.copy,
            "client-congestion-control": options.down,
            "server-congestion-control": options.up,
            "client-min-rto": _time(options.down_min_rto_s),
            "server-min-rto": _time(options.up_min_rto_s),
            "window-queue": _time(options.window_s),
        }
        sets = [f"{key}={value}" for key, value in settings.items() if value is not None]
        return ["splitter", *(part for each in sets for part in ("--set", each))]


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else f"{round(seconds * 1e6)}us"
