"""Metrics, series, events and status of a playback."""

from __future__ import annotations

import json
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from wavebed.workload import qoe
from wavebed.workload.media.content import MANIFEST
from wavebed.workload.media.ladder import AUDIO_BPS, FRAMES_PER_S
from wavebed.workload.model import Event, Metric, Outcome, Series
from wavebed.workload.video_playback import OK_STATUS, Playback
from wavebed.workload.video_player import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.media.content import Content
    from wavebed.workload.model import Status
    from wavebed.workload.video_playback import Request

__all__ = ["P1203_INPUT", "known_video_metrics", "outcome_of"]

P1203_INPUT = "p1203-input.json"
DROPPED_PERCENT = 5.0
"""A video with more dropped frames, apart from those that came late, is suspect."""
FIRST_BAD_STATUS = 400


def outcome_of(playback: Playback, content: Content, duration_s: float, folder: Path) -> Outcome:
    """Return the results of a playback, and write the input for P.1203 (`P1203_INPUT`) into `folder`.

    Parameters
    ----------
    playback : Playback
        The shown video.
    content : Content
        The served video.
    duration_s : float
        Duration to be watched.
    """
    chunks = playback.chunks(content.segment_s)
    if playback.begin_s is not None:
        stalls = [qoe.Stall(stall.media_s, stall.duration_s) for stall in playback.stalls]
        startup_s = playback.begin_s - playback.start_s
        given = qoe.p1203_input(chunks, startup_s, stalls, frames_per_s=FRAMES_PER_S, audio_bps=AUDIO_BPS)
        (folder / P1203_INPUT).write_text(json.dumps(given, indent=1), encoding="utf-8")
    status, reason = _verdict(playback, content, duration_s)
    doubts = []
    if playback.decoded:
        late = playback.late_frames(content.segment_s)
        percent = 100 * (playback.dropped - late) / playback.decoded
        if percent > DROPPED_PERCENT:
            doubts.append(f"the processor dropped {percent:.0f} % of the frames")
    return Outcome(
        status=status,
        reason=reason,
        metrics=_metrics(playback, content, chunks),
        series=_series(playback),
        events=_events(playback),
        details=_details(playback, content, duration_s),
        doubts=doubts,
    )


def known_video_metrics(content: Content) -> list[Metric]:
    """Return the metrics of a playback of this video without values."""
    none: list[Any] = []
    playback = Playback(0.0, None, None, 0.0, "", none, none, none, none, none, none, 0, 0, 0.0, 0.0)
    return _metrics(playback, content, [])


def _metrics(playback: Playback, content: Content, chunks: Sequence[qoe.Chunk]) -> list[Metric]:
    return [*_startup_and_stalls(playback), *_bitrates(playback, content), *_qualities(playback, content, chunks)]


def _since(start_s: float, at_s: float | None) -> float | None:
    return None if at_s is None else at_s - start_s


def _startup_and_stalls(playback: Playback) -> list[Metric]:
    began = playback.begin_s is not None
    return [
        Metric(
            "startup time",
            _since(playback.start_s, playback.begin_s),
            "s",
            "lower",
            "from MediaPlayer.initialize until a frame is presented and the element fires playing",
        ),
        Metric(
            "first frame",
            _since(playback.start_s, playback.first_frame_s),
            "s",
            "lower",
            "from MediaPlayer.initialize to presentationTime of the first video frame callback",
        ),
        Metric("stalls", len(playback.stalls) if began else None, "", "lower", "after the start"),
        Metric("stalled time", playback.stalled_s if began else None, "s", "lower", "after the start"),
        Metric("media played", sum(playback.shown_s().values()), "s", "higher"),
        Metric(
            "media skipped", playback.skipped_s, "s", "lower", "steps of more than 0.5 s between two frames presented"
        ),
    ]


def _bitrates(playback: Playback, content: Content) -> list[Metric]:
    shown_s = playback.shown_s()
    total_s = sum(shown_s.values())
    rates = {each.name: each.rate_bps / 1e6 for each in content.ladder.representations}
    mean = sum(rates[name] * time_s for name, time_s in shown_s.items()) / total_s if total_s else None
    steps = [abs(each.after.rate_bps - each.before.rate_bps) / 1e6 for each in playback.switches]
    found = [
        Metric("mean bitrate", mean, "Mbit/s", "higher", "nominal, of the frames presented, by media time"),
        Metric("switches", len(steps) if playback.frames else None, "", "lower", "seen on the screen"),
        Metric("mean switch", fmean(steps) if steps else None, "Mbit/s", "lower", "mean |change of bitrate|"),
    ]
    found += [
        Metric(f"time at {name}", 100 * shown_s.get(name, 0.0) / total_s if total_s else None, "%", "neither")
        for name in rates
    ]
    rate = [value for _, value in _throughput(playback)]
    level = [ahead_s for _, ahead_s in _buffer(playback)]
    return [
        *found,
        Metric("mean buffer", fmean(level) if level else None, "s", "higher", "from the start to the last byte"),
        Metric(
            "segment throughput",
            median(rate) if rate else None,
            "Mbit/s",
            "higher",
            "median over video segments of bytes by time from request to last byte",
        ),
        Metric("bytes received", sum(each.transferred for each in playback.requests), "bytes", "neither"),
        Metric("failed requests", len(_failed(playback.requests)), "", "lower", "answered with status 400 or more"),
        Metric("dropped frames", _dropped_percent(playback), "%", "lower", "getVideoPlaybackQuality"),
    ]


