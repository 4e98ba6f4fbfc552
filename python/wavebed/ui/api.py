"""The table of what may be asked: methods, paths, bodies, answers. The API's description is written from it too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from wavebed import __version__
from wavebed.errors import UserError
from wavebed.path.control import LEAST_MS, MOST_MS, LabState, TimelineState, Watch
from wavebed.path.live import (
    CHANGES,
    FAULTS,
    apply_change,
    control_timeline,
    link_request,
    maps,
    show,
    timeline_request,
)
from wavebed.path.model import SceneMap
from wavebed.prepared import prepared
from wavebed.ui import events
from wavebed.ui.events import PointHead, Points, Recorded
from wavebed.ui.guard import JSON, Reply, RequestRefusedError, json_answer
from wavebed.ui.prometheus import KIND, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.config.data import Json
    from wavebed.ui.events import Recordings
    from wavebed.ui.guard import HttpRequest, Labs


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
class MatchedRequest:
    """A request that a route matches, with the varying parts of its path."""

    request: HttpRequest
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
        raise RequestRefusedError(
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
    serve: Callable[[MatchedRequest], Reply]
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


def find(routes: Sequence[Route], request: HttpRequest) -> tuple[Route, MatchedRequest]:
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
            return route, MatchedRequest(request, places)
        allowed.add(route.method)
    if allowed:
        methods = sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))
        raise RequestRefusedError(
            405, f"{request.method}: is not possible here: {', '.join(methods)}", {"Allow": ", ".join(methods)}
        )
    raise RequestRefusedError(404, "there is nothing of this name: /api/openapi.json lists what there is")


def read_body(request: HttpRequest, kind: type[_Body]) -> _Body:
    """Return the body of a request, in JSON.

    Raises
    ------
    RefusedError
        If it is not JSON of this type.
    """
    given = request.headers.get_content_type()
    if given != JSON or "Content-Type" not in request.headers:
        raise RequestRefusedError(415, f"Content-Type: send {JSON}")
    try:
        return msgspec.json.decode(request.read_body(), type=prepared(kind))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefusedError(400, f"the body is wrong: {error}") from None


CHANGED = (*CHANGES, *FAULTS)
MOST_PATTERN = 4_000_000
EVERY = Parameter("every_ms", "milliseconds between two points", LEAST_MS, MOST_MS, 100)


class LabEntry(Struct, frozen=True):
    """A running laboratory."""

    name: str
    uid: Annotated[int, Meta(description="number of its user")]


class Settings(Struct, frozen=True):
    """What this server was started with."""

    only: Annotated[str | None, Meta(description="the only laboratory that is shown; null for all")]
    records: Annotated[bool, Meta(description="whether recordings are possible (`--record-to`)")]


class Laboratories(Struct, frozen=True):
    """The running laboratories."""

    laboratories: tuple[LabEntry, ...]
    settings: Settings


class Maps(Struct, frozen=True):
    """The maps of a laboratory's scenes; none where it has no scene."""

    maps: list[SceneMap]


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """Values from now on, written as in ``wavebed ctl``; at least one. No packet is lost by a change."""

    rate: Annotated[str | None, Meta(description="such as `50mbit`; `0bit` is an outage")] = None
    delay: Annotated[str | None, Meta(description="one way, such as `5ms`")] = None
    loss: Annotated[str | None, Meta(description="such as `0.1%`")] = None
    pattern: Annotated[
        str | None, Meta(description="the text of a pattern in the native format, which starts now; 4 MB at most")
    ] = None
    outage: Annotated[
        str | None,
        Meta(description="nothing enters the links of this direction for so long, such as `2s`; `0s` ends it"),
    ] = None
    handover: Annotated[
        str | None,
        Meta(
            description="a handover of the radio, such as `80ms` or `usual`; `80ms:lose` or `80ms:forward` its buffer"
        ),
    ] = None
    flap: Annotated[
        str | None,
        Meta(description="outages one after another: times, period, and how long each, such as `5:1s:200ms`"),
    ] = None
    rebind: Annotated[
        str | None, Meta(description="`now`: the client's flows get other source ports; not for one link")
    ] = None


class TimelineAction(Struct, frozen=True, forbid_unknown_fields=True):
    """What a timeline is to do, written as in ``wavebed ctl LAB timeline``."""

    action: Literal["play", "pause", "seek", "speed", "loop", "set"]
    value: Annotated[
        str | None,
        Meta(
            description="where to `seek`: `90s`, `street` or `street+5s`; a `speed`, such as `2`; of `loop`, `on` or"
            " `off`; a value to `set`, such as `lift.down-rate=1mbit`; null for `play` and `pause`"
        ),
    ] = None


class Done(Struct, frozen=True):
    """The change was made."""

    ok: bool = True


class NewRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """The recording that is to start."""

    every_ms: Annotated[int, Meta(ge=LEAST_MS, le=MOST_MS, description="milliseconds between two points")] = 10


class RecordingList(Struct, frozen=True):
    """The recordings since this server started, the oldest first; at most 100."""

    recordings: tuple[Recorded, ...]


class Failure(Struct, frozen=True):
    """Why a request was refused."""

    error: Annotated[str, Meta(description="one line")]


