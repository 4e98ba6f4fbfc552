"""Import msgspec without ``typing_extensions``, which it takes in place of ``typing`` wherever that is installed.

From Python 3.11 on both are the same to it, and the former costs a tenth of the start-up of ``wavebed shell``.
"""

from __future__ import annotations

import sys

__all__: list[str] = []

_NAME = "typing_extensions"

if _NAME not in sys.modules and "msgspec" not in sys.modules:
    sys.modules[_NAME] = None  # type: ignore[assignment] # an import of it fails, as where it is not installed
    try:
        import msgspec  # noqa: F401 - those that import it next get this one
    finally:
        del sys.modules[_NAME]
