"""Bulk data with messages in between, over TCP: ``upload.py server PORT``, ``upload.py client HOST PORT [MUTANT]``.

The client sends for two seconds as much as its socket takes, and every 100 ms a message with the time, which the server
sends back at once. It prints how long the messages took, and how much arrived. At most 64 kB wait in its socket; the
congestion control is bbr.

Mutants: ``send-buffer`` (ten times as much waits), ``reno`` (the wrong congestion control for a path with losses).
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time

LASTS_S, EVERY_S, BUFFER, CHUNK = 2.0, 0.1, 32_000, 4000
HEAD = struct.Struct("!Id")


def read(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) != size:
        raise EOFError
    return data


def serve(port: int) -> None:
    with socket.create_server(("0.0.0.0", port)) as own:
        connection, _ = own.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = 0
        try:
            while True:
                size, sent = HEAD.unpack(read(connection, HEAD.size))
                read(connection, size)
                received += size
                if sent:
                    connection.sendall(HEAD.pack(received, sent))
        except (EOFError, OSError):
            pass


def send(host: str, port: int, mutant: str) -> None:
    connection = socket.socket()
    if mutant == "send-buffer":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10 * BUFFER)
    else:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno" if mutant == "reno" else b"bbr")
    connection.connect((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took: list[float] = []
    received = 0

    def listen() -> None:
        nonlocal received
        try:
            while True:
                received, sent = HEAD.unpack(read(connection, HEAD.size))
                took.append(time.monotonic() - sent)
        except (EOFError, OSError):
            pass

    listening = threading.Thread(target=listen)
    listening.start()
    began = due = time.monotonic()
    while (now := time.monotonic()) < began + LASTS_S:
        message = now >= due
        due += EVERY_S if message else 0
        connection.sendall(HEAD.pack(CHUNK, now if message else 0.0) + bytes(CHUNK))
    time.sleep(0.5)
    connection.shutdown(socket.SHUT_RDWR)
    listening.join()
    took.sort()
    print(f"message p90 = {1000 * took[int(0.9 * len(took))]:.0f} ms" if took else "message p90 = - ms")
    print(f"arrived = {received * 8 / 1e6 / LASTS_S:.2f} Mbit/s")


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    send(socket.gethostbyname(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or [""])[0])
