"""Messages over UDP by a window: ``window.py server PORT`` and ``window.py client HOST PORT [MUTANT]``.

The client sends four messages one after the other, each of 80 packets of 1200 bytes, at most 20 of them without an
acknowledgement. The server acknowledges each packet. One is sent again when three later ones were acknowledged, or
after 250 ms.

Mutants: ``window-1`` (one packet at a time), ``window-80`` (all at once), ``go-back`` (after a loss, everything since
is sent again), ``no-fast-retransmit`` (only the timer, of one second), ``no-timeout`` (only by later acknowledgements).
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time

MESSAGES, PACKETS, SIZE, WINDOW, TIMER_S, LATER, LIMIT_S = 4, 80, 1200, 20, 0.25, 3, 5.0
NUMBER = struct.Struct("!I")


def serve(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 400_000)
        own.bind(("0.0.0.0", port))
        while True:
            data, client = own.recvfrom(2000)
            own.sendto(data[: NUMBER.size], client)


class Sender:
    def __init__(self, host: str, port: int, mutant: str) -> None:
        self.mutant = mutant
        self.window = {"window-1": 1, "window-80": PACKETS}.get(mutant, WINDOW)
        self.timer_s = {"no-fast-retransmit": 1.0, "no-timeout": float("inf")}.get(mutant, TIMER_S)
        self.own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.own.connect((host, port))
        self.due: dict[int, float] = {}
        self.later: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.next = self.sent = 0

    def send(self, number: int) -> None:
        self.own.send(NUMBER.pack(number) + bytes(SIZE))
        self.sent += 1
        self.due[number] = time.monotonic() + self.timer_s
        self.later[number] = 0

    def lost(self, number: int) -> None:
        again = [each for each in self.due if each >= number] if self.mutant == "go-back" else [number]
        for each in again:
            self.send(each)

    def acknowledge(self, number: int) -> None:
        self.acknowledged.add(number)
        self.due.pop(number, None)
        for each in sorted(each for each in self.due if each < number):
            self.later[each] += 1
            if self.later[each] == LATER and self.mutant != "no-fast-retransmit":
                self.lost(each)

    def message(self, number: int, end: float) -> None:
        last = (number + 1) * PACKETS
        while len(self.acknowledged) < last and time.monotonic() < end:
            while self.next < last and len(self.due) < self.window:
                self.send(self.next)
                self.next += 1
            wait_s = max(0.0, min([*self.due.values(), end]) - time.monotonic())
            if select.select([self.own], [], [], wait_s)[0]:
                self.acknowledge(NUMBER.unpack(self.own.recv(100))[0])
            for number in [each for each, due in self.due.items() if due <= time.monotonic()]:
                if number in self.due:
                    self.lost(number)


def transfer(host: str, port: int, mutant: str) -> None:
    began = time.monotonic()
    sender = Sender(host, port, mutant)
    for number in range(MESSAGES):
        sender.message(number, began + LIMIT_S)
    left = MESSAGES * PACKETS - len(sender.acknowledged)
    if left:
        sys.exit(f"{left} packets missing after {LIMIT_S:g} s")
    print(f"transfer time = {time.monotonic() - began:.3f} s")
    print(f"sent per packet = {sender.sent / (MESSAGES * PACKETS):.2f}")


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    transfer(socket.gethostbyname(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or [""])[0])
