"""Read the cell of a scenario: ``[cell]``, ``[[cell.background]]`` and ``[[device]]``."""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.problems import Problem, at, described, one_of, unknown_key
from wavebed.config.table import fields, of_values, read_table
from wavebed.path.cell_tables import (
    BACKGROUND_AIR,
    BACKGROUND_RATE,
    CELL_DIRECTED,
    MOST_DEVICES,
    AddressRange,
    BackgroundTable,
    CellDeviceTable,
    CellParts,
    CellTable,
    PowerTable,
    ServiceTable,
    cell_key,
)
from wavebed.path.model import (
    CLIENT,
    BackgroundModel,
    CellModel,
    DeviceModel,
    DrawnStart,
    OpenLoop,
    PatternFile,
    ScenePattern,
)
from wavebed.path.tables import DIRECTED, DIRECTIONS, HOSTS, AirTable, HostTable, LinkTable, link_key
from wavebed.radio.carriers import resource_block_groups, resource_blocks
from wavebed.radio.presets import RadioSettings, WifiSettings, technology_of
from wavebed.scene.model import SceneModel
from wavebed.scene.values import LoadProcess
from wavebed.spec.network import group_of
from wavebed.spec.types import CellScheduler, CellService, ConstantRate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path as FilePath

    from wavebed.path.layers import Links
    from wavebed.path.model import Link, Rate
    from wavebed.path.traces import Traces
    from wavebed.spec.types import CellSlice

_Table = TypeVar("_Table", bound=Struct)
_LONGEST_NAME = 32
_USUAL_BLOCKS = {"nr-15khz": 106, "nr-30khz": 273, "nr-60khz": 135, "nr-120khz": 66, "lte": 100}
"""Of 20 MHz (15 kHz, LTE) and of 100 MHz, for radios with nothing known but the preset."""


class CellSource(Struct, frozen=True):
    """What a cell is read from.

    Parameters
    ----------
    cell, devices : object
        The values of ``cell`` and ``device``; ``None`` where the scenario has none.
    file : str
        The scenario, for messages.
    base : pathlib.Path or None
        The folder that names of files are relative to.
    options : mapping
        Options of a path, which stand above the keys of every device.
    traces : Traces
        Reads the patterns that the devices name.
    mtu : int
        Bytes of the largest packet.
    has_real_devices : bool
        Whether the devices are real, behind a bridge, which knows them by their addresses.
    """

    cell: object
    devices: object
    file: str
    base: FilePath | None
    options: Mapping[str, object]
    traces: Traces
    mtu: int
    has_real_devices: bool = False

    def place(self, *keys: str) -> str:
        """Return how messages name a key."""
        return f"{self.file}: {'.'.join(keys)}"


class DeviceHost(Struct, frozen=True):
    """The keys of a device's host that the scenario gives, by field of `HostTable`, and their place in messages."""

    given: HostTable
    keys: frozenset[str]
    place: str


def read_cell(name: str, radio: Links, source: CellSource) -> tuple[CellModel, Mapping[str, DeviceHost]]:
    """Return the cell, and the keys of the host of each of its devices.

    Parameters
    ----------
    name : str
        The name of the radio hop.
    radio : Links
        What the radio hop gives all devices.

    Raises
    ------
    Problem
        If a key is wrong, or the values of the devices do not fit each other.
    """
    return _Reader(name, radio, source).read()


def has_power(link: Link) -> bool:
    """Return whether a link is a radio in a scene whose SINR decides about errors."""
    return (
        isinstance(link.rate, ScenePattern)
        and isinstance(link.rate.scene, SceneModel)
        and link.rate.mode != "study"
        and isinstance(link.radio, RadioSettings)
        and link.radio.bler is None
    )


