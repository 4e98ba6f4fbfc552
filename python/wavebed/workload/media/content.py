"""Make the content of a ladder with ffmpeg, once, in the cache.

One group of pictures is coded for each representation and repeated in every segment; each segment is filled up to
exactly its nominal size. The filling is a hole in the file, so that it takes no space.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import MachineError
from wavebed.lab.tools import find as find_program
from wavebed.workload.drafts import date_files
from wavebed.workload.media.boxes import Segment, find, fragments, initialization
from wavebed.workload.media.ladder import AUDIO_BPS, FRAMES_PER_S
from wavebed.workload.media.mpd import manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.workload.media.ladder import Ladder, Representation

__all__ = ["AUDIO", "AUDIO_SEGMENT_S", "MANIFEST", "Content", "make"]

VERSION = 2
MANIFEST = "manifest.mpd"
AUDIO = "audio"
SAMPLING_HZ = 32_000
AUDIO_FRAMES = 125
AUDIO_SEGMENT_S = AUDIO_FRAMES * 1024 / SAMPLING_HZ
"""AUDIO_FRAMES AAC frames of 1024 samples: 4 s."""
AUDIO_CODED = "24k"
AUDIO_CODEC = "mp4a.40.2"
ENCODE_TIMEOUT_S = 120
_TICKS = 1000
_OPEN = "+empty_moov+default_base_moof"


@dataclass(frozen=True, slots=True)
class Content:
    """A presentation; its files are in `folder` of the cache.

    Parameters
    ----------
    ladder : Ladder
        Its representations.
    segment_s : float
        Duration of a video segment.
    segments : int
        Number of video segments.
    """

    ladder: Ladder
    segment_s: float
    segments: int

    @classmethod
    def of(cls, ladder: Ladder, segment_s: float, duration_s: float) -> Content:
        """Return the shortest presentation of at least `duration_s`."""
        return cls(ladder, segment_s, max(1, math.ceil(duration_s / segment_s - 1e-9)))

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return self.segments * self.segment_s

    @property
    def key(self) -> str:
        """The folder's name: another for other content."""
        about = json.dumps([VERSION, FRAMES_PER_S, AUDIO_BPS, asdict(self)], sort_keys=True)
        return f"video-{self.ladder.name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"

    def folder(self, cache: Path) -> Path:
        """Return where it is in the cache."""
        return cache / self.key

    def segment_bytes(self, representation: Representation) -> int:
        """Return the size of every segment of a representation."""
        return round(representation.rate_bps * self.segment_s / 8)


def make(content: Content, cache: Path) -> Path:
    """Make the content unless the cache has it; return its folder.

    Raises
    ------
    MachineError
        If ffmpeg is missing or fails, or the disk is full.
    """
    folder = content.folder(cache)
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{content.key}-", dir=cache))
        try:
            _fill(content, draft)
            date_files(draft)
            draft.chmod(0o755)
            _publish(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise MachineError(f"cannot make the video in {cache}: {error}") from None
    return folder


def _publish(draft: Path, folder: Path) -> None:
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # another run may have made it meanwhile
            raise


def _fill(content: Content, folder: Path) -> None:
    codecs = []
    for each in content.ladder.representations:
        data = _encode(_video_arguments(each, content.segment_s), folder / "coded.mp4")
        segment = Segment(fragments(data)[0])
        size = content.segment_bytes(each)
        ticks = round(content.segment_s * FRAMES_PER_S) * _TICKS
        _write(folder / each.name, initialization(data), segment, size, content.segments, ticks)
        codecs.append((each, _codec_of(data)))
    data = _encode(_audio_arguments(), folder / "coded.mp4")
    # The second fragment: the first begins with the encoder's silence.
    segment = Segment(fragments(data)[1])
    assert segment.samples == AUDIO_FRAMES, "a segment is a whole number of frames"
    count = math.ceil(content.duration_s / AUDIO_SEGMENT_S - 1e-9)
    size = round(AUDIO_BPS * AUDIO_SEGMENT_S / 8)
    _write(folder / AUDIO, initialization(data), segment, size, count, AUDIO_FRAMES * 1024)
    (folder / "coded.mp4").unlink()
    text = manifest(
        codecs,
        (AUDIO_BPS, AUDIO_CODEC, SAMPLING_HZ),
        duration_s=content.duration_s,
        segment_s=content.segment_s,
        audio_segment_s=AUDIO_SEGMENT_S,
        frames_per_s=FRAMES_PER_S,
    )
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _write(folder: Path, init: bytes, segment: Segment, size: int, count: int, ticks: int) -> None:
    if size < segment.least_bytes:
        raise MachineError(f"video {folder.name}: ffmpeg made {segment.least_bytes} bytes where {size} are to be")
    folder.mkdir()
    (folder / "init.mp4").write_bytes(init)
    for number in range(1, count + 1):
        with (folder / f"{number}.m4s").open("wb") as file:
            file.write(segment.at(number, (number - 1) * ticks, size))
            file.truncate(size)


def _video_arguments(each: Representation, segment_s: float) -> list[str]:
    frames = str(round(segment_s * FRAMES_PER_S))
    picture = f"testsrc2=size={each.coded_width}x{each.coded_height}:rate={FRAMES_PER_S}"
    return [
        *("-f", "lavfi", "-i", picture, "-frames:v", frames),
        # One closed group of pictures, cheap to decode; the filling makes up the bitrate.
        *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "fastdecode", "-profile:v", "baseline"),
        *("-pix_fmt", "yuv420p", "-crf", "40", "-g", frames, "-keyint_min", frames, "-sc_threshold", "0", "-bf", "0"),
        *("-threads", "1", "-video_track_timescale", str(FRAMES_PER_S * _TICKS)),
        *("-use_editlist", "0", "-movflags", f"{_OPEN}+frag_keyframe"),
    ]


def _audio_arguments() -> list[str]:
    return [
        *("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate={SAMPLING_HZ}", "-t", f"{3 * AUDIO_SEGMENT_S:g}"),
        *("-c:a", "aac", "-b:a", AUDIO_CODED, "-ac", "1", "-use_editlist", "0"),
        *("-movflags", _OPEN, "-frag_duration", f"{round(AUDIO_SEGMENT_S * 1e6)}"),
    ]


def _encode(arguments: Sequence[str], file: Path) -> bytes:
    argv = [find_program("ffmpeg"), "-nostdin", "-v", "error", "-y", *arguments, "-f", "mp4", str(file)]
    nice = shutil.which("nice")
    try:
        done = subprocess.run(
            [nice, "-n", "10", *argv] if nice else argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=ENCODE_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"ffmpeg took longer than {ENCODE_TIMEOUT_S} s for {file.parent.name}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise MachineError(f"ffmpeg: {lines[-1]}")
    return file.read_bytes()


def _codec_of(data: bytes) -> str:
    """Return the codec by RFC 6381: profile, constraints and level are the bytes 1 to 3 of ``avcC``."""
    start, end = find(data, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")
    at = data.index(b"avcC", start, end) + 4
    return f"avc1.{data[at + 1 : at + 4].hex().upper()}"
