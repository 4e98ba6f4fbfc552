"""Many connections and malformed requests to a laboratory's control socket: it lives on, and answers others at once."""

from __future__ import annotations

import array
import json
import os
import re
import socket
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress import remains
from tests.stress.figure import Figure, of_all
from tests.stress.remains import end_all, ended, family, gone_within_s, settled, wait_until
from tests.stress.sandbox import inside, wavebed_command

if TYPE_CHECKING:
    from tests.stress.figure import State

__all__ = ["REQUESTS", "measure"]

NAME = "busy"
GROWTH_BYTES = 64 << 20
HELD = 200
LOOK_EVERY = 50


def answer_within_s() -> float:
    """Return the longest time until another client has its answer: a second, and more in tests on a busy machine."""
    return max(1.0, gone_within_s() - 3.0)


REQUESTS: dict[str, bytes] = {
    "an empty line": b"\n",
    "no JSON": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no UTF-8": b'{"do": "\xff\xfe\x80"}\n',
    "NULs": bytes(5000) + b"\n",
    "half an object": b'{"do": "show"\n',
    "a list": b'[{"do": "show"}]\n',
    "an object that asks for nothing": b'{"name": "show"}\n',
    "an unknown demand": b'{"do": "explode"}\n',
    "a program of the wrong type": b'{"do": "run", "host": 7, "argv": "ls", "env": []}\n',
    "no program": b'{"do": "run", "host": "client", "argv": []}\n',
    "an unknown host": b'{"do": "run", "host": "../../server", "argv": ["true"]}\n',
    "a signal to everybody": b'{"do": "kill", "pid": -1, "signal": 9}\n{"do": "kill", "pid": 1, "signal": 9}\n',
    "a change of nothing": b'{"do": "set", "link": "x.y", "rate_bps": -1}\n{"do": "set"}\n',
    "a deep object": b'{"do":' * 20_000 + b"\n",
}


def measure(count: int = 3000) -> list[Figure]:
    """Make `count` connections, with every malformed request among them, to a laboratory that carries a ping."""
    told = inside("tests.stress.sockets:connect_all", count=count, timeout_s=120 + count / 10)
    slowest_s, growth = told["slowest_s"], told["growth_bytes"]
    answered: State = "met" if slowest_s <= answer_within_s() else "missed"
    bounded: State = "met" if growth <= GROWTH_BYTES else "missed"
    return [
        of_all("the laboratory lives after malformed requests", [tuple(each) for each in told["cases"]], what="kinds"),
        Figure(
            f"answer to others beside {count} connections",
            f"in {answer_within_s():g} s",
            f"{slowest_s:.3f} s at most ({told['answers']} answers)",
            answered,
            told["problem"],
        ),
        Figure(
            "memory of the laboratory after them",
            f"at most {GROWTH_BYTES >> 20} MB more",
            f"{growth / (1 << 20):.1f} MB more, {len(told['descriptors'])} descriptors more",
            "missed" if told["descriptors"] else bounded,
            ", ".join(told["descriptors"]),
        ),
    ]


def connect_all(count: int) -> dict[str, Any]:
    """Make the connections, in a sandbox."""
    before = remains.State.now()
    argv = wavebed_command("shell", "--rate", "50mbit", "--name", NAME, "--", "ping", "-q", "-i", "0.05", "server")
    with Path("said").open("wb") as said:
        front = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    wait_until(lambda: ended(front) or _address() is not None, 60)
    wait_until(lambda: any(each.program == "ping" for each in family()), 60)
    address = _address()
    assert address is not None, Path("said").read_text()
    _ask(address)
    memory, descriptors = _memory(), _descriptors()
    cases = [(name, _survives(address, request)) for name, request in REQUESTS.items()]
    cases.append(("a hundred descriptors", _survives(address, b'{"do": "show"}\n', descriptors=100)))
    held = [_connected(address) for _ in range(min(HELD, count))]
    times = []
    requests = list(REQUESTS.values())
    problem = ""
    for number in range(count - len(held)):
        with _connected(address) as stream, suppress(OSError):
            if number % 3:
                stream.send(requests[number % len(requests)][: 1000 if number % 2 else None])
            if number % 3 == 2:
                stream.settimeout(0.05)  # half a request has no answer
                stream.recv(100)
        if number % LOOK_EVERY == 0:
            times.append(_ask(address))
    for stream in held:
        stream.close()
    times.append(_ask(address))  # an answer to the last one: all before it have been accepted
    wait_until(lambda: not _descriptors() - descriptors, 30)
    told = {"growth_bytes": _memory() - memory, "descriptors": sorted((_descriptors() - descriptors).elements())}
    front.terminate()
    if wait_until(lambda: ended(front), max(10.0, gone_within_s())) is None:
        problem = "it does not end"
    _, left = settled(before, front.pid, gone_within_s())
    end_all()
    words = Path("said").read_text(errors="replace")
    problem = ", ".join([problem, *left]) if left or problem else "panicked" if "panicked" in words else ""
    return {"cases": cases, "slowest_s": max(times), "answers": len(times), "problem": problem, **told}


def _address() -> str | None:
    """Return the abstract address of the laboratory's socket."""
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines():
        found = re.search(rf"@(wavebed/\d+/{NAME}(?:/\w+)?)$", line)
        if found:
            return f"\0{found[1]}"
    return None


def _connected(address: str) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(max(10.0, gone_within_s()))
    stream.connect(address)
    return stream


def _ask(address: str) -> float:
    """Ask for the counters; return how long the answer took, for ever if none came."""
    began = time.monotonic()
    data = b""
    with suppress(OSError), _connected(address) as stream:
        stream.sendall(b'{"do": "show"}\n')
        while not data.endswith(b"\n") and (chunk := stream.recv(1 << 16)):
            data += chunk
    with suppress(ValueError):
        if "links" in json.loads(data):
            return time.monotonic() - began
    return 1e9


def _survives(address: str, request: bytes, descriptors: int = 0) -> bool:
    """Send a malformed request; return whether others are answered in time afterwards."""
    with suppress(OSError), _connected(address) as stream:
        if descriptors:
            with Path(os.devnull).open("rb") as null:
                rights = array.array("i", [null.fileno()] * descriptors)
                stream.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        else:
            stream.sendall(request)
        stream.settimeout(0.2)
        stream.recv(1000)
    return _ask(address) <= answer_within_s()


def _own() -> list[int]:
    return [each.pid for each in family() if each.program == "wavebed-core"]


def _memory() -> int:
    total = 0
    for pid in _own():
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def _descriptors() -> Counter[str]:
    """Return the process and the kind of each descriptor; the numbers of pipes and sockets change."""
    found: Counter[str] = Counter()
    for pid in _own():
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found[f"{pid}: {re.sub(r'[0-9]+', 'N', str(entry.readlink()))}"] += 1
    return found
