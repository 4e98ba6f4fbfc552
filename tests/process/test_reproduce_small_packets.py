"""``wavebed reproduce small-packets``: the order, the merging of rounds, the study's figures beside ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.unit.test_reproduce_small_packets import one_round, trial  # noqa: F401

from wavebed.errors import WavebedError
from wavebed.forward.folder import read_forward
from wavebed.reproduce.small_packets import Reproduction, repeat
from wavebed.store.journal import (
    LoadMeasured,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    TrialBegun,
    TrialStored,
    read_journal,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wavebed.forward.settings import ForwardSpec
    from wavebed.store.journal import Event


class Heard:
    """A progress that keeps what was said of each small step."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def step(self, text: str, left_s: float) -> None:
        raise AssertionError(f"{text} ({left_s})")

    def go_on(self, text: str, left_s: float) -> None:
        assert left_s >= 0
        self.lines.append(text)


def reproduced(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    heard: Heard,
    tests: int | None = None,
    error: Exception | None = None,
) -> Reproduction:
    """Reproduce with two made-up devices in two rounds; the test after `tests` is interrupted, or ends in an error."""
    made: list[str] = []

    @contextmanager
    def set_up(spec: ForwardSpec):
        yield spec.name

    def measure(spec: ForwardSpec, setup: str, emit: Callable[[Event], None], raw: dict[str, bytes]):
        assert setup == spec.name
        emit(RunPlanned(trials=1, expected_s=1.0))
        emit(TrialBegun(trial="overload", number=1, trials=1, left_s=1.0))
        emit(LoadMeasured(trial="overload", offered_pps=None, sent=9, lost=2, refused=False))
        if len(made) == tests and error is not None:
            raise error
        made.append(spec.name)
        return replace(one_round(1e5 * len(made)), device=spec.name), tests is not None and len(made) > tests

    monkeypatch.setattr("wavebed.reproduce.small_packets.set_up", set_up)
    monkeypatch.setattr("wavebed.reproduce.small_packets.measure", measure)
    return repeat(quick=True, seed=1, progress=heard, folder=folder, kinds=("bridge", "xdp"), rounds=2)


def test_each_test_of_a_device_is_a_trial_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    made = reproduced(monkeypatch, tmp_path / "out", heard)
    assert not made.interrupted
    assert [result.device for result in made.results] == ["bridge", "xdp"]
    order = [kind for block in made.blocks for kind in block]
    names = [f"{number:04d}-{kind}" for number, kind in enumerate(order, 1)]
    assert sorted(path.name for path in (tmp_path / "out/trials").iterdir()) == names
    assert [read_forward(tmp_path / "out/trials" / name).result.device for name in names] == order
    events = read_journal(tmp_path / "out")
    begun = [event for event in events if isinstance(event, TrialBegun)]
    assert [(event.trial, event.treatment, event.block) for event in begun] == [
        (name, kind, 1 + place // 2) for place, (name, kind) in enumerate(zip(names, order, strict=True))
    ]
    assert [event.trial for event in events if isinstance(event, LoadMeasured)] == names
    assert [(event.trial, event.verdict) for event in events if isinstance(event, TrialStored)] == [
        (name, "valid") for name in names
    ]
    assert isinstance(events[-1], RunEnded)
    assert heard.lines[0] == f"round 1 of 2, {order[0]}: part 1 of 1, overload"
    assert heard.lines[-1] == f"round 2 of 2, {order[-1]}: part 1 of 1, overload: as fast as it goes, 2 lost"


def test_an_interrupted_reproduction_keeps_the_trials_that_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reproduced(monkeypatch, tmp_path / "out", Heard(), tests=1)
    assert made.interrupted
    assert made.results == ()
    assert len(list((tmp_path / "out/trials").iterdir())) == 1
    assert isinstance(read_journal(tmp_path / "out")[-1], RunInterrupted)


def test_a_device_that_cannot_be_made_ends_it_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WavebedError, match="the port is gone"):
        reproduced(monkeypatch, tmp_path / "out", Heard(), tests=3, error=WavebedError("the port is gone"))
    assert len(list((tmp_path / "out/trials").iterdir())) == 3
    last = read_journal(tmp_path / "out")[-1]
    assert isinstance(last, RunInterrupted)
    assert last.reason == "the port is gone"


def test_without_a_trial_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WavebedError):
        reproduced(monkeypatch, tmp_path / "out", Heard(), tests=0, error=WavebedError("the port is gone"))
    assert list(tmp_path.iterdir()) == []
