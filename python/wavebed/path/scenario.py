"""Read a path from a scenario file and from options.

A scenario is a TOML file with a table ``[path]``. Everything is checked here: unknown keys fail with the file, the
key, the rule and the remedy. The result is a `PathModel`, whose values are all valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.config.problems import Problem, at, described, unknown_key
from wavebed.config.table import fields, read_present, read_table
from wavebed.config.values import text as read_text
from wavebed.errors import UserError
from wavebed.foreign import folder_of, read_toml
from wavebed.path.layers import Links
from wavebed.path.model import PathHop, PathHost, PathModel
from wavebed.path.tables import (
    DEFAULT_SYSCTLS,
    DIRECTED,
    HOSTS,
    SECOND_RADIO,
    AirTable,
    EdgeTable,
    HopsTable,
    HopTable,
    HostTable,
    LinkTable,
    PathTable,
    link_key,
)
from wavebed.remedy import kind_of, remedy_of
from wavebed.shipped import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path as FilePath

    from wavebed.path.cell import DeviceHost
    from wavebed.path.model import CellModel
    from wavebed.path.traces import Traces
    from wavebed.remedy import ChosenRemedy

MAX_HOPS = 64
TOP_KEYS = ("title", "source", "lab", "path", "cell", "device", "run", "workload", "treatment")


def read_path(
    scenario: FilePath | None, options: Mapping[str, object], traces: Traces, *, has_real_devices: bool = False
) -> PathModel:
    """Return the path of a scenario with options laid above it.

    Parameters
    ----------
    scenario : pathlib.Path or None
        A scenario file, or the name of a shipped one; without one the path is a single radio hop.
    options : mapping
        Values by key, as typed, for the radio hop (or the last one) and the whole path.
    traces : Traces
        Reads the patterns that the path names.
    has_real_devices : bool
        Whether the devices of a cell are real, behind a bridge: they have addresses then.

    Raises
    ------
    UserError
        If the file or an option is wrong.
    """
    file = None if scenario is None else find(scenario, "scenario")
    document = {"path": {}} if file is None else read_document(file)
    return read_path_of(document, file, options, traces, has_real_devices=has_real_devices)


def read_path_of(
    document: Mapping[str, object],
    scenario: FilePath | None,
    options: Mapping[str, object],
    traces: Traces,
    *,
    has_real_devices: bool = False,
) -> PathModel:
    """Return the path of a scenario that was read before, with options laid above it.

    Parameters
    ----------
    document : mapping
        The result of `read_document`, perhaps changed since.
    scenario : pathlib.Path or None
        The file that it is from: names of files are relative to its folder, and messages name it.
    options, traces, has_real_devices
        As in `read_path`.

    Raises
    ------
    UserError
        If the path or an option is wrong.
    """
    base, file = (None, "") if scenario is None else (folder_of(scenario), str(scenario))
    try:
        return _Reader(document, options, base, file, traces, has_real_devices=has_real_devices).read()
    except Problem as problem:
        raise UserError(str(problem)) from None


def read_document(file: FilePath) -> dict[str, object]:
    """Return a scenario as TOML gives it; its top keys are checked, and that it has a path.

    Raises
    ------
    UserError
        If it cannot be read or is not a scenario.
    """
    return checked_document(read_toml(file, "name a scenario file"), file)


def checked_document(document: dict[str, object], file: FilePath) -> dict[str, object]:
    """Return a scenario's document after a check of its top keys; `file` is its name in messages.

    Raises
    ------
    UserError
        If a top key is wrong, or there is no path.
    """
    try:
        _check_top(document)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None
    return document


def _check_top(document: Mapping[str, object]) -> None:
    for key in document:
        if key not in TOP_KEYS:
            raise unknown_key(key, TOP_KEYS)
    for key in ("title", "source"):
        if key in document:
            at(key, read_text, document[key])
    if "path" not in document:
        raise Problem("is missing: add a table [path]", "path")
    if not isinstance(document["path"], dict):
        raise Problem(f"{described(document['path'])} is not a table: write [path] on a line of its own", "path")


def _target(hops: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return the hop to which options go: the last one with a radio, or the last one."""
    return [*hops, *(hop for hop in hops if hop.get("kind") == "radio")][-1]