class _Reader:
    def __init__(self, name: str, radio: Links, source: CellSource) -> None:
        self.name = name
        self.radio = radio
        self.source = source
        self.hosts: dict[str, DeviceHost] = {}
        self.groups: set[str] = set()
        self.by_address: dict[str, str] = {}
        self.unheeded: list[str] = []
        """Names of those whose 5QI or guaranteed rate only the scheduler `priority` heeds."""

    def read(self) -> tuple[CellModel, Mapping[str, DeviceHost]]:
        given = {} if self.source.cell is None else self.source.cell
        if not isinstance(given, dict):
            raise Problem(f"{described(given)} is not a table: write [cell] on a line of its own", self._place("cell"))
        self._check_cell_keys(given)
        tables = {direction: self._cell_table(given, direction) for direction in DIRECTIONS}
        slices = {direction: tables[direction].slice for direction in DIRECTIONS}
        devices = tuple(self._devices(slices))
        self._check_slots(devices)
        schedulers = {
            direction: self._scheduler(tables[direction], given, direction, devices) for direction in DIRECTIONS
        }
        background: dict[str, list[BackgroundModel]] = {direction: [] for direction in DIRECTIONS}
        for direction, user in self._background(given.get("background", []), slices):
            background[direction].append(user)
        if self.unheeded and any(each.policy != "priority" for each in schedulers.values()):
            self.source.traces.notes.append(
                f"{', '.join(self.unheeded)}: 5qi, priority-level and guaranteed-rate have an effect with the scheduler"
                ' "priority" only'
            )
        for direction in DIRECTIONS:
            if schedulers[direction].policy == "priority":
                self._note_guaranteed(direction, devices, background[direction])
        power = self._power(given, devices)
        cell = CellModel(
            self.name,
            schedulers["down"],
            schedulers["up"],
            devices,
            tuple(background["down"]),
            tuple(background["up"]),
            power,
        )
        return cell, self.hosts

    def _place(self, *keys: str) -> str:
        return self.source.place(*keys)

    def _check_cell_keys(self, given: Mapping[str, object]) -> None:
        known = (*fields(CellTable), *fields(PowerTable), *fields(CellParts))
        for key in given:
            if key not in known and cell_key(key) is None:
                raise unknown_key(key, known, CELL_DIRECTED).below(self._place("cell"))

    def _power(self, given: Mapping[str, object], devices: Sequence[DeviceModel]) -> OpenLoop | None:
        """Return the power control of the uplink, with a note that names the devices without one."""
        own = {key: value for key, value in given.items() if key in fields(PowerTable)}
        table = at(self._place("cell"), lambda values: read_table(PowerTable, values, "[cell]"), own)
        if table.uplink_power == "full-carrier":
            for key in own.keys() - {"uplink-power"}:
                raise Problem('has no effect: write uplink-power = "open-loop" too', self._place("cell", key))
            return None
        for device in devices:
            load = (
                cast("SceneModel", cast("ScenePattern", device.up.rate).scene).cell_load if has_power(device.up) else ()
            )
            if isinstance(load, LoadProcess) or any(step.fraction for step in load):
                rule = f"does not fit the scene of {device.name}, which has cell-load"
                raise Problem(f"{rule}: use [[cell.background]] instead", self._place("cell", "uplink-power"))
        without = [device.name for device in devices if not has_power(device.up)]
        if without:
            self.source.traces.notes.append(
                f"{', '.join(without)}: uplink-power has no effect: it needs the SINR of a scene, and no bler"
            )
        p0_dbm = -80.0 if table.uplink_p0_dbm is None else table.uplink_p0_dbm
        return OpenLoop(p0_dbm, 1.0 if table.uplink_alpha is None else table.uplink_alpha)

    def _cell_table(self, given: Mapping[str, object], direction: str) -> CellTable:
        """Return the keys of one direction: those for both, and above them its own."""
        values: dict[str, Any] = {}
        for both in (True, False):
            for key, raw in given.items():
                found = cell_key(key)
                if found is not None and (len(found[1]) == 2) == both and direction in found[1]:
                    field = found[0]
                    values[field.name] = at(self._place("cell", key), field.key.reader, raw)
        return of_values(CellTable, values)

    def _devices(self, slices: Mapping[str, Sequence[CellSlice]]) -> Iterator[DeviceModel]:
        tables = self.source.devices
        if tables is None:
            if not isinstance(self.source.cell, dict) or "background" not in self.source.cell:
                rule = "is missing: add [[device]] with a name, or [[cell.background]] beside the client"
                raise Problem(rule, self._place("device"))
            tables = [{"name": CLIENT}]
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables) or not tables:
            raise Problem("is not an array of tables: write [[device]] above each one", self._place("device"))
        total = 0
        for index, table in enumerate(tables, 1):
            place = self._place(f"device[{index}]")
            for device in self._of_table(table, place, slices):
                total += 1
                if total > MOST_DEVICES:
                    raise Problem(f"there are more than {MOST_DEVICES} devices: write fewer", place)
                yield device

    def _of_table(
        self, table: Mapping[str, object], place: str, slices: Mapping[str, Sequence[CellSlice]]
    ) -> Iterator[DeviceModel]:
        own = _split(table, (CellDeviceTable, ServiceTable, HostTable), (LinkTable, AirTable), place)
        keys = _read(CellDeviceTable, own, "[[device]]", place)
        service = _read(ServiceTable, own, "[[device]]", place)
        host = _read(HostTable, own, "[[device]]", place)
        names = self._names(keys, place)
        traces = self._trace_sets(keys, table, place)
        for what, files in traces.items():
            if keys.count is not None and len(files) < keys.count:
                rule = f"there are {len(files)} traces for {keys.count} devices"
                raise Problem(f"{rule}: write count = {len(files)}, or add traces", f"{place}.{what}")
        if keys.count is None and traces:
            keys = replace(keys, count=min(map(len, traces.values())))
            names = self._names(keys, place)
        if keys.name in self.groups:
            raise Problem(f"{keys.name!r} is taken by another device: choose another", f"{place}.name")
        self.groups.add(keys.name)
        addresses = self._addresses(keys, names, f"{place}.address")
        services = {direction: _service(service, direction, slices, place) for direction in DIRECTIONS}
        if {
            "five_qi",
            "priority_level",
            "guaranteed_rate_bps",
            "down_guaranteed_rate_bps",
            "up_guaranteed_rate_bps",
        } & {field.attribute for key, field in fields(ServiceTable).items() if key in table}:
            self.unheeded.append(keys.name)
        of_link = {key: table[key] for key in table if _is_of_link(key)}
        laid = None if traces else self._laid(of_link, place)
        for number, name in enumerate(names):
            own_traces = {what.removesuffix("s"): str(files[number]) for what, files in traces.items()}
            each = self._laid(of_link | own_traces, place, traces) if laid is None else laid.copy()
            each.lay(self.source.options, lambda key: f"--{key}")
            down, up = each.build(self.source.traces, self.source.mtu)
            for direction, link in (("down", down), ("up", up)):
                _check_link(link, direction, place)
            self.hosts[name] = DeviceHost(host, frozenset(own[HostTable]), place)
            down, up = (
                replace(
                    link,
                    rate=at(f"{place}.ue", partial(_of_device, name=name, keys=keys, number=number + 1), link.rate),
                    delay=_start_of_device(link.delay, name),
                    loss=_start_of_device(link.loss, name),
                )
                for link in (down, up)
            )
            yield DeviceModel(name, keys.name, down, up, services["down"], services["up"], addresses[number])

    def _laid(self, given: Mapping[str, object], place: str, traces: Collection[str] = ()) -> Links:
        """Return the links of the radio hop with the values of a device above them; `traces`: keys of sets."""

        def named(key: str) -> str:
            return f"{place}.{key}s" if f"{key}s" in traces else f"{place}.{key}"

        links = self.radio.copy()
        links.lay(given, named, self.source.base)
        return links

    def _names(self, keys: CellDeviceTable, place: str) -> list[str]:
        if keys.name in (*HOSTS, "localhost") and self.source.devices is not None:
            raise Problem(f"{keys.name!r} is the name of another host: choose another", f"{place}.name")
        at(f"{place}.name", _check_unnumbered, keys.name)
        names = [keys.name] if keys.count is None else [f"{keys.name}-{number}" for number in range(1, keys.count + 1)]
        if len(names[-1]) > _LONGEST_NAME:
            rule = f"{names[-1]!r} has {len(names[-1])} letters: write a shorter one, {_LONGEST_NAME} with the number"
            raise Problem(rule, f"{place}.name")
        return names

    def _addresses(self, keys: CellDeviceTable, names: Sequence[str], place: str) -> Sequence[tuple[str, ...]]:
        """Return the addresses of each of these devices."""
        if not self.source.has_real_devices:
            if keys.address is not None:
                rule = "a device of a laboratory gets its address from it"
                raise Problem(f"{rule}: remove this one, or start wavebed bridge --scenario", place)
            return [()] * len(names)
        if keys.address is None:
            raise Problem('is missing: a bridge needs it, such as address = "192.168.1.20"', place)
        found = at(place, _of_one if keys.count is None else partial(_of_each, count=keys.count), keys.address)
        for name, addresses in zip(names, found, strict=True):
            for address in addresses:
                other = self.by_address.setdefault(address, name)
                if other != name or addresses.count(address) > 1:
                    whose = "is written twice" if other == name else f"is an address of {other!r} too"
                    raise Problem(f"{address} {whose}: remove one", place)
        return found

    def _trace_sets(
        self, keys: CellDeviceTable, table: Mapping[str, object], place: str
    ) -> dict[str, Sequence[FilePath]]:
        found: dict[str, Sequence[FilePath]] = {}
        for what, given in (("traces", keys.traces), ("down-traces", keys.down_traces), ("up-traces", keys.up_traces)):
            if given is None:
                continue
            alone = what.removesuffix("s")
            if alone in table:
                raise Problem(f"gives a trace too: remove one of them, {what} or {alone}", f"{place}.{what}")
            found[what] = given if isinstance(given, tuple) else at(f"{place}.{what}", self._files_in, given)
        return found

    def _files_in(self, folder: FilePath) -> list[FilePath]:
        named = folder.expanduser()
        whole = named if self.source.base is None else self.source.base / named
        if not whole.is_dir():
            raise Problem(f"{str(folder)!r} is no folder: name one, or write an array of files")
        found = sorted(file for file in whole.iterdir() if file.is_file() and not file.name.startswith("."))
        if not found:
            raise Problem(f"{str(folder)!r} has no file: put one trace for each device there")
        return [file.absolute() for file in found]

    def _check_slots(self, devices: Sequence[DeviceModel]) -> None:
        first_radio = cast("RadioSettings", devices[0].down.radio)
        first = first_radio.slots
        for device in devices[1:]:
            radio = cast("RadioSettings", device.down.radio)
            if technology_of(radio.preset) != technology_of(first_radio.preset):
                raise Problem(
                    f"is {technology_of(radio.preset)}, and {devices[0].name!r} is {technology_of(first_radio.preset)}:"
                    " devices of a cell share one carrier, so give them one radio",
                    f"{self.hosts[device.name].place}.radio",
                )
            own = radio.slots
            for what in ("slot_ns", "frame", "special_symbols", "prepare_ns"):
                if getattr(own, what) != getattr(first, what):
                    key = {"slot_ns": "slot length", "prepare_ns": "prepare"}.get(what, what.replace("_", "-"))
                    raise Problem(
                        f"differs in {key} from {devices[0].name!r}: devices of a cell share one carrier, so give them"
                        " one radio",
                        self.hosts[device.name].place,
                    )

    def _scheduler(
        self, table: CellTable, given: Mapping[str, object], direction: str, devices: Sequence[DeviceModel]
    ) -> CellScheduler:
        units = table.units
        if units is None:
            units = self._units(table, given, direction, devices)
        if table.control_units >= units:
            own = f"{direction}-control-units"
            raise Problem(
                f"{table.control_units} leaves none of the {units} units for data: write at most {units - 1}",
                self._place("cell", own if own in given else "control-units"),
            )
        return CellScheduler(
            policy=table.scheduler,
            units=units,
            average_slots=table.average_slots,
            devices_per_slot=table.devices_per_slot,
            control_units=table.control_units,
            slices=table.slice,
        )

    def _units(
        self, table: CellTable, given: Mapping[str, object], direction: str, devices: Sequence[DeviceModel]
    ) -> int:
        """Return the resource block groups of the carrier."""
        preset = cast("RadioSettings", devices[0].down.radio).preset
        technology = technology_of(preset)
        if table.bandwidth_hz is not None:
            own = f"{direction}-bandwidth"
            place = self._place("cell", own if own in given else "bandwidth")
            return resource_block_groups(technology, at(place, lambda hz: _blocks(preset, hz), table.bandwidth_hz))
        known = {
            device.name: blocks for device in devices if (blocks := _blocks_of_scene(device.down.rate)) is not None
        }
        if len(set(known.values())) > 1:
            told = ", ".join(f"{name} {blocks}" for name, blocks in known.items())
            raise Problem(
                f"is missing: the scenes differ in resource blocks ({told}): write it", self._place("cell", "units")
            )
        blocks = next(iter(known.values()), _USUAL_BLOCKS[preset])
        return resource_block_groups(technology, blocks)

    def _note_guaranteed(
        self, direction: str, devices: Sequence[DeviceModel], background: Sequence[BackgroundModel]
    ) -> None:
        """Note if all slots carry less than the guaranteed rates; of rates that change nobody knows beforehand."""
        entitled: list[tuple[Rate | None, CellService]] = [
            (device.down.rate, device.down_service) if direction == "down" else (device.up.rate, device.up_service)
            for device in devices
        ]
        entitled += [(user.rate, user.service) for user in background]
        part = sum(
            service.guaranteed_bps / rate.rate_bps
            for rate, service in entitled
            if isinstance(rate, ConstantRate) and service.guaranteed_bps is not None
        )
        if part > 1 + 1e-9:
            self.source.traces.notes.append(
                f"the guaranteed rates of the {direction}link need {part:.0%} of its slots: no scheduler can give that"
            )

    def _background(
        self, tables: object, slices: Mapping[str, Sequence[CellSlice]]
    ) -> Iterator[tuple[str, BackgroundModel]]:
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise Problem(
                "is not an array of tables: write [[cell.background]] above each one", self._place("cell", "background")
            )
        taken: set[str] = set()
        for index, table in enumerate(tables, 1):
            place = self._place("cell", f"background[{index}]")
            own = _split(table, (BackgroundTable, ServiceTable), (), place, (*BACKGROUND_RATE, *BACKGROUND_AIR))
            keys = _read(BackgroundTable, own, "[[cell.background]]", place)
            service = _read(ServiceTable, own, "[[cell.background]]", place)
            at(f"{place}.name", _check_unnumbered, keys.name)
            if keys.name in taken:
                raise Problem(f"{keys.name!r} is taken by another one: choose another", f"{place}.name")
            taken.add(keys.name)
            rate = self._background_rate(table, keys.direction, place)
            entitled = _service(service, keys.direction, slices, place)
            for number in range(1, (keys.count or 1) + 1):
                name = keys.name if keys.count is None else f"{keys.name}-{number}"
                of_user = at(f"{place}.ue", partial(_of_device, name=name, keys=keys, number=number), rate)
                yield keys.direction, BackgroundModel(name, cast("Rate", of_user), keys.traffic, entitled)

    def _background_rate(self, table: Mapping[str, object], direction: str, place: str) -> Rate:
        links = self.radio.copy()
        given = {key: table[key] for key in table if key in (*BACKGROUND_RATE, *BACKGROUND_AIR)}
        links.lay(given, lambda key: f"{place}.{key}", self.source.base)
        down, up = links.build(self.source.traces, self.source.mtu)
        rate = (down if direction == "down" else up).rate
        if rate is None:
            raise Problem("has no rate: write rate, trace or scene, its rate with all slots", place)
        if not isinstance(rate, ConstantRate | PatternFile | ScenePattern):
            raise Problem("cannot be a token bucket: write a rate, a trace or a scene", f"{place}.rate")
        return rate


