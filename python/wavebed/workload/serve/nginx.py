"""nginx in one process, for HTTP/1.1 and HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.lab.confine import Confined
from wavebed.workload.raw import create
from wavebed.workload.serve.literal import NGINX_DOLLAR, nginx_literal, nginx_word
from wavebed.workload.serve.model import RunningServer, VirtualHost
from wavebed.workload.serve.routes import NGINX_MAP_SIZES, nginx_locations, nginx_map

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host
    from wavebed.workload.serve.certificate import Certificate

__all__ = ["nginx_configuration", "start_nginx"]

_TYPES = {
    "text/html": "html htm",
    "text/css": "css",
    "text/javascript": "js mjs",
    "text/plain": "txt",
    "text/xml": "xml",
    "application/json": "json",
    "application/wasm": "wasm",
    "application/dash+xml": "mpd",
    "image/avif": "avif",
    "image/gif": "gif",
    "image/jpeg": "jpg jpeg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/webp": "webp",
    "image/x-icon": "ico",
    "font/ttf": "ttf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "video/mp4": "mp4 m4s m4v",
    "video/webm": "webm",
    "audio/mp4": "m4a",
}


def start_nginx(
    host: Host, hosts: Sequence[VirtualHost], folder: Path, certificate: Certificate | None, *, http2: bool
) -> RunningServer:
    """Start nginx; see `wavebed.workload.serve.start_web_server`."""
    configuration = folder / "nginx.conf"
    configuration.write_text(nginx_configuration(hosts, folder, certificate, http2=http2), encoding="utf-8")
    log = folder / "nginx.log"
    with create(log) as output:
        # Without -e nginx would open its compiled-in log before it reads the configuration.
        argv = [host.program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(configuration)]
        needs = Confined(read=[each.root for each in hosts], write=[folder])
        process = host.start(argv, stdout=output, stderr=output, cwd=folder, confined=needs)
    server = RunningServer("nginx", process, log)
    server.wait_for_ports(host, sorted({each.port for each in hosts}))
    return server


def nginx_configuration(
    hosts: Sequence[VirtualHost], folder: Path, certificate: Certificate | None, *, http2: bool
) -> str:
    """Return the configuration of an nginx that stays in one process and one folder.

    The folders for temporary files are all `folder`: nothing here writes any.
    """
    assert certificate is not None or not http2, "HTTP/2 needs TLS: this nginx speaks no h2c beside HTTP/1.1"
    temporary = "\n".join(
        f"    {kind}_temp_path {nginx_word(folder)};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    types = "\n".join(f"        {kind} {endings};" for kind, endings in _TYPES.items())
    maps = [nginx_map(f"wavebed{number}", each.routes) for number, each in enumerate(hosts) if each.routes]
    routing = "\n".join([NGINX_MAP_SIZES, *maps]) if maps else ""
    servers = "\n".join(
        _server(each, f"wavebed{number}", certificate, http2=http2) for number, each in enumerate(hosts)
    )
    return f"""daemon off;
master_process off;
pid {nginx_word(folder / "nginx.pid")};
error_log stderr warn;
events {{
    worker_connections 4096;
}}
http {{
{temporary}
    types {{
{types}
    }}
    default_type application/octet-stream;
    log_format times '$msec $request_time $connection $server_protocol $status $body_bytes_sent $host "$request"';
    access_log {nginx_literal(folder / "access.log")} times;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    keepalive_timeout 1h;
    open_file_cache max=10000 inactive=1h;
    open_file_cache_valid 1h;
    server_names_hash_bucket_size 256;
{NGINX_DOLLAR}
{routing}
{servers}
}}
"""


def _server(host: VirtualHost, variable: str, certificate: Certificate | None, *, http2: bool) -> str:
    addresses = [f"{host.address}:{host.port}"]
    if host.address == "*":
        addresses.append(f"[::]:{host.port}")
    options = "" if certificate is None else " ssl http2" if http2 else " ssl"
    lines = [f"        listen {address}{options};" for address in addresses]
    if certificate is not None:
        lines += [
            f"        ssl_certificate {nginx_literal(certificate.file)};",
            f"        ssl_certificate_key {nginx_literal(certificate.file)};",
            "        ssl_protocols TLSv1.2 TLSv1.3;",
        ]
    lines += [f"        server_name {nginx_word(host.name)};", f"        root {nginx_literal(host.root)};"]
    lines += [f"        add_header {name} {nginx_literal(value)} always;" for name, value in host.headers.items()]
    if host.routes:
        lines.append(nginx_locations(variable, host))
    return "    server {\n" + "\n".join(lines) + "\n    }"
