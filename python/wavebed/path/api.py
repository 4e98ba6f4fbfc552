"""The path from Python: read it, look at it, bring it up.

>>> import wavebed
>>> with wavebed.Path("kau-e5g-1").up() as lab:
...     result = lab.client.run(["ping", "-c", "3", "server"], capture_output=True)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, TypeAlias

from wavebed.config.problems import at, unknown_key
from wavebed.config.table import fields
from wavebed.config.units import format_rate, format_time
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.path.laboratory import LabPlan, laboratory_file, random_name, resolve_network
from wavebed.path.model import DistributedDelay, PatternFile, ScenePattern, scene_maps
from wavebed.path.scenario import read_path
from wavebed.path.tables import DIRECTED, AirTable, LinkTable, PathTable, link_key
from wavebed.path.traces import Traces
from wavebed.spec.types import ConstantDelay, ConstantRate, TokenBucketRate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.conditions.scenes import Scene
    from wavebed.config.data import Json
    from wavebed.path.lab import Laboratory
    from wavebed.path.model import Link, PathHop, PathModel


Setting: TypeAlias = "str | int | float | bool | os.PathLike[str] | Sequence[Setting] | Mapping[str, Setting] | None"
"""A value as a scenario file has it: ``"50mbit"``, a number, a file, a list or a table; ``None``: not given."""


class Path:
    """A path that can be brought up any number of times: a described one, or a single radio hop.

    Parameters
    ----------
    scenario : path, optional
        A scenario file or the name of a shipped one. Without it the path is a single radio hop.
    rate, up_rate, down_rate : str, optional
        Bits of IP packets per second, such as ``"50mbit"``; `rate` is for both directions.
    delay : str or mapping, optional
        One-way delay of each direction, such as ``"10ms"``.
    loss : str or mapping, optional
        Fraction of lost packets, such as ``"0.1%"``.
    queue : str or mapping, optional
        The queue of both directions: ``"droptail:100ms"``, ``{"kind": "codel", "ecn": True}``.
    scene : Scene or str, optional
        A radio scene or the name of one, whose channel is the rate.
    trace, up_trace, down_trace : path, optional
        A trace file, which is the rate over time.
    congestion_control : str, optional
        The congestion control of the hosts, such as ``"bbr"``.
    seed : int, optional
        The seed of all random processes.
    **options
        Further options of ``wavebed shell``, with ``_`` for ``-``: ``up_delay="5ms"``.

    Raises
    ------
    UserError
        If the file or an option is wrong; the message names it, the rule and the remedy.

    Examples
    --------
    >>> wavebed.Path(rate="50mbit", delay="20ms", queue="codel")
    >>> wavebed.Path("kau-e5g-1", seed=7)
    """

    def __init__(
        self,
        scenario: str | os.PathLike[str] | None = None,
        /,
        *,
        rate: Setting = None,
        up_rate: Setting = None,
        down_rate: Setting = None,
        delay: Setting = None,
        loss: Setting = None,
        queue: Setting = None,
        scene: Setting | Scene = None,
        trace: Setting = None,
        up_trace: Setting = None,
        down_trace: Setting = None,
        congestion_control: Setting = None,
        seed: Setting = None,
        **options: Setting,
    ) -> None:
        named: dict[str, object] = {
            "rate": rate,
            "up-rate": up_rate,
            "down-rate": down_rate,
            "delay": delay,
            "loss": loss,
            "queue": queue,
            "scene": scene,
            "trace": trace,
            "up-trace": up_trace,
            "down-trace": down_trace,
            "congestion-control": congestion_control,
            "seed": seed,
        }
        self._read(scenario, {**named, **options})

    @classmethod
    def load(cls, scenario: str | os.PathLike[str], **options: object) -> Path:
        """Read a scenario: the same as ``Path(scenario, **options)``, for options of any type.

        Raises
        ------
        UserError
            If the file or an option is wrong; the message names it, the rule and the remedy.
        """
        path = cls.__new__(cls)
        path._read(scenario, options)  # noqa: SLF001 - its own
        return path

    @classmethod
    def of(cls, **options: object) -> Path:
        """Make a path of one radio hop: the same as ``Path(**options)``, for options of any type.

        Raises
        ------
        UserError
            If an option is wrong.
        """
        path = cls.__new__(cls)
        path._read(None, options)  # noqa: SLF001 - its own
        return path

    def _read(self, scenario: str | os.PathLike[str] | None, options: Mapping[str, object]) -> None:
        self.scenario = None if scenario is None else FilePath(scenario)
        self.options: Mapping[str, object] = path_options(options)
        traces = Traces()
        try:
            self.model: PathModel = read_path(self.scenario, self.options, traces)
        finally:
            traces.close()

    def __repr__(self) -> str:
        """Describe each hop on one line, from the server to the client."""
        return f"Path: {' | '.join(map(_hop_text, self._hops()))}"

    def _hops(self) -> tuple[PathHop, ...]:
        """Return the hops; for a cell also the radio hop of each device."""
        cell = self.model.cell
        return self.model.hops if cell is None else (*self.model.hops, *map(cell.hop, cell.devices))

    def _repr_html_(self) -> str | None:
        """Return a table with a row for each link, for notebooks; ``None`` without Jinja2."""
        from wavebed.page.frames import notebook_table

        rows = [
            (f"{hop.name}.{name}", _rate_text(link), _delay_text(link), _queue_text(link))
            for hop in self._hops()
            for name, link in (("down", hop.down), ("up", hop.up))
        ]
        return notebook_table("Path, from the server to the client", ("link", "rate", "one-way delay", "queue"), rows)

    def laboratory(self, *, name: str = "resolved") -> dict[str, Json]:
        """Return the laboratory file: every value explicit, every unit in its key."""
        traces = Traces()
        try:
            network = resolve_network(self.model, traces)
            return laboratory_file(network, LabPlan(name=name, seed=self.model.seed))
        finally:
            traces.close()

    def up(
        self,
        *,
        name: str | None = None,
        log: str | os.PathLike[str] | None = None,
        pcap: str | os.PathLike[str] | None = None,
        summary: str | os.PathLike[str] | None = None,
        wait: bool = False,
        sample: bool = False,
    ) -> Laboratory:
        """Bring the path up. Use the result in a ``with`` statement: leaving it ends everything inside.

        The laboratory also ends when this Python process ends, however it ends.

        Parameters
        ----------
        name : str, optional
            The laboratory's name, for ``wavebed ctl``; drawn if absent.
        log, pcap : path, optional
            Folders for the links' series and for captures; made if absent.
        summary : path, optional
            File for the counters at the end; with `log`, ``summary.json`` in that folder by default.
        wait : bool
            Whether time begins only with `Laboratory.begin`. Until then programs can be started, but no packet crosses.
        sample : bool
            Whether to write ``flows.csv`` (TCP_INFO of every connection of every host, each 10 ms) and ``cpu.csv``
            (processors, each 100 ms) into `log`.

        Raises
        ------
        UserError
            If the name or a pattern is wrong, or `sample` is without `log`.
        MachineError
            If this machine cannot run a laboratory; ``wavebed doctor`` explains.
        """
        from wavebed.path.lab import Laboratory

        if sample and log is None:
            raise UserError("sample: there is nowhere to write to: add log=FOLDER")
        log_dir = None if log is None else FilePath(log)
        plan = LabPlan(
            name=random_name() if name is None else at("name", read_name, name),
            seed=self.model.seed,
            log_dir=log_dir,
            pcap_dir=None if pcap is None else FilePath(pcap),
            summary_file=FilePath(summary) if summary is not None else log_dir and log_dir / "summary.json",
            wait=wait,
            sample=sample,
            maps=scene_maps(self.model),
        )
        traces = Traces()
        try:
            return Laboratory(resolve_network(self.model, traces), plan, traces.descriptors)
        finally:
            traces.close()


def path_options(given: Mapping[str, object]) -> dict[str, object]:
    """Return options of a path by their keys in a scenario, without those that are ``None``.

    Raises
    ------
    Problem
        If an option is unknown.
    """
    options: dict[str, object] = {}
    known = (*fields(PathTable), *fields(LinkTable), *fields(AirTable))
    for name, value in given.items():
        key = name.replace("_", "-")
        if link_key(key) is None and key not in known:
            raise unknown_key(key, known, DIRECTED)
        if value is not None:
            options[key] = plain(value)
    return options


def plain(value: object) -> object:
    """Return a value as TOML gives it: files and scenes as texts, sequences as lists."""
    from wavebed.conditions.scenes import Scene

    if isinstance(value, Scene):
        return value.given
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return list(map(plain, value)) if isinstance(value, list | tuple) else value


def _hop_text(hop: PathHop) -> str:
    parts = []
    for name, link in (("down", hop.down), ("up", hop.up)):
        told = [each for each in (_rate_text(link), _delay_text(link)) if each]
        parts.append(f"{name} {', '.join(told) or 'without limit'}")
    return f"{hop.name} {'; '.join(parts)}"


def _rate_text(link: Link) -> str:
    match link.rate:
        case None:
            return ""
        case ConstantRate() | TokenBucketRate() as rate:
            return format_rate(rate.rate_bps)
        case PatternFile() as pattern:
            return f"trace {pattern.file.name}"
        case ScenePattern() as pattern:
            return f"scene {pattern.scene.name}"


def _delay_text(link: Link) -> str:
    match link.delay:
        case None:
            return ""
        case ConstantDelay() as delay:
            return format_time(delay.delay_ns)
        case DistributedDelay() as delay:
            return f"{format_time(delay.mean_ns)} ± {format_time(delay.spread_ns)}"
        case PatternFile() as pattern:
            return f"trace {pattern.file.name}"
        case ScenePattern() as pattern:
            return f"scene {pattern.scene.name}"


def _queue_text(link: Link) -> str:
    return "" if link.queue is None else link.queue.kind
