"""Phones that a browser emulates."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, choose
from wavebed.config.table import Key
from wavebed.errors import UserError, WavebedError
from wavebed.lab.tools import Program, cache_folder
from wavebed.output import replacing
from wavebed.workload.browser.remote import BrowserAgent
from wavebed.workload.model import FRAME_BYTES, SEGMENT_BYTES, Outcome, Session, Workload
from wavebed.workload.serve import (
    PROTOCOLS,
    RunningServers,
    VirtualHost,
    add_addresses,
    make_certificate,
    start_resolver,
    start_web_server,
)
from wavebed.workload.serve.names import NAMES, RESOLVER_PROGRAMS, Names, chromium_arguments, resolver_needed
from wavebed.workload.web_figures import (
    PageCourse,
    PageTrace,
    details_of,
    doubts_of,
    events_of,
    metrics_of,
    progress_series,
    read_course,
    read_trace,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.model import Common, Metric, Schedule, TrialContext
    from wavebed.workload.serve import Certificate, NameResolver, Protocol
    from wavebed.workload.site import BuiltSite


def device_options(name: str, workload: str, cache: Path) -> Mapping[str, Json]:
    """Return Playwright's description of a device, as options of a context.

    Parameters
    ----------
    cache : Path
        Keeps the descriptions of this version of Playwright, which only its driver, a program of Node, tells.

    Raises
    ------
    UserError
        If it has none of this name.
    """
    devices = _devices(cache / f"devices-{version('playwright')}.json")
    try:
        device = devices[choose(name, devices)]
    except Problem as problem:
        raise UserError(f"workload {workload}: device: {problem}") from None
    return {key: value for key, value in device.items() if key != "default_browser_type"}


def _devices(file: Path) -> Mapping[str, Mapping[str, Json]]:
    """Return the descriptions of all devices; keep them in a file."""
    with suppress(OSError, ValueError):
        return cast("Mapping[str, Mapping[str, Json]]", json.loads(file.read_bytes()))

    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        devices = cast("Mapping[str, Mapping[str, Json]]", playwright.devices)
    with suppress(OSError), replacing(file) as kept:
        kept.write(json.dumps(devices).encode())
    return devices


_MOST_ORIGINS = 254
_GUESSED_LOAD_S = 4.0
_HEADERS = {"Access-Control-Allow-Origin": "*", "Timing-Allow-Origin": "*"}
"""The first allows fonts and data of other origins; the second allows pages to time them."""


class WebOptions(Struct, frozen=True, kw_only=True):
    """The keys of a page load."""

    site: Annotated[
        str,
        Key(values.text, "a shipped site, such as google, or a file or folder that describes one", write="NAME|FILE"),
    ]
    protocol: Annotated[Literal["http/1.1", "h2", "h3"], Key(values.word(*PROTOCOLS), "version of HTTP")] = "h2"
    tls: Annotated[bool, Key(values.boolean, "false: plain text, for HTTP/1.1 only")] = True
    missing_hosts: Annotated[
        Literal["doubtful", "expected"],
        Key(
            values.word("doubtful", "expected"),
            "whether requests to hosts that the site does not have make the trial suspect: a saved page asks for them",
        ),
    ] = "doubtful"
    device: Annotated[str, Key(values.text, "the phone: one of Playwright's devices", write="NAME")] = "iPhone X"
    cpu_slowdown: Annotated[
        int, Key(values.number(1, 20), "the page's main thread is so many times slower, by Chromium's CPU throttling")
    ] = 1
    settle_s: Annotated[float, Key(values.seconds(), "time for which the screen is recorded after the load event")] = (
        1.0
    )
    names: Annotated[Names, NAMES] = "mapped"


class Web(Workload[WebOptions]):
    """One visit of a site by a browser with an empty cache."""

    kind = "web"
    summary = "a page in Chromium, which emulates a phone"
    options_type = WebOptions
    programs: ClassVar[Sequence[Program]] = (
        Program("chromium", end="client"),
        Program("ip", end="here"),  # hosts that take addresses are on this machine
        Program("nginx", "protocol", ("http/1.1", "h2"), end="server"),
        Program("caddy", "protocol", ("h3",), end="server"),
        Program("openssl", "tls", (True,), end="here"),
        *RESOLVER_PROGRAMS,
    )
    extra = "web"

    built: BuiltSite
    device: Mapping[str, Json]
    certificate: Certificate | None = None

    def __init__(self, common: Common, options: WebOptions) -> None:
        super().__init__(common, options)
        if not options.tls and self.protocol != "http/1.1":
            raise Problem(f'false: browsers speak {self.protocol} with TLS only: write protocol = "http/1.1"', "tls")

    @property
    def protocol(self) -> Protocol:
        """The version of HTTP."""
        return self.options.protocol

    @property
    def settle_s(self) -> float:
        """Seconds of recording after the load event."""
        return self.options.settle_s

    @property
    def scheme(self) -> str:
        """The scheme of the page's URL."""
        return "https" if self.options.tls else "http"

    @property
    def url(self) -> str:
        """The page's URL."""
        return f"{self.scheme}://{self.built.site.origins[0].name}{self.built.site.first}"

    @property
    def emulated_only(self) -> str:
        """What it needs that real hosts do not have; empty: nothing."""
        return resolver_needed(self.options.names)

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return the objects of the site with the headers of their packets."""
        from wavebed.workload.site import load_site

        del rate_bps, others_s
        site = load_site(self.options.site, cache_folder()).site
        return sum(each.bytes for each in site.objects) * FRAME_BYTES / SEGMENT_BYTES

    @property
    def port_count(self) -> int:
        """How many ports it needs at most: one for each origin, on real hosts."""
        return max(super().port_count, len(self.built.site.origins))

    def expected_s(self) -> float:
        """Return a guess of the load time, and the recording after it."""
        return min(self.common.limit_s, _GUESSED_LOAD_S + self.settle_s)

    def kept_options(self, folder: Path) -> dict[str, Json]:
        """Return the options, with the site's files kept in `folder`."""
        from wavebed.workload.site.saved import keep_site

        return {**super().kept_options(folder), "site": keep_site(self.options.site, folder)}

    @staticmethod
    def found_options(options: Mapping[str, Json], folder: Path) -> Mapping[str, Json]:
        """Return the options, with the site that is kept in `folder`."""
        from wavebed.workload.site.saved import kept_site

        site = options.get("site")
        return {**options, "site": kept_site(site, folder)} if isinstance(site, str) else options

    def prepare(self, cache: Path) -> None:
        """Build the site, make its certificate, look up the device."""
        from wavebed.workload.site import load_site

        self.built = load_site(self.options.site, cache)
        site = self.built.site
        if site.scheme not in ("any", self.scheme):
            remedy = "leave tls out" if site.scheme == "https" else 'write protocol = "http/1.1" and tls = false'
            raise UserError(f"workload {self.name}: {site.name} works with {site.scheme} only: {remedy}")
        if len(site.origins) > _MOST_ORIGINS:
            raise UserError(
                f"workload {self.name}: {site.name} has {len(site.origins)} origins: {_MOST_ORIGINS} at most"
            )
        if self.options.tls:
            self.certificate = make_certificate(cache, [origin.name for origin in site.origins])
        self.device = device_options(self.options.device, self.name, cache)

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        nothing = PageTrace(0, [], 0, [])
        return metrics_of(PageCourse(), nothing, looks_up=self.options.names == "resolver")[0]

    def open(self, context: TrialContext) -> Session:
        """Start the web server, and the browser with an empty page."""
        return _WebSession(self, context)


