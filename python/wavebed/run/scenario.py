"""Read a scenario: path, workloads and treatments as a plan; its changes by key; the JSON Schema of the file."""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.problems import Problem, at, described, one_of
from wavebed.config.table import Key, read_table, table_schema
from wavebed.config.units import format_time
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, parse_toml, read_text
from wavebed.lab.protocol import MOST_IN_CELL, MOST_WORKLOADS
from wavebed.output import toml_text
from wavebed.path.scenario import checked_document, read_document, read_path_of
from wavebed.path.tables import path_schema
from wavebed.path.traces import Traces
from wavebed.remedy import remedy_of
from wavebed.run.devices import (
    check_names,
    groups_known,
    is_asked,
    on_devices,
    share_options,
    tables_of,
    with_own_predecessors,
)
from wavebed.run.lab_table import LabTable, read_lab
from wavebed.secret import restored
from wavebed.spec.network import MOST_SEED, devices, modelled_users
from wavebed.spec.trial import IN_NAMESPACES, LabSpec, NamespacesLab, Time
from wavebed.store.records import PATH_WORKLOAD
from wavebed.workload import KINDS, kind_of, read_workload
from wavebed.workload.model import Common, read_common

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.path.model import CellModel, PathModel
    from wavebed.spec.network import ModelledUser
    from wavebed.spec.trial import TrialSpec, WorkloadSpec
    from wavebed.workload.model import AnyWorkload

_NAMED = ("hop", "workload", "device", "background", "slice")
_ROOTS = ("lab", "path", "cell", "device", "run", "workload")


def parse_change(text: str) -> tuple[str, object]:
    """Return key and value of ``KEY=VALUE``; the value is read as TOML where it is TOML, else it is text.

    Raises
    ------
    Problem
        If there is no ``=``.
    """
    parts = _outside_quotes(text)
    if parts is None:
        raise Problem(f"{described(text)} is not KEY=VALUE: {_with_equals(text)}")
    key, value = parts
    key_parts(key)
    try:
        return key, parse_toml(f"value = {value}", key)["value"]
    except UserError:
        return key, value


def _with_equals(text: str) -> str:
    key, _, value = text.strip().partition(" ")
    if ":" in key and not value:
        key, _, value = key.partition(":")
    return (
        f"write {key}={value.strip() or 'VALUE'}, without blanks"
        if "." in key
        else "write for example path.rate=50mbit"
    )


def _outside_quotes(text: str) -> tuple[str, str] | None:
    quoted = ""
    for place, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        elif letter == "=" and place:
            return text[:place].strip(), text[place + 1 :].strip()
    return None


