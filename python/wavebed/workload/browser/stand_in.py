"""Stands in for a browser that runs on another machine: hands its pipes over, and ends with the browser."""

from __future__ import annotations

import json
import os
import socket
import sys

from wavebed.workload.browser.far import SOCKET

_TOLD, _ANSWERS, _ERRORS = 3, 4, 2
"""Descriptors of Chromium's ``--remote-debugging-pipe``: what it reads and what it writes; and standard error."""


def main() -> int:
    """Hand over, wait for the browser's end, and return its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        socket.send_fds(connection, [json.dumps(sys.argv[1:]).encode() + b"\n"], [_TOLD, _ANSWERS, _ERRORS])
        # Whoever drives the browser sees the end of the pipes when the browser itself closes them.
        for each in (_TOLD, _ANSWERS):
            os.close(each)
        return int(connection.recv(16) or b"1")


if __name__ == "__main__":
    sys.exit(main())
