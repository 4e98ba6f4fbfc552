"""How long each wait for a laboratory may take.

Those inside ``wavebed-core`` (``limits.rs``) are shorter: it is the laboratory that says what hangs, if it still can.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds.

    Parameters
    ----------
    start_s : float
        Until a new laboratory answers.
    answer_s : float
        Until a laboratory answers a request, or a small program inside has done its work.
    stop_s : float
        Until a laboratory has ended, with its captures and series written.
    interrupted_s : float
        The same after Ctrl-C or SIGTERM, when nobody waits for results.
    killed_s : float
        Until the kernel has removed what was killed.
    look_s : float
        Between two looks at a laboratory on which workloads run: does it still answer?
    """

    start_s: float = 20.0
    answer_s: float = 10.0
    stop_s: float = 30.0
    interrupted_s: float = 2.0
    killed_s: float = 3.0
    look_s: float = 5.0


LIMITS = Limits()
