"""Sockets of other hosts: ``python -m pytest_wavebed.sockets [FILE]`` makes them on its host and hands them over.

A process asks by a Unix socket, which no network namespace bounds, and gets a descriptor. So one Python process can
have sockets on both hosts without any privilege.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

__all__ = ["address_file", "foreign_socket", "main"]

_REQUEST = struct.Struct("=iii")
_ANSWER = struct.Struct("=i")


def address_file(host: str) -> Path:
    """Return the file of the Unix socket of a host of the laboratory in which this process runs."""
    name = os.environ.get("WAVEBED_LAB", "none")
    return Path(tempfile.gettempdir()) / f"wavebed-{os.getuid()}-{name}-{host}.sock"


def foreign_socket(file: Path, family: int, kind: int, protocol: int) -> int:
    """Return the descriptor of a new socket on another host.

    Raises
    ------
    OSError
        If it cannot be made there, or nobody answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(str(file))
        asking.sendall(_REQUEST.pack(family, kind, protocol))
        answer, descriptors, _, _ = socket.recv_fds(asking, _ANSWER.size, 1)
    number = _ANSWER.unpack(answer)[0] if len(answer) == _ANSWER.size else errno.ECONNRESET
    if number or not descriptors:
        raise OSError(number, os.strerror(number), str(file))
    return descriptors[0]


def main() -> int:
    """Make sockets for whoever asks, until this process is ended."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else address_file(os.environ.get("WAVEBED_HOST", "host"))
    # It gets its name when it listens: whoever sees the name may connect at once.
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(partial))
        partial.chmod(0o600)
        listening.listen(64)
        partial.rename(file)
        try:
            while True:
                asked, _ = listening.accept()
                with asked:
                    _answer(asked)
        finally:
            file.unlink(missing_ok=True)


def _answer(asked: socket.socket) -> None:
    request = asked.recv(_REQUEST.size, socket.MSG_WAITALL)
    if len(request) != _REQUEST.size:
        return
    try:
        made = socket.socket(*_REQUEST.unpack(request))
    except OSError as error:
        asked.sendall(_ANSWER.pack(error.errno or errno.EINVAL))
        return
    with made:
        socket.send_fds(asked, [_ANSWER.pack(0)], [made.fileno()])


if __name__ == "__main__":
    sys.exit(main())
