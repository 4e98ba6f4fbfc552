"""What the server serves: the files of the page, and the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wavebed.report.document import asset
from wavebed.ui.api import routes
from wavebed.ui.messages import Answer, json_answer
from wavebed.ui.openapi import description
from wavebed.ui.routes import find

if TYPE_CHECKING:
    from wavebed.ui.guard import Guard
    from wavebed.ui.labs import Labs
    from wavebed.ui.messages import Request
    from wavebed.ui.recordings import Recordings

__all__ = ["FILES", "App"]


class _File(NamedTuple):
    package: str
    name: str
    kind: str


_HTML, _CSS, _SCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"
_UI = "wavebed.ui"
FILES = {
    "/": _File(_UI, "page.html", _HTML),
    "/page.css": _File(_UI, "page.css", _CSS),
    "/page.js": _File(_UI, "page.js", _SCRIPT),
    "/charts.js": _File(_UI, "charts.js", _SCRIPT),
    "/devices.js": _File(_UI, "devices.js", _SCRIPT),
    "/faults.js": _File(_UI, "faults.js", _SCRIPT),
    "/feed.js": _File(_UI, "feed.js", _SCRIPT),
    "/format.js": _File(_UI, "format.js", _SCRIPT),
    "/kinds.js": _File(_UI, "kinds.js", _SCRIPT),
    "/layer.js": _File(_UI, "layer.js", _SCRIPT),
    "/links.js": _File(_UI, "links.js", _SCRIPT),
    "/map.js": _File(_UI, "map.js", _SCRIPT),
    "/recordings.js": _File(_UI, "recordings.js", _SCRIPT),
    "/store.js": _File(_UI, "store.js", _SCRIPT),
    "/timeline.js": _File(_UI, "timeline.js", _SCRIPT),
    "/uplot.css": _File("wavebed.report", "uplot/uPlot.min.css", _CSS),
    "/uplot.js": _File("wavebed.report", "uplot/uPlot.iife.min.js", _SCRIPT),
}
"""The files of the page, by path: nothing else is ever read. uPlot is the one that reports have in them."""


class App:
    """The page and the API of these laboratories and recordings."""

    def __init__(self, labs: Labs, recordings: Recordings) -> None:
        self.routes = routes(labs, recordings, self._description)
        self._files = {path: asset(file.name, file.package).encode() for path, file in FILES.items()}

    def serve(self, request: Request, guard: Guard) -> Answer:
        """Answer a request that the guard let pass.

        Raises
        ------
        RefusedError
            If there is nothing of this name, or it cannot be done.
        """
        if request.path in FILES and request.method in ("GET", "HEAD"):
            cookie = guard.cookie_for(request) if request.path == "/" else None
            headers = {} if cookie is None else {"Set-Cookie": cookie}
            return Answer(kind=FILES[request.path].kind, body=self._files[request.path], headers=headers)
        route, call = find(self.routes, request)
        return route.serve(call)

    def _description(self) -> Answer:
        return json_answer(description(self.routes))
