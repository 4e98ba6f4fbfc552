"""Run a module that ends with its owner: ``python -m wavebed.mcp.child DESCRIPTOR MODULE ARGUMENT…``.

The descriptor is the reading end of a pipe whose other end only the owner holds. When it closes, however the owner
ended, the module's process gets SIGTERM, as at Ctrl-C, and soon after the whole process group SIGKILL. SIGTERM goes on
to the module.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

__all__: list[str] = []

GRACE_S = 1.5


def _main() -> int:
    descriptor, module, *arguments = sys.argv[1:]
    process = subprocess.Popen([sys.executable, "-P", "-m", module, *arguments])
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    left_alone = threading.Event()

    def watch() -> None:
        while os.read(int(descriptor), 1):
            pass
        left_alone.set()
        process.terminate()
        time.sleep(GRACE_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="owner", daemon=True).start()
    status = process.wait()
    if left_alone.is_set():
        os.killpg(0, signal.SIGKILL)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(_main())
