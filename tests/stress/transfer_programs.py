"""Programs on the hosts of a laboratory: one sends bytes over TCP, the other receives them; both print their SHA-256.

``python -m tests.stress.transfer_programs send|receive BYTES [urgent] [mss=N] [family=4|6]``.
"""

from __future__ import annotations

import hashlib
import random
import socket
import sys

PORT = 7100
BLOCK = 1 << 15
WITHIN_S = 30.0


def content(size: int) -> bytes:
    """Return the bytes that are sent: random ones, so that no two places are alike."""
    return random.Random(size).randbytes(size)


def send(connection: socket.socket, size: int, *, urgent: bool) -> str:
    """Send the content; `urgent` sends every seventh block as urgent data, which stays in the stream."""
    data = content(size)
    for number, place in enumerate(range(0, size, BLOCK)):
        block = data[place : place + BLOCK]
        if urgent and number % 7 == 3:
            while block:
                block = block[connection.send(block, socket.MSG_OOB) :]
        else:
            connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)
    return hashlib.sha256(data).hexdigest()


def receive(connection: socket.socket) -> str:
    """Receive to the end, urgent data in its place."""
    digest = hashlib.sha256()
    while chunk := connection.recv(1 << 18):
        digest.update(chunk)
    return digest.hexdigest()


def main() -> None:
    """Be the server, which sends, or the client, which receives."""
    role, size, *rest = sys.argv[1:]
    settings = dict(each.partition("=")[::2] for each in rest)
    family = socket.AF_INET if settings.get("family") == "4" else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as endpoint:
        endpoint.settimeout(WITHIN_S)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        if "mss" in settings:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(settings["mss"]))
        if role == "send":
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            endpoint.bind(("", PORT))
            endpoint.listen()
            connection, _ = endpoint.accept()
            with connection:
                connection.settimeout(WITHIN_S)
                print(send(connection, int(size), urgent="urgent" in settings), flush=True)
                connection.recv(1)
        else:
            endpoint.connect(socket.getaddrinfo("server", PORT, family, socket.SOCK_STREAM)[0][4])
            print(receive(endpoint))


if __name__ == "__main__":
    main()
