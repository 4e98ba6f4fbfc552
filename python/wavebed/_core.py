"""Find the programs ``wavebed-core``, ``wavebed-edge`` and ``wavebed-agent`` of this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from wavebed.errors import MachineError

NAME = "wavebed-core"
EDGE = "wavebed-edge"
AGENT = "wavebed-agent"


def find_core() -> str:
    """Return the path of ``wavebed-core``.

    The variable ``WAVEBED_CORE`` wins when it is set. Otherwise the program is looked for beside the interpreter
    and in the directories into which an installer puts scripts.

    Raises
    ------
    MachineError
        If there is no such program.
    """
    return _find(NAME, "WAVEBED_CORE")


def find_edge() -> str:
    """Return the path of ``wavebed-edge``, the remedies; the variable ``WAVEBED_EDGE`` wins when it is set.

    Raises
    ------
    MachineError
        If there is no such program.
    """
    return _find(EDGE, "WAVEBED_EDGE")


def find_agent() -> str:
    """Return the path of ``wavebed-agent``, for real hosts; the variable ``WAVEBED_AGENT`` wins when it is set.

    Raises
    ------
    MachineError
        If there is no such program.
    """
    return _find(AGENT, "WAVEBED_AGENT")


def _find(name: str, variable: str) -> str:
    chosen = os.environ.get(variable)
    if chosen:
        if os.access(chosen, os.X_OK) and Path(chosen).is_file():
            return chosen
        raise MachineError(f"{variable}: {chosen!r} is not a program: unset it, or name the built {name}")
    beside = Path(sys.executable).parent / name
    if os.access(beside, os.X_OK):
        return str(beside)
    for directory in _script_directories():
        program = directory / name
        if os.access(program, os.X_OK):
            return str(program)
    raise MachineError(f"{name} is not installed: reinstall wavebed, or set {variable} to the built program")


def _script_directories() -> list[Path]:
    import sysconfig

    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    return [Path(sysconfig.get_path("scripts")), Path(user)]
