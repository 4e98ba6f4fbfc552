"""The path from Python: read it, look at it, bring it up.

>>> import wavebed
>>> with wavebed.Path.load("scenarios/kau-e5g-1.toml").up() as lab:
...     result = lab.client.run(["ping", "-c", "3", "server"], capture_output=True)
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from wavebed.config.problems import at, unknown_key
from wavebed.config.table import fields
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.path.laboratory import LabPlan, laboratory_file, random_name, resolve_network
from wavebed.path.model import scene_maps
from wavebed.path.scenario import read_path
from wavebed.path.tables import DIRECTED, AirTable, LinkTable, PathTable, link_key
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.path.lab import Laboratory
    from wavebed.path.model import PathModel


class Path:
    """A path that can be brought up any number of times.

    Use `load` or `of` to make one. The resolved values are in `model`.

    Parameters
    ----------
    model : PathModel
        Hosts, hops and links.
    """

    def __init__(self, model: PathModel) -> None:
        self.model = model

    @classmethod
    def load(cls, scenario: str | os.PathLike[str], **options: object) -> Path:
        """Read a scenario file.

        Parameters
        ----------
        scenario : path
            A TOML file with a table ``[path]``.
        **options
            Values that override it, named as the options of ``wavebed shell`` with ``_`` for ``-``, and written as
            there: ``rate="1gbit"``, ``up_delay="5ms"``, ``queue={"kind": "codel", "ecn": True}``.

        Raises
        ------
        UserError
            If the file or an option is wrong; the message names it, the rule and the remedy.
        """
        return cls(_read(FilePath(scenario), options))

    @classmethod
    def of(cls, **options: object) -> Path:
        """Make a path of one radio hop from options alone, as in `load`.

        Raises
        ------
        UserError
            If an option is wrong.
        """
        return cls(_read(None, options))

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


def _read(scenario: FilePath | None, options: dict[str, object]) -> PathModel:
    given = {
        key.replace("_", "-"): os.fspath(value) if isinstance(value, os.PathLike) else value
        for key, value in options.items()
    }
    known = (*fields(PathTable), *fields(LinkTable), *fields(AirTable))
    for key in given:
        if link_key(key) is None and key not in known:
            raise unknown_key(key, known, DIRECTED)
    traces = Traces()
    try:
        return read_path(scenario, given, traces)
    finally:
        traces.close()
