"""The workloads of the devices of a cell: one of each ``[[workload]]`` for each of its devices."""

from __future__ import annotations

import copy
import resource
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from wavebed.config.problems import Problem, one_of
from wavebed.spec.network import group_of
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from wavebed.path.model import CellModel
    from wavebed.spec.network import ModelledUser
    from wavebed.spec.trial import WorkloadSpec
    from wavebed.workload.model import AnyWorkload, Metric


def on_devices(workload: AnyWorkload, cell: CellModel | None) -> list[AnyWorkload]:
    """Return the workloads that a table ``[[workload]]`` describes: with a cell one for each of its devices.

    Raises
    ------
    Problem
        If there is no cell, or no such device in it.
    """
    common = workload.common
    if cell is None:
        if common.device is not None:
            raise Problem("this path has no cell: remove the key, or add a table [[device]]", "device")
        return [workload]
    if common.client != "client":
        if common.device is not None:
            raise Problem(f'the client is the {common.client} already: remove client = "{common.client}"', "device")
        return [workload]
    names = device_names(common.device, cell)
    if cell.is_of_client:
        return [workload]
    found = []
    for name in names:
        one = copy.copy(workload)  # with the same options: content is made once for all
        one.common = replace(common, device=name, name=f"{name}.{common.name}")
        found.append(one)
    return found


def groups_known(
    names: Sequence[str], workloads: Sequence[AnyWorkload], background: Sequence[ModelledUser] = ()
) -> dict[str, list[Metric]]:
    """Return the metrics, without values, of these devices, of the modelled users and of their groups, by name."""
    if not names:
        return {}
    from wavebed.result.devices import known_device_metrics, of_groups  # few paths have a cell

    of_workloads = {each.name: each.known_metrics() for each in workloads}
    return known_device_metrics(names, background) | of_groups(of_workloads, names)


def check_names(cell: CellModel | None, workloads: Sequence[AnyWorkload]) -> None:
    """Check that results of devices, groups and workloads have different names.

    Raises
    ------
    Problem
        If two of them have one name.
    """
    if cell is None:
        return
    from wavebed.result.devices import CELL

    taken = {each.name for each in cell.devices} | {each.group for each in cell.devices}
    for name in (PATH_WORKLOAD, CELL):
        if name in taken:
            raise Problem(f"{name!r} has the figures of the {name}: name the device otherwise", "device")
    users = {user.name for user in (*cell.down_background, *cell.up_background)}
    for name in (*users, *map(group_of, users)):
        if name in (*taken, PATH_WORKLOAD, CELL):
            raise Problem(f"{name!r} has the figures of something else: choose another name", "cell.background")
    taken |= users | set(map(group_of, users))
    for each in workloads:
        if each.name in (*taken, CELL):
            raise Problem(f"{each.name!r} has the figures of devices: choose another", f"workload.{each.name}.name")


def device_names(name: object, cell: CellModel) -> list[str]:
    """Return the devices that a name means; ``None``: the first device.

    Raises
    ------
    Problem
        If there is none.
    """
    if name is None:
        return [cell.devices[0].name]
    chosen = [] if not isinstance(name, str) else [each.name for each in cell.named(name)]
    if not chosen:
        known = dict.fromkeys(known for each in cell.devices for known in (each.group, each.name))
        raise Problem(f"{name!r} is no device of the cell: {one_of(name, known)}", "device")
    return chosen


def with_own_predecessors(workloads: Sequence[AnyWorkload]) -> None:
    """Let a workload of a device follow the same device's workload, if `after` names no device."""
    names = {each.name for each in workloads}
    for each in workloads:
        common = each.common
        own = f"{common.device}.{common.after}"
        if common.device is not None and common.after is not None and own in names:
            each.common = replace(common, after=own)


def share_options(workloads: Sequence[AnyWorkload], specs: Sequence[WorkloadSpec]) -> None:
    """Let equal workloads of several devices have the same options, so that their content is made once."""
    first: dict[bytes, AnyWorkload] = {}
    for workload, spec in zip(workloads, specs, strict=True):
        if workload.common.device is not None:
            key = msgspec.json.encode([spec.kind, spec.server, spec.options])
            workload.options = first.setdefault(key, workload).options


_FILES, _FILES_EACH = 1024, 20
"""Descriptors of a trial, and of a workload: a connection and two streams for each of its programs, and its files."""


def allow_files(workloads: Sequence[AnyWorkload]) -> None:
    """Let this process and its laboratory have as many open files as the workloads of a cell need."""
    if not any(each.common.device is not None for each in workloads):
        return
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES + _FILES_EACH * len(workloads)
    if allowed >= needed:
        return
    for hard in (max(most, needed), most):  # a user without privileges keeps the hard limit
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
            return


class SharedContent:
    """Makes the content of workloads, once for all devices that share it."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._first: dict[int, AnyWorkload] = {}

    def has(self, workload: AnyWorkload) -> bool:
        """Return whether its content is made already."""
        return id(workload.options) in self._first

    def prepare(self, workload: AnyWorkload) -> None:
        """Make it, or take it from another device's workload.

        Raises
        ------
        WavebedError
            If it cannot be made.
        """
        first = self._first.get(id(workload.options))
        if first is None:
            workload.prepare(self._cache)
            self._first[id(workload.options)] = workload
        else:
            vars(workload).update(vars(first) | {"common": workload.common})


def is_asked(workload: AnyWorkload, only: Collection[str]) -> bool:
    """Return whether a workload has one of these names: ``phone-3.call``, its group's ``phone.call``, or ``call``."""
    return _means(only, workload.name, workload.common.device)


def _means(only: Collection[str], name: str, device: str | None) -> bool:
    if device is None:
        return name in only
    own = name.removeprefix(f"{device}.")
    return any(each in only for each in (name, own, f"{group_of(device)}.{own}"))


def own_name(workload: AnyWorkload) -> str:
    """Return the name of a workload without its device: ``call`` of ``phone-3.call``."""
    common = workload.common
    return common.name if common.device is None else common.name.removeprefix(f"{common.device}.")


def tables_of(
    tables: Sequence[Mapping[str, object]], only: Sequence[str], cell: CellModel | None
) -> list[tuple[str, str | None, Mapping[str, object]]]:
    """Return name, device and table of each workload that is wanted; the device is ``None`` without a cell."""
    found: list[tuple[str, str | None, Mapping[str, object]]] = []
    for table in tables:
        name = str(table.get("name", table["kind"]))
        if cell is None or cell.is_of_client or table.get("client", "client") != "client":
            found.append((name, None, table))
        else:
            found += [(f"{each}.{name}", each, table) for each in device_names(table.get("device"), cell)]
    return [each for each in found if not only or _means(only, each[0], each[1])]
