"""Scene, radio and UE limit of a hop, which act on both of its links.

As in `wavebed.path.layers`, a later source stands above an earlier one. A table of a radio without a preset changes
the radio that is below it: of an earlier source, of the scene, or of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from wavebed.config.problems import Problem, at
from wavebed.config.table import fields, of_values, read_present
from wavebed.config.units import format_rate, format_time
from wavebed.foreign import is_there, openable
from wavebed.path.model import DistributedDelay, DrawnStart, Link, PatternFile, ScenePattern
from wavebed.path.tables import DIRECTIONS, AirTable, LinkTable, RadioChoice, link_key
from wavebed.radio.presets import RadioSettings, WifiSettings
from wavebed.radio.read import buffer_limited, change_settings, preset
from wavebed.shipped import TRACES, find
from wavebed.spec.network import least_limit, limit_in_words
from wavebed.spec.types import ConstantDelay, ConstantRate, TokenBucketRate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path as FilePath

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.channel.placemap import PlaceMap
    from wavebed.path.model import Delay
    from wavebed.path.traces import Traces
    from wavebed.radio.presets import MacSettings, UeLimit
    from wavebed.scene.model import SceneModel
    from wavebed.spec.network import WrittenQueue


_OFF_REMEDY = 'or write radio = "off"'


class SceneChoice(Struct, frozen=True):
    """A scene, a map or a low-orbit access that was named, and where."""

    scene: SceneModel | None
    learned: PlaceMap | LowOrbit | None
    name: str
    place: str
    kind: Literal["scene", "map", "low-orbit"]

    def pattern(self, direction: str) -> ScenePattern | None:
        """Return the pattern of a direction of a map, which has a downlink only, or of a low-orbit access."""
        if self.learned is None or self.kind == "scene" or (self.kind == "map" and direction == "up"):
            return None
        return ScenePattern(self.learned, self.kind, "down" if direction == "down" else "up")


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
                rule = (
                    "requires scene: add it" if self.scene is None else f"a {self.scene.kind} has no modes: remove it"
                )
                raise Problem(rule, self.mode[1])
            return None if self.scene is None else self.scene.pattern(direction)
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
        return SceneChoice(None, load_map(found), name, place, "map")
    from wavebed.conditions.lookup import find_low_orbit, load_scene

    access = find_low_orbit(str(found))
    if access is not None:
        return SceneChoice(None, access, name, place, "low-orbit")
    return SceneChoice(load_scene(str(found)), None, name, place, "scene")


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
    scene: SceneModel | None = None
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


def _with_split_bearer(rate: ScenePattern, place: str) -> SceneModel:
    scene = rate.scene if rate.mode == "3gpp" else None
    fallback = getattr(scene, "fallback", None)
    if scene is None or fallback is None:
        raise Problem(
            'bearer = "split" needs a scene with a fallback carrier: add [fallback], or write switched', place
        )
    return cast("SceneModel", scene).with_bearer("split")


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


class LayerEntry(Struct, frozen=True):
    """One value that was given.

    Parameters
    ----------
    value : object
        The value of the key's reader.
    place : str
        Where it stands, for messages.
    both : bool
        Whether it was given for both directions.
    """

    value: object
    place: str
    both: bool


class Links:
    """The two links of one hop while their values are collected."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, LayerEntry]] = {direction: {} for direction in DIRECTIONS}
        self._air = Air()

    def copy(self) -> Links:
        """Return the same values, to lay others above them; scenes that were read are the same objects."""
        links = Links()
        links._entries = {direction: dict(entries) for direction, entries in self._entries.items()}
        links._air = replace(self._air, radio=list(self._air.radio))
        return links

    def lay(self, given: Mapping[str, object], place: Callable[[str], str], base: FilePath | None = None) -> None:
        """Lay one source's values above those that are there.

        Parameters
        ----------
        given : mapping
            Raw values by key, with or without ``down-`` or ``up-``.
        place : callable
            Gives the place of a key in the source, for messages.
        base : pathlib.Path, optional
            The folder that names of files are relative to.

        Raises
        ------
        Problem
            If a value is wrong, or a rate and a trace are given side by side.

        Notes
        -----
        A `scene` that names a condition brings its other keys, which those beside it stand above. A condition without
        a radio is the whole hop: nothing of the layers below it is left.
        """
        if "scene" in given:
            given = at(place("scene"), lambda keys: self._with_condition(keys, base), given)
        self._air.lay(given, place, base)
        if "scene" in given:
            for key in ("rate", "trace"):
                if key in given:
                    what = "a scene gives both links their rate: remove one of them, or write"
                    raise Problem(f"{what} down-{key} or up-{key}", place(key))
            for entries in self._entries.values():
                for key in ("rate", "trace", "trace-format", "trace-end", "start-at"):
                    entries.pop(key, None)
        for both in (True, False):
            step: dict[str, dict[str, LayerEntry]] = {direction: {} for direction in DIRECTIONS}
            for name, raw in given.items():
                found = link_key(name)
                if found is None or (len(found[1]) == 2) != both:
                    continue
                field, directions = found
                value = at(place(name), lambda given: _rooted(given, base), at(place(name), field.key.reader, raw))
                for direction in directions:
                    step[direction][field.name] = LayerEntry(value, place(name), both)
            for direction in DIRECTIONS:
                self._lay_step(direction, step[direction])

    def _with_condition(self, given: Mapping[str, object], base: FilePath | None) -> Mapping[str, object]:
        from wavebed.conditions.lookup import with_condition  # 3 ms of the start-up of `shell`

        found, whole = with_condition(given, base)
        if whole:
            self._entries = {direction: {} for direction in DIRECTIONS}
            self._air = Air()
        return found

    def _lay_step(self, direction: str, step: dict[str, LayerEntry]) -> None:
        if "rate" in step and "trace" in step:
            raise Problem("a link has a rate or a trace, not both: remove one of them", step["trace"].place)
        entries = self._entries[direction]
        if "rate" in step:
            for key in ("trace", "trace-format", "trace-end", "start-at"):
                entries.pop(key, None)
        if "trace" in step:
            entries.pop("rate", None)
            entries.pop("trace-format", None)
        if "delay" in step and not isinstance(step["delay"].value, ConstantDelay):
            entries.pop("jitter", None)
        entries.update(step)

    def build(self, traces: Traces, mtu: int) -> tuple[Link, Link]:
        """Return the downlink and the uplink.

        Parameters
        ----------
        traces : Traces
            Reads the columns and headers of patterns.
        mtu : int
            Bytes of the largest packet.

        Raises
        ------
        Problem
            If a key lacks one that it requires, or two keys do not fit each other.
        """
        for entries in self._entries.values():
            _check_bucket(entries, mtu)
        ue_limit = self._air.of_ue()
        if ue_limit is not None and self._air.limit_place is not None:
            _check_limit(ue_limit.queue, mtu, None, f"{self._air.limit_place}.queue")
        links = {
            direction: _build(self._entries[direction], self._air.pattern(direction), traces.columns)
            for direction in DIRECTIONS
        }
        self._check_needs(links)
        for direction in DIRECTIONS:
            _check_starts(links[direction], self._entries[direction], traces)
        places = {
            direction: entries["trace"].place for direction, entries in self._entries.items() if "trace" in entries
        }
        radio = self._air.of_radio(links, traces, places)
        radio_places = {
            direction: self._air.place_of_radio() or places.get(direction, "radio") for direction in DIRECTIONS
        }
        for direction, link in with_both_carriers(links, radio, traces, radio_places).items():
            entries = self._entries[direction]
            settings = None
            if radio is not None and link.rate is not None:
                check_link(link, traces, radio_places[direction])
                overhead_bytes = link.overhead_bytes if "overhead" in entries else None
                queue_place = entries["queue"].place if "queue" in entries else ""
                settings = with_link_keys(radio, direction, link.queue, overhead_bytes, queue_place)
            links[direction] = replace(link, radio=settings, ue_limit=ue_limit)
            _check_queue(links[direction], direction, mtu, entries.get("queue"), radio_places[direction])
        return links["down"], links["up"]

    def _check_needs(self, links: Mapping[str, Link]) -> None:
        for direction in DIRECTIONS:
            for key, entry in self._entries[direction].items():
                needs = fields(LinkTable)[key].key.needs
                able = DIRECTIONS if entry.both else (direction,)
                if needs and not any(_has(needs, self._entries[each], links[each]) for each in able):
                    raise Problem(f"requires {_NEEDED[needs]}", entry.place)


