"""Caddy, for HTTP/3; on the same ports it speaks HTTP/1.1 and HTTP/2 as well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.lab.confine import Confined
from wavebed.workload.raw import create
from wavebed.workload.serve.literal import caddy_literal
from wavebed.workload.serve.model import RunningServer, VirtualHost
from wavebed.workload.serve.routes import caddy_handlers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host
    from wavebed.workload.serve.certificate import Certificate

__all__ = ["caddy_configuration", "start_caddy"]


def start_caddy(host: Host, hosts: Sequence[VirtualHost], folder: Path, certificate: Certificate) -> RunningServer:
    """Start Caddy; see `wavebed.workload.serve.start_web_server`."""
    configuration = folder / "caddy.json"
    configuration.write_text(json.dumps(caddy_configuration(hosts, folder, certificate), indent=1), encoding="utf-8")
    log = folder / "caddy.log"
    with create(log) as output:
        argv = [host.program("caddy"), "run", "--config", str(configuration)]
        needs = Confined(read=[each.root for each in hosts], write=[folder])
        process = host.start(argv, stdout=output, stderr=output, cwd=folder, confined=needs)
    server = RunningServer("caddy", process, log)
    server.wait_for_ports(host, sorted({each.port for each in hosts}))
    return server


def caddy_configuration(hosts: Sequence[VirtualHost], folder: Path, certificate: Certificate) -> dict[str, Json]:
    """Return the configuration of a Caddy without administration, authorities or redirections, in one folder."""
    listeners = sorted({(each.address, each.port) for each in hosts})
    pair: dict[str, Json] = {"certificate": str(certificate.file), "key": str(certificate.file)}
    servers: dict[str, Json] = {}
    for number, (address, port) in enumerate(listeners):
        routes: list[Json] = [
            {
                "match": [{"host": [each.name]}],
                "handle": [
                    {
                        "handler": "headers",
                        "response": {"set": {name: [caddy_literal(value)] for name, value in each.headers.items()}},
                    },
                    *(
                        caddy_handlers(each)
                        if each.routes
                        else [{"handler": "file_server", "root": caddy_literal(str(each.root))}]
                    ),
                ],
                "terminal": True,
            }
            for each in hosts
            if (each.address, each.port) == (address, port)
        ]
        servers[f"listener{number}"] = {
            "listen": [f"{'' if address == '*' else address}:{port}"],
            "protocols": ["h1", "h2", "h3"],
            "automatic_https": {"disable": True},
            "tls_connection_policies": [{}],
            "routes": routes,
        }
    return {
        "admin": {"disabled": True, "config": {"persist": False}},
        "logging": {"logs": {"default": {"level": "WARN"}}},
        "storage": {"module": "file_system", "root": str(folder / "caddy")},
        "apps": {"tls": {"certificates": {"load_files": [pair]}}, "http": {"servers": servers}},
    }
