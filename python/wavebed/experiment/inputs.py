"""The inputs of an experiment: its tests, programs, kernel and machine, which a resumed one must share."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import UserError
from wavebed.result.machine import machine, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DIGITS = 12


def inputs_now(programs: Iterable[str], **contents: bytes) -> dict[str, str]:
    """Return the inputs as they are now: versions, the machine, digests of ``wavebed-core`` and of the contents.

    Raises
    ------
    MachineError
        If there is no ``wavebed-core``.
    """
    digested = {"wavebed-core": Path(find_core()).read_bytes(), **contents}
    digests = {name: hashlib.sha256(content).hexdigest()[:_DIGITS] for name, content in digested.items()}
    return versions(programs) | machine() | digests


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each input that changed, as ``kernel is 6.18, was 6.17``."""
    return tuple(
        f"{name} is {now.get(name, 'missing')}, was {before.get(name, 'missing')}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    )


def accepted_changes(
    folder: Path, before: Mapping[str, str], now: Mapping[str, str], *, accept: bool
) -> tuple[str, ...]:
    """Return the changed inputs, a line each.

    Raises
    ------
    UserError
        If there are some that are not accepted.
    """
    changed = changes(before, now)
    if changed and not accept:
        raise UserError(f"{folder}: {'; '.join(changed)}: restore it, or accept with --accept-changes")
    return changed
