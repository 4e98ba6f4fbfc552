"""Run a module that ends with its owner: ``python -m wavebed.mcp.child DESCRIPTOR MODULE ARGUMENT…``.

The descriptor is the reading end of a pipe whose other end only the owner holds. When it closes, however the owner
ended, this process gets SIGTERM, as at Ctrl-C, and ends for certain soon after.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

__all__: list[str] = []

GRACE_S = 1.5


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(128 + signal.SIGTERM)


def _main() -> None:
    descriptor, module = int(sys.argv[1]), sys.argv[2]
    threading.Thread(target=_watch, args=(descriptor,), name="owner", daemon=True).start()
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
