"""The frame loss rate test: loss by load, from the highest down (RFC 2544, section 26.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.findings import LossRateFinding, LossRateStep
from wavebed.forward.trials import DISTURBED

if TYPE_CHECKING:
    from wavebed.forward.trials import LoadLimit, TrialLog

__all__ = ["CLEAN_TRIALS", "fractions", "measure_loss_rate"]

CLEAN_TRIALS = 2
"""The test ends after so many trials in a row without loss."""


def fractions(step: float) -> tuple[float, ...]:
    """Return the fractions of the highest load: 1, 1 - step, ... above 0."""
    count = int(1 / step + 1e-9)
    return tuple(round(1 - step * i, 9) for i in range(count + 1) if 1 - step * i > step / 2)


def measure_loss_rate(log: TrialLog, name: str, limit: LoadLimit, duration_s: float, step: float) -> LossRateFinding:
    """Measure the loss at 100 %, 90 %, 80 % … of the highest load until two trials in a row lose nothing.

    A trial in which the tester was disturbed is a step without a number; any other refusal ends the test.
    """
    steps: list[LossRateStep] = []
    clean = 0
    for fraction in fractions(step):
        offered = limit.rates(fraction * limit.max_load.pps)
        place = log.make(f"loss-rate {name}", limit.sizes_bytes, offered.pps, duration_s)
        trial = log.trials[place]
        if trial.refusals:
            steps.append(LossRateStep(fraction, offered, None, None, place, trial.refusals[0]))
            clean = 0
            if any(one.code not in DISTURBED for one in trial.refusals):
                break
            continue
        steps.append(LossRateStep(fraction, offered, trial.received_pps, trial.loss_ratio, place))
        clean = 0 if trial.lost else clean + 1
        if clean == CLEAN_TRIALS:
            break
    return LossRateFinding(
        name, limit.sizes_bytes, limit.max_load, limit.limited_by, tuple(steps), clean == CLEAN_TRIALS
    )
