"""Scene, radio and UE limit of a hop, which act on both of its links.

As in `wavebed.path.layers`, a later source stands above an earlier one. A table of a radio without a preset changes
the radio that is below it: that of an earlier source, of the scene, or of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from wavebed.config.problems import Problem, at
from wavebed.config.table import read_present
from wavebed.foreign import is_there
from wavebed.path.model import PatternFile, ScenePattern
from wavebed.path.tables import AirTable, RadioChoice
from wavebed.radio.model import RadioSettings, WifiSettings
from wavebed.radio.read import buffer_limited, change_settings, preset
from wavebed.spec.types import ConstantRate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path as FilePath

    from wavebed.channel.placemap import PlaceMap
    from wavebed.path.model import Link
    from wavebed.path.traces import Traces
    from wavebed.radio.model import MacSettings, UeLimit
    from wavebed.scene.model import Scene
    from wavebed.spec.queue import WrittenQueue

__all__ = ["Air", "SceneChoice", "check_link", "with_both_carriers", "with_link_keys"]

_OFF_REMEDY = 'or write radio = "off"'


class SceneChoice(Struct, frozen=True):
    """A scene or a map that was named, and where."""

    scene: Scene | None
    learned: PlaceMap | None
    name: str
    place: str


class Air(Struct):
    """The keys of `AirTable` while the values of one hop are collected."""

    scene: SceneChoice | None = None
    mode: tuple[Literal["3gpp", "reference", "study"], str] | None = None
    radio: list[tuple[RadioChoice, str]] = field(default_factory=list)
    ue_limit: UeLimit | None = None
    limit_place: str | None = None

    def lay(self, given: Mapping[str, object], place: Callable[[str], str], base: FilePath | None) -> None:
        """Lay one source's values above those that are there; see `wavebed.path.layers.Links.lay`."""
        read = read_present(AirTable, given, place)
        if read.scene is not None:
            self.scene = at(place("scene"), lambda name: _scene(name, place("scene"), base), read.scene)
            self.mode, self.radio, self.ue_limit, self.limit_place = None, [], None, None
        if "mode" in given:
            self.mode = (read.mode, place("mode"))
        if read.radio is not None:
            replaces = read.radio.off or read.radio.preset is not None
            self.radio = [*([] if replaces else self.radio), (read.radio, place("radio"))]
        if "ue-limit" in given:
            self.ue_limit, self.limit_place = read.ue_limit, place("ue-limit")

    def pattern(self, direction: str) -> ScenePattern | None:
        """Return the pattern of a link of the scene; ``None`` without a scene, and for the uplink of a map."""
        if self.scene is None or self.scene.scene is None:
            if self.mode is not None:
                rule = "requires scene: add it" if self.scene is None else "a map has no modes: remove it"
                raise Problem(rule, self.mode[1])
            learned = None if self.scene is None else self.scene.learned
            return None if learned is None or direction == "up" else ScenePattern(learned, "map", "down")
        mode = self._mode()
        if mode != "3gpp" and self.scene.scene.reference is None:
            raise Problem(
                f"the scene {self.scene.name!r} reproduces no study: write 3gpp", cast("tuple[str, str]", self.mode)[1]
            )
        # The study's testbed played one pattern in both directions.
        return ScenePattern(self.scene.scene, mode, "down" if direction == "down" or mode == "study" else "up")

    def _mode(self) -> Literal["3gpp", "reference", "study"]:
        return "3gpp" if self.mode is None else self.mode[0]

    def of_ue(self) -> UeLimit | None:
        """Return the packet-rate limit of the UE."""
        scene = None if self.scene is None else self.scene.scene
        return self.ue_limit if self.limit_place is not None or scene is None else scene.ue_limit

    def of_radio(self, links: Mapping[str, Link], traces: Traces, places: Mapping[str, str]) -> MacSettings | None:
        """Return the radio of the hop; ``None``: it has none.

        Parameters
        ----------
        links : mapping
            The links by direction, without a radio.
        traces : Traces
            Reads the headers of their patterns.
        places : mapping
            Where the trace of each direction was given.

        Raises
        ------
        Problem
            If nothing says which radio it is, or there is no rate that it can act on.
        """
        if [choice.off for choice, _ in self.radio] == [True]:
            return None
        settings = self._base(links, traces, places)
        for choice, place in self.radio:
            if settings is None:
                raise Problem(
                    'is missing: name the preset beside the other keys, as in preset = "nr-120khz"', f"{place}.preset"
                )
            settings = change_settings(settings, choice.table, place)
        if settings is None:
            _note_block_errors(links, traces)
        elif all(link.rate is None for link in links.values()):
            raise Problem("requires rate, trace or scene: add one of them", self.radio[-1][1])
        return settings

    def place_of_radio(self) -> str | None:
        """Return where the radio was given; ``None``: the trace or the scene brought it."""
        return self.radio[-1][1] if self.radio else None

    def _base(self, links: Mapping[str, Link], traces: Traces, places: Mapping[str, str]) -> MacSettings | None:
        if self.radio:
            choice, place = self.radio[0]
            if choice.off:
                raise Problem("there is no radio to change: name its preset", self.radio[1][1])
            if choice.preset is not None:
                return at(place, preset, choice.preset)
        if self.scene is not None:
            return None if self.scene.scene is None or self._mode() == "study" else self.scene.scene.radio
        named: dict[str, str] = {}
        for direction, link in links.items():
            if isinstance(link.rate, PatternFile):
                name = traces.header(link.rate).get("radio")
                if name is not None:
                    named[direction] = name
        if len(set(named.values())) > 1:
            raise Problem(
                f"the downlink's pattern is of radio {named['down']!r}, the uplink's of {named['up']!r}: write radio",
                places["up"],
            )
        for direction, name in named.items():
            return at(f"{places[direction]}: header key radio", preset, name)
        return None


