"""Limits of the waits for a laboratory.

Those inside ``wavebed-core`` (``limits.rs``) are shorter, so that the laboratory itself can report a hanging part.
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
        Until a laboratory answers a request, or a small program inside has ended.
    stop_s : float
        Until a laboratory has ended, with its captures and series written.
    interrupted_s : float
        The same after Ctrl-C or SIGTERM.
    killed_s : float
        Until the kernel has removed killed processes.
    look_s : float
        Between two requests that check whether a laboratory with workloads still answers.
    """

    start_s: float = 20.0
    answer_s: float = 10.0
    stop_s: float = 30.0
    interrupted_s: float = 2.0
    killed_s: float = 3.0
    look_s: float = 5.0


LIMITS = Limits()