_NEEDED = {
    "rate": "rate, trace or scene: add one of them",
    "trace": "trace: add it",
    "pattern": "trace or scene: add one of them",
    "delay": "delay: add it",
    "loss": "loss: add it",
}


def _has(needs: str, entries: Mapping[str, LayerEntry], link: Link) -> bool:
    if needs == "trace":
        return "trace" in entries
    if needs == "pattern":
        return isinstance(link.rate, PatternFile | ScenePattern)
    return {"rate": link.rate, "delay": link.delay, "loss": link.loss}[needs] is not None


def _rooted(value: object, base: FilePath | None) -> object:
    from pathlib import Path as FilePath

    def rooted(file: FilePath) -> FilePath:
        named = file if base is None else file.expanduser()
        return openable(find(named, "trace", TRACES, beside=base))

    if isinstance(value, FilePath):
        return rooted(value)
    if isinstance(value, PatternFile):
        return replace(value, file=rooted(value.file))
    return value


def _build(
    entries: Mapping[str, LayerEntry],
    scene: ScenePattern | None,
    trace_columns: Callable[[PatternFile], frozenset[str]],
) -> Link:
    given = of_values(LinkTable, {name: entry.value for name, entry in entries.items()})
    rate = given.rate
    if rate is None and scene is not None:
        rate = replace(scene, end=given.trace_end, start=given.start_at)
    delay, loss = given.delay, given.loss
    _check_pattern(entries, "delay", "delay_s", trace_columns)
    _check_pattern(entries, "loss", "loss", trace_columns)
    sampled = given.rate_mode == "sampled"
    if sampled:
        _check_sampled(given, entries)
    if given.trace is not None:
        rate = trace = PatternFile(given.trace, given.trace_format, given.trace_end, given.start_at)
        columns = at(entries["trace"].place, trace_columns, trace)
        if not columns & {"rate_bps", "bytes"}:
            raise Problem("the trace has no rate: give it as the pattern of delay or loss", entries["trace"].place)
        if sampled and "bytes" in columns:
            raise Problem("opportunities cannot be sampled: use a trace of rates", entries["rate-mode"].place)
        if "bytes" in columns:
            _check_opportunities(given, entries)
        delay = trace if delay is None and "delay_s" in columns else delay
        loss = trace if loss is None and "loss" in columns else loss
    if isinstance(rate, ScenePattern) and rate.mode == "low-orbit":
        delay = rate if delay is None else delay
        loss = rate if loss is None else loss
        # What is sent during an interruption is lost; what waits for its end is not.
        given = given if "loss-at" in entries else replace(given, loss_at="entry")
    if given.jitter_ns and delay is not None:
        delay = at(entries["jitter"].place, lambda mean: _with_jitter(mean, given.jitter_ns), delay)
    return Link(
        rate=rate,
        sampled=sampled,
        overhead_bytes=given.overhead_bytes,
        outage=given.outage,
        queue=given.queue,
        queue_unit=given.queue_unit,
        delay=delay,
        delay_limit=given.delay_limit,
        loss=loss,
        loss_unit=given.loss_unit,
        loss_at=given.loss_at,
        duplicate=given.duplicate,
        reorder=given.reorder,
        corrupt=given.corrupt,
    )


