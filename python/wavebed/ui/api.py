"""The API: what it answers. Each question is a route, and each route is in the description at ``/api/openapi.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from wavebed.errors import UserError
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
from wavebed.path.maps import SceneMap
from wavebed.path.state import LabState, TimelineState
from wavebed.path.watch import LEAST_MS, MOST_MS, Watch
from wavebed.ui import events
from wavebed.ui.events import Head, Points
from wavebed.ui.messages import Answer, RefusedError, json_answer
from wavebed.ui.prometheus import KIND, metrics
from wavebed.ui.recordings import Recorded
from wavebed.ui.routes import Parameter, Route, read_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.ui.labs import Labs
    from wavebed.ui.recordings import Recordings
    from wavebed.ui.routes import Call

__all__ = [
    "Change",
    "Done",
    "Failure",
    "LabEntry",
    "Laboratories",
    "Maps",
    "NewRecording",
    "RecordingList",
    "Settings",
    "TimelineAction",
    "routes",
]

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


def routes(labs: Labs, recordings: Recordings, describe: Callable[[], Answer]) -> list[Route]:
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
        Route("GET", "/metrics", "Counters for Prometheus", lambda _: Answer(kind=KIND, body=metrics(labs)), kind=KIND),
    ]  # fmt: skip


def _list(labs: Labs, recordings: Recordings) -> Callable[[Call], Answer]:
    def serve(_: Call) -> Answer:
        entries = tuple(LabEntry(lab.name, lab.uid) for lab in labs.running())
        return _answer(Laboratories(entries, Settings(labs.only, recordings.possible)))

    return serve


def _show(labs: Labs) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        with labs.connect(call.places["lab"]) as connection:
            return json_answer(show(connection))

    return serve


def _maps(labs: Labs) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        with labs.connect(call.places["lab"]) as connection:
            return _answer(Maps(maps(connection)))

    return serve


def _change(labs: Labs) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        change = read_body(call.request, Change)
        given = {key: value for key in CHANGED if (value := getattr(change, key)) is not None}
        if len(given.get("pattern", "")) > MOST_PATTERN:
            raise RefusedError(413, f"pattern: has more than {MOST_PATTERN} characters")
        if not given:
            raise RefusedError(400, f"the body changes nothing: write one or more of {', '.join(CHANGED)}")
        link = call.places.get("link")
        try:
            requests = {key: link_request(link, key, value) for key, value in given.items()}
            with labs.connect(call.places["lab"]) as connection:
                for key, request in requests.items():
                    apply_change(connection, key, request)
        except UserError as error:
            raise RefusedError(400, str(error)) from None
        return _answer(Done())

    return serve


def _timeline(labs: Labs) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        asked = read_body(call.request, TimelineAction)
        words = [asked.action] if asked.value is None else [asked.action, asked.value]
        try:
            request = timeline_request(words)
            with labs.connect(call.places["lab"]) as connection:
                return json_answer(control_timeline(connection, request))
        except UserError as error:
            raise RefusedError(400, str(error)) from None

    return serve


def _events(labs: Labs) -> Callable[[Call], Answer]:
    streams = events.Streams()

    def serve(call: Call) -> Answer:
        every_ms = call.number(EVERY)
        return Answer(kind=events.KIND, parts=streams.open(lambda: _watch(labs, call.places["lab"], every_ms)))

    return serve


def _watch(labs: Labs, name: str, every_ms: int) -> Watch:
    connection = labs.connect(name)
    try:
        return Watch(connection, every_ms)
    except BaseException:
        connection.close()
        raise


def _recordings(recordings: Recordings) -> Callable[[Call], Answer]:
    return lambda _: _answer(RecordingList(tuple(recordings.all())))


def _record(labs: Labs, recordings: Recordings) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        name = call.places["lab"]
        every_ms = read_body(call.request, NewRecording).every_ms
        return _answer(recordings.start(name, every_ms, lambda: _watch(labs, name, every_ms)), 201)

    return serve


def _stop(recordings: Recordings) -> Callable[[Call], Answer]:
    return lambda call: _answer(recordings.stop(int(call.places["id"])))


def _download(recordings: Recordings) -> Callable[[Call], Answer]:
    def serve(call: Call) -> Answer:
        name, parts = recordings.read(int(call.places["id"]))
        return Answer(kind="text/csv", parts=parts, headers={"Content-Disposition": f'attachment; filename="{name}"'})

    return serve


def _answer(value: Struct, status: int = 200) -> Answer:
    return Answer(status, body=msgspec.json.encode(value) + b"\n")


EVENTS = {"head": Head, "points": Points, "end": Failure}
"""What the events of a stream hold."""
