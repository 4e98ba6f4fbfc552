"""Answer requests by a list: each path with its query exactly as in the request, for pages that were recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wavebed.workload.serve.literal import caddy_literal, nginx_literal, nginx_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.workload.serve.model import VirtualHost
    from wavebed.workload.site.model import SiteObject

__all__ = ["NGINX_MAP_SIZES", "caddy_handlers", "nginx_locations", "nginx_map"]

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
