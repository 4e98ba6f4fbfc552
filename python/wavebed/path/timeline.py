"""Timelines: named stretches of conditions, one after another, for a path that stays.

A stretch has keys of a link: its rate, a trace or a scene, delay and loss. All stretches of a direction become one
pattern each for rate, delay and loss, which the link plays; the radio, the path gives queues and the other hops.
"""

from __future__ import annotations

import functools
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.problems import Problem, at, unknown_key
from wavebed.config.reader import Reader
from wavebed.config.table import Key, fields, properties_of, read_table, table_schema
from wavebed.errors import UserError
from wavebed.foreign import folder_of, is_there, read_toml
from wavebed.path.model import DrawnStart, PatternFile, ScenePattern
from wavebed.path.scenario import read_document, read_path_of
from wavebed.path.tables import DIRECTED, AirTable, LinkTable, link_key
from wavebed.pattern.model import STATES, Pattern, steps
from wavebed.pattern.resample import PatternPart, part_of, sequence, window_rates
from wavebed.radio.presets import RadioSettings
from wavebed.shipped import find
from wavebed.spec.types import ConstantDelay, ConstantRate, IndependentLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.path.model import Link, PathHop, PathModel
    from wavebed.path.traces import Traces
    from wavebed.spec.types import Slots


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
    """The keys of ``[[stretch]]``, besides the keys of a link."""

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


Direction: TypeAlias = Literal["down", "up"]
DIRECTIONS: tuple[Direction, ...] = ("down", "up")
WINDOW_NS = 10_000_000
"""Of the mean rate of a trace of opportunities."""
_OUTAGE, _FALLBACK = STATES.index("outage"), STATES.index("fallback")
_ON_CARRIER = tuple(STATES.index(state) for state in ("los", "nlos", "blocked"))


class TimedPath(Struct, frozen=True):
    """A path whose links play a timeline, and the timeline as the engine reads it."""

    path: PathModel
    timeline: Mapping[str, Json]


class _Scene(Struct, frozen=True):
    """A stretch, with the path that it would be alone, and the link that the stretches concern in each direction."""

    stretch: Stretch
    path: PathModel
    hop: PathHop

    def link(self, direction: Direction) -> Link:
        return self.hop.down if direction == "down" else self.hop.up


def timed_path(
    timeline: Timeline, scenario: FilePath | None, options: Mapping[str, object], traces: Traces
) -> TimedPath:
    """Return the path of a timeline.

    Parameters
    ----------
    timeline : Timeline
        The timeline.
    scenario : pathlib.Path or None
        A scenario that stands above the one that the timeline names.
    options : mapping
        Values by key, as typed; stretches stand above them.
    traces : Traces
        Reads the patterns, and takes those that are made.

    Raises
    ------
    UserError
        If a value is wrong, or stretches do not fit each other.
    """
    file = timeline.scenario if scenario is None else find(scenario, "scenario")
    document = {"path": {}} if file is None else read_document(file)
    try:
        known = [
            _scene(stretch, timeline, document, file, options, traces)
            for stretch in timeline.stretches
            if stretch.table.coverage
        ]
        return _Composer(timeline, _with_uncovered(timeline, known), traces).compose()
    except Problem as problem:
        raise UserError(f"{timeline.file}: {problem}") from None


def _scene(
    stretch: Stretch,
    timeline: Timeline,
    document: Mapping[str, object],
    file: FilePath | None,
    options: Mapping[str, object],
    traces: Traces,
) -> _Scene:
    try:
        path = read_path_of(document, file, options_of(stretch, options), traces)
    except UserError as error:
        said = str(error)
        key = said.removeprefix("--").partition(":")[0].partition(".")[0]
        if said.startswith("--") and key in stretch.conditions:
            said = f"{timeline.file}: {stretch.place}.{said[2:]}"
        raise UserError(said) from None
    if path.cell is not None:
        raise UserError(f"{file}: device: a timeline changes the link of a single client: leave one of the two out")
    radio = [hop for hop in path.hops if hop.kind == "radio"]
    return _Scene(stretch, path, (radio or [path.hops[-1]])[-1])


