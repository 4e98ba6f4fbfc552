"""A forwarding test from its specification to its folder: the real test between faked ports, in virtual time."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.outputs import checked
from tests.unit.forward.fakes import FakeDevice, FakePort, fake_ports

import wavebed.forward.run as run_module
import wavebed.forward.tester as tester_module
from wavebed.config.problems import Problem
from wavebed.errors import UserError, WavebedError
from wavebed.forward.folder import read_forward
from wavebed.forward.frames import Layout
from wavebed.forward.model import PortInfo, ValueRange
from wavebed.forward.run import ForwardOutcome, Setup, Teller, _layout, measure, run_spec
from wavebed.forward.settings import ForwardOptions, ForwardSpec, RealPorts, parse_options
from wavebed.store.journal import RunBegun, RunEnded, RunInterrupted, TrialStored, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS = ForwardOptions(tx="a", rx="b", link_speed="100mbit", sizes="64,1518", quick=True, name="router")


@dataclass
class Heard:
    notes: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, text: str, left_s: float) -> None:  # noqa: ARG002 - as the real one
        self.steps.append(text)

    go_on = step


@pytest.fixture(autouse=True)
def _virtual(monkeypatch: pytest.MonkeyPatch):
    """The tester waits in the time of its fake ports; signals are put back."""
    kept = signal.getsignal(signal.SIGINT)
    real = tester_module.Tester

    def made(tx: FakePort, rx: FakePort, layout: Layout, **more: object):
        return real(tx, rx, layout, sleep=tx.world.sleep, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "Tester", made)
    yield
    signal.signal(signal.SIGINT, kept)


def setup_of(device: FakeDevice, **more: object) -> Setup:
    tx, rx = fake_ports(device)
    layout = Layout(ValueRange("198.18.0.2", 1), ValueRange("198.18.1.2", 16), next_hop="198.18.0.1")
    return Setup(tx, rx, layout, "external", **more)  # type: ignore[arg-type]


def spec_of(**changes: object) -> ForwardSpec:
    return parse_options(replace(OPTIONS, **changes))  # type: ignore[arg-type]


def test_the_plan_is_said_first_and_then_every_part_with_the_time_left() -> None:
    heard = Heard()
    result, interrupted = measure(spec_of(), setup_of(FakeDevice(capacity_pps=60_000)), Teller(heard), {})
    assert not interrupted
    assert len(heard.notes) == 1
    assert heard.notes[0].startswith("plan: about")
    parts = [step for step in heard.steps if ":" not in step and "part" in step]
    assert parts == [
        "part 1 of 4, throughput",
        "part 2 of 4, overload",
        "part 3 of 4, search 64",
        "part 4 of 4, search 1518",
    ]
    assert heard.steps[:2] == ["looking for the device", "warm-up"]
    assert any(step.startswith("part 3 of 4, search 64: ") and step.endswith(" lost") for step in heard.steps)
    assert result.device == "router"
    assert result.overload[1].received is not None
    # 100 Mbit/s carry 148,810 frames of 64 B each second; the device forwards 60,000.
    assert result.overload[1].received.pps == pytest.approx(60_000, rel=0.01)


def test_an_interrupted_test_keeps_the_parts_that_were_whole() -> None:
    device = FakeDevice(capacity_pps=60_000)
    setup = setup_of(device)
    real, heard = setup.tx.send, Heard()

    def send(*given: object, **more: object):
        if any("search 64" in step for step in heard.steps):
            raise KeyboardInterrupt
        return real(*given, **more)  # type: ignore[arg-type]

    setup.tx.send = send  # type: ignore[method-assign]
    result, interrupted = measure(spec_of(), setup, Teller(heard), {})
    assert interrupted
    assert [one.code for one in result.refusals] == ["interrupted"]
    assert [one.name for one in result.overload] == ["throughput", "overload"]
    assert all(one.received is not None for one in result.overload)


def test_ctrl_c_between_two_trials_ends_the_test_as_well() -> None:
    setup = setup_of(FakeDevice(capacity_pps=60_000))

    class Interrupting(Heard):
        def step(self, text: str, left_s: float) -> None:
            super().step(text, left_s)
            if "search 64" in text:
                signal.raise_signal(signal.SIGINT)

        go_on = step

    result, interrupted = measure(spec_of(), setup, Teller(Interrupting()), {})
    assert interrupted
    assert [one.code for one in result.refusals] == ["interrupted"]
    assert all(one.received is not None for one in result.overload)


def test_frames_that_the_tester_lost_behind_the_device_refuse_the_trial() -> None:
    lost = iter(range(0, 10_000, 5))
    setup = setup_of(FakeDevice(capacity_pps=60_000), overruns=lambda: next(lost))
    result, _ = measure(spec_of(tests="overload"), setup, Teller(Heard()), {})
    assert all(one.received is None for one in result.overload)
    assert "the ring of the receiving port was full 5 times" in result.overload[0].refusals[0].reason


def stored_parts(folder: Path) -> list[str]:
    return [event.trial for event in read_journal(folder) if isinstance(event, TrialStored)]


def in_fake(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    from contextlib import contextmanager

    @contextmanager
    def set_up(spec: ForwardSpec):
        yield setup_of(device)

    monkeypatch.setattr(run_module, "set_up", set_up)


def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> ForwardOutcome:
    in_fake(monkeypatch, device)
    return run_spec(spec_of(tests="overload"), tmp_path / "run", ["wavebed", "forward"], Heard())


def test_the_folder_holds_the_record_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = done(tmp_path, monkeypatch, FakeDevice(capacity_pps=60_000))
    assert outcome.measured
    assert outcome.page == tmp_path / "run/report.html"
    text = outcome.as_text()
    assert "64-byte test" in text
    assert "0.0600" in text
    assert f"results: {tmp_path / 'run'}" in text
    told = checked("forward", outcome.as_json())
    assert told["verdict"] == "valid"
    assert told["result"]["overload"][1]["received"]["pps"] == pytest.approx(60_000, rel=0.01)
    assert told["result"]["trials"] == []
    events = read_journal(tmp_path / "run")
    assert isinstance(events[0], RunBegun)
    assert (events[0].kind, events[0].title) == ("forward", "router")
    assert stored_parts(tmp_path / "run") == ["throughput", "overload"]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].trials == 2


def test_a_device_that_floods_is_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = done(tmp_path, monkeypatch, FakeDevice(super_packets=True))
    assert not outcome.measured
    assert "refused (" in outcome.as_text()
    assert checked("forward", outcome.as_json())["verdict"] == "invalid"


def test_a_device_that_cannot_be_reached_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_fake(monkeypatch, FakeDevice())

    def deaf(*_: object, **__: object) -> str:
        raise WavebedError("198.18.0.1 does not answer")

    monkeypatch.setattr(FakePort, "resolve", deaf)
    with pytest.raises(WavebedError, match="does not answer"):
        run_spec(spec_of(), tmp_path / "run", [], Heard())
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("x")
    with pytest.raises(UserError, match="name a new folder"):
        run_spec(spec_of(), tmp_path, [], Heard())


# ---- addresses of real ports ----


class PortWith(FakePort):
    addresses: tuple[str, ...] = ()

    def describe(self) -> PortInfo:
        return replace(super().describe(), addresses=self.addresses)


def layout_of(own: tuple[str, ...], **options: object) -> Layout:
    tx, rx = fake_ports(FakeDevice())
    mine = PortWith(tx.world, "a", 0)
    mine.addresses = own
    bare = PortWith(rx.world, "b", 1)
    spec = parse_options(ForwardOptions(tx="a", rx="b", **options))  # type: ignore[arg-type]
    assert isinstance(spec.target, RealPorts)
    return _layout(spec, spec.target.tx, mine, bare)


def test_test_addresses_are_those_of_the_ports_or_of_rfc_2544() -> None:
    layout = layout_of(("fe80::1/64", "192.168.1.7/24"), gateway="192.168.1.1")
    assert (layout.sources, layout.next_hop) == (ValueRange("192.168.1.7", 1), "192.168.1.1")
    assert layout.destinations == ValueRange("198.18.1.2", 16)
    assert layout_of(()).sources == ValueRange("198.18.0.2", 1)
    assert layout_of(("192.168.1.7/24",), ipv6=True).sources == ValueRange("2001:2::2", 1)
    given = layout_of(("192.168.1.7/24",), sources="192.168.1.50x4", destinations="10.0.0.2")
    assert (given.sources, given.destinations) == (ValueRange("192.168.1.50", 4), ValueRange("10.0.0.2", 1))


def test_a_gateway_that_no_source_is_a_neighbour_of_is_refused() -> None:
    with pytest.raises(Problem, match="--sources: is missing: a has no IPv4 address of its own"):
        layout_of((), gateway="192.168.1.1")


# ---- what is kept of a test that does not reach its end ----


def ends_in(part: str, how: Callable[[], None]) -> type[Heard]:
    """Return a progress that does this when a part begins."""

    class Ending(Heard):
        def step(self, text: str, left_s: float) -> None:
            super().step(text, left_s)
            if part in text:
                how()

    return Ending


def broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, how: Callable[[], None]) -> None:
    in_fake(monkeypatch, FakeDevice(capacity_pps=60_000))
    run_spec(spec_of(), tmp_path / "run", ["wavebed", "forward"], ends_in(part, how)())


def test_a_disk_that_fills_up_leaves_the_parts_that_had_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(WavebedError, match="no space left on device: the parts that had ended can be read"):
        broken_off(tmp_path, monkeypatch, "search 64", lambda: monkeypatch.setattr("os.fsync", full))
    result = read_forward(tmp_path / "run").result
    assert [one.name for one in result.overload] == ["throughput", "overload"]
    assert stored_parts(tmp_path / "run") == ["throughput", "overload"]
    assert isinstance(read_journal(tmp_path / "run")[-1], RunInterrupted)


def test_an_error_before_the_first_part_ended_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise WavebedError("the port is gone")

    with pytest.raises(WavebedError, match="the port is gone"):
        broken_off(tmp_path, monkeypatch, "throughput", fail)
    assert list(tmp_path.iterdir()) == []
