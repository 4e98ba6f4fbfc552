"""Web servers on a host of the laboratory: nginx for HTTP/1.1 and HTTP/2, Caddy for HTTP/3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.workload.serve.certificate import Certificate, make_certificate
from wavebed.workload.serve.model import PROTOCOLS, Protocol, RunningServer, VirtualHost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.path.lab import LabHost

__all__ = [
    "PROTOCOLS",
    "Certificate",
    "Protocol",
    "RunningServer",
    "VirtualHost",
    "make_certificate",
    "start_web_server",
]


def start_web_server(
    host: LabHost,
    hosts: Sequence[VirtualHost],
    protocol: Protocol,
    folder: Path,
    certificate: Certificate | None = None,
) -> RunningServer:
    """Start a web server and wait, without sending a packet, until it listens.

    Parameters
    ----------
    host : LabHost
        Where it runs. The addresses of `hosts` must be there already.
    hosts : sequence of VirtualHost
        What it serves.
    protocol : str
        The newest that it speaks. ``http/1.1`` is plain without a certificate, TLS with one. ``h2`` (HTTP/1.1 as well)
        and ``h3`` (all three; QUIC on the UDP ports of the same numbers) need one.
    folder : pathlib.Path
        Its configuration and logs go there; it exists.
    certificate : Certificate, optional
        From `make_certificate`.

    Raises
    ------
    MachineError
        If the server is not installed.
    WavebedError
        If it does not start; the line is its own.
    """
    if protocol == "h3":
        from wavebed.workload.serve.caddy import start_caddy

        assert certificate is not None, "HTTP/3 needs TLS"
        return start_caddy(host, hosts, folder, certificate)
    from wavebed.workload.serve.nginx import start_nginx

    return start_nginx(host, hosts, folder, certificate, http2=protocol == "h2")