def _with_uncovered(timeline: Timeline, known: Sequence[_Scene]) -> list[_Scene]:
    """Return all stretches; one without coverage has the path of the one before it that has."""
    if not known:
        raise Problem("no stretch has coverage: leave out coverage = false of one", "stretch")
    found: list[_Scene] = []
    rest = list(known)
    for stretch in timeline.stretches:
        if stretch.table.coverage:
            found.append(rest.pop(0))
        else:
            found.append(replace((found or known)[-1 if found else 0], stretch=stretch))
    return found


class _Composer:
    """One composition."""

    def __init__(self, timeline: Timeline, scenes: Sequence[_Scene], traces: Traces) -> None:
        self.timeline = timeline
        self.scenes = scenes
        self.traces = traces
        with_radio = [scene for scene in scenes if scene.hop.down.radio is not None]
        self.template = (with_radio or scenes)[0]
        self.played: list[tuple[str, str]] = []

    def compose(self) -> TimedPath:
        template = self.template
        self._note_radios()
        hop = template.hop
        hop = replace(hop, down=self._link("down"), up=self._link("up"))
        hops = tuple(hop if each.name == hop.name else each for each in template.path.hops)
        starts = self.timeline.starts_ns()
        names = [scene.stretch.table.name for scene in self.scenes]
        stretches: list[Json] = [
            {"name": name, "start_ns": start_ns} for name, start_ns in zip(names, starts, strict=True)
        ]
        return TimedPath(
            replace(template.path, hops=hops),
            {
                "duration_ns": self.timeline.duration_ns,
                "loop": self.timeline.table.loop,
                "stretches": stretches,
                "patterns": [{"link": link, "file": file} for link, file in self.played],
            },
        )

    def _link(self, direction: Direction) -> Link:
        links = [scene.link(direction) for scene in self.scenes]
        found = self.template.link(direction)
        covered = all(scene.stretch.table.coverage for scene in self.scenes)
        if not covered or any(link.rate is not None for link in links):
            self._check_bearer(found)
            found = replace(found, rate=self._pattern(direction, "rate", self._rate))
        if any(link.delay != found.delay for link in links):
            found = replace(found, delay=self._pattern(direction, "delay", self._delay))
        if any(link.loss != found.loss for link in links):
            found = replace(found, loss=self._pattern(direction, "loss", self._loss))
        return found

    def _pattern(self, direction: Direction, what: str, part: Callable[[_Scene, Direction], Pattern]) -> PatternFile:
        parts = []
        for scene in self.scenes:
            table = scene.stretch.table
            try:
                parts.append(PatternPart(table.name, part(scene, direction), table.transition_ns))
            except UserError as error:
                rule = error.rule if isinstance(error, Problem) else str(error)
                raise Problem(rule, f"{scene.stretch.place}: {direction}link: {what}") from None
        try:
            made = sequence(parts)
        except UserError as error:
            raise Problem(str(error), f"stretch: {direction}link: {what}") from None
        hop = self.template.hop.name
        end: Literal["repeat", "hold"] = "repeat" if self.timeline.table.loop else "hold"
        file = self.traces.add(made, f"{self.timeline.file.stem}.{hop}.{direction}.{what}", end)
        self.played.append((f"{hop}.{direction}", self.traces.engine_path(file)))
        return file

    def _rate(self, scene: _Scene, direction: Direction) -> Pattern:
        link, table = scene.link(direction), scene.stretch.table
        if not table.coverage:
            return _constant(table.duration_ns, rate_bps=_whole(0), state=np.array([_OUTAGE], dtype=np.uint8))
        match link.rate:
            case ConstantRate():
                return _constant(table.duration_ns, rate_bps=_whole(link.rate.rate_bps))
            case PatternFile() | ScenePattern():
                part = self._part(link.rate, scene, ("rate_bps", "bler", "sinr_mdb", "need_mdb", "state"))
                return self._on_its_carrier(part, link)
            case None:
                raise Problem("there is none: add rate, trace or scene")
        raise Problem("a token bucket cannot change: write a rate")

    def _delay(self, scene: _Scene, direction: Direction) -> Pattern:
        delay = scene.link(direction).delay
        if isinstance(delay, PatternFile | ScenePattern):
            return self._part(delay, scene, ("delay_ns",))
        if delay is not None and not isinstance(delay, ConstantDelay):
            raise Problem("a random delay cannot change: write it for all stretches, in the path")
        return _constant(scene.stretch.table.duration_ns, delay_ns=_whole(0 if delay is None else delay.delay_ns))

    def _loss(self, scene: _Scene, direction: Direction) -> Pattern:
        loss = scene.link(direction).loss
        if isinstance(loss, PatternFile | ScenePattern):
            return self._part(loss, scene, ("loss",))
        if loss is not None and not isinstance(loss, IndependentLoss):
            raise Problem("a model of losses cannot change: write it for all stretches, in the path")
        return _constant(scene.stretch.table.duration_ns, loss=np.array([0.0 if loss is None else loss.probability]))

    def _part(self, source: PatternFile | ScenePattern, scene: _Scene, columns: Sequence[str]) -> Pattern:
        """Return the part of a pattern that a stretch plays, with only these columns."""
        seed = scene.path.seed
        pattern = self.traces.pattern(source, seed)
        if source.end == "stop":
            raise Problem("a link of a timeline cannot stop: write trace-end repeat or hold")
        if pattern.kind == "packets":
            raise Problem("a pattern over packets has no time: write one over time")
        if pattern.kind == "opportunities":
            self.traces.notes.append(
                f"{self.timeline.file}: {scene.stretch.place}: opportunities become the mean rate of windows of"
                f" {WINDOW_NS // 1_000_000} ms"
            )
            pattern = window_rates(pattern, WINDOW_NS)
        if "rate_bps" in columns and pattern.light_rate_bps is not None:
            place = f"{self.timeline.file}: {scene.stretch.place}"
            self.traces.notes.append(f"{place}: the light rate is not played: first bytes get the full rate")
        start = source.start.drawn_ns(seed) if isinstance(source.start, DrawnStart) else source.start
        found = {name: getattr(pattern, name) for name in columns}
        chosen = steps(
            pattern.index, pattern.period, **{name: each for name, each in found.items() if each is not None}
        )
        return part_of(chosen, start, scene.stretch.table.duration_ns, source.end)

    def _on_its_carrier(self, part: Pattern, link: Link) -> Pattern:
        """Return the part in the state fallback where its radio has the slots of the fallback carrier."""
        fallback = _slots(self.template.hop.down, fallback=True)
        if part.state is None or fallback is None or _slots(link, fallback=False) != fallback:
            return part
        if _slots(self.template.hop.down, fallback=False) == fallback:
            return part
        state = np.where(np.isin(part.state, _ON_CARRIER), np.uint8(_FALLBACK), part.state).astype(np.uint8)
        found = {name: getattr(part, name) for name in ("rate_bps", "bler", "sinr_mdb", "need_mdb")}
        values = {name: each for name, each in found.items() if each is not None}
        return steps(part.index, part.period, state=state, **values)

    def _note_radios(self) -> None:
        own = self.template.hop.down
        known = (_slots(own, fallback=False), _slots(own, fallback=True))
        for scene in self.scenes:
            radio = scene.hop.down.radio
            if radio is None or not scene.stretch.table.coverage:
                continue
            if _slots(scene.hop.down, fallback=False) not in known or type(radio) is not type(own.radio):
                name, other = scene.stretch.table.name, self.template.stretch.table.name
                self.traces.notes.append(
                    f"{self.timeline.file}: stretch {name!r}: rates and errors of radio {radio.preset}, in the slots of"
                    f" stretch {other!r}"
                )

    def _check_bearer(self, link: Link) -> None:
        if isinstance(link.radio, RadioSettings) and link.radio.bearer == "split":
            raise Problem("a split bearer plays no timeline: write bearer = switched", "stretch")


def _slots(link: Link, *, fallback: bool) -> Slots | None:
    if not isinstance(link.radio, RadioSettings):
        return None
    return link.radio.fallback if fallback else link.radio.slots


def _whole(value: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([value], dtype=np.int64)


def _constant(duration_ns: int, **columns: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Pattern:
    return steps(_whole(0), duration_ns, **columns)  # type: ignore[arg-type]
