"""Write the reference page of the API from its routes: ``python -m wavebed.ui.reference docs/reference/api.md``."""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import TYPE_CHECKING

from wavebed.output import write_output
from wavebed.ui import events
from wavebed.ui.api import EVENTS, PLACES, routes, schemas
from wavebed.ui.events import COLUMNS, Recordings
from wavebed.ui.guard import Labs, Reply
from wavebed.ui.prometheus import DIRECTION_METRICS, LINK_METRICS

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.ui.api import Route


_HEAD = """# The API of `wavebed ui`

This page is made from the program: `python -m wavebed.ui.reference docs/reference/api.md`. The server has the same at
`/api/openapi.json`, by OpenAPI 3.1. [The guide](../guides/laboratory.md#the-live-page) tells how to start it.

<!-- test: parsed: serves until it is stopped -->
```sh
wavebed ui --listen 127.0.0.1:8080 --token-file token &
alias api='curl -s -H "Authorization: Bearer $(cat token)"'
api http://127.0.0.1:8080/api/labs
api -X PATCH --json '{"rate": "50mbit"}' http://127.0.0.1:8080/api/labs/LAB/links/radio.down
api -N http://127.0.0.1:8080/api/labs/LAB/events?every_ms=10
```

- Every request has the token, as `Authorization: Bearer TOKEN`; the page has a cookie in its place. `Host` is the
  address of the server. A request with an `Origin` comes from the page itself; a change by the cookie has one.
- Bodies and answers are JSON; a body has the header `Content-Type: application/json`. A refusal is
  `{"error": "one line"}`.
- No request names a file or a command.

`wavebed ctl` and the Python interface do not go through this server. All three ask the laboratory itself, over its
socket, by the same functions (`wavebed.path.live`): what is listed and shown, the changes that there are, how they are
written, and what is wrong with them are the same. `wavebed ctl LAB show --json` prints a [LabState](#labstate), and
`set KEY=VALUE` has the keys of a [Change](#change), where `pattern` is a file instead of its text, and `timeline ACTION
VALUE` those of a [TimelineAction](#timelineaction).
"""


def reference_page() -> str:
    """Return the page."""
    table = routes(Labs(), Recordings(None), Reply)
    known = schemas(table)
    parts = [_HEAD, "## Requests\n", *(_request(route) for route in table)]
    parts += ["## Events\n", _events(), "## Values of a point\n", _columns()]
    parts += ["## Types\n", *(_type(name, known[name]) for name in known)]
    parts += ["## Metrics\n", _metrics()]
    return "\n".join(parts)


def _request(route: Route) -> str:
    lines = [f"### `{route.method} {route.path}`", "", f"{route.summary}.", ""]
    for name, place in PLACES.items():
        if f"{{{name}}}" in route.path:
            lines.append(f"- `{name}`: {place.meaning}.")
    lines += [
        f"- `?{each.name}=`: {each.meaning}, {each.least} to {each.most}; {each.default} by default."
        for each in route.query
    ]
    if route.body is not None:
        lines.append(f"- Body: {_link(route.body.__name__)}.")
    answer = _link(route.answer.__name__) if route.answer is not None else f"`{route.kind.partition(';')[0]}`"
    lines.append(f"- Answer {route.status}: {answer}.")
    if route.refusals:
        named = (f"{status} ({HTTPStatus(status).phrase.lower()})" for status in route.refusals)
        lines.append(f"- Refusals beside 401 and 403: {', '.join(named)}.")
    return "\n".join(lines) + "\n"


def _events() -> str:
    text = (
        f"A stream is `{events.KIND}`. Its first event is `head`; `points` come each {round(events.FLUSH_S * 1000)} ms"
        " or slower, each with all points since the last one; `end` is the last, when the laboratory has ended. A"
        " client that reads too slowly loses samples, which are counted, and delays nothing. At most"
        f" {events.MOST_STREAMS} streams are open at a time.\n\n| event | data |\n|---|---|\n"
    )
    return text + "".join(f"| `{name}` | {_link(kind.__name__)} |\n" for name, kind in EVENTS.items())


def _columns() -> str:
    rows = "".join(f"| `{column.name}` | {column.meaning} |\n" for column in COLUMNS)
    return (
        "Of each link, in `links` of an event and in the columns of a recording, which has `time_s` and `link` before"
        " them.\n\n"
        f"| value | meaning |\n|---|---|\n{rows}"
    )


def _type(name: str, schema: Json) -> str:
    assert isinstance(schema, dict), "a schema is a table"
    lines = [
        f"### {name}",
        "",
        str(schema.get("description", "")).replace("``", "`"),
        "",
        "| key | type | meaning |",
        "|---|---|---|",
    ]
    properties = schema.get("properties")
    required = schema.get("required")
    assert isinstance(properties, dict), "a type has keys"
    for key, value in properties.items():
        assert isinstance(value, dict), "a key has a schema"
        kind = _kind(value)
        optional = not isinstance(required, list) or key not in required
        lines.append(f"| `{key}` | {kind}{', optional' if optional else ''} | {value.get('description', '')} |")
    return "\n".join(lines) + "\n"


def _kind(schema: dict[str, Json]) -> str:
    if isinstance(reference := schema.get("$ref"), str):
        return _link(reference.rpartition("/")[2])
    if isinstance(choices := schema.get("anyOf"), list):
        return " or ".join(_kind(choice) for choice in choices if isinstance(choice, dict))
    if isinstance(words := schema.get("enum"), list):
        return ", ".join(f"`{word}`" for word in words)
    kind = str(schema.get("type", "any"))
    inner = schema.get("items", schema.get("additionalProperties"))
    if isinstance(inner, dict) and inner:
        return f"{kind} of {_kind(inner)}"
    return kind


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _metrics() -> str:
    lines = ["`/metrics` has, with the labels `lab` and `link` or `direction`:", "", "| metric | kind | meaning |"]
    lines.append("|---|---|---|")
    for metric in (*LINK_METRICS, *DIRECTION_METRICS):
        kind = "counter" if metric.grows else "gauge"
        lines.append(f"| `{metric.name}` | {kind} | {metric.meaning.removesuffix('.')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