def _of_one(entries: Sequence[tuple[str, ...] | AddressRange]) -> Sequence[tuple[str, ...]]:
    """Return the addresses of a device without a count."""
    own: list[str] = []
    for entry in entries:
        if isinstance(entry, AddressRange):
            raise Problem(f"{entry.first}-{entry.last} has {entry.count} addresses: write count = {entry.count}")
        own += entry
    return [tuple(own)]


def _of_each(entries: Sequence[tuple[str, ...] | AddressRange], count: int) -> Sequence[tuple[str, ...]]:
    """Return the addresses of each device of a count."""
    ranges = [entry for entry in entries if isinstance(entry, AddressRange)]
    for each in ranges:
        if each.count != count:
            raise Problem(f"{each.first}-{each.last} has {each.count} addresses for {count} devices: write as many")
    if not ranges:
        if len(entries) != count:
            rule = f"there are {len(entries)} entries for {count} devices"
            raise Problem(f'{rule}: write one for each, or a range such as "192.168.1.20-192.168.1.28"')
        return [entry for entry in entries if not isinstance(entry, AddressRange)]
    if len(ranges) < len(entries):
        raise Problem("has ranges and single addresses: write only ranges, or one entry for each device")
    return list(zip(*(each.all() for each in ranges), strict=True))


