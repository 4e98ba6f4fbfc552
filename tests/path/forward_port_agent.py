"""Runs inside a cell: starts ports of the tester, and hands requests and answers over, one JSON object per line.

``{"start": "left", "core": 0}`` starts a port. ``{"port": "left", "ask": {...}}`` asks it; with ``text`` instead of
``ask`` a line goes out as it is; with ``tell`` nobody waits for the answer. ``{"end": "left"}`` closes its input, and
answers how it ended and after how many seconds. ``{"run": ["ip", ...]}`` runs a program and answers what it printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from wavebed._core import find_core

ENDS_WITHIN_S = 20.0


def do(wish: dict[str, Any], ports: dict[str, subprocess.Popen[str]]) -> object:
    if "run" in wish:
        return subprocess.run(wish["run"], check=True, capture_output=True, text=True, timeout=20).stdout
    if "start" in wish:
        command = [find_core(), "port", wish["start"]]
        if wish.get("core") is not None:
            command += ["--core", str(wish["core"])]
        ports[wish["start"]] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return None
    if "end" in wish:
        port = ports.pop(wish["end"])
        assert port.stdin is not None, "it was asked for"
        began = time.monotonic()
        port.stdin.close()
        return {"status": port.wait(ENDS_WITHIN_S), "took_s": time.monotonic() - began}
    port = ports[wish["port"]]
    assert port.stdin is not None, "it was asked for"
    assert port.stdout is not None, "it was asked for"
    text = wish["text"] if "text" in wish else json.dumps(wish.get("ask", wish.get("tell")))
    port.stdin.write(text + "\n")
    port.stdin.flush()
    return None if "tell" in wish else json.loads(port.stdout.readline())


def main() -> None:
    ports: dict[str, subprocess.Popen[str]] = {}
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line), ports)), flush=True)
    for port in ports.values():
        port.kill()


if __name__ == "__main__":
    main()
