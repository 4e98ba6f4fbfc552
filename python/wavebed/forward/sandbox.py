"""The sandbox: namespaces that ``wavebed-core sandbox`` makes, and that end with it."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["enter", "inside", "pin"]

PIN_VARIABLE = "WAVEBED_PIN"
"""Set by ``wavebed-core sandbox``: the descriptor on which the outside is asked to place kernel threads."""

PIN_WITHIN_S = 5.0
ANSWER_BYTES = 4096


def inside() -> bool:
    """Return whether this process runs in a sandbox."""
    return PIN_VARIABLE in os.environ


def enter(argv: Sequence[str]) -> None:
    """Start the present command again inside a sandbox, unless it runs in one.

    The process becomes the front of the sandbox and ends with the command's status: this returns only inside.

    Parameters
    ----------
    argv : sequence of str
        The words after ``wavebed`` on the command line.

    Raises
    ------
    MachineError
        If there is no ``wavebed-core``.
    """
    if inside():
        return
    core = find_core()
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: no module of the working folder takes the place of an installed one.
    os.execv(core, [core, "sandbox", "--", sys.executable, "-P", "-m", "wavebed", *argv])  # noqa: S606 - no shell is wanted


def pin(napi: int, core: int, fifo: int = 0) -> None:
    """Keep a kernel thread that polls an interface on one processor.

    Parameters
    ----------
    napi : int
        The NAPI instance that it polls (see `wavebed.forward.napi`).
    core : int
        The processor.
    fifo : int
        Priority under SCHED_FIFO; 0 for the normal scheduler.

    Raises
    ------
    MachineError
        If this is no sandbox, or the outside refuses.
    """
    number = os.environ.get(PIN_VARIABLE, "")
    if not number.isdecimal():
        raise MachineError("kernel threads can be placed from inside a sandbox only")
    request = json.dumps({"napi": napi, "core": core, "fifo": fifo})
    try:
        with socket.socket(fileno=os.dup(int(number))) as stream:
            stream.settimeout(PIN_WITHIN_S)
            stream.sendall(request.encode() + b"\n")
            answer = json.loads(_line(stream))
    except (OSError, ValueError) as error:
        raise MachineError(f"the outside of the sandbox does not place threads: {error}") from None
    if "error" in answer:
        raise MachineError(str(answer["error"]))


def _line(stream: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = stream.recv(ANSWER_BYTES)
        if not chunk:
            raise ConnectionResetError("it is gone")
        line += chunk
    return line
