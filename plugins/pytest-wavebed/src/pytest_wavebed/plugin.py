"""Hooks of pytest: the marker ``wavebed``, the fixture ``lab``, and what becomes of a test on a late machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from wavebed.errors import UserError, WavebedError
from wavebed.lab.tools import in_guest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from _pytest.terminal import TerminalReporter

    from pytest_wavebed.laboratory import TestLab
    from pytest_wavebed.loopback import Loopback
    from wavebed.config.data import Json
    from wavebed.path.api import Path as EmulatedPath
    from wavebed.spec.trial import Time

__all__ = ["lab"]

_MARKER = "wavebed"
_FIXTURE = "lab"
_MOST_SEEDS = 1000
_WORD = "inconclusive: "
_FOLDER, _OPEN = "wavebed.folder", "wavebed.inconclusive"
"""Properties of a test: the folder of its results, and why it decided nothing."""
_FAULTS = (NameError, ImportError, SyntaxError, NotImplementedError, UserError)
"""Errors of a test on any machine, and wrong arguments of wavebed; others may come of a late machine."""
_LAB: pytest.StashKey[TestLab] = pytest.StashKey()
_LOOPBACK: pytest.StashKey[Loopback] = pytest.StashKey()
_FOLDERS = pytest.StashKey[list[tuple[str, str, Path]]]()
_RESULTS = pytest.StashKey[Path]()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a test asks for, with one scene and one seed."""

    seed: int
    options: Mapping[str, object] = field(default_factory=dict)
    loopback: bool = False
    device: str | None = None
    time: Time = "real"

    @property
    def name(self) -> str:
        """Part of the name of the test."""
        scene = self.options.get("scene", self.options.get("scenario"))
        named = re.sub(r"[^A-Za-z0-9]+", "-", str(scene)).strip("-")
        return f"seed{self.seed}" if scene is None else f"{named}-seed{self.seed}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("wavebed", "tests behind an emulated path")
    group.addoption(
        "--wavebed-scene",
        action="append",
        default=[],
        metavar="SCENE",
        help="run the marked tests behind this scene in place of their own path; may be repeated",
    )
    group.addoption("--wavebed-seeds", metavar="N", help="run each marked test with N seeds in place of its own number")
    group.addoption("--wavebed-dir", metavar="DIR", type=Path, help="folder of the results (default: runs/pytest-TIME)")
    group.addoption(
        "--wavebed-loopback",
        action="store_true",
        help="within wavebed check: the path carries what this process sends to 127.0.0.1 and ::1; its listening"
        " sockets are on the server",
    )
    group.addoption(
        "--wavebed-virtual-time",
        action="store_const",
        dest="wavebed_time",
        const="virtual",
        help="run each marked test in a guest, whose time stands still while programs compute",
    )
    group.addoption(
        "--wavebed-real-time",
        action="store_const",
        dest="wavebed_time",
        const="real",
        help="run each marked test in this machine's time (default: as the marker says, else WAVEBED_TIME, else real)",
    )
    group.addoption(
        "--wavebed-report",
        choices=("always", "failed", "never"),
        default="failed",
        help="of which tests report.html is written (default: failed and inconclusive ones)",
    )
    group.addoption(
        "--wavebed-inconclusive",
        choices=("error", "skip", "fail"),
        default="error",
        help="an inconclusive test is skipped, and the run fails if no test behind a path was decided (error, the"
        " default); it is skipped whatever the others are (skip); it fails (fail)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(scene=NAME, seeds=N, seed=N, scenario=FILE, time=TIME, **path): run behind an emulated path, once"
        " with each seed; path options as those of wavebed shell, with _ for -; scene may be a list; device: the"
        " lab.client of a cell (default: the first one); loopback=True: the path"
        " carries what this process sends to 127.0.0.1 and ::1; time: real, virtual (in a guest) or auto",
    )
    config.stash[_FOLDERS] = []
    config.pluginmanager.register(_Decisions(config), "wavebed decisions")
    if config.option.wavebed_loopback:
        from pytest_wavebed.loopback import loopback_inside

        try:
            config.stash[_LOOPBACK] = loopback_inside()
        except UserError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[_LOOPBACK].install()