def routes(labs: Labs, recordings: Recordings, describe: Callable[[], Reply]) -> list[Route]:
    """Return the routes of the API.

    Parameters
    ----------
    describe : callable
        Returns the description of the API.
    """
    one = "/api/labs/{lab}"
    return [
        Route("GET", "/api/labs", "List the running laboratories", _list(labs, recordings), Laboratories),
        Route("GET", one, "Counters and conditions, as `wavebed ctl LAB show --json`", _show(labs), LabState,
              refusals=(404, 504)),
        Route("GET", f"{one}/maps", "The maps of its scenes, with the movement of the UE", _maps(labs), Maps,
              refusals=(404, 504)),
        Route("PATCH", f"{one}/links", "Change every link that takes the change", _change(labs), Done, Change,
              refusals=(400, 404, 413, 415, 504)),
        Route("PATCH", f"{one}/links/{{link}}", "Change one link", _change(labs), Done, Change,
              refusals=(400, 404, 413, 415, 504)),
        Route("POST", f"{one}/timeline", "Control the timeline", _timeline(labs), TimelineState, TimelineAction,
              refusals=(400, 404, 413, 415, 504)),
        Route("GET", f"{one}/events", "A stream of points (Server-Sent Events)", _events(labs), kind=events.KIND,
              query=(EVERY,), refusals=(400, 404, 503)),
        Route("GET", "/api/recordings", "List the recordings", _recordings(recordings), RecordingList),
        Route("POST", f"{one}/recordings", "Start a recording, into a file of this machine", _record(labs, recordings),
              Recorded, NewRecording, status=201, refusals=(400, 404, 409, 413, 415)),
        Route("POST", "/api/recordings/{id}/stop", "Stop a recording", _stop(recordings), Recorded, refusals=(404,)),
        Route("GET", "/api/recordings/{id}", "The file of a recording", _download(recordings), kind="text/csv",
              refusals=(404, 410)),
        Route("GET", "/api/openapi.json", "This description", lambda _: describe()),
        Route("GET", "/metrics", "Counters for Prometheus", lambda _: Reply(kind=KIND, body=metrics(labs)), kind=KIND),
    ]  # fmt: skip


def _list(labs: Labs, recordings: Recordings) -> Callable[[MatchedRequest], Reply]:
    def serve(_: MatchedRequest) -> Reply:
        entries = tuple(LabEntry(lab.name, lab.uid) for lab in labs.running())
        return _answer(Laboratories(entries, Settings(labs.only, recordings.possible)))

    return serve


def _show(labs: Labs) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        with labs.connect(call.places["lab"]) as connection:
            return json_answer(show(connection))

    return serve


def _maps(labs: Labs) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        with labs.connect(call.places["lab"]) as connection:
            return _answer(Maps(maps(connection)))

    return serve


def _change(labs: Labs) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        change = read_body(call.request, Change)
        given = {key: value for key in CHANGED if (value := getattr(change, key)) is not None}
        if len(given.get("pattern", "")) > MOST_PATTERN:
            raise RequestRefusedError(413, f"pattern: has more than {MOST_PATTERN} characters")
        if not given:
            raise RequestRefusedError(400, f"the body changes nothing: write one or more of {', '.join(CHANGED)}")
        link = call.places.get("link")
        try:
            requests = {key: link_request(link, key, value) for key, value in given.items()}
            with labs.connect(call.places["lab"]) as connection:
                for key, request in requests.items():
                    apply_change(connection, key, request)
        except UserError as error:
            raise RequestRefusedError(400, str(error)) from None
        return _answer(Done())

    return serve


def _timeline(labs: Labs) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        asked = read_body(call.request, TimelineAction)
        words = [asked.action] if asked.value is None else [asked.action, asked.value]
        try:
            request = timeline_request(words)
            with labs.connect(call.places["lab"]) as connection:
                return json_answer(control_timeline(connection, request))
        except UserError as error:
            raise RequestRefusedError(400, str(error)) from None

    return serve


def _events(labs: Labs) -> Callable[[MatchedRequest], Reply]:
    streams = events.Streams()

    def serve(call: MatchedRequest) -> Reply:
        every_ms = call.number(EVERY)
        return Reply(kind=events.KIND, parts=streams.open(lambda: _watch(labs, call.places["lab"], every_ms)))

    return serve


def _watch(labs: Labs, name: str, every_ms: int) -> Watch:
    connection = labs.connect(name)
    try:
        return Watch(connection, every_ms)
    except BaseException:
        connection.close()
        raise


def _recordings(recordings: Recordings) -> Callable[[MatchedRequest], Reply]:
    return lambda _: _answer(RecordingList(tuple(recordings.all())))


def _record(labs: Labs, recordings: Recordings) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        name = call.places["lab"]
        every_ms = read_body(call.request, NewRecording).every_ms
        return _answer(recordings.start(name, every_ms, lambda: _watch(labs, name, every_ms)), 201)

    return serve


def _stop(recordings: Recordings) -> Callable[[MatchedRequest], Reply]:
    return lambda call: _answer(recordings.stop(int(call.places["id"])))


def _download(recordings: Recordings) -> Callable[[MatchedRequest], Reply]:
    def serve(call: MatchedRequest) -> Reply:
        name, parts = recordings.read(int(call.places["id"]))
        return Reply(kind="text/csv", parts=parts, headers={"Content-Disposition": f'attachment; filename="{name}"'})

    return serve


def _answer(value: Struct, status: int = 200) -> Reply:
    return Reply(status, body=msgspec.json.encode(value) + b"\n")


EVENTS = {"head": PointHead, "points": Points, "end": Failure}
"""What the events of a stream hold."""


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
