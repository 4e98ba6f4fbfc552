"""HAProxy as a transparent TCP splitter on the edge host, beside which ``splitter`` is measured."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.tools import find
from wavebed.remedy.detour import ends_of
from wavebed.remedy.model import Remedy, RunningRemedy
from wavebed.remedy.program import RunningProgram, said_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Lab

__all__ = ["Haproxy", "HaproxyOptions", "haproxy_configuration"]

PORT = 2859
_MARK = "0x2b59"
_TABLE = 2859
_NFT = "wavebed_haproxy"
_FAMILIES = ("-4", "-6")
_LOOK_S = 0.02
_CONTROL = re.compile(r" congctl (?:lock )?[a-z0-9_-]+")
_RULES = f"""table inet {_NFT} {{
  chain divert {{
    type filter hook prerouting priority mangle; policy accept;
    meta l4proto {{ tcp, icmp, icmpv6 }} socket transparent 1 socket wildcard 0 meta mark set {_MARK} accept
    meta l4proto != tcp accept
    fib daddr type != unicast accept
    meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{PORT} meta mark set {_MARK} accept
    meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{PORT} meta mark set {_MARK} accept
  }}
}}
"""
"""A connection to the edge itself is not split; nor is one that it makes."""


class HaproxyOptions(Struct, frozen=True, kw_only=True):
    """Its keys."""

    down: Annotated[
        str | None,
        Key(values.name, "congestion control towards the client", write="NAME", absent="that of the host"),
    ] = None
    up: Annotated[
        str | None,
        Key(values.name, "congestion control towards the server", write="NAME", absent="that of the host"),
    ] = None
    splice: Annotated[
        bool, Key(values.boolean, "`option splice-auto`: copy in the kernel where HAProxy thinks best")
    ] = True


class Haproxy(Remedy[HaproxyOptions]):
    """Each TCP connection is two, by HAProxy in transparent mode."""

    kind = "haproxy"
    summary = "Splits forwarded TCP connections in two as `splitter` does, by a transparent HAProxy: for comparison."
    options_type = HaproxyOptions
    hosts = ("edge",)
    programs = ("haproxy", "ip", "nft")

    def start(self, lab: Lab, host: str, log: Path) -> RunningHaproxy:
        """Start it, and lead forwarded TCP connections to it."""
        edge = lab.host(host)
        config = log.with_suffix(".cfg")
        config.write_text(haproxy_configuration(splice=self.options.splice))
        argv = [find("haproxy"), "-db", "-f", str(config)]
        running = RunningHaproxy(RunningProgram("haproxy", edge, argv, log, ended=-signal.SIGTERM))
        try:
            running.listen()
            for control, other in ((self.options.down, "client"), (self.options.up, "server")):
                if control is not None:
                    running.set_congestion_control(_device_to(lab, host, other), control)
            running.intercept()
        except BaseException:
            running.stop()
            raise
        return running


def haproxy_configuration(*, splice: bool) -> str:
    """Return its configuration: one thread, as other remedies have."""
    return f"""global
  nbthread 1
defaults
  mode tcp
  timeout connect 30s
  timeout client 1h
  timeout server 1h
{"  option splice-auto" if splice else "  no option splice-auto"}
listen split
  bind 127.0.0.1:{PORT} transparent
  bind [::1]:{PORT} transparent
  source 0.0.0.0 usesrc clientip
  server origin *
"""


def _device_to(lab: Lab, host: str, other: str) -> str:
    return next(end.device for end in ends_of(lab, host, other) if end.host.name == host)


class RunningHaproxy(RunningRemedy):
    """A running HAProxy, and the routes and packet rules that belong to it.

    Parameters
    ----------
    program : RunningProgram
        HAProxy.
    """

    def __init__(self, program: RunningProgram) -> None:
        self._program = program
        self._host = program.host
        self._undo: list[tuple[Sequence[str], str]] = []

    def listen(self) -> None:
        """Wait until it listens.

        Raises
        ------
        WavebedError
            If it ends first, or does not.
        """
        self._program.wait_until(self._listens)

    def _listens(self) -> bool:
        try:
            self._host.wait_for_port(PORT, _LOOK_S)
        except TimeoutError:
            return False
        return True

    def set_congestion_control(self, device: str, name: str) -> None:
        """Give the routes by a device a congestion control; HAProxy 2.6 has no option for it.

        Raises
        ------
        WavebedError
            If there is no such congestion control.
        """
        for family in _FAMILIES:
            shown = said_on(self._host, [find("ip"), family, "route", "show", "dev", device])
            lines = [line.strip() for line in shown.splitlines() if line.strip() and "proto kernel" not in line]
            before = [f"{line} dev {device}" for line in lines]
            after = [f"{_CONTROL.sub('', line)} congctl {name}" for line in before]
            self._do([find("ip"), family, "-batch", "-"], _changes(after), _changes(before))

    def intercept(self) -> None:
        """Lead forwarded TCP connections to it, and the packets of its connections that have the client's address.

        Raises
        ------
        WavebedError
            If a rule is refused.
        """
        for family in _FAMILIES:
            what = (
                f"rule {{}} fwmark {_MARK} lookup {_TABLE} priority {_TABLE}",
                f"route {{}} local default dev lo table {_TABLE}",
            )
            add, remove = ("".join(f"{line.format(verb)}\n" for line in what) for verb in ("add", "del"))
            self._do([find("ip"), family, "-batch", "-"], add, remove)
        self._do([find("nft"), "-f", "-"], _RULES, f"delete table inet {_NFT}\n")

    def _do(self, argv: Sequence[str], given: str, undo: str) -> None:
        if given:
            said_on(self._host, argv, given)
            self._undo.append((argv, undo))

    def stop(self) -> str:
        """Remove the rules, put the routes back and end it."""
        said = []
        while self._undo:
            argv, given = self._undo.pop()
            try:
                said_on(self._host, argv, given)
            except WavebedError as error:
                said.append(str(error))
        return "; ".join(line for line in (*said, self._program.stop()) if line)


def _changes(routes: Sequence[str]) -> str:
    return "".join(f"route change {route}\n" for route in routes)
