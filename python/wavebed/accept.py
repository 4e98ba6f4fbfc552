"""Taking connections, by servers that go on while this machine has no room for one."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""accept(2): limits of descriptors, of the process and of the machine, and of memory."""
_WAIT_S = 0.2


def accept(listener: socket.socket) -> tuple[socket.socket, Sequence[object]] | None:
    """Take the next connection.

    Parameters
    ----------
    listener : socket
        Where connections come in.

    Returns
    -------
    (socket, address) or None
        The connection and who made it; ``None`` if none came within the socket's timeout, or if there is no
        descriptor or memory for one, after a moment: then it waits in the backlog.

    Raises
    ------
    OSError
        If the listener is closed or shut down.
    """
    try:
        return listener.accept()
    except (TimeoutError, ConnectionAbortedError):
        return None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        time.sleep(_WAIT_S)
        return None