@functools.cache
def key_parts(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key.

    Raises
    ------
    Problem
        If it is not one, or does not begin with one of `_ROOTS`.
    """
    try:
        table: object = parse_toml(f"{key} = 0", key)
    except UserError:
        raise Problem("is not a key: write its parts with dots between them, such as path.rate", key) from None
    parts = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise Problem("is not a key: write its parts with dots between them, such as path.rate", key)
        ((part, table),) = table.items()
        parts.append(part)
    if table != 0:  # it has a value of its own
        raise Problem("is not a key: write its parts with dots between them, such as path.rate", key)
    if parts[0] not in _ROOTS or len(parts) < 2:
        raise Problem(f"begins with no table: begin with {', '.join(f'{root}.' for root in _ROOTS)}", key)
    return tuple(parts)


def changed(document: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of a scenario's document in which the values at these keys are others.

    Raises
    ------
    Problem
        If a key leads nowhere.
    """
    result = {key: _copied(value) for key, value in document.items()}
    for key, value in changes.items():
        _set(result, key, value)
    return result


def _copied(value: object) -> object:
    """Return a copy of the tables and arrays of a document; a third of the time of `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _set(document: dict[str, object], key: str, value: object) -> None:
    *above, last = key_parts(key)
    place: object = document
    named = ""
    for part in above:
        if named:
            place = _by_name(place, named, part, key)
            named = ""
        elif isinstance(place, dict) and part in _NAMED and isinstance(place.get(part), list):
            place, named = place[part], part
        elif isinstance(place, dict) and part in _NAMED and part not in place:
            raise Problem(f"there is no {part}: add one to the scenario, or leave the key out", key)
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            raise Problem(f"{part!r} is below a value that is no table", key)
    if named or not isinstance(place, dict):
        raise Problem("leads to no value: name a key in the table", key)
    place[last] = value


def _by_name(tables: object, what: str, name: str, key: str) -> object:
    assert isinstance(tables, list), "looked at by the caller"
    names = [
        str(table.get("name", table.get("kind", ""))) if isinstance(table, dict) else described(table)
        for table in tables
    ]
    whole = [
        f"{table['device']}.{own}" if isinstance(table, dict) and "device" in table else own
        for own, table in zip(names, tables, strict=True)
    ]
    if name in whole:
        return tables[whole.index(name)]
    if name not in names:
        raise Problem(_no_such(tables, what, name, names, whole), key)
    if names.count(name) > 1 and names != whole:
        others = " or ".join(f'{what}."{each}"' for own, each in zip(names, whole, strict=True) if own == name)
        raise Problem(f"several devices have a {what} {name!r}: write {others}", key)
    return tables[names.index(name)]


def _no_such(tables: list[object], what: str, name: str, names: Sequence[str], whole: Sequence[str]) -> str:
    """Return why a key leads to no table of an array: one of a count, a part of a name with a dot, or a mistake."""
    first = name.partition(".")[0]
    base, _, number = first.rpartition("-")
    group = base if number.isdecimal() else first
    counted = [table.get("name") for table in tables if isinstance(table, dict) and "count" in table]
    if what != "workload" and group in counted and group != first:
        rule = f"one {what} of a count cannot be changed alone"
        return f"{rule}: write {what}.{group} for all, or add a table with another name for it"
    dotted = [f'{what}."{each}"' for each in whole if "." in each]
    of_device = [f'{what}."{each}"' for each in whole if each.startswith(f"{group}.")]
    if of_device and group != first:
        return f"a workload runs on every device of {group}: write {' or '.join(of_device)}"
    if dotted:
        return f"there is no {what} {name!r}: write {' or '.join((of_device or dotted)[:_MOST_NAMES])}, with the quotes"
    return f"there is no {what} {name!r}: {one_of(name, names)}"


_MOST_NAMES = 4
AS_DESCRIBED = "as-described"
"""Name of the one treatment of a scenario without treatments."""
MAX_TRIALS = 10_000

_WORDS = ("title", "source")
_OF_THE_RUN = "run"
_SEED = ("path", "seed")


class RunTable(Struct, frozen=True, kw_only=True):
    """``[run]``."""

    trials: Annotated[
        int, Key(values.number(1, MAX_TRIALS), "trials of each treatment; each has a seed of its own")
    ] = 1
    seed: Annotated[
        int | None,
        Key(
            values.number(0, MOST_SEED),
            "seed of the first trial; the next trial has one more, and so on",
            absent="that of the path",
        ),
    ] = None
    primary: Annotated[
        str | None,
        Key(
            values.text,
            "the metric that the report begins with, `WORKLOAD.METRIC`, such as `latency.rtt loaded p95`",
            absent="the main metric of the first of web, video, call, voice, command, latency, download, bulk",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A trial that was resolved before, the folder in which its patterns are, and the changes that were made in it.

    Parameters
    ----------
    changes : str
        The text of its `CHANGES_FILE`.
    """

    spec: TrialSpec
    folder: Path
    changes: str = ""


@dataclass(frozen=True, slots=True)
class TreatmentPlan:
    """A treatment: its name, its changes, and the resulting path and workloads.

    Parameters
    ----------
    changes : mapping
        Values by dotted key.
    path : PathModel or StoredTrial
        With the seed of the scenario; a trial has its own.
    workloads : tuple of Workload
        In the order of the scenario.
    lab : NamespacesLab or HostsLab
        Where its hosts are.
    time : str or None
        What its scenario says of its time, which `wavebed.run.times.with_time` heeds; ``None``: nothing.
    """

    name: str
    changes: Mapping[str, object]
    path: PathModel | StoredTrial
    workloads: tuple[AnyWorkload, ...]
    lab: LabSpec = IN_NAMESPACES
    time: Time | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices of its cell; none without a cell."""
        if isinstance(self.path, StoredTrial):
            return devices(self.path.spec.network)
        return () if self.path.cell is None else tuple(device.name for device in self.path.cell.devices)

    @property
    def background(self) -> tuple[ModelledUser, ...]:
        """The modelled users of its cell; none without a cell."""
        return modelled_users(self.path.spec.network.cell if isinstance(self.path, StoredTrial) else self.path.cell)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Parameters
    ----------
    scenario : pathlib.Path
        The file.
    text : str
        Its text.
    overrides : mapping
        The changes of ``--set``.
    primary : str
        The metric that the report begins with; empty: none is named.
    """

    scenario: Path
    text: str
    title: str
    source: str
    overrides: Mapping[str, object]
    trials: int
    seed: int
    treatments: tuple[TreatmentPlan, ...]
    tables: Sequence[Mapping[str, Json]]
    notes: tuple[str, ...] = ()
    primary: str = ""


def read_plan(
    scenario: Path,
    *,
    overrides: Mapping[str, object] | None = None,
    only: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    cells: Sequence[tuple[str, Mapping[str, object]]] | None = None,
    overrides_are: str = "--set",
    options: Mapping[str, object] | None = None,
    document: Mapping[str, object] | None = None,
) -> Plan:
    """Read a scenario for a run.

    Parameters
    ----------
    scenario : pathlib.Path
        A TOML file with ``[path]`` and at least one ``[[workload]]``; with `document` only the name of that.
    overrides : mapping, optional
        Values by dotted key, laid above the scenario.
    only : sequence of str
        Names of the workloads that are wanted; all without.
    trials, seed : int, optional
        Instead of those in ``[run]``.
    cells : sequence of tuple, optional
        Of a campaign: name and changes of each treatment, instead of the scenario's treatments.
    overrides_are : str
        Where the overrides were written, for messages.
    options : mapping, optional
        Path options by key, laid above the path of every treatment.
    document : mapping, optional
        The scenario itself, as TOML gives it.

    Raises
    ------
    Problem
        If anything in it is wrong; with `cells`, at a place in the campaign.
    """
    if document is None:
        document = _whole(read_document(scenario), scenario)
        text = read_text(scenario, "name a scenario file", most=MAX_TEXT_BYTES)
    else:
        text = toml_text(document)
        document = checked_document(dict(document), scenario)
    overrides = overrides or {}
    for key in overrides:
        at(overrides_are, key_parts, key)
    traces = Traces()
    try:
        document = changed(document, overrides)
        run = at("run", _read_run, document.get("run", {}))
        named = _described(document) if cells is None else [("", *cell) for cell in cells]
        treatments = tuple(
            _checked(
                named,
                overrides,
                overrides_are,
                functools.partial(_treatment, document, scenario, only, traces, options or {}),
            )
        )
        first_path = cast("PathModel", treatments[0].path)
        primary = at("run.primary", partial(_primary, only=only, treatments=treatments), run.primary or "")
    except Problem as problem:
        if cells is not None:
            raise
        raise UserError(f"{scenario}{f': {problem}'.replace(f': {scenario}: ', ': ')}") from None
    finally:
        traces.close()
    first = next(given for given in (seed, run.seed, first_path.seed) if given is not None)
    count = trials if trials is not None else run.trials
    if first + count - 1 > MOST_SEED:
        where = f"{scenario}: run.seed" if cells is None else "campaign.seed"
        raise Problem(f"{first} and the {count - 1} after it pass {MOST_SEED}: write a lower one", where)
    return Plan(
        scenario=scenario,
        text=text,
        title=str(document.get("title", scenario.stem)),
        source=str(document.get("source", "")),
        overrides=overrides,
        trials=count,
        seed=first,
        treatments=treatments,
        tables=_wanted(document, only, first_path.cell),
        notes=tuple(dict.fromkeys(traces.notes)),
        primary=primary,
    )


def _primary(name: str, only: Sequence[str], treatments: Sequence[TreatmentPlan]) -> str:
    """Return the name of a primary metric; nothing if its workload was not chosen.

    Raises
    ------
    Problem
        If no workload can have it.
    """
    workloads = {each.name: each for treatment in treatments for each in treatment.workloads}
    owner = next((each for each in workloads if name.startswith(f"{each}.")), name.partition(".")[0])
    known = {f"{each.name}.{metric.name}" for each in workloads.values() for metric in each.known_metrics()}
    if name and any(treatment.devices for treatment in treatments):
        from wavebed.result.devices import worst_of

        for each in treatments:
            groups = groups_known(each.devices, each.workloads, each.background)
            known |= {f"{group}.{metric.name}" for group, found in groups.items() for metric in found}
        name = next((each for each in known if worst_of(each) == name), name)
    if not name or (only and owner not in workloads and name not in known):
        return ""
    if name in known or (owner in workloads and workloads[owner].prints_metrics):
        return name
    from wavebed.result.transport import known_transport_metrics  # few scenarios name a metric of the path

    known |= {f"{PATH_WORKLOAD}.{metric.name}" for metric in known_transport_metrics()}
    if name in known:
        return name
    near = difflib.get_close_matches(name, sorted(known), 2, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "write WORKLOAD.METRIC, as the report names it"
    raise Problem(f"{described(name)} is no metric of this scenario: {hint}")


def _whole(document: Mapping[str, object], scenario: Path) -> dict[str, object]:
    """Return a document with the secrets that are left out of it, if it is the copy in a folder of results."""
    try:
        return {key: value if key in _WORDS else restored(value, key) for key, value in document.items()}
    except UserError as error:
        raise UserError(f"{scenario}: {error}") from None


def plan_of_spec(stored: StoredTrial, file: Path) -> Plan:
    """Return the plan of one trial that was resolved before.

    Raises
    ------
    UserError
        If a workload of it is wrong.
    """
    spec = stored.spec
    try:
        workloads = tuple(
            at(f"workloads.{each.name}", partial(_workload_of, folder=stored.folder), replace(each, options=options))
            for each in spec.workloads
            for options in [cast("dict[str, Json]", restored(each.options, f"workload.{each.name}"))]
        )
        share_options(workloads, spec.workloads)
        for number, each in enumerate(spec.remedies, 1):
            at(f"remedies[{number}]", partial(remedy_of, options=each.options), each.kind)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    time: Time | None = spec.lab.time if isinstance(spec.lab, NamespacesLab) else None
    treatment = TreatmentPlan(spec.treatment.name, spec.treatment.changes, stored, workloads, spec.lab, time)
    return Plan(
        scenario=file,
        text="",
        title=spec.title,
        source=spec.source,
        overrides={},
        trials=1,
        seed=spec.seed,
        treatments=(treatment,),
        tables=[_table_of(each) for each in spec.workloads],
    )


def _table_of(spec: WorkloadSpec) -> dict[str, Json]:
    told: dict[str, Json] = {"name": spec.name, "kind": spec.kind, "settings": spec.options}
    return told if _device_of(spec) is None else told | {"device": spec.client}


def _device_of(spec: WorkloadSpec) -> str | None:
    """Return the device of a cell that runs a workload; ``None``: the client or the edge does."""
    return None if spec.client in ("client", "edge") else spec.client


def _workload_of(spec: WorkloadSpec, folder: Path) -> AnyWorkload:
    kind = at("kind", kind_of, spec.kind)
    device = _device_of(spec)
    common = {
        "kind": spec.kind,
        "name": spec.name if device is None else spec.name.removeprefix(f"{device}."),
        "start": format_time(spec.start_ns),
        "after": spec.after,
        "limit": format_time(spec.limit_ns),
        "server": spec.server,
        "client": spec.client if device is None else "client",
        "device": device,
    }
    found = kind.found_options(spec.options, folder)
    given = {key: value for key, value in found.items() if value is not None}
    options = at("options", lambda options: read_table(kind.options_type, options, "options"), given)
    read = read_common({key: value for key, value in common.items() if value is not None})
    return kind(replace(read, name=spec.name), options)


def _read_run(table: object) -> RunTable:
    return read_table(RunTable, table, "[run] on a line of its own")


def described_treatments(document: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Return the changes of each treatment of a scenario by name; none if it has no treatments.

    Raises
    ------
    Problem
        If one is wrong.
    """
    described_ = _described(document)
    return {name: changes for where, name, changes in described_ if where}


def _described(document: Mapping[str, object]) -> list[tuple[str, str, Mapping[str, object]]]:
    """Return place, name and changes of each treatment."""
    given = _tables(document, "treatment")
    if not given:
        return [("", AS_DESCRIBED, {})]
    found: list[tuple[str, str, Mapping[str, object]]] = []
    for index, table in enumerate(given, 1):
        where = f"treatment[{index}]"
        name = at(where, _treatment_name, table)
        if any(name == other for _, other, _ in found):
            raise Problem(f"{name!r} is taken by another treatment: choose another", f"{where}.name")
        changes = table.get("set", {})
        if not isinstance(changes, dict):
            raise Problem(f'{described(changes)} is not a table: write {{ "path.rate" = … }}', f"{where}.set")
        for key in changes:
            at(f"{where}.set", key_parts, key)
        found.append((where, name, changes))
    return found


def _checked(
    named: Sequence[tuple[str, str, Mapping[str, object]]],
    overrides: Mapping[str, object],
    overrides_are: str,
    treatment: Callable[[str, Mapping[str, object]], TreatmentPlan],
) -> Iterator[TreatmentPlan]:
    """Yield each treatment; its changes touch neither the run nor the overrides."""
    overridden = {key_parts(key) for key in overrides}
    for where, name, changes in named:
        place = where or f"cell {name}"
        for key in changes:
            parts = at(f"{place}.set", key_parts, key)
            if parts[0] == _OF_THE_RUN or parts == _SEED:
                raise Problem("belongs to the whole run, whose treatments share trials and seeds", f"{place}.set.{key}")
            if parts in overridden:
                raise Problem(
                    f"{overrides_are} changes {key} too, which would make the treatments alike: leave one out", place
                )
        if changes:
            made = functools.partial(treatment, name)
            yield at(place, made if where else functools.partial(_in_one_line, made), changes)
        else:
            yield treatment(name, changes)


def _in_one_line(
    treatment: Callable[[Mapping[str, object]], TreatmentPlan], changes: Mapping[str, object]
) -> TreatmentPlan:
    """Make a treatment; the place of a mistake is below the scenario, not below the cell that is named before it."""
    try:
        return treatment(changes)
    except Problem as problem:
        raise UserError(str(problem)) from None


def _treatment_name(table: Mapping[str, object]) -> str:
    for key in table:
        if key not in ("name", "set"):
            raise Problem("unknown key: the keys here are name, set", key)
    if "name" not in table:
        raise Problem("is missing: give the treatment a name", "name")
    return at("name", values.name, table["name"])


def _treatment(
    document: Mapping[str, object],
    scenario: Path,
    only: Sequence[str],
    traces: Traces,
    options: Mapping[str, object],
    name: str,
    changes: Mapping[str, object],
) -> TreatmentPlan:
    document = changed(document, changes)
    path = read_path_of(document, scenario, options, traces)
    hosts = {host.name for host in path.hosts}
    workloads: list[AnyWorkload] = []
    limited: set[str] = set()
    for index, table in enumerate(_tables(document, "workload"), 1):
        described_ = at(f"workload[{index}]", read_workload, table)
        if described_.name == PATH_WORKLOAD:
            raise Problem(f"{PATH_WORKLOAD!r} has the figures of the path: choose another", f"workload[{index}].name")
        for workload in at(f"workload[{index}]", partial(on_devices, cell=path.cell), described_):
            if any(known.name == workload.name for known in workloads):
                taken = f"{workload.name!r} is taken: give one of the two another name"
                raise Problem(taken, f"workload[{index}].name")
            for end in (workload.common.server, workload.common.client_host):
                if end not in hosts:
                    raise Problem(f"this path has no host {end!r}: add [path.edge]", f"workload[{index}]")
            workloads.append(workload)
            if "limit" in table:
                limited.add(workload.name)
    if not workloads:
        raise Problem('is missing: add a table [[workload]] with kind = "download" or another kind', "workload")
    most = MOST_WORKLOADS if path.cell is None else MOST_IN_CELL
    if len(workloads) > most:
        raise Problem(f"there are {len(workloads)}: write at most {most}", "workload")
    check_names(path.cell, workloads)
    with_own_predecessors(workloads)
    _check_order(workloads)
    chosen = _chosen(workloads, only)
    if not chosen:
        raise Problem("all are skipped: write skip = false in one of them", "workload")
    _let_go_on(chosen, limited)
    if all(workload.endless for workload in chosen):
        raise Problem(
            f"{chosen[0].name!r} goes on until all other workloads end, and there is none: give it a duration",
            "workload",
        )
    lab, time = read_lab(document.get("lab", {}), path, chosen)
    return TreatmentPlan(name, dict(changes), path, tuple(chosen), lab, time)


def _let_go_on(workloads: Sequence[AnyWorkload], limited: Collection[str]) -> None:
    """Let endless workloads without a limit go on as long as the other workloads may."""
    longest_s = limits_s(workloads)
    for workload in workloads:
        if workload.endless and workload.name not in limited:
            workload.common = replace(workload.common, limit_s=max(workload.common.limit_s, longest_s))


def _chosen(workloads: Sequence[AnyWorkload], only: Sequence[str]) -> list[AnyWorkload]:
    for name in only:
        if not any(is_asked(each, [name]) for each in workloads):
            names = [each.name for each in workloads]
            raise UserError(f"--workload: {name!r} is no workload of this scenario: {one_of(name, names)}")
    chosen = [each for each in workloads if (is_asked(each, only) if only else not each.common.skip)]
    wanted = {workload.name for workload in chosen}
    after = {workload.name: workload.common.after for workload in workloads}
    for workload in chosen:
        # It inherits the dependency of the omitted workload.
        first = workload.common.after
        while first is not None and first not in wanted:
            first = after[first]
        workload.common = replace(workload.common, after=first)
    return chosen


def _check_order(workloads: Sequence[AnyWorkload]) -> None:
    after = {workload.name: workload.common.after for workload in workloads}
    endless = {workload.name for workload in workloads if workload.endless}
    for name, first in after.items():
        where = f"workload.{name}.after"
        if first in endless:
            raise Problem(f"{first!r} ends only with all other workloads: name another one", where)
        seen = {name}
        other = first
        while other is not None:
            if other not in after:
                raise Problem(f"{other!r} is no workload here: name another one", where)
            if other in seen:
                raise Problem("the workloads wait for each other: remove after from one of them", where)
            seen.add(other)
            other = after[other]


def _tables(document: Mapping[str, object], key: str) -> list[dict[str, object]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Problem(f"is not an array of tables: write [[{key}]] above each one", key)
    return tables


def _wanted(document: Mapping[str, object], only: Sequence[str], cell: CellModel | None) -> list[Mapping[str, Json]]:
    found = []
    for name, device, table in tables_of(_tables(document, "workload"), only, cell):
        settings = {key: value for key, value in table.items() if key not in ("name", "kind", "device")}
        told = {"name": name, "kind": table["kind"], "settings": settings}
        found.append(cast("Mapping[str, Json]", told if device is None else told | {"device": device}))
    return found


_TREATMENT: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "name of the treatment"},
        "set": {"type": "object", "description": 'what it changes, by dotted key: { "path.rate" = "50mbit" }'},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def scenario_schema() -> Schema:
    """Return the JSON Schema of a scenario file."""
    from wavebed.path.cell_tables import cell_schema  # no run needs it

    path, definitions = path_schema()
    return {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "what people read"},
            "source": {"type": "string", "description": "where the numbers come from"},
            "path": dict(path),
            **cell_schema(),
            "lab": dict(table_schema(LabTable)),
            "run": dict(table_schema(RunTable)),
            "workload": {"type": "array", "items": {"anyOf": [_workload(kind) for kind in KINDS]}},
            "treatment": {"type": "array", "items": _TREATMENT},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": dict(definitions),
    }


def _workload(name: str) -> Json:
    kind = kind_of(name)
    schema = dict(table_schema(Common, kind.options_type))
    properties = schema["properties"]
    assert isinstance(properties, dict), "an object has properties"
    schema["properties"] = properties | {"kind": {"const": name, "description": kind.summary}}
    return schema


def limits_s(workloads: Iterable[AnyWorkload]) -> float:
    """Return the seconds after which all workloads of a trial have ended, by their limits."""
    return sum(each.common.start_s + each.common.limit_s + each.tail_s for each in workloads if not each.endless)