def _qualities(playback: Playback, content: Content, chunks: Sequence[qoe.Chunk]) -> list[Metric]:
    if playback.begin_s is None:
        chunks = []
    stalled_s = playback.stalled_s
    least_bps = content.ladder.representations[0].rate_bps
    linear, linear_chunk = qoe.pensieve(chunks, stalled_s)
    log, log_chunk = qoe.pensieve(chunks, stalled_s, least_bps=least_bps)

    return [
        Metric("QoE linear", linear, "", "higher", qoe.PENSIEVE_LINEAR),
        Metric("QoE linear per segment", linear_chunk, "", "higher", qoe.PENSIEVE_LINEAR),
        Metric("QoE log", log, "", "higher", qoe.PENSIEVE_LOG),
        Metric("QoE log per segment", log_chunk, "", "higher", qoe.PENSIEVE_LOG),
        Metric(
            "time stalled",
            qoe.stalled(playback.watched_s, stalled_s),
            "%",
            "lower",
            "Puffer (Yan 2020): fraction of the time watched; from 5 s on",
        ),
    ]


def _dropped_percent(playback: Playback) -> float | None:
    return 100 * playback.dropped / playback.decoded if playback.decoded else None


def _throughput(playback: Playback) -> list[tuple[float, float]]:
    """Return arrival time and throughput, Mbit/s, of each video segment from the network."""
    return sorted(
        (each.end_s, each.bytes * 8 / (each.end_s - each.request_s) / 1e6)
        for each in playback.requests
        if each.segment is not None and each.is_complete and each.end_s > each.request_s
    )


def _buffer(playback: Playback) -> list[tuple[float, float]]:
    """Return the level of the buffer from the start to the last byte."""
    last_s = max((each.end_s for each in playback.requests), default=playback.end_s)
    begin_s = playback.end_s if playback.begin_s is None else playback.begin_s
    return [(at_s, ahead_s) for at_s, ahead_s in playback.buffer if begin_s <= at_s <= last_s]


def _series(playback: Playback) -> list[Series]:
    times_s = [at_s for at_s, _ in playback.buffer]
    shown = [playback.shown_at(at_s) for at_s in times_s]
    throughput = _throughput(playback)
    return [
        Series("buffer", "s", times_s, [ahead_s for _, ahead_s in playback.buffer]),
        Series("bitrate", "Mbit/s", times_s, [None if each is None else each.rate_bps / 1e6 for each in shown]),
        Series("throughput", "Mbit/s", [at_s for at_s, _ in throughput], [value for _, value in throughput]),
    ]


def _events(playback: Playback) -> list[Event]:
    found = [Event("startup", playback.start_s, playback.begin_s, "until the video plays")]
    found += [Event("stall", stall.start_s, stall.end_s, f"at {stall.media_s:.1f} s") for stall in playback.stalls]
    found += [
        Event(
            "switch",
            each.time_s,
            text=f"{each.before.name} → {each.after.name}",
            value=(each.after.rate_bps - each.before.rate_bps) / 1e6,
        )
        for each in playback.switches
    ]
    found += [
        Event("request", each.request_s, each.end_s, f"{each.path}{_suffix(each)}", each.transferred)
        for each in playback.requests
    ]
    return sorted(found, key=lambda event: event.time_s)


def _suffix(request: Request) -> str:
    return "" if request.status == OK_STATUS else f" ({request.status or 'no answer'})"


def _failed(requests: Sequence[Request]) -> list[Request]:
    return [each for each in requests if each.status >= FIRST_BAD_STATUS]


def _wrong_sizes(playback: Playback, content: Content) -> list[str]:
    sizes = {each.name: content.segment_bytes(each) for each in content.ladder.representations}
    found = []
    for each in playback.requests:
        size = sizes.get(each.path.partition("/")[0])
        if each.segment is not None and each.status == OK_STATUS and size is not None and each.bytes != size:
            found.append(f"{each.path} has {each.bytes} bytes instead of {size}")
    return found


def _verdict(playback: Playback, content: Content, duration_s: float) -> tuple[Status, str]:
    """Return status and reason: failed if server or content was broken, partial if the network was not enough."""
    failed = _failed(playback.requests)
    if failed:
        return "failed", f"{failed[0].path} was answered with status {failed[0].status}"
    wrong = _wrong_sizes(playback, content)
    if wrong and playback.errors:
        return "failed", wrong[0]
    if playback.is_media_broken:
        return "failed", f"the browser cannot play it: {playback.errors[0][1]}"
    played_s = sum(playback.shown_s().values())
    played = f"{played_s:.1f} s of {duration_s:g} s were played" if playback.frames else "no picture came"
    if playback.outcome == "broken":
        return "partial", f"the player stopped: {playback.errors[0][1]}; {played}"
    if playback.outcome == "stopped":
        return "partial", f"stopped at its limit: {played}"
    if playback.errors:
        return "partial", f"the player reported: {playback.errors[0][1]}; {played}"
    return "ok", ""


def _details(playback: Playback, content: Content, duration_s: float) -> dict[str, Json]:
    ladder: list[Json] = [
        {
            "name": each.name,
            "rate_mbit_s": each.rate_bps / 1e6,
            "size": f"{each.width}x{each.height}",
            "coded": f"{each.coded_width}x{each.coded_height}",
        }
        for each in content.ladder.representations
    ]
    return {
        "player": f"dash.js {VERSION}",
        "manifest": MANIFEST,
        "ladder": ladder,
        "segment_s": content.segment_s,
        "duration_s": duration_s,
        "content": "synthetic test picture, filled up to the nominal bitrate; above 1080p the coded picture is small",
        "clock_uncertainty_ms": round(playback.uncertainty_s * 1e3, 3),
    }