def _with_jitter(delay: Delay, jitter_ns: int) -> DistributedDelay:
    """Return the delay of netem's ``delay TIME JITTER``: uniform, in order."""
    if not isinstance(delay, ConstantDelay):
        rule = "does not fit a delay that varies already"
        raise Problem(f"{rule}: write delay = {{distribution = SHAPE, mean = TIME, spread = TIME}}, or remove jitter")
    if jitter_ns > delay.delay_ns:
        longest = format_time(delay.delay_ns)
        raise Problem(f"{format_time(jitter_ns)} is more than the delay: write at most {longest}, or a longer delay")
    return DistributedDelay("uniform", delay.delay_ns, jitter_ns)


def _check_sampled(given: LinkTable, entries: Mapping[str, LayerEntry]) -> None:
    if isinstance(given.rate, TokenBucketRate):
        raise Problem("a token bucket cannot be sampled: use a rate or a trace", entries["rate-mode"].place)
    if given.queue is not None and given.queue.kind not in ("droptail", "infinite"):
        rule = f"{given.queue.kind} does not fit rate-mode sampled, which fixes departures on arrival"
        raise Problem(f"{rule}: write droptail or infinite", entries["queue"].place)


def _check_bucket(entries: Mapping[str, LayerEntry], mtu: int) -> None:
    rate = entries.get("rate")
    if rate is not None and isinstance(rate.value, TokenBucketRate) and rate.value.burst_bytes < mtu:
        raise Problem(f"is {rate.value.burst_bytes}b: write at least the MTU, {mtu}b", f"{rate.place}.burst")


