"""The description of the API, by OpenAPI 3.1, made of its routes and of the types of bodies and answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from wavebed import __version__
from wavebed.ui import events
from wavebed.ui.api import EVENTS, Failure
from wavebed.ui.messages import JSON
from wavebed.ui.routes import PLACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.ui.routes import Route

__all__ = ["description", "schemas"]

_INTRODUCTION = (
    "The API of `wavebed ui`. Every request needs the token that `wavebed ui` prints, as `Authorization: Bearer TOKEN`."
    " A change by the page's cookie needs the header `Origin` too. Refusals are one JSON object with one line."
)
_TEMPLATE = "#/components/schemas/{name}"


def description(routes: Sequence[Route]) -> dict[str, Json]:
    """Return the description as JSON data."""
    paths: dict[str, Json] = {}
    for route in routes:
        at = paths.setdefault(route.path, {})
        assert isinstance(at, dict), "a path has a table"
        at[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "wavebed", "version": __version__, "description": _INTRODUCTION},
        "security": [{"token": []}, {"page": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(routes),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "page": {"type": "apiKey", "in": "cookie", "name": "wavebed-ui-PORT"},
            },
        },
    }


def schemas(routes: Sequence[Route]) -> dict[str, Json]:
    """Return the JSON Schema of every body, answer and event, by the name of its type."""
    types = [kind for route in routes for kind in (route.answer, route.body) if kind is not None]
    every = list(dict.fromkeys([*types, *EVENTS.values(), Failure]))
    _, found = msgspec.json.schema_components(every, ref_template=_TEMPLATE)
    return dict(sorted(found.items()))


def _operation(route: Route) -> dict[str, Json]:
    places = [name for name in PLACES if f"{{{name}}}" in route.path]
    parameters: list[Json] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PLACES[name].meaning,
            "schema": {"type": "string", "pattern": f"^{PLACES[name].pattern}$"},
        }
        for name in places
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "description": each.meaning,
            "schema": {"type": "integer", "minimum": each.least, "maximum": each.most, "default": each.default},
        }
        for each in route.query
    ]
    operation: dict[str, Json] = {"summary": route.summary, "parameters": parameters, "responses": _responses(route)}
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(route.body)}}}
    return operation


def _responses(route: Route) -> dict[str, Json]:
    schema: dict[str, Json] = {"type": "string"} if route.answer is None else _reference(route.answer)
    if route.answer is None and route.kind == JSON:
        schema = {"type": "object"}
    content: dict[str, Json] = {"schema": schema}
    if route.kind == events.KIND:
        content["x-events"] = {name: _reference(kind) for name, kind in EVENTS.items()}
    responses: dict[str, Json] = {
        str(route.status): {"description": "the answer", "content": {route.kind.partition(";")[0]: content}}
    }
    for status in sorted({401, 403, *route.refusals}):
        failure: dict[str, Json] = {"schema": _reference(Failure)}
        responses[str(status)] = {"description": HTTPStatus(status).phrase.lower(), "content": {JSON: failure}}
    return responses


def _reference(kind: type) -> dict[str, Json]:
    return {"$ref": _TEMPLATE.format(name=kind.__name__)}
