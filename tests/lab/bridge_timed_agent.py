"""Runs inside a sandbox: a bridge whose path changes by a timeline or by faults on command, and its captures."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bridge_agent as agent
from bridge_frames import NEAR, frames_of_every_kind, raw_port

from wavebed._core import find_core
from wavebed.forward.sandbox import within
from wavebed.path.control import connect_to
from wavebed.path.live import apply_change, change_request, control_timeline, show, timeline_request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wavebed.path.control import ControlConnection

STARTED = b"Capturing on"


def told(connection: ControlConnection, *words: str) -> dict[str, Any]:
    """Control the timeline; return the times before and after, and its state."""
    before = time.monotonic_ns()
    state = control_timeline(connection, timeline_request(words))
    return {"asked_ns": before, "answered_ns": time.monotonic_ns(), "state": state}


class Burst:
    """Numbered datagrams from the router to the phone, sent in bursts and counted where they leave the bridge."""

    def __init__(self, connection: ControlConnection) -> None:
        self._connection = connection
        with within("router"):
            self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with within("phone"):
            self._receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.bind(("", 7000))
        self._receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._sent = 0

    def send(self, count: int, size: int = 100) -> int:
        """Send so many datagrams; return the number of the first."""
        first, self._sent = self._sent, self._sent + count
        for number in range(first, self._sent):
            self._sender.sendto(struct.pack("!I", number).ljust(size, b"\0"), (agent.ADDRESSES["phone"][0], 7000))
        return first

    def received(self, last: int) -> list[tuple[int, int]]:
        """Return the numbers that arrive up to the last one, and when, in ns."""
        found: list[tuple[int, int]] = []
        while not found or found[-1][0] != last:
            assert select.select([self._receiver], [], [], agent.WITHIN_S)[0], found[-5:]
            (number,) = struct.unpack("!I", self._receiver.recv(2000)[:4])
            found.append((number, time.monotonic_ns()))
        return found

    def down(self) -> dict[str, Any]:
        """Return the account of frames to the phone."""
        return dict(show(self._connection)["frames"][0])

    def wait_for(self, reason: str, count: int) -> None:
        """Wait until so many frames to the phone were dropped for a reason."""
        end = time.monotonic() + agent.WITHIN_S
        while self.down()["dropped_frames"].get(reason, 0) < count:
            assert time.monotonic() < end, (reason, self.down())
            time.sleep(0.01)


def states(file: str) -> dict[str, Any]:
    """Seek, pause and edit a timeline that passes or loses everything, with a burst in each state."""
    agent.build()
    with agent.bridge("--timeline", file) as process, connect_to(agent.NAME) as connection:
        burst = Burst(connection)
        agent.pings(1)
        answer: dict[str, Any] = {"moves": []}
        for words, passes in (
            (("seek", "open+200ms"), True),
            (("seek", "shut+100ms"), False),
            (("seek", "after"), True),
            (("set", "after.down-loss=100%"), False),
            (("seek", "open"), True),
        ):
            told(connection, "pause")
            state = told(connection, *words)["state"]
            dropped = burst.down()["dropped_frames"].get("loss", 0)
            first = burst.send(20)
            if passes:
                arrived = [number - first for number, _ in burst.received(first + 19)]
            else:
                # A kernel may have sent some frames of its own: only of the first half it is sure that they are lost.
                burst.wait_for("loss", dropped + 20)
                arrived = []
            answer["moves"].append({"state": state, "passes": passes, "arrived": arrived})
        answer["faster"] = told(connection, "speed", "2")["state"]
        answer["played"] = told(connection, "play")["state"]
        end = time.monotonic() + agent.WITHIN_S
        while (shown := show(connection)["timeline"])["position_ns"] < 1_600_000_000 and time.monotonic() < end:
            time.sleep(0.02)
        answer |= {"timeline": shown, "show": show(connection), "end": agent.ended(process, 15)}
    return answer


def handovers() -> dict[str, Any]:
    """Send bursts into handovers and an outage that keep packets, and into a handover that loses them."""
    agent.build()
    answer: dict[str, Any] = {}
    options = ("--rate", "1mbit", "--radio", "nr-120khz", "--queue", "droptail:5mb")
    with agent.bridge(*options), connect_to(agent.NAME) as connection:
        burst = Burst(connection)
        agent.pings(1)
        for name, key, value in (("handover", "handover", "150ms"), ("flap", "flap", "2:300ms:100ms")):
            first = burst.send(10)
            asked_ns = time.monotonic_ns()
            apply_change(connection, key, change_request(key, value))
            burst.send(10)
            arrived = [(number - first, at_ns - asked_ns) for number, at_ns in burst.received(first + 19)]
            answer[name] = {"arrived": arrived}
        # A second of packets waits when the handover begins: 100 of 1400 bytes at 1 Mbit/s.
        first = burst.send(300, 1400)
        key, value = "radio.down.handover", "150ms:lose"
        apply_change(connection, key, change_request(key, value))
        burst.wait_for("handover", 1)
        last = burst.send(1)
        answer["lost"] = {"arrived": [number - first for number, _ in burst.received(last)], "show": show(connection)}
    return answer


@contextlib.contextmanager
def capture(host: str, file: Path) -> Iterator[None]:
    """Capture what is at the port of a host until the block ends."""
    command = ["ip", "netns", "exec", host, "tshark", "-q", "-i", "eth0", "-F", "pcap", "-w", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        while (line := process.stderr.readline()) and STARTED not in line:
            pass
        assert line, "tshark did not start"
        # It says so before its child captures.
        deadline = time.monotonic() + agent.WITHIN_S
        while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield
        time.sleep(0.5)  # for what nobody sent
    finally:
        process.terminate()
        process.communicate(timeout=agent.WITHIN_S)


def wait_for_frames(files: Collection[Path], count: int) -> None:
    """Wait until so many frames of the sender are in each capture."""
    deadline = time.monotonic() + agent.WITHIN_S
    while any(frames_in(file.read_bytes()) < count for file in files) and time.monotonic() < deadline:
        time.sleep(0.05)


def frames_in(capture: bytes) -> int:
    """Return how many whole frames of the sender are in a file in the format pcap that is being written."""
    count, at = 0, 24
    while len(capture) >= at + 16:
        (size,) = struct.unpack_from("=I", capture, at + 8)
        count += len(capture) >= at + 16 + size and capture[at + 22 : at + 28] == NEAR
        at += 16 + size
    return count


def dissected(folder: str) -> dict[str, Any]:
    """Send frames of every kind both ways, and let tshark capture and dissect them on both sides."""
    agent.build(mtu=9000)
    sent = frames_of_every_kind()
    answer: dict[str, Any] = {"names": [each.name for each in sent]}
    with agent.bridge("--delay", "1ms", "--mtu", "9000"):
        for way, (near, far) in {"down": ("router", "phone"), "up": ("phone", "router")}.items():
            files = {side: Path(folder) / f"{way}.{side}.pcap" for side in ("near", "far")}
            with capture(near, files["near"]), capture(far, files["far"]), raw_port(near) as sender:
                for each in sent:
                    sender.send(each.frame)
                wait_for_frames(files.values(), len(sent))
            answer[way] = {side: read_capture(file) for side, file in files.items()}
    return answer


def lasting(layer: Any) -> Any:
    """Return what a dissection says of a frame, without what it says of the others: their times, and their numbers."""
    if not isinstance(layer, dict):
        return layer
    of_others = ("Timestamps", "ip.fragments_tree")
    return {name: lasting(value) for name, value in layer.items() if name not in of_others}


def read_capture(file: Path) -> list[tuple[str, str]]:
    """Return the dissection, and the bytes, of each frame of the sender in a capture, sorted by its bytes."""
    from_sender = ("-Y", "eth.src == " + NEAR.hex(":"))
    command = ["tshark", "-n", "-r", str(file), *from_sender, "-T", "json", "-x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = []
    for frame in json.loads(done.stdout):
        layers = frame["_source"]["layers"]
        raw = layers["frame_raw"][0]
        protocols = layers["frame"]["frame.protocols"]
        whole = lasting({name: layer for name, layer in layers.items() if name not in ("frame", "frame_raw")})
        found.append((raw, f"{protocols} {json.dumps(whole, sort_keys=True)}"))
    return sorted(found)


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "states": states,
    "handovers": handovers,
    "dissected": dissected,
}

if __name__ == "__main__":
    find_core()
    work, *arguments = sys.argv[1:]
    print(json.dumps(WORKS[work](*arguments)))
