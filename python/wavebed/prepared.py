"""Types of msgspec that any thread may decode.

msgspec 0.22 publishes a type before its fields are known. If a second thread decodes it meanwhile, the process crashes.
"""

from __future__ import annotations

import threading
from typing import TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()
_READY: set[object] = set()


def prepared(kind: T) -> T:
    """Return a type for msgspec to decode, after msgspec has learned all its fields.

    Every first use of a type goes through here, since types share the types of their fields.
    """
    if kind not in _READY:
        import msgspec

        with _LOCK:
            msgspec.json.Decoder(kind)
            _READY.add(kind)
    return kind
