"""Timelines: named stretches of conditions, one after another, for a path that stays.

A stretch has keys of a link: its rate, a trace or a scene, delay and loss. All stretches of a direction become one
pattern each for rate, delay and loss, which the link plays; the radio, queues and the other hops are those of the path.
"""

from __future__ import annotations

import functools
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, at, unknown_key
from wavebed.config.reader import Reader
from wavebed.config.table import Key, fields, properties_of, read_table, table_schema
from wavebed.errors import UserError
from wavebed.foreign import folder_of, is_there, read_toml
from wavebed.path.tables import DIRECTED, AirTable, LinkTable, link_key
from wavebed.shipped import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema

__all__ = ["FOLDER", "Stretch", "StretchTable", "Timeline", "TimelineTable", "load_timeline", "options_of"]
__all__ += ["read_timeline", "timeline_schema"]

FOLDER = "timelines"
CUT_NS = 0
MOST_STRETCHES = 1000
MOST_NS = 24 * 3600 * 10**9
_RATES = ("rate", "trace", "scene")
SCENE_KEYS = ("scene", "mode")
LINK_KEYS = ("rate", "trace", "trace-format", "trace-end", "start-at", "delay", "loss")
"""The keys of a link that a stretch may have, also for one direction."""


def _transition(value: object) -> int:
    if value == "cut":
        return CUT_NS
    return values.time_ns(value)


TRANSITION = Reader(
    _transition,
    "cut|TIME",
    lambda: {"anyOf": [{"const": "cut"}, dict(values.TIME_SCHEMA)]},
    lambda time_ns: "cut" if time_ns == CUT_NS else values.time_ns.raw(time_ns),
)


class TimelineTable(Struct, frozen=True, kw_only=True):
    """The keys at the top of a timeline, beside ``[[stretch]]``."""

    title: Annotated[str, Key(values.text, "what it shows")] = ""
    scenario: Annotated[
        str | None,
        Key(
            values.text,
            "the path: a scenario file, or the name of a shipped one; `--scenario` stands above it",
            absent="one radio hop",
        ),
    ] = None
    loop: Annotated[bool, Key(values.boolean, "whether it begins again at its end; otherwise its last values hold")] = (
        False
    )


class StretchTable(Struct, frozen=True, kw_only=True):
    """The keys of ``[[stretch]]``, beside those of a link."""

    name: Annotated[str, Key(values.name, "its name, for `wavebed ctl`")]
    duration_ns: Annotated[int, Key(values.time_ns, "how long it lasts")]
    transition_ns: Annotated[
        int,
        Key(
            TRANSITION,
            "`cut`: its conditions hold at once; a time: at its beginning they are reached evenly in it, from the last"
            " ones of the stretch before",
        ),
    ] = CUT_NS
    coverage: Annotated[
        bool, Key(values.boolean, "`false`: nothing is carried, as in a tunnel; the state of a radio is outage")
    ] = True


class Stretch(Struct, frozen=True):
    """A stretch; `conditions` are keys of the path as options have them, names of files absolute."""

    table: StretchTable
    conditions: Mapping[str, object]
    place: str


class Timeline(Struct, frozen=True):
    """A timeline as it was read."""

    file: FilePath
    table: TimelineTable
    stretches: tuple[Stretch, ...]

    @property
    def scenario(self) -> FilePath | None:
        """The scenario of its path."""
        given = self.table.scenario
        return None if given is None else find(given, "scenario", beside=folder_of(self.file))

    @property
    def duration_ns(self) -> int:
        """Nanoseconds of one pass."""
        return sum(stretch.table.duration_ns for stretch in self.stretches)

    def starts_ns(self) -> list[int]:
        """Return when each stretch begins."""
        starts = [0]
        for stretch in self.stretches[:-1]:
            starts.append(starts[-1] + stretch.table.duration_ns)
        return starts


