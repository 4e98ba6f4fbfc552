"""The table ``[lab]`` of a scenario: where the hosts are."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key, fields, read_table
from wavebed.hosts.agent import HostAddress, host_address
from wavebed.spec.trial import GUEST_BYTES, HostsLab, LabSpec, NamespacesLab, Processor, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.path.model import Link, PathModel
    from wavebed.workload.model import AnyWorkload

_LEAST_SLOWER, _MOST_SLOWER = 0.01, 1000


@reader("ADDRESS", {"type": "string"}, str)
def _ipv4(value: object) -> str:
    try:
        return str(ipaddress.IPv4Address(value if isinstance(value, str) else ""))
    except ValueError:
        raise Problem(f'{described(value)} is not an IPv4 address: write one such as "192.0.2.1"') from None


@reader("NUMBER", {"type": "number", "minimum": _LEAST_SLOWER, "maximum": _MOST_SLOWER}, float)
def _slower(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and _LEAST_SLOWER <= value <= _MOST_SLOWER:
        return float(value)
    raise Problem(f"{described(value)} is no number from {_LEAST_SLOWER} to {_MOST_SLOWER}")


@reader("SIZE", values.SIZE_SCHEMA, int)
def guest_bytes(value: object) -> int:
    """Read the memory of a guest, bytes.

    Raises
    ------
    Problem
        If it is no size, or out of range.
    """
    least, most = GUEST_BYTES
    size_bytes = values.size_bytes(value)
    if least <= size_bytes <= most:
        return size_bytes
    raise Problem(f"{described(value)} is no size from {least >> 20}mib to {most >> 20}mib")


class LabTable(Struct, frozen=True, kw_only=True):
    """``[lab]``."""

    backend: Annotated[
        Literal["namespaces", "hosts"],
        Key(
            values.word("namespaces", "hosts"),
            "`namespaces`: hosts and path are emulated on this machine; `hosts`: real hosts and what lies between them",
        ),
    ] = "namespaces"
    time: Annotated[
        Time | None,
        Key(
            values.word("auto", "real", "virtual"),
            "`real`: this machine's time; `virtual`: a guest's, which stands still while programs compute; `auto`:"
            " `virtual` where that is possible",
            absent="`auto` for `check`, `campaign run` and `demo`, else `real`",
        ),
    ] = None
    processor: Annotated[
        Processor | None,
        Key(
            values.word("exact", "infinite", "host"),
            "processor of virtual time. `exact`: computing takes no time, a system call 1 µs; `infinite`: both take no"
            " time; `host`: computing takes that of this machine, so that no two runs are the same",
            absent="`exact`",
        ),
    ] = None
    slower: Annotated[
        float | None,
        Key(
            _slower,
            "how many times slower than this machine the processor `host` is: 4 for a phone, perhaps",
            absent="1",
        ),
    ] = None
    memory_bytes: Annotated[
        int | None,
        Key(
            guest_bytes,
            "most memory of a guest (virtual time); the machine gives what is used. As many guests run at the same time"
            " as its memory allows",
            absent="`2000mib` for bulk, download, latency and voice alone, else `4000mib`; in a cell as much as its"
            " workloads need",
        ),
    ] = None
    server: Annotated[HostAddress | None, Key(host_address, "where the server is (`hosts`)", absent="none")] = None
    client: Annotated[
        HostAddress | None, Key(host_address, "where the client is (`hosts`)", absent="`local`: this machine")
    ] = None
    server_address: Annotated[
        str | None,
        Key(
            _ipv4,
            "the server's address over the network under test (`hosts`), if ssh goes another way",
            absent="that of `server`",
        ),
    ] = None
    expected_rate_bps: Annotated[
        int | None,
        Key(values.rate_bps, "rate of the access (`hosts`), for the estimate of the data volume", absent="no estimate"),
    ] = None
    modem: Annotated[
        Literal["auto", "none", "mmcli", "qmicli", "adb"] | None,
        Key(
            values.word("auto", "none", "mmcli", "qmicli", "adb"),
            "what tells the state of the client's modem each second (`hosts`): ModemManager, QMI, an Android phone",
            absent="`auto`: the first that finds one",
        ),
    ] = None
    data_limit_bytes: Annotated[
        int | None,
        Key(
            values.size_bytes,
            "most that the client's interface may carry in a trial (`hosts`); the trial ends there",
            absent="no limit",
        ),
    ] = None


def read_lab(table: object, path: PathModel, workloads: Sequence[AnyWorkload]) -> tuple[LabSpec, Time | None]:
    """Return where the hosts of a treatment are, and its time as it is asked for.

    Raises
    ------
    Problem
        If a value is wrong, or the path or a workload does not fit real hosts.
    """
    try:
        lab = read_table(LabTable, table, "[lab] on a line of its own")
    except Problem as problem:
        raise problem.below("lab") from None
    if lab.backend == "namespaces":
        return _in_namespaces(lab), lab.time
    for name in ("time", "processor", "slower", "memory"):
        if name in _given(lab) and (name != "time" or lab.time == "virtual"):
            raise Problem('is for emulated hosts: remove it, or backend = "hosts"', f"lab.{name}")
    server, client = lab.server, lab.client or HostAddress()
    if server is None:
        raise Problem('is missing: write "ssh://USER@HOST", or "local"', "lab.server")
    if server.is_local and lab.server_address is None:
        raise Problem('is missing: the server is "local", and the client needs its address', "lab.server-address")
    if server == client:
        raise Problem(f"is the server too, {server}: name another host", "lab.client")
    _check_path(path)
    for workload in workloads:
        if workload.emulated_only:
            raise Problem(f'with backend = "hosts" it lacks {workload.emulated_only}', f"workload.{workload.name}")
    by_route = {host.name: host.congestion_control for host in path.hosts}
    hosts = HostsLab(
        str(server),
        str(client),
        lab.server_address,
        lab.expected_rate_bps,
        lab.data_limit_bytes,
        by_route.get("server"),
        by_route.get("client"),
        lab.modem or "auto",
    )
    return hosts, lab.time


def _given(lab: LabTable) -> list[str]:
    return [name for name, field in fields(LabTable).items() if getattr(lab, field.attribute) is not None]


def _in_namespaces(lab: LabTable) -> NamespacesLab:
    for name in _given(lab):
        if name not in ("backend", "time", "processor", "slower", "memory"):
            raise Problem('is for real hosts: remove it, or write backend = "hosts"', f"lab.{name}")
    if lab.slower is not None and lab.processor != "host":
        raise Problem('is for processor = "host": add that, or remove it', "lab.slower")
    time: Literal["real", "virtual"] = "virtual" if lab.time == "virtual" else "real"
    return NamespacesLab(time, lab.processor or "exact", lab.slower or 1.0, lab.memory_bytes)


def _check_path(path: PathModel) -> None:
    if path.cell is not None:
        raise Problem('real hosts share no emulated cell: remove [cell] and [[device]], or backend = "hosts"', "device")
    if path.edge_after is not None or path.second_radio is not None or path.nat:
        raise Problem("real hosts are server and client: remove edge, second-radio and nat", "path")
    if path.rebind_at_ns:
        raise Problem('is for emulated paths: remove it, or backend = "hosts"', "path.rebind-at")
    if len(path.hops) > 1 or any(_is_emulated(link) for hop in path.hops for link in (hop.down, hop.up)):
        raise Problem('with backend = "hosts" nothing is emulated: remove rates, delays, losses and hops', "path")
    for host in path.hosts:
        if host.remedies:
            raise Problem("is for emulated hosts: run the remedy on the host itself", f"path.{host.name}.remedy")


def _is_emulated(link: Link) -> bool:
    return any(part is not None for part in (link.rate, link.delay, link.loss, link.ue_limit, link.duplicate)) or any(
        part is not None for part in (link.reorder, link.corrupt, link.radio)
    )
