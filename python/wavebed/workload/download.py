"""The moments at which a program has received its first bytes: it writes them into a pipe, which a thread reads."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

from msgspec import Struct

from wavebed.config import units, values
from wavebed.config.data import number_in
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.errors import UserError
from wavebed.lab.confine import Confined, program_files
from wavebed.lab.tools import Program, find
from wavebed.workload.drafts import date_files, drafted
from wavebed.workload.model import FRAME_BYTES, SEGMENT_BYTES, Event, Metric, Outcome, Session, Workload
from wavebed.workload.programs import create, end_within, last_line, output_of, wait_for_end
from wavebed.workload.serve import (
    Certificate,
    NameResolver,
    Protocol,
    RunningServers,
    VirtualHost,
    add_addresses,
    make_certificate,
    start_resolver,
    start_web_server,
)
from wavebed.workload.serve.names import NAMES, RESOLVER_PROGRAMS, Names, resolver_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Clock
    from wavebed.workload.model import Common, Schedule, Status, TrialContext


_PIPE_BYTES = 1 << 20
"""Eight milliseconds at 1 Gbit/s: a reader that is late by less does not slow the program."""

_Made = TypeVar("_Made")


class Arrivals:
    """Reads what a program writes, and keeps when its first byte and each number of bytes had come.

    Parameters
    ----------
    marks : sequence of int
        Numbers of bytes.
    clock : Clock
        Of the laboratory.

    Attributes
    ----------
    first_s : float or None
        When the first byte had come, on the clock.
    reached_s : dict
        When each number of bytes had come.
    """

    def __init__(self, marks: Sequence[int], clock: Clock) -> None:
        self.first_s: float | None = None
        self.reached_s: dict[int, float] = {}
        self._left = sorted(marks)
        self._clock = clock
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._end, self._begin = os.pipe()
        fcntl.fcntl(self._begin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def started(self, start: Callable[[int], _Made]) -> _Made:
        """Call a function that starts the program with the pipe as its standard output, and read from then on."""
        try:
            made = start(self._begin)
        except BaseException:
            os.close(self._end)
            raise
        finally:
            os.close(self._begin)
        self._thread.start()
        return made

    def end(self) -> None:
        """Wait until all is read; the program has ended."""
        self._thread.join()

    def _read(self) -> None:
        got = 0
        while piece := len(os.read(self._end, _PIPE_BYTES)):
            now_s = self._clock.now_s()
            self.first_s = now_s if self.first_s is None else self.first_s
            got += piece
            while self._left and got >= self._left[0]:
                self.reached_s[self._left.pop(0)] = now_s
        os.close(self._end)


def part_figures(log: Path, output: Path) -> None:
    """Move curl's figures, the last line that it wrote, from its log to the file of its output."""
    messages, _, figures = log.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    if figures.startswith("{"):
        log.write_text(messages, encoding="utf-8")
        output.write_text(figures, encoding="utf-8")


def read_figures(file: Path) -> dict[str, object] | None:
    """Return curl's figures; ``None`` without them."""
    try:
        figures = json.loads(output_of(file))
    except (UserError, ValueError):
        return None
    return figures if isinstance(figures, dict) and number_in(figures, "exitcode") is not None else None


def _moment(figures: dict[str, object], key: str) -> float | None:
    """Return a time of curl in ms; ``None`` for curl's 0 (has not happened)."""
    seconds = number_in(figures, key)
    return seconds * 1e3 if seconds else None


def metrics_of(
    figures: dict[str, object], status: Status, got_bytes: int | None, *, looks_up: bool = False
) -> list[Metric]:
    """Return the metrics of a download; `looks_up`: curl asks a resolver on the path for the server's name."""
    total_s = number_in(figures, "time_total")
    goodput = None if not total_s or got_bytes is None else got_bytes * 8 / total_s / 1e6
    complete_s = total_s if status == "ok" else None
    first_ms = _moment(figures, "time_starttransfer")
    metrics = [
        Metric("goodput", goodput, "Mbit/s", "higher", "curl size_download / time_total"),
        Metric("download time", complete_s, "s", "lower", "curl time_total"),
        Metric("time to first byte", first_ms, "ms", "lower", "curl time_starttransfer"),
        Metric("connect time", _moment(figures, "time_connect"), "ms", "lower", "curl time_connect"),
        Metric("bytes", got_bytes, "bytes", "higher", "curl size_download"),
    ]
    if looks_up:
        looked_up_ms = _moment(figures, "time_namelookup")
        metrics.append(Metric("name lookup", looked_up_ms, "ms", "lower", "curl time_namelookup"))
    return metrics


def details_of(figures: dict[str, object], size_bytes: int) -> dict[str, Json]:
    """Return the details of a download: its size, its version of HTTP and its flow."""
    return {
        "size_bytes": size_bytes,
        "http_version": str(figures.get("http_version")),
        "flow": {
            "local": f"{figures.get('local_ip')}:{figures.get('local_port')}",
            "remote": f"{figures.get('remote_ip')}:{figures.get('remote_port')}",
        },
    }


