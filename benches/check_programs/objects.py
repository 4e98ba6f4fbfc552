"""A page of objects over TCP: ``objects.py server PORT`` and ``objects.py client HOST PORT [MUTANT]``.

The client loads 48 objects of 4 kB over four connections, and prints how long that took.

Mutants: ``serial`` (one connection), ``no-keep-alive`` (one for each object), ``chatty`` (three round trips before each
request), ``uncompressed`` (objects of ten times the size), ``no-cache`` (each object is loaded three times).
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time

OBJECTS, CONNECTIONS, SIZE = 48, 4, 4000


async def serve(port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(b"x" * int(line))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", port)
    await server.serve_forever()


async def load(host: str, port: int, mutant: str) -> None:
    size = SIZE * (10 if mutant == "uncompressed" else 1)
    left = OBJECTS * (3 if mutant == "no-cache" else 1)

    async def one() -> None:
        nonlocal left
        reader, writer = await asyncio.open_connection(host, port)
        while left > 0:
            left -= 1
            for length in [1, 1, 1, size] if mutant == "chatty" else [size]:
                writer.write(b"%d\n" % length)
                await reader.readexactly(length)
            if mutant == "no-keep-alive" and left > 0:
                writer.close()
                reader, writer = await asyncio.open_connection(host, port)
        writer.close()

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(1 if mutant == "serial" else CONNECTIONS)))
    print(f"load time = {time.monotonic() - began:.3f} s")


if sys.argv[1] == "server":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(load(socket.gethostbyname(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or [""])[0]))
