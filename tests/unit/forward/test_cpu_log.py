"""What is kept of the device's processor over a test: loads for trials, doubts for the record."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from wavebed.errors import WavebedError
from wavebed.forward.cpu import CpuLog, CpuUse
from wavebed.forward.model import ForwardTrial, Refusal

TRIAL = ForwardTrial("overload", (64,), None, 10.0, 0, 0, 0, 0.0, 1_400_000.0, 10.0, None, None, None, None)


class FakeMeter:
    source = "fake"

    def __init__(self, *uses: CpuUse | WavebedError) -> None:
        self.uses = list(uses)

    def start(self) -> None:
        if isinstance(self.uses[0], WavebedError):
            raise self.uses.pop(0)

    def stop(self) -> CpuUse:
        use = self.uses.pop(0)
        assert isinstance(use, CpuUse)
        return use

    def close(self) -> None:
        pass


def use(seconds: float, busy: float, **more: object) -> CpuUse:
    return replace(
        CpuUse("fake", seconds, busy_mean=busy, busy_max=busy, softirq_max=0.0, core_count=2),
        **more,  # type: ignore[arg-type]
    )


def made(cpu_log: CpuLog, trial: ForwardTrial = TRIAL) -> dict[str, float]:
    cpu_log.start()
    fractions = cpu_log.stop()
    cpu_log.hear(trial)
    return fractions


def test_fractions_of_long_trials_are_given_without_a_doubt() -> None:
    cpu_log = CpuLog(FakeMeter(use(10.0, 0.9)))
    assert made(cpu_log) == {"busy_max": 0.9, "busy_mean": 0.9, "softirq_max": 0.0}
    assert cpu_log.doubts == ()


def test_short_trials_are_said_once() -> None:
    cpu_log = CpuLog(FakeMeter(use(1.0, 0.9, doubts=("short: x",)), use(2.0, 0.9, doubts=("short: y",))))
    made(cpu_log)
    made(cpu_log)
    assert len(cpu_log.doubts) == 1
    assert "trials of 1.5 s (median)" in cpu_log.doubts[0]


def test_a_source_that_fails_in_the_middle_leaves_the_trials_alone() -> None:
    cpu_log = CpuLog(FakeMeter(WavebedError("it is gone"), use(10.0, 0.5)))
    assert made(cpu_log) == {}
    assert made(cpu_log)["busy_max"] == 0.5
    assert cpu_log.doubts == ("the processor could not be read in 1 trials: it is gone",)


def test_a_source_that_fails_at_once_ends_the_test_before_it_begins() -> None:
    with pytest.raises(WavebedError, match="no answer"):
        CpuLog(FakeMeter(WavebedError("no answer"))).try_out()


def test_offload_is_flagged_for_trials_that_count() -> None:
    cpu_log = CpuLog(FakeMeter(use(10.0, 0.01)))
    made(cpu_log)
    assert "hardware offload hides it" in cpu_log.doubts[0]
    refused = replace(TRIAL, refusals=(Refusal("late", "x"),))
    cpu_log = CpuLog(FakeMeter(use(10.0, 0.01)))
    made(cpu_log, refused)
    assert cpu_log.doubts == ()


def test_doubts_and_drops_of_all_trials_are_summed() -> None:
    steal = "a hypervisor took 9% of processor 0: it counts as busy"
    cpu_log = CpuLog(FakeMeter(use(10.0, 0.9, dropped=3, doubts=(steal,)), use(10.0, 0.9, dropped=4)))
    made(cpu_log)
    made(cpu_log)
    assert cpu_log.doubts == (
        f"processor, in 1 of 2 trials: {steal}",
        "a full backlog of a processor dropped 7 packets (softnet_stat)",
    )