def load_timeline(name: str | FilePath) -> Timeline:
    """Read a timeline: a file, or a shipped one by its name.

    Raises
    ------
    UserError
        If there is none, or it is wrong.
    """
    file = find(name, "timeline", FOLDER)
    try:
        return read_timeline(read_toml(file, "name a timeline file"), file)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def read_timeline(document: Mapping[str, object], file: FilePath) -> Timeline:
    """Return the timeline that a file has.

    Raises
    ------
    Problem
        If a key or a value is wrong.
    """
    tables = document.get("stretch")
    if tables is None:
        raise Problem("is missing: add a table [[stretch]] for each stretch", "stretch")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise Problem("is not an array of tables: write [[stretch]] above each one", "stretch")
    if len(tables) > MOST_STRETCHES:
        raise Problem(f"there are {len(tables)}: write at most {MOST_STRETCHES}", "stretch")
    top = {key: value for key, value in document.items() if key != "stretch"}
    table = read_table(TimelineTable, top, "a timeline", also=("stretch",))
    stretches: list[Stretch] = []
    for number, given in enumerate(tables, 1):
        place = f"stretch[{number}]"
        stretch = _stretch(given, place, folder_of(file))
        if stretch.table.name in (other.table.name for other in stretches):
            raise Problem(f"{stretch.table.name!r} is the name of another stretch: choose another", f"{place}.name")
        stretches.append(stretch)
    if stretches[0].table.transition_ns:
        raise Problem("the first stretch has none before it: leave it out", "stretch[1].transition")
    found = Timeline(file, table, tuple(stretches))
    if found.duration_ns > MOST_NS:
        raise Problem("all stretches last more than 24h: make them shorter", "stretch")
    return found


def _stretch(given: Mapping[str, object], place: str, folder: FilePath) -> Stretch:
    own = {key: value for key, value in given.items() if key in fields(StretchTable)}
    known = (*fields(StretchTable), *SCENE_KEYS, *LINK_KEYS)
    conditions: dict[str, object] = {}
    for key, value in given.items():
        if key in own:
            continue
        link = link_key(key)
        if key not in SCENE_KEYS and (link is None or link[0].name not in LINK_KEYS):
            if link is not None or key in ("radio", "ue-limit"):
                raise Problem("belongs to the path: write it in the scenario, or as an option", f"{place}.{key}")
            raise unknown_key(key, known, DIRECTED).below(place)
        conditions[key] = at(f"{place}.{key}", functools.partial(_condition, key, folder), value)
    table = at(place, lambda keys: read_table(StretchTable, keys, "[[stretch]]", also=known), own)
    if table.duration_ns < 1:
        raise Problem("a stretch lasts some time: write a time above 0", f"{place}.duration")
    if table.transition_ns > table.duration_ns:
        raise Problem("is longer than the stretch: write a shorter time", f"{place}.transition")
    if not table.coverage and conditions:
        raise Problem(
            "coverage = false leaves no other conditions: remove one of them", f"{place}.{next(iter(conditions))}"
        )
    return Stretch(table, conditions, place)


def _condition(key: str, folder: FilePath, value: object) -> object:
    """Check the value of a key of the path, and return it as an option has it; files are those beside the timeline."""
    if key == "scene":
        name = values.text(value)
        return str(folder / name) if is_there(folder / name) else name
    if key == "mode":
        return values.text(value)
    found = link_key(key)
    assert found is not None, "the caller has looked"
    field = found[0]
    read = field.key.reader.read(value)
    if field.name == "trace":
        return str(folder / cast("FilePath", read).expanduser())
    if isinstance(value, dict) and "pattern" in value:
        return {**value, "pattern": str(folder / FilePath(str(value["pattern"])).expanduser())}
    return value


def timeline_schema() -> Schema:
    """Return the JSON Schema of a timeline file."""
    link = {name: field for name, field in fields(LinkTable).items() if name in LINK_KEYS}
    directed = {name: field for name, field in DIRECTED.items() if name.partition("-")[2] in LINK_KEYS}
    scene = [fields(AirTable)[name] for name in SCENE_KEYS]
    stretch = dict(table_schema(StretchTable))
    properties = cast("dict[str, Json]", stretch["properties"])
    stretch["properties"] = properties | properties_of([*scene, *link.values(), *directed.values()])
    top = dict(table_schema(TimelineTable))
    stretches: Json = {"type": "array", "items": stretch, "minItems": 1, "maxItems": MOST_STRETCHES}
    top["properties"] = cast("dict[str, Json]", top["properties"]) | {"stretch": stretches}
    return top | {"required": ["stretch"]}


def options_of(stretch: Stretch, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options of the path with the conditions of a stretch, which stand above them."""
    given = {_undirected(key) for key in stretch.conditions}
    replaced: set[str] = set()
    if given & set(_RATES):
        replaced |= {*_RATES, "mode", "trace-format", "trace-end", "start-at"}
    replaced |= given & {"delay", "loss"}
    kept = {key: value for key, value in options.items() if _undirected(key) not in replaced}
    return kept | dict(stretch.conditions)


def _undirected(key: str) -> str:
    return key.removeprefix("down-").removeprefix("up-")