def _split(
    table: Mapping[str, object],
    models: Sequence[type[Struct]],
    of_links: Sequence[type[Struct]],
    place: str,
    further: Sequence[str] = (),
) -> dict[type[Struct], dict[str, object]]:
    """Return the keys of each model in a table.

    Raises
    ------
    Problem
        If the table has a key that no model and no link has.
    """
    known = [key for model in (*models, *of_links) for key in fields(model)] + list(further)
    for key in table:
        if key not in known and not (of_links and link_key(key) is not None):
            raise unknown_key(key, known, DIRECTED if of_links else ()).below(place)
    return {model: {key: table[key] for key in table if key in fields(model)} for model in models}


def _read(model: type[_Table], own: Mapping[type[Struct], Mapping[str, object]], form: str, place: str) -> _Table:
    return at(place, lambda given: read_table(model, given, form), own[model])


def _check_unnumbered(name: str) -> None:
    if group_of(name) != name:
        raise Problem(f"{name!r} ends with a number like the names of a count: end it with a letter, or write count")


def _is_of_link(key: str) -> bool:
    return link_key(key) is not None or key in fields(AirTable)


def _service(table: ServiceTable, direction: str, slices: Mapping[str, Sequence[CellSlice]], place: str) -> CellService:
    """Return what a device is entitled to in one direction; a slice of the other direction only is none here."""
    known = {each.name for found in slices.values() for each in found}
    if table.slice is not None and table.slice not in known:
        if not known:
            rule = f'the cell has no slices: write slice = [{{ name = "{table.slice}", share = "30%" }}] in [cell]'
        else:
            rule = f"{table.slice!r} is no slice of the cell: {one_of(table.slice, sorted(known))}"
        raise Problem(rule, f"{place}.slice")
    of_direction = table.down_guaranteed_rate_bps if direction == "down" else table.up_guaranteed_rate_bps
    guaranteed_bps = table.guaranteed_rate_bps if of_direction is None else of_direction
    if table.five_qi is not None and guaranteed_bps is not None and table.five_qi.resource == "non-gbr":
        rule = f"{table.five_qi.five_qi} has no guaranteed rate (TS 23.501 table 5.7.4-1): write another, such as 2"
        raise Problem(rule, f"{place}.5qi")
    level = table.priority_level
    if level is None:
        level = CellService().level if table.five_qi is None else table.five_qi.level
    own = {each.name for each in slices[direction]}
    return CellService(level, guaranteed_bps, table.slice if table.slice in own else None)


