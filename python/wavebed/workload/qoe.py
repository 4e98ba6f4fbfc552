"""Quality of experience of a video session by published formulas.

Pensieve: H. Mao, R. Netravali, M. Alizadeh, "Neural Adaptive Video Streaming with Pensieve", SIGCOMM 2017, section 5.1.
Puffer: F. Y. Yan et al., "Learning in situ: a randomized experiment in video streaming", NSDI 2020.
P.1203: ITU-T P.1203.1 (2017), mode 0: only its input, because the model is not free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.config.data import Json

__all__ = ["PENSIEVE_LINEAR", "PENSIEVE_LOG", "PUFFER_LEAST_S", "Chunk", "Stall", "p1203_input", "pensieve", "stalled"]

PENSIEVE_LINEAR = "Pensieve QoE_lin (Mao 2017): sum R - 4.3 stalled - sum |change of R|, R in Mbit/s, startup left out"
PENSIEVE_LOG = (
    "Pensieve QoE_log (Mao 2017): sum q - 2.66 stalled - sum |change of q|, q = ln(R/R_min), startup left out"
)
LINEAR_PENALTY = 4.3
LOG_PENALTY = 2.66
PUFFER_LEAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A shown segment: its time in the media, its nominal bitrate and its picture."""

    start_s: float
    duration_s: float
    rate_bps: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall: its time in the media and its duration."""

    media_s: float
    duration_s: float


def pensieve(
    chunks: Sequence[Chunk], stalled_s: float, *, least_bps: int | None = None
) -> tuple[float | None, float | None]:
    """Return QoE as a sum over the shown chunks, and per chunk; ``None`` without chunks.

    Parameters
    ----------
    chunks : sequence of Chunk
        In the order of showing.
    stalled_s : float
        Time stalled after the start.
    least_bps : int, optional
        The ladder's lowest bitrate, for the logarithmic variant; without it the linear one is returned.
    """
    if not chunks:
        return None, None
    quality: Callable[[int], float]
    if least_bps is None:
        quality, penalty = (lambda rate: rate / 1e6), LINEAR_PENALTY
    else:
        quality, penalty = (lambda rate: math.log(rate / least_bps)), LOG_PENALTY
    values = [quality(chunk.rate_bps) for chunk in chunks]
    total = sum(values) - penalty * stalled_s - sum(abs(after - before) for before, after in pairwise(values))
    return total, total / len(chunks)


def stalled(watched_s: float, stalled_s: float) -> float | None:
    """Return 100 `stalled_s` / `watched_s` (stalls included), %; ``None`` below 5 s, as in Puffer."""
    return 100 * stalled_s / watched_s if watched_s >= PUFFER_LEAST_S else None


def p1203_input(
    chunks: Sequence[Chunk], startup_s: float, stalls: Sequence[Stall], *, frames_per_s: int, audio_bps: int
) -> dict[str, Json]:
    """Return the input of P.1203 in mode 0 for the reference software.

    The stalling list always begins with the startup at 0, because the software moves a first stall elsewhere to 0.
    """
    video: list[Json] = [
        {
            "codec": "h264",
            "start": chunk.start_s,
            "duration": chunk.duration_s,
            "bitrate": chunk.rate_bps / 1000,
            "resolution": f"{chunk.width}x{chunk.height}",
            "fps": frames_per_s,
        }
        for chunk in chunks
    ]
    audio: list[Json] = [
        {"codec": "aaclc", "start": chunk.start_s, "duration": chunk.duration_s, "bitrate": audio_bps / 1000}
        for chunk in chunks
    ]
    pauses = [(0.0, startup_s), *((stall.media_s, stall.duration_s) for stall in stalls)]
    stalling: list[Json] = [[media_s, duration_s] for media_s, duration_s in pauses]
    return {
        "I11": {"segments": audio, "streamId": 0},
        "I13": {"segments": video, "streamId": 0},
        "I23": {"stalling": stalling, "streamId": 0},
        "IGen": {"device": "pc", "displaySize": "1920x1080", "viewingDistance": "150cm"},
    }
