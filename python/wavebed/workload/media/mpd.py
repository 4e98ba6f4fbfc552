"""The MPD of a static presentation (ISO/IEC 23009-1), segments by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.workload.media.ladder import Representation

__all__ = ["manifest"]


def manifest(
    video: Sequence[tuple[Representation, str]],
    audio: tuple[int, str, int],
    *,
    duration_s: float,
    segment_s: float,
    audio_segment_s: float,
    frames_per_s: int,
) -> str:
    """Return the MPD.

    Parameters
    ----------
    video : sequence of (Representation, str)
        Representations and the codec of each, as RFC 6381 writes it.
    audio : (int, str, int)
        Bitrate, codec, sampling rate.
    duration_s, segment_s, audio_segment_s : float
        Of the presentation, and of the segments.
    frames_per_s : int
        Of every video representation.
    """
    audio_bps, audio_codec, sampling_rate = audio
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"',
        '     profiles="urn:mpeg:dash:profile:isoff-live:2011"',
        f'     minBufferTime="PT{segment_s:g}S" mediaPresentationDuration="PT{duration_s:g}S">',
        f'  <Period id="0" start="PT0S" duration="PT{duration_s:g}S">',
        '    <AdaptationSet id="0" contentType="video" mimeType="video/mp4" segmentAlignment="true" startWithSAP="1"',
        f'                   frameRate="{frames_per_s}">',
        _template(segment_s),
    ]
    lines += [
        f'      <Representation id="{each.name}" codecs="{codec}" bandwidth="{each.rate_bps}"'
        f' width="{each.width}" height="{each.height}"/>'
        for each, codec in video
    ]
    lines += [
        "    </AdaptationSet>",
        '    <AdaptationSet id="1" contentType="audio" mimeType="audio/mp4" segmentAlignment="true" startWithSAP="1">',
        _template(audio_segment_s),
        f'      <Representation id="audio" codecs="{audio_codec}" bandwidth="{audio_bps}"',
        f'                      audioSamplingRate="{sampling_rate}"/>',
        "    </AdaptationSet>",
        "  </Period>",
        "</MPD>",
    ]
    return "\n".join(lines) + "\n"


def _template(segment_s: float) -> str:
    return (
        f'      <SegmentTemplate timescale="1000" duration="{round(segment_s * 1000)}" startNumber="1"'
        ' initialization="$RepresentationID$/init.mp4" media="$RepresentationID$/$Number$.m4s"/>'
    )