def _check_link(link: Link, direction: str, place: str) -> None:
    if link.rate is None:
        raise Problem(f"the {direction}link has no rate: write rate, trace or scene, here or in the radio hop", place)
    if isinstance(link.radio, WifiSettings):
        raise Problem("802.11ad gives no slots to devices: a cell needs a radio of nr or lte", f"{place}.radio")
    if link.radio is None:
        raise Problem(
            'is missing: a cell shares the slots of a radio: write radio = "nr-30khz" here or in the radio hop',
            f"{place}.radio",
        )
    if link.radio.bearer == "split":
        raise Problem('a device of a cell has one carrier: write bearer = "switched"', f"{place}.radio.bearer")


def _blocks(preset: str, bandwidth_hz: float) -> int:
    """Return the resource blocks of a carrier whose band is not known: FR1 where it has such a carrier, else FR2."""
    technology = technology_of(preset)
    numerology = None if technology == "lte" else (15, 30, 60, 120).index(int(preset[3:-3]))
    try:
        return resource_blocks(technology, bandwidth_hz, numerology, 28e9 if numerology == 3 else 3.5e9)
    except ValueError as error:
        if numerology == 2:
            try:
                return resource_blocks(technology, bandwidth_hz, numerology, 28e9)
            except ValueError:
                pass
        raise Problem(str(error)) from None


