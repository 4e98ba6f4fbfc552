"""Carry TCP connections to a port of this host. It runs inside a laboratory, from its file, and needs Python alone."""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
import sys
from contextlib import suppress

PATIENCE_S = 60.0
"""How long a connection waits for the port to open: a browser server takes seconds to start."""
_RETRY_S = 0.05
_CHUNK = 1 << 16
_LOOPBACK = ("127.0.0.1", "::1")
"""Node listens on one of them for `localhost`, whichever the resolver names first."""


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--stdin", action="store_true", help="standard input is the listening socket")
    source.add_argument("--listen", type=int, metavar="PORT", help="listen on all addresses")
    parser.add_argument("--certificate", metavar="FILE", help="speak TLS: a PEM file with the certificate and its key")
    parser.add_argument("--to", type=int, required=True, metavar="PORT", help="of 127.0.0.1 or ::1")
    args = parser.parse_args()
    tls = None
    if args.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(args.certificate)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(socket.socket(fileno=0) if args.stdin else None, args.listen, tls, args.to))


async def serve(listener: socket.socket | None, port: int | None, tls: ssl.SSLContext | None, target: int) -> None:
    """Carry each connection of `listener`, or to `port` on all addresses, to the port `target`, for ever."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await carry_connection(reader, writer, target)

    if listener is not None:
        server = await asyncio.start_server(carry, sock=listener, ssl=tls)
    else:
        server = await asyncio.start_server(carry, None, port, ssl=tls)
    async with server:
        await server.serve_forever()


async def carry_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
    """Carry one connection until both directions have ended; close it if the port does not open in time."""
    try:
        far_reader, far_writer = await _connected(target)
    except OSError as error:
        print(f"wavebed: port {target} did not open within {PATIENCE_S:g} s: {error.strerror}", file=sys.stderr)
        writer.close()
        return
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        for each in (writer, far_writer):
            each.close()


async def _connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while True:
        for address in _LOOPBACK:
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                refusal = error
        if loop.time() >= end_s:
            raise refusal
        await asyncio.sleep(_RETRY_S)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy to the end; a reset of either side ends the other one."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        writer.transport.abort()
        return
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


if __name__ == "__main__":
    main()
