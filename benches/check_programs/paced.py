"""Datagrams at fixed moments of the clock, whatever happens to them: ``server PORT`` and ``client HOST PORT DOWN UP``.

DOWN and UP are rates in Mbit/s of UDP payload. Both ends begin at the next tenth of a second and send for 2 s.
"""

import socket
import sys
import threading
import time

BYTES = 1400
SECONDS = 2.0


def send(endpoint: socket.socket, address: tuple[str, int], mbit: float) -> None:
    """Send datagrams, each at its moment."""
    if not mbit:
        return
    begin = time.monotonic() // 0.1 * 0.1 + 0.1
    for number in range(int(mbit * 1e6 * SECONDS / 8 / BYTES)):
        time.sleep(max(0.0, begin + number * BYTES * 8 / (mbit * 1e6) - time.monotonic()))
        endpoint.sendto(number.to_bytes(4, "big") + bytes(BYTES - 4), address)


def main() -> None:
    """Be one of the two ends."""
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    if sys.argv[1] == "server":
        endpoint.bind(("0.0.0.0", int(sys.argv[2])))
        asked, address = endpoint.recvfrom(64)
        threading.Thread(target=send, args=(endpoint, address, float(asked)), daemon=True).start()
    else:
        address = (sys.argv[2], int(sys.argv[3]))
        endpoint.sendto(sys.argv[4].encode(), address)
        threading.Thread(target=send, args=(endpoint, address, float(sys.argv[5])), daemon=True).start()
    endpoint.settimeout(0.5)
    until = time.monotonic() // 0.1 * 0.1 + SECONDS + 1
    received = 0
    while time.monotonic() < until:
        try:
            endpoint.recv(2048)
            received += 1
        except TimeoutError:
            pass
    print(f"received = {received}")


if __name__ == "__main__":
    main()
