"""The table of what may be asked: methods, paths, bodies, answers. The API's description is written from it too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from wavebed.prepared import prepared
from wavebed.ui.messages import JSON, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.ui.messages import Answer, Request

__all__ = ["PLACES", "Call", "Parameter", "Place", "Route", "find", "read_body"]

_Body = TypeVar("_Body")


class Place(NamedTuple):
    """A part of a path that varies: what it may be, and its meaning."""

    pattern: str
    meaning: str


PLACES = {
    "lab": Place("[a-z0-9][a-z0-9_-]{0,31}", "name of a laboratory"),
    "link": Place("[a-z0-9][a-z0-9_-]{0,31}\\.(?:down|up)", "name of a link"),
    "id": Place("[1-9][0-9]{0,8}", "number of a recording"),
}


class Parameter(NamedTuple):
    """A whole number in the query."""

    name: str
    meaning: str
    least: int
    most: int
    default: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a route matches, with the varying parts of its path."""

    request: Request
    places: dict[str, str]

    def number(self, parameter: Parameter) -> int:
        """Return a number of the query.

        Raises
        ------
        RefusedError
            If it is none, or out of bounds.
        """
        text = self.request.query.get(parameter.name, str(parameter.default))
        if re.fullmatch("[0-9]{1,9}", text, re.ASCII) and parameter.least <= int(text) <= parameter.most:
            return int(text)
        raise RefusedError(
            400, f"{parameter.name}: {text[:20]!r}: write a whole number from {parameter.least} to {parameter.most}"
        )


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that may be asked.

    Parameters
    ----------
    path : str
        With the names of `PLACES` in braces.
    serve : callable
        Makes the answer.
    answer, body : type, optional
        What they are in JSON.
    kind : str
        The media type of the answer.
    refusals : sequence of int
        Statuses of refusals beside 401 and 403.
    """

    method: str
    path: str
    summary: str
    serve: Callable[[Call], Answer]
    answer: type | None = None
    body: type | None = None
    status: int = 200
    kind: str = JSON
    query: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()

    def match(self, path: str) -> dict[str, str] | None:
        """Return the varying parts of a path, if it is of this route."""
        parts = re.split(r"\{(\w+)\}", self.path)
        fixed, names = parts[::2], parts[1::2]
        pattern = re.escape(fixed[0])
        for name, text in zip(names, fixed[1:], strict=True):
            pattern += f"(?P<{name}>{PLACES[name].pattern}){re.escape(text)}"
        found = re.fullmatch(pattern, path, re.ASCII)
        return None if found is None else found.groupdict()


def find(routes: Sequence[Route], request: Request) -> tuple[Route, Call]:
    """Return the route of a request.

    Raises
    ------
    RefusedError
        If there is none, or only for other methods.
    """
    method = "GET" if request.method == "HEAD" else request.method
    allowed = set()
    for route in routes:
        places = route.match(request.path)
        if places is None:
            continue
        if route.method == method:
            return route, Call(request, places)
        allowed.add(route.method)
    if allowed:
        methods = sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))
        raise RefusedError(
            405, f"{request.method}: is not possible here: {', '.join(methods)}", {"Allow": ", ".join(methods)}
        )
    raise RefusedError(404, "there is nothing of this name: /api/openapi.json lists what there is")


def read_body(request: Request, kind: type[_Body]) -> _Body:
    """Return the body of a request, in JSON.

    Raises
    ------
    RefusedError
        If it is not JSON of this type.
    """
    given = request.headers.get_content_type()
    if given != JSON or "Content-Type" not in request.headers:
        raise RefusedError(415, f"Content-Type: send {JSON}")
    try:
        return msgspec.json.decode(request.read_body(), type=prepared(kind))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"the body is wrong: {error}") from None