class _WebSession(Session):
    def __init__(self, workload: Web, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._began_s = self._stopped_s = 0.0
        self._failure: str | None = None
        names = [origin.name for origin in workload.built.site.origins]
        resolver = None
        if context.server.only_address:
            # An origin of its own for each, as with addresses: no two share a connection.
            ports = range(context.port, context.port + len(names))
            places = {name: f"{context.server.only_address}:{port}" for name, port in zip(names, ports, strict=True)}
            hosts = [self._served(name, "*", port) for name, port in zip(names, ports, strict=True)]
        else:
            places = {name: f"{context.address}{number}" for number, name in enumerate(names, 1)}
            port = 443 if workload.certificate else 80
            hosts = [self._served(name, address, port) for name, address in places.items()]
            add_addresses(context.server, places.values())
            resolver = self._start_resolver(places) if workload.options.names == "resolver" else None
        server = start_web_server(context.server, hosts, workload.protocol, context.folder, workload.certificate)
        self._server = RunningServers(server, resolver)
        self._agent = BrowserAgent(
            context.client,
            "wavebed.workload.browser.web_agent",
            self._settings(places),
            context.folder,
            resolver=resolver,
        )
        try:
            self._agent.await_ready()
        except BaseException:
            self._agent.close()
            self._server.stop()
            raise

    def _start_resolver(self, addresses: Mapping[str, str]) -> NameResolver:
        context = self._context
        first = next(iter(addresses.values()))
        return start_resolver(context.server, context.client, first, addresses, context.folder)

    def _served(self, name: str, address: str, port: int) -> VirtualHost:
        built = self._workload.built
        folder = next(origin.folder for origin in built.site.origins if origin.name == name)
        routes = built.routes.get(name, {})
        root = built.folder / folder
        return VirtualHost(name, address, port, root, _HEADERS, routes, compressed=built.site.compressed)

    def _settings(self, places: Mapping[str, str]) -> dict[str, Json]:
        workload = self._workload
        arguments = [*chromium_arguments(workload.options.names, places), "--disable-site-isolation-trials"]
        if workload.certificate is not None:
            arguments.append(f"--ignore-certificate-errors-spki-list={workload.certificate.spki_sha256}")
        if workload.protocol == "h3":
            arguments.append(f"--origin-to-force-quic-on={','.join(f'{name}:443' for name in places)}")
        site = workload.built.site
        has_icon = any(entry.path == "/favicon.ico" for entry in site.objects)
        return {
            "arguments": cast("Json", arguments),
            "quic": workload.protocol == "h3",
            "device": dict(workload.device),
            "cpu_slowdown": workload.options.cpu_slowdown,
            "url": workload.url,
            "limit_s": self._context.limit_s,
            "settle_s": workload.settle_s,
            "folder": str(self._context.folder),
            "blocked": [] if has_icon else ["*/favicon.ico"],
        }

    def run(self) -> None:
        """Start the load and wait for the result; the browser has the limit too."""
        try:
            if not self._asked.is_set():
                self._began_s = self._context.clock.monotonic_s()
                self._agent.tell({"go": True})
                self._agent.result(self._asked, self._server.failure)
        except WavebedError as error:
            self._failure = str(error)
        finally:
            self._agent.close()
        self._failure = self._server.failure() or self._failure
        self._server.stop()

    def stop(self) -> None:
        """End the browser's recording."""
        if not self._asked.is_set():
            self._stopped_s = self._context.clock.monotonic_s()
            self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - independent of other workloads
        """Return the results from the trace and the page."""
        folder = self._context.folder
        course = read_course(folder / "page.json")
        waited_s = self._stopped_s - self._began_s if self._asked.is_set() else None
        status, reason = status_of(course, self._failure, waited_s, self._context.limit_s, self._workload.settle_s)
        trace = read_trace(folder / "trace.json")
        if course is None or trace is None:
            return Outcome("failed", reason or "the browser's trace has no page in it")
        start_s = self._context.client.of_monotonic_ns(trace.began_ns)
        workload = self._workload
        metrics, progress = metrics_of(course, trace, looks_up=workload.options.names == "resolver")
        return Outcome(
            status,
            reason,
            metrics=metrics,
            series=[] if progress is None else [progress_series(progress, start_s)],
            events=events_of(trace, start_s),
            details={
                "url": workload.url,
                "site": workload.built.site.name,
                "protocol": workload.protocol,
                "device": workload.options.device,
                "cpu slowdown": workload.options.cpu_slowdown,
                "browser sandbox": self._agent.sandbox,
                **details_of(trace, progress, start_s, folder),
            },
            doubts=doubts_of(
                course,
                trace,
                [origin.name for origin in workload.built.site.origins],
                others_expected=workload.options.missing_hosts == "expected",
            ),
        )