def _note_block_errors(links: Mapping[str, Link], traces: Traces) -> None:
    files = {
        link.rate.file
        for link in links.values()
        if isinstance(link.rate, PatternFile) and traces.columns(link.rate) & {"bler", "sinr_db"}
    }
    for file in sorted(files):
        traces.notes.append(f"{file}: block errors have no effect without a radio: its rate is carried as it stands")


def _scene(name: str, place: str, base: FilePath | None) -> SceneChoice:
    file = None if base is None else base / name
    found = file if file is not None and is_there(file) else name
    from wavebed.channel.placemap import is_map, load_map

    if is_map(found):
        return SceneChoice(None, load_map(found), name, place)
    from wavebed.conditions.lookup import load_scene

    return SceneChoice(load_scene(str(found)), None, name, place)


def check_link(link: Link, traces: Traces, place: str) -> None:
    """Check that a radio can serve a link.

    Raises
    ------
    Problem
        If the link's rate or one of its keys is of a kind that a radio does not have.
    """
    rate = link.rate
    if link.sampled:
        raise Problem(f"cannot serve a sampled rate: use rate-mode live, {_OFF_REMEDY}", place)
    if not isinstance(rate, ConstantRate | PatternFile | ScenePattern):
        raise Problem(f"cannot serve a token bucket: use a rate or a trace, {_OFF_REMEDY}", place)
    if isinstance(rate, PatternFile) and "rate_bps" not in traces.columns(rate):
        raise Problem(f"cannot serve opportunities: use a trace of rates, {_OFF_REMEDY}", place)
    if link.outage != "hold":
        raise Problem(f"keeps its buffer in an outage: remove outage, {_OFF_REMEDY}", place)
    if link.queue_unit != "packet":
        raise Problem(f"queues wire segments: remove queue-unit, {_OFF_REMEDY}", place)


def with_both_carriers(
    links: Mapping[str, Link], settings: MacSettings | None, traces: Traces, places: Mapping[str, str]
) -> dict[str, Link]:
    """Return the links of a hop; with a split bearer their scene gives the rates of both carriers at all times.

    Parameters
    ----------
    links : mapping
        The links by direction.
    settings : RadioSettings, WifiSettings or None
        The radio of the hop.
    traces : Traces
        Reads the columns of patterns.
    places : mapping
        Where the radio of each direction was given.

    Raises
    ------
    Problem
        If the rate of the fallback carrier is not known.
    """
    found = dict(links)
    if not isinstance(settings, RadioSettings) or settings.bearer == "switched":
        return found
    scene: Scene | None = None
    for direction, link in links.items():
        if isinstance(link.rate, ScenePattern):
            scene = scene or _with_split_bearer(link.rate, places[direction])
            found[direction] = replace(link, rate=replace(link.rate, scene=scene))
        elif link.rate is not None and not (
            isinstance(link.rate, PatternFile) and "fallback_rate_bps" in traces.columns(link.rate)
        ):
            what = "needs a trace with the column 'fallback_rate_bps', or a scene with a fallback carrier"
            raise Problem(f'bearer = "split" {what}: add it, or write switched', places[direction])
    return found


def _with_split_bearer(rate: ScenePattern, place: str) -> Scene:
    scene = rate.scene if rate.mode == "3gpp" else None
    fallback = getattr(scene, "fallback", None)
    if scene is None or fallback is None:
        raise Problem(
            'bearer = "split" needs a scene with a fallback carrier: add [fallback], or write switched', place
        )
    return cast("Scene", scene).with_bearer("split")


def with_link_keys(
    settings: MacSettings, direction: str, queue: WrittenQueue | None, overhead_bytes: int | None, place: str
) -> MacSettings:
    """Return the settings with the values of one link: `queue` is the per-UE buffer.

    Parameters
    ----------
    settings : MacSettings
        The radio of the hop.
    direction : str
        ``down`` or ``up``.
    queue, overhead_bytes
        The link's own values; ``None``: not given.
    place : str
        Where the queue was given, for messages.

    Raises
    ------
    Problem
        If the queue does not suit the radio.
    """
    if isinstance(settings, WifiSettings):
        return replace(
            settings,
            queue=settings.queue if queue is None else buffer_limited(queue, settings.queue),
            overhead_bytes=settings.overhead_bytes if overhead_bytes is None else overhead_bytes,
        )
    side = settings.down if direction == "down" else settings.up
    side = replace(
        side,
        queue=side.queue if queue is None else buffer_limited(queue, side.queue),
        overhead_bytes=side.overhead_bytes if overhead_bytes is None else overhead_bytes,
    )
    if side.discard_ns is not None and side.queue.kind == "fq_codel":
        rule = "has no single order, which the discard timer of the radio requires"
        raise Problem(f'{rule}: use codel, or write discard = "off" in the table radio', place)
    return replace(settings, down=side) if direction == "down" else replace(settings, up=side)
