"""Resolve each trial of a plan, or a stored specification, once."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from wavebed.config.table import raw_values
from wavebed.errors import WavebedError
from wavebed.foreign import is_file, read_bytes, read_text
from wavebed.output import replace_file
from wavebed.path.laboratory import resolve_network
from wavebed.path.model import scene_maps
from wavebed.path.traces import Traces
from wavebed.result.names import CHANGES_FILE, INCOMPLETE, SCENE_FILE
from wavebed.run.remedies import remedies_of
from wavebed.run.scenario import StoredTrial
from wavebed.spec.network import check_networks, pattern_files, with_pattern_files
from wavebed.spec.patterns import StoredPatterns, content_name, keep, keep_given, nearest_folder
from wavebed.spec.trial import VERSION, PatternOrigin, Treatment, TrialSpec, WorkloadSpec, load_spec
from wavebed.store.disk import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.channel.realisation import Realisation
    from wavebed.config.data import Json
    from wavebed.hosts.lab import RealHosts
    from wavebed.run.design import Slot
    from wavebed.run.scenario import Plan
    from wavebed.spec.types import Network
    from wavebed.workload.model import AnyWorkload

_MOST_REALISATIONS = 8
"""Realised scenes that the cells of a block may leave in memory for its next cells."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A trial ready to run on this machine.

    Parameters
    ----------
    spec : TrialSpec
        The trial as a value.
    network : Network
        Its network, with the pattern files that the engine opens.
    files : mapping
        Pattern files by their names in the specification.
    descriptors : sequence of int
        File descriptors of patterns in memory.
    maps : sequence of JSON data
        The maps of its scenes, for displays; none of a stored trial.
    programs : mapping
        The programs of its workloads on each of its hosts.
    reached : dict
        The last laboratory between each pair of real hosts, by their names. The trials of a run share this table.
    """

    spec: TrialSpec
    network: Network
    files: Mapping[str, str]
    descriptors: Sequence[int]
    maps: Sequence[Json] = ()
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reached: dict[tuple[str, str], RealHosts] = field(default_factory=dict)


def programs_on(workloads: Sequence[AnyWorkload]) -> dict[str, list[str]]:
    """Return the programs of workloads on each of their hosts."""
    found: dict[str, dict[str, None]] = {}
    for each in workloads:
        for host, names in (
            (each.common.server, each.needed_programs("server")),
            (each.common.client_host, each.needed_programs("client")),
        ):
            found.setdefault(host, {}).update(dict.fromkeys(names))
    return {host: [*each] for host, each in found.items()}


class Resolver:
    """Resolves the trials of a plan; reads files once, and realises scenes once for each seed.

    Parameters
    ----------
    plan : Plan
        The plan of the run.
    folder : pathlib.Path or None
        Where patterns and the files of workloads are kept; ``None``: nowhere.
    """

    def __init__(self, plan: Plan, folder: Path | None) -> None:
        self._plan = plan
        self._folder = folder
        self._traces = Traces()
        self._seed: int | None = None
        self._names: dict[str, tuple[str, int, tuple[int, ...]]] = {}
        self._options: dict[int, dict[str, Json]] = {}
        self._checked: set[bytes] = set()
        self._reached: dict[tuple[str, str], RealHosts] = {}

    def close(self) -> None:
        """Close all patterns."""
        self._traces.close()

    @contextmanager
    def resolved(self, slot: Slot) -> Iterator[Resolved]:
        """Yield a resolved trial, which is usable within the block.

        Raises
        ------
        UserError
            If a pattern cannot be read.
        WavebedError
            If a trace changed during the run, or a pattern cannot be stored.
        """
        path = slot.treatment.path
        if isinstance(path, StoredTrial):
            self._check(path.spec.network)
            with _unpacked(path, self._folder) as (network, files, descriptors):
                spec = self._spec(slot, path.spec.network, path.spec.patterns)
                programs = programs_on(slot.treatment.workloads)
                yield Resolved(spec, network, files, descriptors, programs=programs, reached=self._reached)
            return
        most = max(_MOST_REALISATIONS, 0 if path.cell is None else len(path.cell.devices))
        if slot.seed != self._seed or len(self._traces.realisations) > most:
            self._traces.forget_scenes()
            self._seed = slot.seed
        path = replace(path, seed=slot.seed)
        network = resolve_network(path, self._traces)
        self._check(network)
        named = {file: self._keep(file) for file in pattern_files(network)}
        origins = {name: self._origin(file, size) for file, (name, size) in named.items()}
        known = with_pattern_files(network, lambda file: named[file][0])
        spec = self._spec(slot, known, origins)
        files = {name: file for file, (name, _) in named.items()}
        programs = programs_on(slot.treatment.workloads)
        yield Resolved(spec, network, files, self._traces.descriptors, scene_maps(path), programs, self._reached)

    def _check(self, network: Network) -> None:
        """Let the engine check a network, once for all seeds: whatever is in the files of its patterns."""
        known = with_pattern_files(network, lambda _: "")
        text = msgspec.json.encode(known)
        if text not in self._checked:
            check_networks([known])
            self._checked.add(text)

    def draw_scene(self) -> None:
        """Draw the map of the current trial's scene, if it has one, or copy the map of its run.

        Raises
        ------
        WavebedError
            If it cannot be written.
        """
        if self._folder is None:
            return
        path = self._plan.treatments[0].path
        with explained(self._folder, "the map of the scene cannot be stored"):
            if isinstance(path, StoredTrial):
                copy_scene(path.folder, self._folder)
            if self._traces.realisations:
                draw_scene(self._traces.realisations, self._folder)

    def _keep(self, file: str) -> tuple[str, int]:
        """Store a pattern and return its name and size; a file must not change between trials."""
        is_scene = bool(self._traces.origin(file).mode)  # the next trial's scene reuses its name
        found = os.stat(file)  # noqa: PTH116 - a name as text
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if not is_scene and file in self._names:
            name, size, before = self._names[file]
            if before != state:
                raise WavebedError(f"{file}: changed during the run: its trials would differ")
            return name, size
        name, size = content_name(file)
        _keep_in(self._folder, file, name)
        if not is_scene:
            self._names[file] = (name, size, state)
        return name, size

    def _spec(self, slot: Slot, network: Network, origins: Mapping[str, PatternOrigin]) -> TrialSpec:
        plan = self._plan
        return TrialSpec(
            version=VERSION,
            title=plan.title,
            source=plan.source,
            treatment=Treatment(slot.treatment.name, cast("dict[str, Json]", dict(slot.treatment.changes))),
            block=slot.block,
            seed=slot.seed,
            network=network,
            patterns=dict(origins),
            workloads=tuple(
                _workload_spec(workload, self._kept_options(workload)) for workload in slot.treatment.workloads
            ),
            remedies=remedies_of(slot.treatment),
            lab=slot.treatment.lab,
        )

    def _kept_options(self, workload: AnyWorkload) -> dict[str, Json]:
        """Return the options of a workload; the files that they name are read and stored once for the run."""
        key = id(workload.options)  # which the devices of a group share, and the plan keeps
        if key not in self._options:
            self._options[key] = raw_values(workload.options)
            if self._folder is not None:
                with explained(self._folder, "the files of a workload cannot be kept"):
                    self._options[key] = workload.kept_options(self._folder)
        return self._options[key]

    def _origin(self, file: str, size: int) -> PatternOrigin:
        origin = self._traces.origin(file)
        return PatternOrigin(
            source="scene" if origin.mode else "trace",
            name=origin.name,
            bytes=size,
            title=origin.title,
            mode=origin.mode,
            direction=origin.direction,
        )


def _keep_in(folder: Path | None, file: str, name: str) -> None:
    if folder is not None:
        with explained(folder, "a pattern cannot be stored"):
            keep(file, name, folder)


@contextmanager
def _unpacked(stored: StoredTrial, folder: Path | None) -> Iterator[tuple[Network, Mapping[str, str], Sequence[int]]]:
    patterns = StoredPatterns(stored.spec.patterns, stored.folder)
    try:
        for name, file in patterns.files.items():
            _keep_in(folder, file, name)
        if folder is not None:
            with explained(folder, "a file of the bundle cannot be stored"):
                keep_given(stored.folder, folder)
        network = with_pattern_files(stored.spec.network, lambda name: patterns.files[name])
        yield network, patterns.files, patterns.descriptors
    finally:
        patterns.close()


def _workload_spec(workload: AnyWorkload, options: dict[str, Json]) -> WorkloadSpec:
    common = workload.common
    return WorkloadSpec(
        name=common.name,
        kind=workload.kind,
        start_ns=round(common.start_s * 1e9),
        after=common.after,
        limit_ns=round(common.limit_s * 1e9),
        server=common.server,
        client=common.client_host,
        options=options,
    )


def read_spec(file: Path) -> StoredTrial:
    """Return the specification in a file, the folder of its patterns, and the changes that were made in its trial.

    Raises
    ------
    UserError
        If it cannot be read or is not a specification.
    """
    spec = load_spec(file, "name a specification that wavebed resolve or run wrote")
    changes = file.with_name(CHANGES_FILE)
    text = read_text(changes, "remove it, or name another trial") if is_file(changes) else ""
    return StoredTrial(spec, nearest_folder(file), text)


_NAME_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


_MOST_BYTES = 16 << 20


def draw_scene(realisations: Sequence[Realisation], folder: Path) -> None:
    """Write the map of a scene into the folder of a run, with the trajectory of the first realisation.

    With several devices in one scene it has the trajectories of all. A scene without obstacles in which the only UE
    stands still has no map: it would show two points.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    realisation = realisations[0]
    together = [each for each in realisations if each.scene.devices and each.scene.name == realisation.scene.name]
    if realisation.scene.devices and len(together) > 1:
        from wavebed.channel.plot_devices import DeviceAlbum, devices_map

        devices = DeviceAlbum()
        for each in together:
            devices.add(each)
        drawn = devices_map(devices.view())[0]
        replace_file(folder / SCENE_FILE, drawn.replace("<svg", f"<svg {_NAME_SPACES}", 1).encode())
        return
    if not realisation.scene.obstacles and not (realisation.position_m != realisation.position_m[0]).any():
        return
    from wavebed.channel.plot import render_map
    from wavebed.channel.plot_data import Album

    album = Album()
    album.add(realisation)
    svg = render_map(album.view()).svg.replace("<svg", f"<svg {_NAME_SPACES}", 1)
    replace_file(folder / SCENE_FILE, svg.encode())


def copy_scene(source: Path, folder: Path) -> None:
    """Copy the map from the run of a stored trial, if it has one."""
    if (source / SCENE_FILE).is_file():
        replace_file(folder / SCENE_FILE, read_bytes(source / SCENE_FILE, INCOMPLETE, most=_MOST_BYTES))