class _Decisions:
    """Which tests behind a path were decided; on the process that collects the reports of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._decided: list[bool] = []
        self._is_asked = config.option.wavebed_inconclusive == "error"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that ran."""
        names = [name for name, _ in report.user_properties]
        if report.when == "call" and _FOLDER in names and (_OPEN in names or not _is_skip(report)):
            self._decided.append(_OPEN not in names)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run in which nothing was decided."""
        if self.nothing and self._is_asked and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def nothing(self) -> bool:
        """Whether tests behind a path ran, and none of them was decided."""
        return bool(self._decided) and not any(self._decided)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Say why such a run failed."""
        if self.nothing and self._is_asked:
            terminalreporter.write_line(
                "no test behind a path was decided, so the run fails: --wavebed-inconclusive=skip lets it pass"
            )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give sockets back."""
    if _LOOPBACK in config.stash:
        config.stash[_LOOPBACK].remove()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each scene and seed."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is None:
        return
    if _FIXTURE not in metafunc.fixturenames:
        metafunc.fixturenames.append(_FIXTURE)
    try:
        asked = _asked(metafunc.config, dict(marker.kwargs), marker.args)
    except WavebedError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize(_FIXTURE, asked, ids=[each.name for each in asked], indirect=True)


def _asked(config: pytest.Config, given: dict[str, object], args: Sequence[object] = ()) -> list[_Asked]:
    from wavebed.config.problems import at
    from wavebed.config.values import boolean, name, number, word
    from wavebed.run.times import default_time
    from wavebed.spec.network import MOST_SEED

    if args:
        raise UserError('wavebed: write names, as in wavebed(scene="street-canyon-bus", seeds=3)')
    seeds = at("seeds", number(1, _MOST_SEEDS), given.pop("seeds", 1))
    if config.option.wavebed_seeds is not None:
        seeds = at("--wavebed-seeds", number(1, _MOST_SEEDS), config.option.wavebed_seeds)
    first = at("seed", number(0, MOST_SEED), given.pop("seed", 1))
    loopback = at("loopback", boolean, given.pop("loopback", False))
    device = given.pop("device", None)
    said = given.pop("time", None) or default_time("real")
    time = config.option.wavebed_time or cast("Time", at("time", word("auto", "real", "virtual"), said))
    scenes = given.pop("scene", None)
    scenes = list(scenes) if isinstance(scenes, list | tuple) else [scenes]
    if config.option.wavebed_scene:
        given, scenes = {}, config.option.wavebed_scene
    if scenes == [None] and not given:
        raise UserError('the fixture lab needs a path: mark the test with wavebed(scene="street-canyon-bus")')
    chosen = [given if scene is None else given | {"scene": scene} for scene in scenes]
    host = None if device is None else at("device", name, device)
    return [_Asked(seed, options, loopback, host, time) for options in chosen for seed in range(first, first + seeds)]


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[TestLab]:
    """Two hosts with an emulated path between them; `lab.server` and `lab.client` run the programs of the test."""
    from pytest_wavebed.laboratory import TestLab
    from pytest_wavebed.trial import TestTrial

    item = request.node
    asked: _Asked = request.param if hasattr(request, "param") else _asked(request.config, {})[0]
    path = _path(asked)
    settings = cast("dict[str, Json]", {key: str(value) for key, value in asked.options.items()})
    folder = _results(request.config) / _file_name(item.nodeid)
    line = ["pytest", *map(str, request.config.invocation_params.args)]
    laboratory = TestLab(TestTrial(path.model, item.nodeid, settings, folder, line, asked.device), asked.seed)
    item.stash[_LAB] = laboratory
    item.user_properties.append((_FOLDER, str(folder)))
    if not asked.loopback:
        yield laboratory
        laboratory.end()
        return
    loopback = laboratory.carry_loopback()
    loopback.install()
    try:
        yield laboratory
    finally:
        loopback.remove()
        laboratory.end()


def _path(asked: _Asked) -> EmulatedPath:
    from wavebed.path.api import Path as EmulatedPath

    options = dict(asked.options)
    scenario = options.pop("scenario", None)
    if scenario is None:
        return EmulatedPath.of(**options, seed=asked.seed)
    return EmulatedPath.load(cast("str", scenario), **options, seed=asked.seed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Run a test that is to be in virtual time in a guest; there it runs as any other."""
    asked = getattr(item, "callspec", None) and item.callspec.params.get(_FIXTURE)  # type: ignore[attr-defined]
    if not isinstance(asked, _Asked) or asked.time == "real" or in_guest():
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = _reports_of(item, asked)
    except WavebedError as error:
        told = f"wavebed: {error}"
        reports = [pytest.TestReport(item.nodeid, item.location, {}, "failed", told, "setup")]
    for report in reports or ():
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return None if reports is None else True


def _reports_of(item: pytest.Item, asked: _Asked) -> list[pytest.TestReport] | None:
    """Return the reports of a test in a guest; ``None`` if it is to be in real time after all.

    Raises
    ------
    WavebedError
        If it cannot run there.
    """
    from pytest_wavebed.guest import reports_of
    from wavebed.run.times import chosen_time

    if chosen_time(_path(asked).model, asked.time) == "real":
        return None
    results = _results(item.config)
    reports = reports_of(item, asked.seed, results)
    folder = results / _file_name(item.nodeid)
    for report in reports:
        if report.when == "call":
            report.user_properties = [
                (name, str(folder) if name == _FOLDER else value) for name, value in report.user_properties
            ]
            _note(item, report, folder)
    return reports


