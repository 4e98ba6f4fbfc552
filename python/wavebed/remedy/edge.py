"""Remedies of wavebed-edge: the splitter, the tunnel, and answers to SYN."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from wavebed._core import find_edge
from wavebed.config import values
from wavebed.config.table import Key
from wavebed.errors import MachineError, UserError
from wavebed.remedy.model import (
    EDGE,
    HOSTS,
    Detour,
    Remedy,
    RemedyEnd,
    TwoEnded,
    edge_program,
    ends_of,
    file_of,
    number_to,
    said_on,
    wait_for_device,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Clock, Lab
    from wavebed.remedy.model import RunningProgram


_DRAIN = "1s"
"""Workloads have ended before: connections that are left wait for nothing."""


class SplitterOptions(Struct, frozen=True, kw_only=True):
    """Its keys: a part of the keys of ``wavebed-edge splitter``."""

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


_MOST_NAME = 15
"""Letters of the name of a device (``IFNAMSIZ`` of the kernel)."""
OVERHEAD_BYTES = 75
"""Bytes of a packet of the tunnel beyond those that it carries, over IPv4 (docs/guides/edge.md)."""
LEAST_MTU = 1280
JUDGED_S = 10.0
"""A connection takes a few round trips, after an outage 3 s; a trial that ends earlier is not judged by it."""


class TunnelOptions(Struct, frozen=True, kw_only=True):
    """Its keys: a part of the keys of ``wavebed-edge tunnel``."""

    peer: Annotated[
        Literal["server", "edge", "client"], Key(values.word(*HOSTS), "the host at the other end", write="HOST")
    ]
    law: Annotated[
        Literal["delivery", "autorate"],
        Key(values.word("delivery", "autorate"), "law of the rate: wavebed's own, or that of cake-autorate"),
    ] = "delivery"
    start_rate_bps: Annotated[int, Key(values.rate_bps, "rate of each direction before the first reports")] = 20_000_000
    least_rate_bps: Annotated[int, Key(values.rate_bps, "least rate")] = 500_000
    most_rate_bps: Annotated[int, Key(values.rate_bps, "greatest rate")] = 2_000_000_000
    target_queue_s: Annotated[
        float, Key(values.seconds(0.0, 0.1), "delay of the queue that may stand in a link whose rate varies")
    ] = 0.005


class Tunnel(Remedy[TunnelOptions]):
    """Fair queues with CoDel at both ends, before the radio."""

    kind = "tunnel"
    summary = (
        "Carries all packets between this host and another one at the radio's own rate, with fair queues before it in"
        " both directions."
    )
    options_type = TunnelOptions
    programs = (EDGE, "ip")

    @property
    def peer(self) -> str:
        """The host of its other end."""
        return self.options.peer

    def start(self, lab: Lab, host: str, log: Path) -> TwoEnded:
        """Start both ends, and route the traffic between the hosts into them."""
        near, far = ends_of(lab, host, self.options.peer)
        mtu = min(near.mtu, far.mtu) - OVERHEAD_BYTES
        if mtu < LEAST_MTU:
            least = LEAST_MTU + OVERHEAD_BYTES
            raise UserError(f"tunnel: the path carries too small packets: write path.mtu = {least} or more")
        port = number_to(far.host.name)
        shared: dict[str, Json] = {"at": f"{near.address}:{port}", "mtu": mtu, **self._of_options()}
        running = TwoEnded(lambda programs: _verdict(programs, lab.clock))
        with running.guarded() as undo:
            with _keys(near, far, log) as keys:
                for end in (near, far):
                    running.programs.append(_program(end, shared | keys[end.host.name], log))
                for program, other in zip(running.programs, (far, near), strict=True):
                    wait_for_device(program, _device(other))
            own = (f"from {near.address} ipproto udp sport {port}", f"to {near.address} ipproto udp dport {port}")
            for end, other, packets in ((near, far, own[0]), (far, near, own[1])):
                running.divert(Detour(end, other.host.name, packets), _device(other))
            undo.pop_all()
        return running

    def _of_options(self) -> dict[str, Json]:
        options = self.options
        rates = {"start": options.start_rate_bps, "floor": options.least_rate_bps, "most": options.most_rate_bps}
        return {
            "law": options.law,
            **{f"{name}-mbit": bps / 1e6 for name, bps in rates.items()},
            "target-queue-ms": options.target_queue_s * 1e3,
        }


def _device(other: RemedyEnd) -> str:
    return f"wb-{other.host.name}"[:_MOST_NAME]


@contextmanager
def _keys(near: RemedyEnd, far: RemedyEnd, log: Path) -> Iterator[dict[str, dict[str, Json]]]:
    """Make a key for each end; yield what differs between both configurations. The files are gone afterwards."""
    files = {end.host.name: file_of(log, end.host.name, ".key") for end in (near, far)}
    try:
        public = {
            end.host.name: said_on(end.host, [find_edge(), "tunnel", "key", str(files[end.host.name])]).strip()
            for end in (near, far)
        }
        yield {
            end.host.name: {
                "kind": kind,
                "key": str(files[end.host.name]),
                "peer": public[other.host.name],
                "device": _device(other),
                "address": address,
            }
            for end, other, kind, address in (
                (near, far, "listen", "169.254.77.1/32"),
                (far, near, "connect", "169.254.77.2/32"),
            )
        }
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


def _program(end: RemedyEnd, settings: dict[str, Json], log: Path) -> RunningProgram:
    config = file_of(log, end.host.name, ".toml")
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    arguments = ["tunnel", "--config", str(config), "--state", "1"]
    return edge_program(end.host, arguments, file_of(log, end.host.name, ".log"))


def _verdict(programs: Sequence[RunningProgram], clock: Clock) -> str:
    if clock.now_s() < JUDGED_S:
        return ""
    lost = [each.host.name for each in programs if not any('"connected":true' in line for line in each.lines())]
    return f"tunnel: {' and '.join(lost)} never had a connection" if lost else ""


class SynOptions(Struct, frozen=True, kw_only=True):
    """Its keys; ``wavebed-edge syn`` checks how they go together."""

    interval_s: Annotated[float, Key(values.seconds(0.02, 1.0), "time between two SYNs of a connection, at first")] = (
        0.1
    )
    dense_s: Annotated[float, Key(values.seconds(0.02, 10.0), "for how long; then the time between two doubles")] = 1.0
    answers: Annotated[bool, Key(values.boolean, "also repeat answers to connection requests (SYN-ACK) early")] = False
    method: Annotated[
        Literal["bpf", "sysctl"],
        Key(
            values.word("bpf", "sysctl"),
            "bpf: a program in the kernel, without which the trial is invalid; sysctl: kernel settings alone, which"
            " repeat a SYN each second for half a minute",
        ),
    ] = "bpf"


class Syn(Remedy[SynOptions]):
    """SYNs each 100 ms in the first second."""

    kind = "syn"
    summary = "Repeats connection requests (SYN) of this host early, so that an outage costs its own length."
    options_type = SynOptions

    def start(self, lab: Lab, host: str, log: Path) -> RunningProgram:
        """Start it; with ``bpf`` only if the kernel takes the program."""
        program = edge_program(lab.host(host), self.arguments(), log)
        event = json.loads(program.wait_for_line(_is_started))
        if event["method"] != self.options.method:
            program.stop()
            raise MachineError(f"syn on {host}: the kernel refuses the program: {event['refused']}")
        return program

    def arguments(self) -> list[str]:
        """Return the arguments of ``wavebed-edge``."""
        interval, dense = (f"{round(each * 1e6)}us" for each in (self.options.interval_s, self.options.dense_s))
        further = ["--answers"] * self.options.answers + ["--no-bpf"] * (self.options.method == "sysctl")
        return ["syn", "--json", "--interval", interval, "--dense", dense, *further]


def _is_started(line: str) -> bool:
    return line.startswith('{"event":"started"')
