"""Servers on a host of the laboratory: nginx for HTTP/1.1 and HTTP/2, Caddy for HTTP/3, dnsmasq for names."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from wavebed.lab.tools import cache_folder
from wavebed.workload.programs import create, open_to_all
from wavebed.workload.serve.model import (
    PROTOCOLS,
    Certificate,
    Protocol,
    RunningServer,
    RunningServers,
    VirtualHost,
    make_certificate,
)
from wavebed.workload.serve.names import NameResolver, add_addresses, start_resolver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host

__all__ = [
    "PROTOCOLS",
    "Certificate",
    "NameResolver",
    "Protocol",
    "RunningServer",
    "RunningServers",
    "VirtualHost",
    "add_addresses",
    "make_certificate",
    "start_resolver",
    "start_web_server",
    "trusted_certificate",
]


def trusted_certificate(names: Sequence[str], environment: Mapping[str, str]) -> tuple[Certificate, dict[str, str]]:
    """Return a certificate for host names, from the cache, and the variables of programs that trust it.

    Raises
    ------
    MachineError
        If openssl is missing or fails, or the cache cannot be written.
    """
    from wavebed.workload.serve.trust import trusting_environment

    certificate = make_certificate(cache_folder(), names)
    return certificate, trusting_environment(certificate, environment)


def start_web_server(
    host: Host, hosts: Sequence[VirtualHost], protocol: Protocol, folder: Path, certificate: Certificate | None = None
) -> RunningServer:
    """Start a web server and wait, without sending a packet, until it listens.

    Parameters
    ----------
    host : Host
        Its host, which already has the addresses of `hosts`.
    hosts : sequence of VirtualHost
        What it serves.
    protocol : str
        The newest that it speaks. ``http/1.1`` is plain without a certificate, TLS with one. ``h2`` (HTTP/1.1 as well)
        and ``h3`` (all three; QUIC on the UDP ports of the same numbers) need one.
    folder : pathlib.Path
        Existing folder for its configuration and logs.
    certificate : Certificate, optional
        From `make_certificate`.

    Raises
    ------
    MachineError
        If the server is not installed.
    WavebedError
        If it does not start; the line is its own.
    """
    for root in {each.root for each in hosts}:
        open_to_all(root)
    with _shown(certificate, folder) as own:
        if protocol == "h3":
            from wavebed.workload.serve.servers import start_caddy

            assert own is not None, "HTTP/3 needs TLS"
            return start_caddy(host, hosts, folder, own)
        from wavebed.workload.serve.servers import start_nginx

        return start_nginx(host, hosts, folder, own, http2=protocol == "h2")


@contextmanager
def _shown(certificate: Certificate | None, folder: Path) -> Iterator[Certificate | None]:
    """Yield a copy of a certificate and its key for a starting server; remove it afterwards."""
    if certificate is None:
        yield None
        return
    copy = folder / "certificate.pem"
    with create(copy) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(certificate.file.read_bytes())
    try:
        yield replace(certificate, file=copy)
    finally:
        copy.unlink(missing_ok=True)
