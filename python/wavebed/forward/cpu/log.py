"""The log of the device's processor in each trial; its failures do not end a test."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.forward.cpu import flag_offload
from wavebed.forward.cpu.model import SURE_S

if TYPE_CHECKING:
    from wavebed.forward.cpu import CpuMeter, CpuUse
    from wavebed.forward.model import Trial

__all__ = ["CpuLog"]

WARM_UP = "warm-up"
GIVE_UP = 3
"""After so many failures in a row the source is not asked again: each may take as long as a reading is allowed to."""
FLAG_AFTER_S = 1.0
"""In a shorter trial a load from ticks is too rough to say that work is missing."""


class CpuLog:
    """Reads the processor's load in each trial, and keeps it for the record.

    Parameters
    ----------
    meter : CpuMeter
        It stays the caller's to close.
    """

    def __init__(self, meter: CpuMeter) -> None:
        self._meter = meter
        self._last: CpuUse | None = None
        self._looked: list[float] = []
        self._doubts: dict[str, int] = {}
        self._dropped = 0
        self._failed = 0
        self._in_a_row = 0
        self._began = False
        self._why = ""
        self._flag: str | None = None

    def try_out(self) -> None:
        """Read the source once.

        Raises
        ------
        MachineError, WavebedError
            If it cannot be read: better now than in the middle of a test.
        """
        self._meter.start()
        self._meter.stop()

    def start(self) -> None:
        """Begin."""
        self._last, self._began = None, False
        if self._in_a_row >= GIVE_UP:
            self._failed += 1
            return
        try:
            self._meter.start()
        except WavebedError as error:
            self._fail(error)
            return
        self._began = True

    def stop(self) -> dict[str, float]:
        """End, and return the loads that are known; nothing if the source could not be read."""
        if not self._began:
            return {}
        try:
            use = self._meter.stop()
        except WavebedError as error:
            self._fail(error)
            return {}
        self._last, self._in_a_row = use, 0
        return use.for_trial()

    def _fail(self, error: WavebedError) -> None:
        self._failed, self._in_a_row, self._why = self._failed + 1, self._in_a_row + 1, str(error)

    def hear(self, trial: Trial) -> None:
        """Keep the load in a trial, and compare it with the frames that were forwarded."""
        use, self._last = self._last, None
        if use is None or trial.purpose == WARM_UP:
            return
        self._looked.append(use.seconds)
        self._dropped += use.dropped or 0
        for doubt in use.doubts:
            if not doubt.startswith("short"):
                self._doubts[doubt] = self._doubts.get(doubt, 0) + 1
        if trial.refusals or use.seconds < FLAG_AFTER_S:
            return
        self._flag = flag_offload(use, trial.received_pps) or self._flag

    @property
    def doubts(self) -> tuple[str, ...]:
        """The doubts about all trials, a line each."""
        told = []
        if self._flag:
            told.append(self._flag)
        if self._looked and median(self._looked) < SURE_S:
            told.append(
                f"processor loads are of trials of {median(self._looked):.1f} s (median): most kernels count in ticks,"
                f" and a load to quote needs {SURE_S:.0f} s (--thorough)"
            )
        told += [f"processor, in {count} of {len(self._looked)} trials: {text}" for text, count in self._doubts.items()]
        if self._dropped:
            told.append(f"a full backlog of a processor dropped {self._dropped} packets (softnet_stat)")
        if self._failed:
            told.append(f"the processor could not be read in {self._failed} trials: {self._why}")
        return tuple(told)
