"""Configurations of Caddy and nginx."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from wavebed.lab.confine import Confined
from wavebed.workload.programs import create
from wavebed.workload.serve.model import RunningServer, VirtualHost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host
    from wavebed.workload.serve.model import Certificate
    from wavebed.workload.site.model import SiteObject


NGINX_DOLLAR = '    geo $dollar {\n        default "$";\n    }'
"""Once within ``http``: nginx knows no way to write a dollar where it expands variables."""


def caddy_literal(text: str) -> str:
    """Return a value of Caddy's configuration for the literal `text`, where Caddy expands placeholders.

    A backslash before a brace keeps the brace, and is taken away; without an opening brace nothing is looked at.
    """
    return text.replace("{", "\\{").replace("}", "\\}") if "{" in text else text


def nginx_word(text: object) -> str:
    """Return a word of nginx's configuration, for a directive that takes it as it is."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def nginx_literal(text: object) -> str:
    """Return a word of nginx's configuration, for a directive that expands variables."""
    return nginx_word(text).replace("$", "${dollar}")


NGINX_MAP_SIZES = "    map_hash_max_size 65536;\n    map_hash_bucket_size 4096;"
"""Once in the configuration of an nginx that has maps: names are as long as paths."""
_INSIDE = "/.wavebed"
_NO_BODY = "none"


def nginx_map(variable: str, routes: Mapping[str, SiteObject]) -> str:
    """Return nginx's map from a request to a place of `nginx_locations`.

    A map of nginx takes small and capital letters as the same; paths that differ only in that are written as regular
    expressions, which do not.
    """
    types = _types(routes)
    alike = Counter(path.lower() for path in routes)
    lines = [f"    map $request_uri ${variable} {{", f'        default "{_INSIDE}/{_NO_BODY}";']
    for number, (path, route) in enumerate(routes.items()):
        plain = route.status == 200 and route.file
        place = f"{_INSIDE}/t{types[route.content_type]}/{route.file}" if plain else f"{_INSIDE}/s{number}"
        name = path if alike[path.lower()] == 1 else f"~^{_as_expression(path)}$"
        lines.append(f"        {nginx_word(name)} {nginx_literal(place)};")
    return "\n".join([*lines, "    }"])


def nginx_locations(variable: str, host: VirtualHost) -> str:
    """Return the locations that the map leads to, for the server of `host`."""
    types = _types(host.routes)
    lines = [
        f"        location / {{ rewrite ^ ${variable} last; }}",
        f"        location = {_INSIDE}/{_NO_BODY} {{ internal; return 404; }}",
    ]
    for content_type, number in types.items():
        lines.append(
            f"        location ^~ {_INSIDE}/t{number}/ {{ internal; alias {nginx_literal(f'{host.root}/')};"
            f" types {{ }} default_type {nginx_word(content_type)}; }}"
        )
    for number, route in enumerate(host.routes.values()):
        if route.status == 200 and route.file:
            continue
        if route.location:
            answer = f"return {route.status} {nginx_literal(route.location)};"
        elif route.file:
            body = f"{_INSIDE}/t{types[route.content_type]}/{route.file}"
            answer = f"error_page {route.status} {nginx_literal(body)}; return {route.status};"
        else:
            answer = f"return {route.status};"
        lines.append(f"        location = {_INSIDE}/s{number} {{ internal; {answer} }}")
    return "\n".join(lines)


def caddy_handlers(host: VirtualHost) -> list[Json]:
    """Return Caddy's handlers that answer by the routes of `host`."""
    names = ("wavebed_file", "wavebed_type", "wavebed_status", "wavebed_location", "wavebed_kind")
    mappings: list[Json] = []
    for path, route in host.routes.items():
        kind = "redirect" if route.location else "file" if route.file else "empty"
        texts = (route.file, route.content_type, str(route.status), route.location, kind)
        outputs: list[Json] = [caddy_literal(text) for text in texts]
        mappings.append({"input": path, "outputs": outputs})
    defaults: list[Json] = ["", "text/plain", "404", "", "empty"]
    answers: list[Json] = [
        {
            "match": [{"vars": {"{wavebed_kind}": ["file"]}}],
            "handle": [
                {"handler": "headers", "response": {"set": {"Content-Type": ["{wavebed_type}"]}}},
                {"handler": "rewrite", "uri": "/{wavebed_file}"},
                {"handler": "file_server", "root": caddy_literal(str(host.root)), "status_code": "{wavebed_status}"},
            ],
            "terminal": True,
        },
        {
            "match": [{"vars": {"{wavebed_kind}": ["redirect"]}}],
            "handle": [
                {
                    "handler": "static_response",
                    "status_code": "{wavebed_status}",
                    "headers": {"Location": ["{wavebed_location}"]},
                }
            ],
            "terminal": True,
        },
        {"handle": [{"handler": "static_response", "status_code": "{wavebed_status}"}]},
    ]
    return [
        {
            "handler": "map",
            "source": "{http.request.orig_uri}",
            "destinations": [f"{{{name}}}" for name in names],
            "mappings": mappings,
            "defaults": defaults,
        },
        {"handler": "subroute", "routes": answers},
    ]


def _types(routes: Mapping[str, SiteObject]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(each.content_type for each in routes.values()))}


def _as_expression(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "/_-" else f"\\{letter}" for letter in text)


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


def _caddy_files(host: VirtualHost) -> dict[str, Json]:
    found: dict[str, Json] = {"handler": "file_server", "root": caddy_literal(str(host.root))}
    return {**found, "precompressed": {"gzip": {}}, "precompressed_order": ["gzip"]} if host.compressed else found


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
                    *(caddy_handlers(each) if each.routes else [_caddy_files(each)]),
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
    lines += ["        gzip_static always;"] * host.compressed
    lines += [f"        add_header {name} {nginx_literal(value)} always;" for name, value in host.headers.items()]
    if host.routes:
        lines.append(nginx_locations(variable, host))
    return "    server {\n" + "\n".join(lines) + "\n    }"