_GUESSED_BPS = 100e6
"""Only for the estimate of the time left; the rate of the path is unknown here."""
_LAST_WORDS_S = 4.0
"""Time for curl, which a busy machine may have begun late, to write its figures at its limit or after nginx' end."""
_TIMED_OUT = 28
_HOSTS = ("client", "edge", "server")


@reader("SIZE", values.SIZE_SCHEMA, units.format_size)
def _size(value: object) -> int:
    size = values.size_bytes(value)
    if size < 1:
        raise Problem("0 bytes are not a download: write at least 1b")
    return size


_MARKS_SCHEMA: dict[str, Json] = {"type": "array", "items": dict(values.SIZE_SCHEMA), "uniqueItems": True}


@reader("[SIZE, …]", _MARKS_SCHEMA, lambda sizes: list(map(units.format_size, sizes)))
def _marks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise Problem(f'{described(value)} is not an array: write sizes, as in ["2mb", "20mb"]')
    sizes = tuple(at(f"[{place}]", _size, each) for place, each in enumerate(value, 1))
    if len(set(sizes)) < len(sizes):
        raise Problem("a size is there twice: leave one out")
    return tuple(sorted(sizes))


class DownloadOptions(Struct, frozen=True, kw_only=True):
    """The keys of a download."""

    size_bytes: Annotated[int, Key(_size, "bytes of the file; they are not stored")] = 2_000_000
    marks: Annotated[tuple[int, ...], Key(_marks, "sizes of which the goodput is a metric: of the first bytes")] = ()
    protocol: Annotated[
        Literal["http/1.1", "h2"], Key(values.word("http/1.1", "h2"), "HTTP/1.1 without TLS, or HTTP/2 with TLS")
    ] = "http/1.1"
    names: Annotated[Names, NAMES] = "mapped"