@pytest.fixture(autouse=True)
def _wavebed(request: pytest.FixtureRequest) -> None:
    """Make the laboratory of a marked test that does not name the fixture."""
    if request.node.get_closest_marker(_MARKER) is not None:
        request.getfixturevalue(_FIXTURE)


def _results(config: pytest.Config) -> Path:
    """Return the folder of all results of the session; on workers of pytest-xdist each has its own."""
    if _RESULTS not in config.stash:
        base = config.option.wavebed_dir or Path("runs") / f"pytest-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        worker = getattr(config, "workerinput", {}).get("workerid", "")
        config.stash[_RESULTS] = (base / worker).absolute()
    return config.stash[_RESULTS]


def _file_name(nodeid: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", nodeid.rpartition("/")[2]).strip("-")[:150]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the laboratory after the test, and make the report inconclusive if the machine was late."""
    report = yield
    laboratory = item.stash.get(_LAB, None)
    if call.when != "call" or laboratory is None:
        return report
    laboratory.end("" if call.excinfo is None else _line(call.excinfo.exconly()))
    reasons = laboratory.inconclusive
    silent = [] if report.failed else laboratory.silence
    fault = call.excinfo is not None and isinstance(call.excinfo.value, _FAULTS)
    if report.failed:
        report.sections += [*laboratory.server.outputs(), *laboratory.client.outputs()]
    passed = report.passed and not hasattr(report, "wasxfail")
    if reasons and passed and not silent and laboratory.only_delayed:
        report.sections.append(("the engine was a little late, and the test passed all the same", reasons[0]))
    elif (reasons or silent) and not fault and not _is_skip(report):
        _make_inconclusive(report, [*reasons, *silent], call, item.config.option.wavebed_inconclusive)
    _note(item, report, laboratory.folder)
    return report


def _note(item: pytest.Item, report: pytest.TestReport, folder: Path) -> None:
    """Note the outcome of a test for the end of the run, and write its page if it is wanted."""
    is_open = any(name == _OPEN for name, _ in report.user_properties)
    outcome = "inconclusive" if is_open else report.outcome
    item.config.stash[_FOLDERS].append((outcome, item.nodeid, folder))
    wanted = item.config.option.wavebed_report
    if wanted == "always" or (wanted == "failed" and outcome in ("failed", "inconclusive")):
        _write_page(folder)


def _is_skip(report: pytest.TestReport) -> bool:
    """Return whether the test itself chose to be skipped; an expected failure is a failure."""
    return report.skipped and not hasattr(report, "wasxfail")


def _make_inconclusive(
    report: pytest.TestReport, reasons: Sequence[str], call: pytest.CallInfo[None], becomes: str
) -> None:
    told = f"{_WORD}{reasons[0]}"
    if call.excinfo is not None:
        report.sections.append(("what did not hold", str(report.longrepr)))
        told += f"; what did not hold: {_line(str(call.excinfo.value)) or call.excinfo.typename}"
    if hasattr(report, "wasxfail"):
        del report.wasxfail
    report.user_properties.append((_OPEN, reasons[0]))
    if becomes == "fail":
        report.outcome, report.longrepr = "failed", told
        return
    path, line, _ = report.location
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, f"Skipped: {told}")


def _line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().partition("\n")[0].strip()


def _write_page(folder: Path) -> None:
    from wavebed.report.build import write_report

    try:
        write_report(folder)
    except (WavebedError, OSError) as error:
        (folder / "report.txt").write_text(f"no report: {error}\n", encoding="utf-8")


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Say where the results are, and how many tests were inconclusive."""
    folders = config.stash[_FOLDERS]
    if _LOOPBACK in config.stash:
        moved = config.stash[_LOOPBACK].moved
        told = (
            f"{moved} sockets were put on the server" if moved else "no socket was put on the server: nothing crossed"
        )
        terminalreporter.section(f"wavebed: {told}", sep="-")
    if not folders:
        return
    open_ = sum(outcome == "inconclusive" for outcome, _, _ in folders)
    terminalreporter.section("wavebed")
    for outcome, nodeid, folder in folders:
        if outcome != "passed":
            terminalreporter.write_line(f"{outcome}: {nodeid}: {folder}")
    terminalreporter.write_line(f"{open_} of {len(folders)} tests were inconclusive; results: {_results(config)}")
