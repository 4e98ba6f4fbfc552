"""A process that a test forks ends with its work: it never goes on as a second pytest, whatever fails in it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["forked"]


def forked(work: Callable[[], object]) -> int:
    """Do `work` in a process of its own, and return its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 nothing above this frame would show it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)
    return child