def _check_queue(link: Link, direction: str, mtu: int, given: LayerEntry | None, radio_place: str) -> None:
    """Check that a packet of the MTU fits the queue; `wavebed.path.laboratory` checks it for rates that change."""
    queue, key = link.queue, ""
    if isinstance(link.radio, WifiSettings):
        queue, key = link.radio.queue, "buffer"
    elif link.radio is not None:
        side = link.radio.down if direction == "down" else link.radio.up
        queue, key = side.queue, f"{direction}-buffer"
    if queue is not None:
        rate_bps = link.rate.rate_bps if isinstance(link.rate, ConstantRate | TokenBucketRate) else None
        _check_limit(queue, mtu, rate_bps, f"{radio_place}.{key}" if given is None else given.place)


def _check_limit(queue: WrittenQueue, mtu: int, rate_bps: int | None, place: str) -> None:
    least = None if queue.limit is None else least_limit(queue.limit, mtu, rate_bps)
    if queue.limit is not None and least is not None:
        rate = "" if rate_bps is None else format_rate(rate_bps)
        raise Problem(limit_in_words(queue.limit, least, mtu, rate), place)


def _check_starts(link: Link, entries: Mapping[str, LayerEntry], traces: Traces) -> None:
    """Refuse a range of starts if a seed may draw one at which the pattern has ended."""
    starts = ("start-at", link.rate, ""), ("delay", link.delay, ".start-at"), ("loss", link.loss, ".start-at")
    for key, value, place in starts:
        if not isinstance(value, PatternFile | ScenePattern) or not isinstance(value.start, DrawnStart):
            continue
        if key not in entries:  # the trace has delay or loss: its start is checked already
            continue
        start, duration_ns = value.start, traces.duration_ns(value)
        if duration_ns is None or start.most_s * 10**9 < duration_ns:
            continue
        last_s = -(-duration_ns // 10**9) - 1
        instead = f"{start.least_s}s..{last_s}s" if start.least_s < last_s else f"0s..{last_s}s"
        raise Problem(
            f"'{start.least_s}s..{start.most_s}s' may draw {start.most_s}s, but the pattern lasts"
            f" {format_time(duration_ns)}: write at most {instead}",
            entries[key].place + place,
        )


def _check_opportunities(given: LinkTable, entries: Mapping[str, LayerEntry]) -> None:
    if given.trace_end == "hold":
        raise Problem("opportunities have no duration: write repeat or stop", entries["trace-end"].place)
    if given.outage == "drop":
        raise Problem("opportunities have no rate of zero: remove outage", entries["outage"].place)


def _check_pattern(
    entries: Mapping[str, LayerEntry], key: str, column: str, trace_columns: Callable[[PatternFile], frozenset[str]]
) -> None:
    entry = entries.get(key)
    if entry is None or not isinstance(entry.value, PatternFile):
        return
    columns = at(entry.place, trace_columns, entry.value)
    if column not in columns:
        raise Problem(f"the pattern has no column {column!r}, but {', '.join(sorted(columns))}: add it", entry.place)
