"""Find the program ``wavebed-core`` of this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from wavebed.errors import MachineError

__all__ = ["find_core"]

NAME = "wavebed-core"


def find_core() -> str:
    """Return the path of ``wavebed-core``.

    The variable ``WAVEBED_CORE`` wins when it is set. Otherwise the program is looked for beside the interpreter
    and in the directories into which an installer puts scripts.

    Raises
    ------
    MachineError
        If there is no such program.
    """
    chosen = os.environ.get("WAVEBED_CORE")
    if chosen:
        if os.access(chosen, os.X_OK) and Path(chosen).is_file():
            return chosen
        raise MachineError(f"WAVEBED_CORE: {chosen!r} is not a program: unset it, or name the built {NAME}")
    beside = Path(sys.executable).parent / NAME
    if os.access(beside, os.X_OK):
        return str(beside)
    for directory in _script_directories():
        program = directory / NAME
        if os.access(program, os.X_OK):
            return str(program)
    raise MachineError(f"{NAME} is not installed: reinstall wavebed, or set WAVEBED_CORE to the built program")


def _script_directories() -> list[Path]:
    import sysconfig

    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    return [Path(sysconfig.get_path("scripts")), Path(user)]
