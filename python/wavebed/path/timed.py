"""The path of a timeline: the stretches of each link as one pattern for its rate, its delay and its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.path.model import DrawnStart, PatternFile, ScenePattern
from wavebed.path.scenario import read_document, read_path_of
from wavebed.path.timeline import options_of
from wavebed.pattern.model import STATES, Pattern, steps
from wavebed.pattern.resample import window_rates
from wavebed.pattern.sequence import Part, part_of, sequence
from wavebed.radio.model import RadioSettings
from wavebed.shipped import find
from wavebed.spec.types import ConstantDelay, ConstantRate, IndependentLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path as FilePath

    from wavebed.config.data import Json
    from wavebed.path.model import Hop, Link, PathModel
    from wavebed.path.timeline import Stretch, Timeline
    from wavebed.path.traces import Traces
    from wavebed.spec.types import Slots

__all__ = ["TimedPath", "timed_path"]

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
    hop: Hop

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
                parts.append(Part(table.name, part(scene, direction), table.transition_ns))
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
        if isinstance(delay, PatternFile):
            return self._part(delay, scene, ("delay_ns",))
        if delay is not None and not isinstance(delay, ConstantDelay):
            raise Problem("a random delay cannot change: write it for all stretches, in the path")
        return _constant(scene.stretch.table.duration_ns, delay_ns=_whole(0 if delay is None else delay.delay_ns))

    def _loss(self, scene: _Scene, direction: Direction) -> Pattern:
        loss = scene.link(direction).loss
        if isinstance(loss, PatternFile):
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
