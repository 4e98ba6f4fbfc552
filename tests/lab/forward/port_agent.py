"""Runs inside a sandbox: starts ports of the tester, and hands requests and answers over, one JSON object per line.

``{"start": "left", "core": 0}`` starts a port. ``{"port": "left", "ask": {...}}`` asks it; with ``text`` instead of
``ask`` a line goes out as it is; with ``tell`` nobody waits for the answer. ``{"end": "left"}`` closes its input, and
answers how it ended. ``{"run": ["ip", ...]}`` runs a program and answers what it printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from wavebed._core import find_core

ENDS_WITHIN_S = 50.0


def do(options: dict[str, Any], ports: dict[str, subprocess.Popen[str]]) -> object:
    if "run" in options:
        return subprocess.run(options["run"], check=True, capture_output=True, text=True, timeout=50).stdout
    if "start" in options:
        command = [find_core(), "port", options["start"]]
        if options.get("core") is not None:
            command += ["--core", str(options["core"])]
        ports[options["start"]] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return None
    if "end" in options:
        port = ports.pop(options["end"])
        assert port.stdin is not None, "it was asked for"
        port.stdin.close()
        return {"status": port.wait(ENDS_WITHIN_S)}
    port = ports[options["port"]]
    assert port.stdin is not None, "it was asked for"
    assert port.stdout is not None, "it was asked for"
    text = options["text"] if "text" in options else json.dumps(options.get("ask", options.get("tell")))
    port.stdin.write(text + "\n")
    port.stdin.flush()
    return None if "tell" in options else json.loads(port.stdout.readline())


def main() -> None:
    ports: dict[str, subprocess.Popen[str]] = {}
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line), ports)), flush=True)
    for port in ports.values():
        port.kill()


if __name__ == "__main__":
    main()
