"""Audio over UDP: ``frames.py server PORT [MUTANT]`` and ``frames.py client HOST PORT [MUTANT]``.

The server sends a frame every 20 ms for three seconds, and each packet carries the frame before it too. The client
plays frame n at the time of the first frame + n · 20 ms + 150 ms, its jitter buffer, and prints the share of frames
that were not there.

Mutants: ``no-buffer`` (a jitter buffer of 3 ms), ``small-buffer`` (6 ms, less than a HARQ round trip of LTE),
``no-redundancy`` (only one frame in a packet), ``no-codec`` (frames of 40 times the size).
"""

from __future__ import annotations

import socket
import struct
import sys
import time

FRAMES, EVERY_S, SIZE = 150, 0.02, 320
BUFFER_S = {"no-buffer": 0.003, "small-buffer": 0.006}
NUMBER = struct.Struct("!I")


def serve(port: int, mutant: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("0.0.0.0", port))
        _, client = own.recvfrom(100)
        began = time.monotonic()
        for number in range(FRAMES):
            time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
            packets = SIZE * 40 // 1280 if mutant == "no-codec" else 1
            for _ in range(packets):
                own.sendto(NUMBER.pack(number) + bytes(SIZE if packets == 1 else 1280), client)
        time.sleep(1)


def play(host: str, port: int, mutant: str) -> None:
    arrived: dict[int, float] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(1.5)
        for _ in range(5):
            own.sendto(b"begin", (host, port))
        try:
            while FRAMES - 1 not in arrived:
                number = NUMBER.unpack(own.recv(2000)[:4])[0]
                now = time.monotonic()
                # The last packet of a frame completes it.
                frames = (number,) if mutant in ("no-redundancy", "no-codec") else (number - 1, number)
                for frame in frames:
                    if mutant == "no-codec" or frame not in arrived:
                        arrived[frame] = now
        except TimeoutError:
            pass
    first = min((number for number in arrived if number >= 0), default=None)
    if first is None:
        print("missing frames = 100 %")
        return
    zero = arrived[first] - first * EVERY_S + BUFFER_S.get(mutant, 0.15)
    there = sum(arrived.get(number, float("inf")) <= zero + number * EVERY_S for number in range(FRAMES))
    print(f"missing frames = {100 * (1 - there / FRAMES):.2f} %")


if sys.argv[1] == "server":
    serve(int(sys.argv[2]), (sys.argv[3:] or [""])[0])
else:
    play(socket.gethostbyname(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or [""])[0])
