"""What the trials of a campaign depend on: files, programs, kernel and machine; and what changed of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed._core import find_core, find_edge
from wavebed.errors import UserError
from wavebed.foreign import open_foreign
from wavebed.remedy.model import EDGE
from wavebed.result.machine import machine, versions
from wavebed.run.folder import programs
from wavebed.run.remedies import remedy_programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wavebed.campaign.read import Campaign
    from wavebed.result.model import RunRecord
    from wavebed.run.executor.block import Site

__all__ = ["CORE", "Conditions", "changes_since", "conditions", "digests"]

CORE = "wavebed-core"
"""Name of the link engine among the inputs."""
_OF_MACHINE = {"processor", "cores", "memory"}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Digests of the files, versions of programs and kernel, and the machine."""

    inputs: Mapping[str, str]
    versions: Mapping[str, str]
    machine: Mapping[str, str]


def conditions(campaign: Campaign, site: Site | None = None) -> Conditions:
    """Return the present conditions of a campaign.

    Parameters
    ----------
    site : Site, optional
        A worker, if the campaign does not run here: its machine is not a condition, since each block has its own.

    Raises
    ------
    UserError
        If a file cannot be read.
    """
    if site is not None:
        there = dict(site.versions)
        inputs = {str(file): _digest(file) for file in campaign.inputs} | {CORE: there.pop(CORE)}
        return Conditions(inputs, there, {})
    inputs = digests(campaign.inputs)
    if EDGE in remedy_programs(campaign.plan):
        inputs[EDGE] = _digest(Path(find_edge()))
    return Conditions(inputs, versions(programs(campaign.plan)), machine())


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file and of the link engine, by name."""
    found = {str(file): _digest(file) for file in files}
    return found | {CORE: _digest(Path(find_core()))}


def _digest(file: Path) -> str:
    with open_foreign(file, "it must stay as long as the campaign runs") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def changes_since(before: RunRecord, now: Conditions) -> list[str]:
    """Return what changed since a campaign began or was last resumed, a line each; a file that only moved is none.

    Raises
    ------
    UserError
        If the record is not of a campaign.
    """
    if before.campaign is None:
        raise UserError("the folder has no campaign: name one that wavebed campaign run wrote")
    lines = []
    then = _moved(before.campaign.inputs, now.inputs)
    for name, digest in now.inputs.items():
        was = then.get(name)
        if was is None:
            lines.append(f"{name} is new")
        elif was != digest:
            lines.append(f"{name} has other content")
    lines += [f"{name} is no longer read" for name in then if name not in now.inputs]
    for what, old, new in (("", before.versions, now.versions), ("machine: ", before.machine, now.machine)):
        for name in sorted({*old, *new}):
            if what and (name not in _OF_MACHINE or not now.machine or "processor" not in old):
                continue
            if old.get(name) != new.get(name):
                lines.append(f"{what}{name} is {new.get(name, 'missing')}, was {old.get(name, 'missing')}")
    return lines


def _moved(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the former inputs, with the present name of each that is in another folder with the same content."""
    new = {(Path(name).name, digest): name for name, digest in now.items() if name not in before}
    return {
        name if name in now else new.pop((Path(name).name, digest), name): digest for name, digest in before.items()
    }
