"""A test that judges times and fails on a late machine is inconclusive; nothing else is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import pytest
from tests.inconclusive import Inconclusive
from tests.machine import Lateness, Watch
from tests.on_time import left_open

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ON_TIME, LATE = Lateness(0.2, 1.0, 0.0), Lateness(7.5, 46.0, 0.01)
FILE = """
import pytest

def test_a_rate():
    assert 90 == 100, "too slow"

def test_a_value():
    assert 90 == 100

def test_a_fault():
    raise ValueError("no time can be the reason")

def test_that_holds():
    pass
"""


class FakeWatch(Watch):
    """A machine as late as it is told to be: first so late, then so late, and as at last for ever after."""

    def __init__(self, *found: Lateness) -> None:
        self.found = list(found)

    def begin(self) -> Self:
        return self

    def end(self) -> Lateness:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def close(self) -> None:
        pass


def ran(
    pytester: pytest.Pytester, found: Lateness | Sequence[Lateness], text: str = FILE, *options: str
) -> pytest.RunResult:
    pytester.makepyfile(text)
    late = (found,) if isinstance(found, Lateness) else found
    plugin = Inconclusive(lambda item: item.name != "test_a_value", lambda: FakeWatch(*late))
    return pytester.runpytest_inprocess("-ra", *options, plugins=[plugin])


def test_on_a_machine_that_is_on_time_it_fails(pytester: pytest.Pytester) -> None:
    ran(pytester, ON_TIME).assert_outcomes(passed=1, failed=3)


def test_on_a_late_machine_it_is_inconclusive_with_what_did_not_hold(pytester: pytest.Pytester) -> None:
    result = ran(pytester, LATE)
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*1 of 4 tests were inconclusive*", "*inconclusive: the machine was late: *too slow*"])


@pytest.mark.parametrize(
    ("name", "verdict", "skipped"),
    [("test_a_record", "invalid", 1), ("test_a_record", "suspect", 0), ("test_a_value", "invalid", 0)],
)
def test_a_trial_that_is_invalid_for_a_late_engine_leaves_a_test_that_judges_times_open(
    pytester: pytest.Pytester, name: str, verdict: str, skipped: int
) -> None:
    said = f"trial 1 of 1 is {verdict}: check failed: engine on time: packets left up to 9921 µs late at p99"
    text = f"def {name}():\n    assert 1 == 0, {said!r}\n"
    ran(pytester, ON_TIME, text).assert_outcomes(failed=1 - skipped, skipped=skipped)


SHARED = """
import pytest

@pytest.fixture(scope="module")
def measured():
    return 90

def test_that_holds(measured):
    pass

def test_what_was_measured(measured):
    assert measured == 100

def test_what_it_measures_itself():
    assert 90 == 100
"""


@pytest.mark.parametrize(
    ("found", "skipped"),
    [
        pytest.param((ON_TIME,), 0, id="on time"),
        pytest.param((LATE, ON_TIME), 1, id="late while it was measured"),
        pytest.param((ON_TIME, ON_TIME, LATE), 1, id="late in the last test alone"),
    ],
)
def test_what_a_shared_fixture_measured_is_judged_with_the_machine_as_it_was_then(
    pytester: pytest.Pytester, found: tuple[Lateness, ...], skipped: int
) -> None:
    ran(pytester, found, SHARED).assert_outcomes(passed=1, skipped=skipped, failed=2 - skipped)


def test_a_trial_is_left_open_if_the_machine_made_each_of_its_attempts_invalid(tmp_path: Path) -> None:
    late = {"code": "late", "holds": False, "severity": "invalid", "evidence": "packets left 9 ms late"}

    def store(number: int, block: int, checks: list[dict[str, object]]) -> None:
        folder = tmp_path / f"run/trials/{number}"
        folder.mkdir(parents=True)
        (folder / "trial.json").write_text(json.dumps({"block": block, "treatment": "a", "checks": checks}))

    store(1, 1, [late])
    store(2, 1, [])
    assert not left_open(tmp_path), "its second attempt is usable"
    store(3, 2, [late, {**late, "code": "integrity"}])
    assert not left_open(tmp_path), "not the machine alone"
    store(4, 3, [late])
    assert left_open(tmp_path) == "packets left 9 ms late"
