"""The option ``--cpu``: where to look at the device's processor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from wavebed.config.problems import Problem, described
from wavebed.secret import Secret, redacted

if TYPE_CHECKING:
    from collections.abc import Collection

    from wavebed.forward.cpu.model import CpuMeter

__all__ = ["CpuSource", "open_meter", "parse_source"]

_EXAMPLES = "local, ssh://root@192.168.1.1, snmp://public@192.168.1.1 or http://192.168.1.1:9100/metrics"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")


class CpuSource(NamedTuple):
    """The source of the processor's load; `address` is that of a page, `community` that of SNMP."""

    kind: Literal["local", "ssh", "snmp", "http"]
    host: str = ""
    port: int | None = None
    user: str | None = None
    address: str = ""
    community: Secret | None = None


def parse_source(text: str) -> CpuSource:
    """Read the option.

    Raises
    ------
    Problem
        If it names no place.
    """
    if text == "local":
        return CpuSource("local")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Problem(f"{described(redacted(text))} is not an address: write {_EXAMPLES}") from None
    if parts.scheme not in {"ssh", "snmp", "http", "https"}:
        raise Problem(f"{described(redacted(text))} is not a place to look at a processor: write {_EXAMPLES}")
    if not _NAME.fullmatch(host):
        raise Problem(f"{described(redacted(text))} names no host: write {_EXAMPLES}")
    if parts.scheme in {"http", "https"}:
        if parts.username is not None or parts.password is not None:
            raise Problem(
                f"{described(redacted(text))}: a page with a password cannot be read: let the tester in without one"
            )
        return CpuSource("http", host, port, address=text if parts.path else f"{text}/metrics")
    _nothing_more(text, parts)
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "ssh":
        if user is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", user):
            raise Problem(f"{described(user)} is not the name of a user: write ssh://root@192.168.1.1")
        return CpuSource("ssh", host, port, user)
    if user is None or not re.fullmatch(r"[!-~]+", user) or set(user) & set("\"'#\\"):
        raise Problem(
            f"{described(redacted(text))} has no community: write snmp://COMMUNITY@HOST, without blanks and quotes"
        )
    return CpuSource("snmp", host, port, community=Secret(user))


def _nothing_more(text: str, parts: SplitResult) -> None:
    if parts.password is not None:
        raise Problem(f"{parts.scheme}://…: a password cannot be written here: use a key")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise Problem(f"{described(redacted(text))} has something after the host: write {_EXAMPLES}")


def open_meter(source: CpuSource, cores: Collection[int] | None = None) -> CpuMeter:
    """Make the meter of a source.

    Parameters
    ----------
    cores : collection of int, optional
        For ``local``: the device's processors, when it is on this machine.
    """
    if source.kind == "local":
        from wavebed.forward.cpu.local import LocalMeter

        return LocalMeter(cores)
    if source.kind == "ssh":
        from wavebed.forward.cpu.ssh import SshMeter

        return SshMeter(source.host, source.user, source.port)
    if source.kind == "snmp":
        from wavebed.forward.cpu.snmp import SnmpMeter

        assert source.community is not None
        return SnmpMeter(source.community, source.host, source.port)
    from wavebed.forward.cpu.node_exporter import NodeExporterMeter

    return NodeExporterMeter(source.address)
