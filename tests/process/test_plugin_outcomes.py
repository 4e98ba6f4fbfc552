"""What becomes of tests, with laboratories that are made up: no path, and a machine that is as late as it is told."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow.parquet  # noqa: F401 - a module of C is loaded once in a process, before the runs inside
import pytest

import pytest_wavebed.laboratory
import pytest_wavebed.trial
from wavebed.lab.protocol import MachineClock
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.run.checks import verdict
from wavebed.store.records import trial_json
from wavebed.workload.model import Metric, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.run.scenario import Plan


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs inside have this plugin only: others take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


HOSTS = "127.0.0.1 localhost\n198.18.0.1 server\nfd00::1 server\n198.18.0.2 client\nfd00::2 client\n"
LATE = Check("engine on time", False, "suspect", "late by 9 ms", "late")
MOMENTS = Check("engine kept running", False, "suspect", "stood still for 9 ms", "gaps")
ENGINE = {"loops": [{"gaps": {"total_ns": 9_000_000}}]}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Check]], list[Plan]]:
    """Let trials have these checks, and no laboratory; return the plans of those that ran."""

    def use(checks: Sequence[Check]) -> list[Plan]:
        plans: list[Plan] = []

        def run_plan(plan: Plan, folder: Path, *_: object) -> None:
            plans.append(plan)
            (trial,) = plan.treatments
            (workload,) = trial.workloads
            name = f"{len(plans):04d}-x"
            raw = folder / "raw"
            raw.mkdir(parents=True)
            host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(stdout=HOSTS))
            ends = {end: SimpleNamespace(name=end, **vars(host)) for end in ("server", "client")}
            session = workload.open(SimpleNamespace(**ends, folder=raw, clock=MachineClock()))
            session.run()
            records = [WorkloadRecord("test", "test", TimeSpan(0.0, 1.0, is_load=True), session.report({}))]
            found, reasons = verdict(checks, records)
            path = [Metric("queueing delay p95 down", 12.0, "ms")]
            record = TrialRecord(name, 1, "x", plan.seed, "", 1.0, found, reasons, checks, records, path, engine=ENGINE)
            (folder / "trials" / name).mkdir(parents=True)
            (folder / "trials" / name / "trial.json").write_text(trial_json(record))

        monkeypatch.setattr(pytest_wavebed.trial, "run_plan", run_plan)
        return plans

    return use


def run(pytester: pytest.Pytester, text: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess("-p", "pytest_wavebed.plugin", "-rs", "--wavebed-report=never", *words)


def test_a_test_runs_once_with_each_seed(pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]) -> None:
    plans = made_up([])
    text = """
        import pytest
        @pytest.mark.wavebed(rate="10mbit", seeds=3)
        def test_it(lab):
            assert (lab.server.address, lab.client.address6) == ("198.18.0.1", "fd00::2")
            assert lab.metrics["queueing delay p95 down"] == 12.0
    """
    result = run(pytester, text)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*0 of 3 tests were inconclusive; results: *"])
    assert [plan.seed for plan in plans] == [1, 2, 3]


def test_a_test_that_passed_on_a_late_machine_is_inconclusive(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([LATE])
    result = run(pytester, "import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): pass")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*1 of 1 tests were inconclusive*", "SKIPPED*inconclusive: engine on time: late by 9 ms"]
    )


SILENT = Check("packets crossed the path", False, "suspect", "no packet entered the links", "traffic")


@pytest.mark.parametrize(
    ("checks", "words", "status"),
    [
        ([LATE], [], 1),
        ([SILENT], [], 1),
        ([LATE], ["--wavebed-inconclusive=skip"], 0),
        ([LATE], ["--wavebed-inconclusive=fail"], 1),
        ([], [], 0),
    ],
)
def test_a_run_in_which_nothing_was_decided_fails_unless_that_is_allowed(
    checks: list[Check],
    words: list[str],
    status: int,
    pytester: pytest.Pytester,
    made_up: Callable[..., list[Plan]],
) -> None:
    made_up(checks)
    text = "import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): pass\ndef test_other(): pass"
    result = run(pytester, text, *words)
    assert result.ret == status
    kind = "failed" if words[-1:] == ["--wavebed-inconclusive=fail"] else "skipped"
    result.assert_outcomes(**({"passed": 1, kind: 1} if checks else {"passed": 2}))
    said = "no test behind a path was decided, so the run fails" in result.stdout.str()
    assert said == (bool(checks) and not words)


def test_a_test_that_sent_nothing_and_failed_has_failed(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([SILENT])
    result = run(pytester, "import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): assert 1 == 2")
    result.assert_outcomes(failed=1)


@pytest.mark.parametrize(("line", "outcome"), [("pass", "passed"), ("assert 1 == 2", "skipped")])
def test_what_passed_although_the_engine_stood_still_for_moments_stays_passed(
    line: str, outcome: str, pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([MOMENTS])
    result = run(pytester, f"import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): {line}")
    result.assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize("line", ["pass", "assert False"])
def test_what_was_expected_to_fail_is_inconclusive_after_moments(
    line: str, pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([MOMENTS])
    text = "import pytest\n@pytest.mark.xfail\n@pytest.mark.wavebed(rate='10mbit')\n"
    run(pytester, f"{text}def test_it(lab): {line}").assert_outcomes(skipped=1)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("assert 1 == 2", "skipped"),
        ("raise TimeoutError('3 s')", "skipped"),
        ("pytest.fail('slow')", "skipped"),
        ("raise ValueError('nothing came')", "skipped"),
        ("undefined", "failed"),
        ("import no_such_module", "failed"),
        ("lab.metrics['queueing delay']", "skipped"),
    ],
)
def test_of_failures_on_a_late_machine_only_faults_of_the_test_itself_stay(
    line: str, outcome: str, pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([LATE])
    result = run(pytester, f"import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab):\n    {line}")
    result.assert_outcomes(**{outcome: 1})
    if outcome == "skipped":
        result.stdout.fnmatch_lines(["SKIPPED*inconclusive: *what did not hold: *"])


def test_a_test_that_failed_on_a_machine_in_time_has_failed_and_the_results_say_so(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([])
    text = "import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab):\n    assert 1 == 2"
    result = run(pytester, text, "--wavebed-dir=here")
    result.assert_outcomes(failed=1)
    (trial,) = (pytester.path / "here").rglob("trial.json")
    told = json.loads(trial.read_text())
    assert (told["verdict"], told["reasons"]) == ("failed", ["test: AssertionError: assert 1 == 2"])


def test_a_test_that_skips_itself_or_fails_as_expected_keeps_its_outcome(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([])
    text = """
        import pytest
        pytestmark = pytest.mark.wavebed(rate="10mbit")
        def test_skip(lab): pytest.skip("not here")
        @pytest.mark.xfail
        def test_fail(lab): assert False
    """
    run(pytester, text).assert_outcomes(skipped=1, xfailed=1)


def test_an_expected_failure_on_a_late_machine_is_inconclusive(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([LATE])
    text = "import pytest\n@pytest.mark.xfail\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): assert False"
    run(pytester, text).assert_outcomes(skipped=1)


def test_a_marked_test_needs_not_name_the_fixture(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    plans = made_up([LATE])
    result = run(pytester, "import pytest\n@pytest.mark.wavebed(rate='10mbit', seeds=2)\ndef test_it(): pass")
    result.assert_outcomes(skipped=2)
    assert len(plans) == 2


def test_an_unmarked_test_has_no_laboratory(pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]) -> None:
    plans = made_up([])
    run(pytester, "def test_it(): pass").assert_outcomes(passed=1)
    assert plans == []


def test_scenes_and_seeds_of_the_command_line_take_the_place_of_the_marker(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    plans = made_up([])
    text = "import pytest\n@pytest.mark.wavebed(rate='10mbit', seeds=7)\ndef test_it(lab): pass"
    words = ("--wavebed-scene", "corner-lte", "--wavebed-scene", "stadium/lte", "--wavebed-seeds", "2", "-v")
    result = run(pytester, text, *words)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_it?corner-lte-seed1? PASSED*", "*test_it?stadium-lte-seed2? PASSED*"])
    assert [plan.seed for plan in plans] == [1, 2, 1, 2]


def test_a_recorded_value_is_a_metric_of_the_results(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([])
    text = """
        import pytest
        @pytest.mark.wavebed(rate="10mbit")
        def test_it(lab):
            lab.record("start of play", 0.4, "s")
            assert lab.metrics["start of play"] == 0.4
            assert lab.metrics.units["start of play"] == "s"
            with pytest.raises(KeyError, match="did you mean 'start of play'"):
                lab.metrics["start of pla"]
    """
    run(pytester, text).assert_outcomes(passed=1)


def test_the_folder_of_each_test_is_in_junit_xml(pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]) -> None:
    made_up([])
    text = "import pytest\n@pytest.mark.wavebed(rate='10mbit')\ndef test_it(lab): pass"
    run(pytester, text, "--junit-xml=j.xml", "--wavebed-dir=here")
    assert '<property name="wavebed.folder" value="' in (pytester.path / "j.xml").read_text()
    assert (pytester.path / "here").is_dir()


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("wavebed(seeds=0, rate='1mbit')", "seeds: 0 is out of range"),
        ("wavebed('corner-lte')", "wavebed: write names, as in"),
        ("wavebed()", "the fixture lab needs a path"),
        ("wavebed(rate='1mbit', loopback='yes')", "loopback: 'yes' is neither true nor false"),
        ("wavebed(rate='1mbit', time='slow')", "time: 'slow' is not a choice: write one of auto"),
    ],
)
def test_a_wrong_marker_is_answered_in_a_line(
    marker: str, line: str, pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([])
    result = run(pytester, f"import pytest\n@pytest.mark.{marker}\ndef test_it(lab): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR or "rror" in result.stdout.str()
    assert line in result.stdout.str() + result.stderr.str()


def test_a_wrong_path_option_is_answered_with_the_nearest(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    made_up([])
    result = run(pytester, "import pytest\n@pytest.mark.wavebed(rat='1mbit')\ndef test_it(lab): pass")
    result.assert_outcomes(errors=1)
    assert "rat: unknown key: did you mean 'rate'?" in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "word"), [("time='virtual'", "--wavebed-seeds=1"), ("time='real'", "--wavebed-virtual-time")]
)
def test_virtual_time_without_its_kernel_is_an_error_in_a_line(
    marker: str,
    word: str,
    pytester: pytest.Pytester,
    made_up: Callable[..., list[Plan]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = made_up([])
    monkeypatch.setenv("WAVEBED_CACHE", str(pytester.path / "cache"))
    text = f"import pytest\n@pytest.mark.wavebed(rate='1mbit', {marker})\ndef test_it(lab): pass"
    result = run(pytester, text, word)
    result.assert_outcomes(errors=1)
    assert "is not installed: run `wavebed kernel build`" in result.stdout.str()
    assert run(pytester, text, "--wavebed-real-time").parseoutcomes() == {"passed": 1}
    assert len(plans) == 1


def test_what_has_no_place_in_a_guest_is_an_error_in_a_line(
    pytester: pytest.Pytester, made_up: Callable[..., list[Plan]]
) -> None:
    plans = made_up([])
    text = "import pytest\n@pytest.mark.wavebed(nat=True, time='{}')\ndef test_it(lab): pass"
    result = run(pytester, text.format("virtual"))
    result.assert_outcomes(errors=1)
    assert "nat leads to this machine's network, which has real time: run it in real time" in result.stdout.str()
    assert run(pytester, text.format("auto")).parseoutcomes() == {"passed": 1}
    assert len(plans) == 1


def test_loopback_outside_a_laboratory_is_answered_in_a_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAVEBED_HOST", raising=False)
    result = run(pytester, "def test_it(): pass", "--wavebed-loopback")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--wavebed-loopback: runs on the client of a laboratory" in result.stderr.str()
