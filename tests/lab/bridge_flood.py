"""Sends UDP datagrams to a host, faster than the link: HOST RATE_BPS SECONDS."""

from __future__ import annotations

import contextlib
import socket
import sys
import time

PAYLOAD, SEGMENTS = 1472, 40
UDP_SEGMENT = 103


def main() -> None:
    host, rate_bps, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD)
        sender.connect((host, 9))
        data = bytes(PAYLOAD * SEGMENTS)
        pause_s = SEGMENTS * 1500 * 8 / rate_bps
        began = due = time.monotonic()
        while due - began < seconds:
            # Nobody listens there.
            with contextlib.suppress(ConnectionRefusedError):
                sender.send(data)
            due += pause_s
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
