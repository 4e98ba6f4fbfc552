"""A scalable flow over UDP: `l4s_flow.py send SECONDS` on the server, `l4s_flow.py receive SECONDS` on the client.

The sender has the law of DCTCP (RFC 8257), which is that of Prague without its independence of the round trip, paces
its packets, and sends ECT(1). The receiver reads the ECN field of each packet and reports the number of packets and of
marks with each acknowledgement, as accurate ECN does. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from contextlib import suppress

PORT = 5004
ECT1, CE = 1, 3
PAYLOAD_BYTES = 1460
DATA = struct.Struct("!QQ")
"""Number of the packet, and when it was sent."""
REPORT = struct.Struct("!QQQQ")
"""Number and time of the newest packet, packets received, marks received."""
MOST_BURST_S = 0.002
TIMEOUT_S = 0.5


class Sender:
    """The window of a scalable sender, in packets."""

    def __init__(self) -> None:
        self.window = 10.0
        self.alpha = 1.0
        self.rtt_s = 0.05
        self.sent = 0
        self.received = self.marked = self.lost = 0
        self.round = self.reduced = 0
        self.round_received = self.round_marked = 0
        self.slow_start = True

    @property
    def flight(self) -> int:
        """Packets that were neither received nor lost."""
        return self.sent - self.received - self.lost

    def report(self, number: int, rtt_s: float, received: int, marked: int) -> None:
        """Take a report: packets come in order, so that those missing up to the newest are lost."""
        fresh, marks = received - self.received, marked - self.marked
        if fresh <= 0:
            return
        losses = number + 1 - received - self.lost
        self.received, self.marked, self.lost = received, marked, self.lost + max(losses, 0)
        self.rtt_s += (rtt_s - self.rtt_s) / 8
        if number >= self.round:
            packets = received - self.round_received
            self.alpha += ((marked - self.round_marked) / max(packets, 1) - self.alpha) / 16
            self.round, self.round_received, self.round_marked = self.sent, received, marked
        if losses > 0 or marks > 0:
            self.slow_start = False
            if number >= self.reduced:
                self.reduced = self.sent
                self.window = max(2.0, self.window * (0.5 if losses > 0 else 1 - self.alpha / 2))
        else:
            self.window += fresh if self.slow_start else fresh / self.window


def send(seconds: float) -> None:
    """Send to whoever says hello."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", PORT))
    _, peer = sock.recvfrom(100)
    sock.connect(peer)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT1)
    sock.setblocking(False)
    sender = Sender()
    padding = bytes(PAYLOAD_BYTES - DATA.size)
    now = heard = due = time.monotonic()
    end = now + seconds
    while now < end:
        interval = sender.rtt_s / sender.window / (2 if sender.slow_start else 1)
        due = max(due, now - MOST_BURST_S)
        while sender.flight < sender.window and due <= now:
            sock.send(DATA.pack(sender.sent, time.monotonic_ns()) + padding)
            sender.sent += 1
            due += interval
        wait = due - now if sender.flight < sender.window else 0.01
        select.select([sock], [], [], max(0.0, min(wait, 0.01)))
        now = time.monotonic()
        try:
            while True:
                number, sent_ns, received, marked = REPORT.unpack(sock.recv(100)[: REPORT.size])
                sender.report(number, (time.monotonic_ns() - sent_ns) / 1e9, received, marked)
                heard = now
        except BlockingIOError:
            pass
        if now - heard > TIMEOUT_S:
            sender.lost = sender.sent - sender.received
            sender.window, heard = 2.0, now


def receive(seconds: float) -> None:
    """Say hello until data comes, and report on each packet."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((socket.gethostbyname("server"), PORT))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    sock.settimeout(0.2)
    received = marked = 0
    delays_ms = []
    first = time.monotonic()
    while time.monotonic() < first + seconds:
        try:
            data, control, _, _ = sock.recvmsg(2000, 100)
        except TimeoutError:
            if not received:
                sock.send(b"hello")
            continue
        now_ns = time.monotonic_ns()
        number, sent_ns = DATA.unpack_from(data)
        field = next((value[0] for _, kind, value in control if kind == socket.IP_TOS), 0)
        received += 1
        marked += field & 3 == CE
        delays_ms.append((now_ns - sent_ns) / 1e6)
        sock.send(REPORT.pack(number, sent_ns, received, marked))
    delays_ms.sort()
    count = len(delays_ms)
    print(
        json.dumps(
            {
                "mbit_per_s": received * (PAYLOAD_BYTES + 28) * 8 / seconds / 1e6,
                "marked": marked,
                "received": received,
                "delay_ms": {part: delays_ms[int(count * part / 100)] for part in (50, 99)} if count else {},
            }
        )
    )


if __name__ == "__main__":
    # The receiver ends first.
    with suppress(ConnectionRefusedError):
        {"send": send, "receive": receive}[sys.argv[1]](float(sys.argv[2]))
