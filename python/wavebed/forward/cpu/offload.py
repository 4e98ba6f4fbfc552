"""Detect hardware offload: a processor too idle for the frames that were forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.forward.cpu.model import CpuUse

__all__ = ["LEAST_FRAME_S", "flag_offload"]

LEAST_FRAME_S = 50e-9
"""The fastest forwarding of Linux takes 187 ns of a core per frame (XDP, 5.36 Mpps on one core: Høiland-Jørgensen et
al., The eXpress Data Path, CoNEXT 2018). A software path that needs a quarter of that is not known."""

_LEAST_FRACTION = 0.01
"""Below this much work a load from ticks is noise: nothing is said."""


def flag_offload(cpu: CpuUse, pps: float) -> str | None:
    """Say in one line that the processor cannot have done the work, if it cannot.

    Parameters
    ----------
    pps : float
        Frames forwarded per second while `cpu` was looked at.

    Returns
    -------
    str, optional
        Nothing if the processor was busy enough, or if that is not known.
    """
    if cpu.busy_mean is None or cpu.core_count is None:
        return None
    least = pps * LEAST_FRAME_S
    spent = cpu.busy_mean * cpu.core_count
    if least < _LEAST_FRACTION or spent >= least:
        return None
    return (
        f"forwarding {pps:,.0f} pps at {spent:.1%} of one processor: hardware offload hides it; software needs at least"
        f" {least:.1%}, so this is not the processor's rate (turn flow offload off in the device to see that)"
    )
