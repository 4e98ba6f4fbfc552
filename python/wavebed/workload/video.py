"""The page that plays the video: `page` puts it together with dash.js."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.tools import Program, cache_folder
from wavebed.workload.browser.remote import BrowserAgent
from wavebed.workload.model import Outcome, Session, Workload
from wavebed.workload.programs import create, output_of
from wavebed.workload.serve import Certificate, VirtualHost, make_certificate, start_web_server
from wavebed.workload.video_media import (
    ABR_RULES,
    FRAMES_PER_S,
    LADDERS,
    MANIFEST,
    Content,
    Ladder,
    dashjs,
    has_dashjs,
    make,
    player_settings,
    read_ladder,
)
from wavebed.workload.video_report import known_video_metrics, outcome_of, read

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.tools import End
    from wavebed.workload.model import Common, Metric, Schedule, TrialContext
    from wavebed.workload.video_report import VideoRecord


def page(player: str) -> str:
    """Return the page, with the text of dash.js in it: it asks the network for nothing."""
    files = resources.files("wavebed.workload") / "video_page"
    watch = files.joinpath("watch.js").read_text(encoding="utf-8")
    frame = files.joinpath("watch.html").read_text(encoding="utf-8")
    # Inside a string of the script, "<\\/script" is the same and does not end the element.
    scripts = ["<script>" + text.replace("</script", r"<\/script") + "</script>" for text in (player, watch)]
    return frame.replace("<!-- scripts -->", "\n".join(scripts))


STARTUP_S = 2.0
PAGE_ORIGIN = "http://localhost:9/"
"""Origin of the page. Chromium connects to it early, so it is the client itself."""
ANY_PAGE = {"Access-Control-Allow-Origin": "*", "Timing-Allow-Origin": "*"}
"""Lets a page of another origin fetch the segments and read their timing, as content networks do."""
RECORD = "player.json"


@reader("TIME", values.TIME_SCHEMA, values.time_text)
def _segment(value: object) -> float:
    time_ns = values.time_ns(value)
    frames = time_ns * FRAMES_PER_S / 1e9
    if not 0.5 <= time_ns / 1e9 <= 10 or frames != round(frames) or time_ns % 1_000_000:
        raise Problem(f"is not a segment: write a time from 500ms to 10s of whole frames ({FRAMES_PER_S} per second)")
    return time_ns / 1e9


class VideoOptions(Struct, frozen=True, kw_only=True):
    """The keys of a video."""

    ladder: Annotated[Ladder, Key(read_ladder, "the representations of the video")] = LADDERS["study"]
    duration_s: Annotated[float, Key(values.seconds(1, 3600), "duration of the watched video")] = 40.0
    segment_s: Annotated[float, Key(_segment, "duration of a segment")] = 4.0
    buffer_s: Annotated[
        float | None,
        Key(
            values.seconds(1, 300),
            "target level of the player's buffer",
            absent="dash.js's own: 18 s, and 30 s at the top quality",
        ),
    ] = None
    abr: Annotated[
        str, Key(values.word(*ABR_RULES), "the player's rule: throughput, BOLA, or either by the buffer's level")
    ] = "dynamic"
    protocol: Annotated[
        Literal["http/1.1", "h2"], Key(values.word("http/1.1", "h2"), "HTTP/1.1 without TLS, or HTTP/2 with TLS")
    ] = "http/1.1"


class Video(Workload[VideoOptions]):
    """A video of a ladder of bitrates, watched to the end."""

    kind = "video"
    summary = "a DASH video: dash.js in Chromium, from nginx"
    programs = (
        Program("chromium", end="client"),
        Program("ffmpeg", end="here"),
        Program("nginx", end="server"),
        Program("openssl", "protocol", ("h2",), end="here"),
        Program("npm", end="here"),
    )
    extra = "web"
    options_type = VideoOptions

    def __init__(self, common: Common, options: VideoOptions) -> None:
        super().__init__(common, options)
        self.ladder = options.ladder
        self.duration_s = options.duration_s
        self.content = Content.of(options.ladder, options.segment_s, options.duration_s)
        self.protocol = options.protocol
        self.root: Path | None = None
        self.page = ""
        self.certificate: Certificate | None = None

    def needed_programs(self, end: End | None = None) -> list[str]:
        """Return the names of its programs; npm only to fetch the player once."""
        names = super().needed_programs(end)
        return [name for name in names if name != "npm" or not has_dashjs(cache_folder())]

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return what the best representation takes, or the access in that time."""
        del others_s
        best_bps = max(each.rate_bps for each in self.ladder.representations)
        return min(rate_bps, best_bps) * self.duration_s / 8

    def expected_s(self) -> float:
        """Return the video's duration and 2 s for the start."""
        return min(self.duration_s + STARTUP_S, self.common.limit_s)

    def prepare(self, cache: Path) -> None:
        """Make the content and the certificate for HTTP/2, fetch the player."""
        self.root = make(self.content, cache)
        self.page = page(dashjs(cache).read_text(encoding="utf-8"))
        if self.protocol == "h2":
            self.certificate = make_certificate(cache, [self.common.server])

    def watch_settings(self, url: str) -> dict[str, Json]:
        """Return the settings of the page."""
        return {
            "url": url,
            "duration": self.duration_s,
            "picture": 1 / FRAMES_PER_S,
            "player": player_settings(self.options.abr, self.options.buffer_s),
        }

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        return known_video_metrics(self.content)

    def open(self, context: TrialContext) -> VideoSession:
        """Start nginx and the browser, with the page loaded."""
        return VideoSession(self, context)