def _blocks_of_scene(rate: Rate | None) -> int | None:
    if not isinstance(rate, ScenePattern):
        return None
    carrier = getattr(rate.scene, "carrier", None)  # a learned map has none
    return None if carrier is None else carrier.resource_blocks


def _of_device(rate: Rate | None, name: str, keys: CellDeviceTable | BackgroundTable, number: int) -> Rate | None:
    """Return the rate of one device: its own UE of a scene, or its own fading in the place of the only one.

    Parameters
    ----------
    number : int
        Which of its table it is, from 1.

    Raises
    ------
    UserError
        If the scene has several UEs, and none of its name; or one, and a name was given.
    """
    scene = rate.scene if isinstance(rate, ScenePattern) else None
    if isinstance(rate, ScenePattern) and isinstance(scene, SceneModel) and scene.devices:  # one world has one time
        named = keys.ue or keys.name
        if keys.count is not None:
            first, dash, at_first = (keys.ue or "").rpartition("-")
            named = f"{first}-{int(at_first) + number - 1}" if dash and at_first.isdigit() else f"{named}-{number}"
        return replace(rate, device=scene.device(named).name)
    if keys.ue is not None:
        raise Problem("is for a scene with several UEs, [[ue]]: remove it")
    if not isinstance(rate, ScenePattern) or not isinstance(scene, SceneModel):
        return cast("Rate | None", _start_of_device(rate, name))
    return cast("Rate", _start_of_device(replace(rate, scene=_scene_of(scene, name), device=name), name))


@lru_cache(maxsize=2 * MOST_DEVICES)  # the trials of a block realise each scene once, by its identity
def _scene_of(scene: SceneModel, device: str) -> SceneModel:
    """Return a scene whose only UE has the fading of a device."""
    return dataclasses.replace(scene, ue=dataclasses.replace(scene.ue, name=device, stream=device))


def _start_of_device(value: Any, device: str) -> Any:
    if isinstance(value, PatternFile | ScenePattern) and isinstance(value.start, DrawnStart):
        return replace(value, start=replace(value.start, device=device))
    return value