class Download(Workload[DownloadOptions]):
    """One download of `size` bytes of a sparse file."""

    kind = "download"
    summary = "a file from nginx to curl over one connection"
    options_type = DownloadOptions
    programs: ClassVar[Sequence[Program]] = (
        Program("nginx", end="server"),
        Program("curl", end="client"),
        Program("openssl", "protocol", ("h2",), end="here"),
        Program("ip", "names", ("resolver",)),
        *RESOLVER_PROGRAMS,
    )

    content: Path
    certificate: Certificate | None = None

    def __init__(self, common: Common, options: DownloadOptions) -> None:
        super().__init__(common, options)
        if options.marks and options.marks[-1] > options.size_bytes:
            size = units.format_size(options.size_bytes)
            raise Problem(
                f"{units.format_size(options.marks[-1])} is more than the file has: write at most {size}", "marks"
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self.options.size_bytes

    @property
    def protocol(self) -> Protocol:
        """The version of HTTP."""
        return self.options.protocol

    @property
    def emulated_only(self) -> str:
        """What it needs that real hosts do not have; empty: nothing."""
        return resolver_needed(self.options.names)

    def expected_s(self) -> float:
        """Return the duration at a guessed rate."""
        return min(self.common.limit_s, 1 + self.size_bytes * 8 / _GUESSED_BPS)

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return the file with the headers of its packets."""
        del rate_bps, others_s
        return self.size_bytes * FRAME_BYTES / SEGMENT_BYTES

    def prepare(self, cache: Path) -> None:
        """Make the file, and the certificate for HTTP/2."""
        self.content = cache / "download"
        _make_sparse(self.content / self.file_name, self.size_bytes)
        if self.protocol == "h2":
            self.certificate = make_certificate(cache, _HOSTS)

    @property
    def file_name(self) -> str:
        """Name of the file on the server."""
        return f"{self.size_bytes}.bin"

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        metrics = metrics_of({}, "failed", None, looks_up=self.options.names == "resolver")
        return [*metrics, *_of_marks(self.options.marks, None, {})]

    def open(self, context: TrialContext) -> Session:
        """Start nginx."""
        return _DownloadSession(self, context)


def _make_sparse(file: Path, size_bytes: int) -> None:
    """Make a sparse file of zeros, unless it exists."""
    if file.exists():
        return
    with drafted(file) as draft:
        os.truncate(draft.fileno(), size_bytes)
    date_files(file)


def _of_marks(marks: Sequence[int], arrivals: Arrivals | None, figures: dict[str, object]) -> list[Metric]:
    """Return the goodput of the first bytes, from the start of the connection."""
    first_s = number_in(figures, "time_starttransfer")
    found = []
    for mark in marks:
        goodput = None
        if arrivals is not None and arrivals.first_s is not None and first_s and mark in arrivals.reached_s:
            goodput = mark * 8e-6 / (first_s + arrivals.reached_s[mark] - arrivals.first_s)
        source = "curl time_starttransfer, then the pipe that it writes to"
        found.append(Metric(f"goodput first {units.format_size(mark)}", goodput, "Mbit/s", "higher", source))
    return found


class _DownloadSession(Session):
    def __init__(self, workload: Download, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._failure: str | None = None
        self._end_s: float | None = None
        marks = workload.options.marks
        self._arrivals = Arrivals(marks, context.clock) if marks else None
        site = VirtualHost(context.server.name, "*", context.port, workload.content)
        self._resolver = self._start_resolver() if workload.options.names == "resolver" else None
        server = start_web_server(context.server, [site], workload.protocol, context.folder, workload.certificate)
        self._server = RunningServers(server, self._resolver)

    def _start_resolver(self) -> NameResolver:
        context, address = self._context, f"{self._context.address}1"
        add_addresses(context.server, [address])
        names = {context.server.name: address}
        return start_resolver(context.server, context.client, address, names, context.folder)

    @property
    def _url(self) -> str:
        scheme = "http" if self._workload.certificate is None else "https"
        return f"{scheme}://{self._context.server.name}:{self._context.port}/{self._workload.file_name}"

    def _command(self) -> list[str]:
        certificate = self._workload.certificate
        limit = f"{self._context.limit_s:.3f}"
        argv = [
            *(self._context.client.program("curl"), "-q", "-sS", "--fail", "--ipv4", "--noproxy", "*"),
            *(["--http1.1"] if certificate is None else ["--http2", *certificate.curl_options()]),
            # curl writes its figures at its own limit, but not after a signal.
            *("--max-time", limit, "--connect-timeout", limit),
            *(
                ["-o", "/dev/null", "-w", "%{json}"]
                if self._arrivals is None
                else ["-o", "-", "-w", "%{stderr}\n%{json}"]
            ),
            self._url,
        ]
        return argv if self._resolver is None else self._resolver.asked_by(argv)

    def run(self) -> None:
        folder = self._context.folder
        with create(folder / "curl.json") as output, create(folder / "curl.log") as log:
            start = self._context.client.start
            needs = self._resolver is None or Confined(read=[folder, *program_files(find("curl"))])
            if self._arrivals is None:
                client = start(self._command(), stdout=output, stderr=log, confined=needs)
            else:
                client = self._arrivals.started(
                    lambda pipe: start(self._command(), stdout=pipe, stderr=log, confined=needs)
                )
        self._failure = wait_for_end(client, self._asked, self._server.failure)
        end_within(client, _LAST_WORDS_S, signal.SIGTERM)
        self._end_s = self._context.clock.now_s()
        if self._arrivals is not None:
            self._arrivals.end()
            part_figures(folder / "curl.log", folder / "curl.json")
        self._failure = self._failure or self._server.failure()
        self._server.stop()

    def stop(self) -> None:
        self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - independent of other workloads
        folder = self._context.folder
        figures = read_figures(folder / "curl.json")
        got_bytes = None if figures is None else int(number_in(figures, "size_download") or 0)
        status, reason = self._judge(figures, last_line(folder / "curl.log"))
        if figures is None or status == "failed":
            return Outcome(status, reason, metrics=self._metrics({}, "failed", got_bytes))
        events = []
        total_s = number_in(figures, "time_total")
        if self._end_s is not None and total_s is not None:
            events = [Event("request", self._end_s - total_s, self._end_s, self._url, got_bytes)]
        return Outcome(
            status,
            reason,
            metrics=self._metrics(figures, status, got_bytes),
            events=events,
            details=details_of(figures, self._workload.size_bytes),
        )

    def _metrics(self, figures: dict[str, object], status: Status, got_bytes: int | None) -> list[Metric]:
        looks_up = self._resolver is not None
        marks = _of_marks(self._workload.options.marks, self._arrivals, figures)
        return [*metrics_of(figures, status, got_bytes, looks_up=looks_up), *marks]

    def _judge(self, figures: dict[str, object] | None, message: str) -> tuple[Status, str]:
        size_bytes = self._workload.size_bytes
        if self._failure is not None:
            return "failed", "; ".join(part for part in (self._failure, message) if part)
        if figures is None:
            if self._asked.is_set():
                return "failed", "curl was stopped before its limit, and left no figures"
            return "failed", message or "curl left no figures"
        status = number_in(figures, "exitcode")
        got_bytes = number_in(figures, "size_download") or 0
        if status == _TIMED_OUT:
            return (
                "partial",
                f"stopped at its limit of {self._context.limit_s:g} s with {got_bytes:.0f} of {size_bytes} bytes",
            )
        if status != 0:
            return "failed", message or f"curl ended with {status:g}"
        if got_bytes != size_bytes:
            return "failed", f"curl got {got_bytes:.0f} of {size_bytes} bytes"
        return "ok", ""