class _Reader:
    """One reading; the places in its messages start with the file or with ``--``."""

    def __init__(
        self,
        document: Mapping[str, object],
        options: Mapping[str, object],
        base: FilePath | None,
        file: str,
        traces: Traces,
        *,
        has_real_devices: bool,
    ) -> None:
        self.document = document
        self.given = cast("Mapping[str, object]", document["path"])
        self.options = options
        self.base = base
        self.file = file
        self.traces = traces
        self.has_real_devices = has_real_devices

    def place(self, *keys: str) -> str:
        """Return how messages name a key of ``[path]``."""
        return f"{self.file}: {'.'.join(('path', *keys))}"

    def read(self) -> PathModel:
        self._check_keys()
        table = read_present(
            PathTable,
            {**self.given, **self.options},
            lambda key: f"--{key}" if key in self.options else self.place(key),
        )
        if table.names == "beside" and not table.nat:
            place = "--names" if "names" in self.options else self.place("names")
            raise Problem("hosts without nat have no resolver: add nat, or leave it out", place)
        if table.rebind_at_ns and table.nat:
            place = "--rebind-at" if "rebind-at" in self.options else self.place("rebind-at")
            raise Problem("cannot be used with nat: remove one of them", place)
        hops, cell, of_devices = self._hops(table)
        edge_after = self._edge_after([hop.name for hop in hops] + ([] if cell is None else [cell.name]))
        hosts = tuple(self._host(name, table) for name in HOSTS if name != "edge" or edge_after is not None)
        self._check_peers(hosts, nat=table.nat)
        if cell is not None:
            devices = [self._device(device.name, of_devices[device.name], hosts[-1], table) for device in cell.devices]
            if not cell.is_of_client:
                self._check_ends(hosts, devices, of_devices)
            hosts = (*hosts[:-1], *devices)
        return PathModel(
            hosts=hosts,
            hops=hops,
            edge_after=edge_after,
            coalesce=table.coalesce,
            seed=table.seed,
            mtu=table.mtu,
            nat=table.nat,
            outside_sockets=None if table.outside_sockets is None else table.outside_sockets == "open",
            packet_memory_bytes=table.packet_memory_bytes,
            packet_log=table.packet_log,
            names=table.names,
            rebind_at_ns=table.rebind_at_ns,
            second_radio=self._second_radio(table, hops),
            cell=cell,
        )

    def _check_keys(self) -> None:
        known = (*fields(PathTable), *fields(LinkTable), *fields(AirTable), *fields(HopsTable), *HOSTS)
        for key in self.given:
            if key not in known and link_key(key) is None:
                raise unknown_key(key, known, DIRECTED).below(self.place())

    def _hops(self, path: PathTable) -> tuple[tuple[PathHop, ...], CellModel | None, Mapping[str, DeviceHost]]:
        """Return the hops; where the last one is a cell the hops before it, the cell and the hosts of its devices."""
        if "hop" not in self.given:
            links = Links()
            links.lay(self.given, self.place, self.base)
            sketches = [("radio", "radio", links)]
        else:
            sketches = self._sketches()
        cell, of_devices = None, cast("Mapping[str, DeviceHost]", {})
        if "cell" in self.document or "device" in self.document:
            cell, of_devices = self._cell(sketches, path)
            sketches = sketches[:-1]
        else:
            radio = [links for _, kind, links in sketches if kind == "radio"]
            target = (radio or [sketches[-1][2]])[-1]
            target.lay(self.options, lambda key: f"--{key}")
        hops = []
        for name, kind, links in sketches:
            down, up = links.build(self.traces, path.mtu)
            hops.append(PathHop(name, kind, down, up))
        return tuple(hops), cell, of_devices

    def _cell(
        self, sketches: Sequence[tuple[str, str, Links]], path: PathTable
    ) -> tuple[CellModel, Mapping[str, DeviceHost]]:
        from wavebed.path.cell import CellSource, read_cell  # most paths have none

        name, kind, links = sketches[-1]
        if kind != "radio":
            place = self.place(f"hop[{len(sketches)}]", "kind")
            raise Problem("the devices of a cell are behind the last hop: make that one radio", place)
        for given, place in (
            (SECOND_RADIO in self.given, self.place(SECOND_RADIO)),
            (path.nat, "--nat" if "nat" in self.options else self.place("nat")),
            (path.rebind_at_ns, "--rebind-at" if "rebind-at" in self.options else self.place("rebind-at")),
        ):
            if given:
                raise Problem("is of a single client: remove it, or [cell] and [[device]]", place)
        source = CellSource(
            self.document.get("cell"),
            self.document.get("device"),
            self.file,
            self.base,
            {key: value for key, value in self.options.items() if key not in fields(PathTable)},
            self.traces,
            path.mtu,
            self.has_real_devices,
        )
        return read_cell(name, links, source)

    def _device(self, name: str, given: DeviceHost, client: PathHost, path: PathTable) -> PathHost:
        """Return the host of a device: what it says itself stands above ``[path.client]``."""
        own = None if "congestion-control" in self.options else given.given.congestion_control
        remedies = given.given.remedy if "remedy" in given.keys else client.remedies
        self._check_remedies("client", given.given.remedy, f"{given.place}.remedy")
        sysctls = {**client.sysctls, **given.given.sysctl}
        return PathHost(name, own or client.congestion_control or path.congestion_control, sysctls, remedies)

    def _check_ends(
        self, hosts: Sequence[PathHost], devices: Sequence[PathHost], of_devices: Mapping[str, DeviceHost]
    ) -> None:
        """Check that no remedy of two ends has a device at an end: it would take the routes to all of them."""
        rule = "carries all traffic of a single client: put its ends on server and edge"
        for host in hosts[:-1]:
            for chosen in host.remedies:
                if remedy_of(chosen.kind, chosen.options).peer == "client":
                    raise Problem(f"{chosen.kind} {rule}", self.place(host.name, f"remedy.{chosen.kind}.peer"))
        for device in devices:
            for chosen in device.remedies:
                if remedy_of(chosen.kind, chosen.options).peer is not None:
                    raise Problem(f"{chosen.kind} {rule}", f"{of_devices[device.name].place}.remedy")

    def _sketches(self) -> list[tuple[str, str, Links]]:
        tables = self.given["hop"]
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise Problem("is not an array of tables: write [[path.hop]] above each one", self.place("hop"))
        if not 1 <= len(tables) <= MAX_HOPS:
            raise Problem(f"there are {len(tables)}: write 1 to {MAX_HOPS}", self.place("hop"))
        for key in self.given:
            if link_key(key) is not None or key in fields(AirTable):
                hop = _target(tables).get("name", "NAME")
                rule = "belongs to a hop when there are [[path.hop]]"
                raise Problem(f"{rule}: move it there, or write path.hop.{hop}.{key}", self.place(key))
        sketches: list[tuple[str, str, Links]] = []
        for index, table in enumerate(tables, 1):
            sketches.append(self._sketch(index, table, [name for name, _, _ in sketches]))
        return sketches

    def _sketch(self, index: int, table: Mapping[str, object], taken: list[str]) -> tuple[str, str, Links]:
        where = f"hop[{index}]"
        keys = fields(HopTable)
        own = {key: value for key, value in table.items() if key in keys}
        known = (*keys, *fields(LinkTable), *fields(AirTable))
        for key in table:
            if key not in known and link_key(key) is None:
                raise unknown_key(key, known, DIRECTED).below(self.place(where))
        hop = at(self.place(where), lambda given: read_table(HopTable, given, "[[path.hop]]"), own)
        if hop.name in taken:
            raise Problem(f"{hop.name!r} is taken by another hop: choose another", self.place(where, "name"))
        links = Links()
        links.lay(table, lambda key: self.place(where, key), self.base)
        return hop.name, hop.kind, links

    def _second_radio(self, path: PathTable, hops: tuple[PathHop, ...]) -> PathHop | None:
        if SECOND_RADIO not in self.given:
            return None
        table, where = self.given[SECOND_RADIO], self.place(SECOND_RADIO)
        if not isinstance(table, dict):
            raise Problem(f"{described(table)} is not a table: write [path.{SECOND_RADIO}]", where)
        if path.nat:
            raise Problem("cannot be used with nat: remove one of them", where)
        if SECOND_RADIO in [hop.name for hop in hops]:
            raise Problem("is the name of a hop too: choose another for that one", where)
        known = (*fields(LinkTable), *fields(AirTable))
        for key in table:
            if key not in known and link_key(key) is None:
                raise unknown_key(key, known, DIRECTED).below(where)
        links = Links()
        links.lay(table, lambda key: self.place(SECOND_RADIO, key), self.base)
        down, up = links.build(self.traces, path.mtu)
        return PathHop(SECOND_RADIO, "radio", down, up)

    def _edge_after(self, names: list[str]) -> int | None:
        if "edge" not in self.given:
            return None
        edge = self.given["edge"]
        if not isinstance(edge, dict):
            raise Problem(f"{described(edge)} is not a table: write [path.edge]", self.place("edge"))
        if "after" not in edge:
            raise Problem("is missing: name the hop that leads to the edge", self.place("edge", "after"))
        after = edge["after"]
        if len(names) < 2:
            raise Problem("an edge needs a hop on each side: add [[path.hop]]", self.place("edge"))
        if after not in names[:-1]:
            raise Problem(
                f"{described(after)} is no hop with another after it: write one of {', '.join(names[:-1])}",
                self.place("edge", "after"),
            )
        return names.index(cast("str", after)) + 1

    def _host(self, name: str, path: PathTable) -> PathHost:
        given = self.given.get(name, {})
        model = EdgeTable if name == "edge" else HostTable
        table = at(self.place(name), lambda host: read_table(model, host, f"[path.{name}]"), given)
        if path.nat and name == "server":
            if given:
                raise Problem("with nat the server is this machine and has no keys: remove them", self.place(name))
            return PathHost(name)
        own = None if "congestion-control" in self.options else table.congestion_control
        self._check_remedies(name, table.remedy, self.place(name, "remedy"))
        return PathHost(name, own or path.congestion_control, DEFAULT_SYSCTLS | table.sysctl, table.remedy)

    def _check_remedies(self, host: str, remedies: tuple[ChosenRemedy, ...], place: str) -> None:
        for chosen in remedies:
            possible = kind_of(chosen.kind).hosts
            if host not in possible:
                where = " or ".join(f"[path.{each}]" for each in possible)
                raise Problem(f"{chosen.kind!r} is no remedy of this host: write it in {where}", place)

    def _check_peers(self, hosts: Sequence[PathHost], *, nat: bool) -> None:
        """Check that remedies with two ends have them, and that no two carry the same traffic."""
        names = [host.name for host in hosts]
        spans: list[tuple[int, int]] = []
        for host in hosts:
            for chosen in host.remedies:
                peer = remedy_of(chosen.kind, chosen.options).peer
                if peer is None:
                    continue
                place = self.place(host.name, f"remedy.{chosen.kind}.peer")
                if peer not in names or peer == host.name:
                    others = " or ".join(name for name in names if name != host.name)
                    raise Problem(f"{peer!r} is not another host of this path: write {others}", place)
                if nat and peer == "server":
                    raise Problem("with nat the server is this machine and has no remedies: choose another", place)
                start, end = sorted((names.index(host.name), names.index(peer)))
                if any(start < other_end and other_start < end for other_start, other_end in spans):
                    raise Problem("another remedy carries this traffic already: leave one out", place)
                spans.append((start, end))