class VideoSession(Session):
    """One video, watched once."""

    def __init__(self, workload: Video, context: TrialContext) -> None:
        assert workload.root is not None, "it was prepared"
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        scheme = "http" if workload.certificate is None else "https"
        url = f"{scheme}://{workload.common.server}:{context.port}/{MANIFEST}"
        arguments: list[Json] = []
        if workload.certificate is not None:
            arguments.append(f"--ignore-certificate-errors-spki-list={workload.certificate.spki_sha256}")
        site = VirtualHost(workload.common.server, "*", context.port, workload.root, ANY_PAGE)
        self._server = start_web_server(context.server, [site], workload.protocol, context.folder, workload.certificate)
        file = context.folder / "page.html"
        with create(file) as shown:
            shown.write(workload.page.encode())
        settings: dict[str, Json] = {
            "arguments": arguments,
            "page": str(file),
            "origin": PAGE_ORIGIN,
            "record": str(context.folder / RECORD),
            "watch": workload.watch_settings(url),
        }
        self._agent = BrowserAgent(context.client, "wavebed.workload.video_agent", settings, context.folder)
        try:
            self._agent.await_ready()
        except BaseException:
            self._agent.close()
            self._server.stop()
            raise
        finally:
            file.unlink()

    def run(self) -> None:
        """Play until the end of the video, or until asked to stop."""
        try:
            if self._asked.is_set():
                raise WavebedError("stopped before it started")
            self._agent.tell({"go": True})
            self._agent.result(self._asked, self._server.failure)
            failure = self._server.failure()
            if failure is not None:
                raise WavebedError(failure)
        finally:
            self._agent.close()
            self._server.stop()

    def stop(self) -> None:
        """Stop the browser; the report has the playback so far."""
        self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - independent of other workloads
        """Return the results from the page's record."""
        file = self._context.folder / RECORD
        try:
            record = cast("VideoRecord", json.loads(output_of(file)))
        except (OSError, ValueError):
            return Outcome("failed", "the browser left no record")
        playback = read(record, self._context.clock, self._workload.ladder.representations)
        outcome = outcome_of(playback, self._workload.content, self._workload.duration_s, self._context.folder)
        return replace(outcome, details={**outcome.details, "browser sandbox": self._agent.sandbox})
