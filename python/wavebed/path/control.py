"""Speak with a running laboratory: JSON lines on an abstract unix socket that only its owner's processes reach."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from wavebed.errors import UserError, WavebedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.path.laboratory import Json

__all__ = ["Connection", "LaboratoryGoneError", "socket_address"]


class LaboratoryGoneError(WavebedError):
    """The laboratory ended while it was spoken to."""


def socket_address(name: str) -> str:
    """Return the abstract address of the laboratory called `name`: this user's, or for root anybody's."""
    user = os.geteuid()
    if user == 0:
        table = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
        addresses = {line.split()[-1] for line in table.splitlines()}
        owners = {
            address.split("/")[1] for address in addresses if re.fullmatch(rf"@wavebed/\d+/{re.escape(name)}", address)
        }
        if owners and "0" not in owners:
            user = int(min(owners))
    return f"\0wavebed/{user}/{name}"


class Connection:
    """One conversation with a laboratory.

    Parameters
    ----------
    name : str
        The laboratory's name.

    Raises
    ------
    UserError
        If no laboratory of this user has this name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._rest = b""
        try:
            self._socket.connect(socket_address(name))
        except OSError:
            self._socket.close()
            raise UserError(f"{name!r} is no running laboratory: `wavebed ctl` lists those that are") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def listener_pid(self) -> int:
        """The number of the process that made the laboratory's socket."""
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def ask(self, request: Mapping[str, Json], files: Sequence[int] = ()) -> dict[str, Json]:
        """Send a request, with open files if it needs them, and return the answer.

        Raises
        ------
        UserError
            If the laboratory refuses the request.
        LaboratoryGoneError
            If it ended.
        """
        line = json.dumps(request).encode() + b"\n"
        try:
            if files:
                line = line[socket.send_fds(self._socket, [line], list(files)) :]
            # Nothing is sent when nothing is left: the peer may have answered and gone, and its answer still counts.
            if line:
                self._socket.sendall(line)
        except OSError:
            raise LaboratoryGoneError(f"laboratory {self.name!r} has ended") from None
        return self.answer()

    def answer(self, timeout_s: float | None = None) -> dict[str, Json]:
        """Wait for the next answer.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds to wait; without it, for ever.

        Raises
        ------
        TimeoutError
            If nothing came in time.
        UserError
            If the answer is a refusal.
        LaboratoryGoneError
            If the laboratory ended.
        """
        while b"\n" not in self._rest:
            try:
                self._socket.settimeout(timeout_s)
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                raise LaboratoryGoneError(f"laboratory {self.name!r} has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer = cast("dict[str, Json]", json.loads(line))
        if "error" in answer:
            raise UserError(f"{self.name}: {answer['error']}")
        return answer
