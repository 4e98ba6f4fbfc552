"""Media of the video workload: the ladder, its segments and manifest, and the player."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import reader
from wavebed.config.table import Key, array_schema, read_table
from wavebed.config.units import format_rate
from wavebed.config.values import RATE_SCHEMA, rate_bps
from wavebed.errors import MachineError
from wavebed.lab.tools import find as find_program
from wavebed.workload.drafts import date_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.config.data import Json


FRAMES_PER_S = 24
AUDIO_BPS = 33_000
MOST_LINES_CODED = 1080
LEAST_BPS, MOST_BPS = 500_000, 1_000_000_000
MOST_REPRESENTATIONS = 20


@dataclass(frozen=True, slots=True)
class Representation:
    """One quality of the video.

    Parameters
    ----------
    name : str
        What people and the MPD call it: ``720p``.
    width, height : int
        The nominal picture in the MPD.
    rate_bps : int
        The nominal bitrate: every segment has exactly this many bits per second.
    coded_width, coded_height : int
        The picture that is in fact coded. It differs in every representation of a ladder, so that a presented frame
        tells to which it belongs; above 1080 lines it is small, so that the processor is not what is measured.
    """

    name: str
    width: int
    height: int
    rate_bps: int
    coded_width: int
    coded_height: int


@dataclass(frozen=True, slots=True)
class Ladder:
    """The representations of a video, by ascending bitrate."""

    name: str
    representations: tuple[Representation, ...]


def _coded(width: int, height: int, taken: set[tuple[int, int]]) -> tuple[int, int]:
    if height > MOST_LINES_CODED:
        width, height = 640, 360
    while (width, height) in taken:
        width -= 16
    taken.add((width, height))
    return width, height


def _named(height: int, taken: set[str]) -> str:
    name, number = f"{height}p", 2
    while name in taken:
        name, number = f"{height}p-{number}", number + 1
    taken.add(name)
    return name


def _ladder(name: str, nominal: list[tuple[int, int, int]]) -> Ladder:
    sizes: set[tuple[int, int]] = set()
    names: set[str] = set()
    found = []
    for width, height, rate in sorted(nominal, key=lambda each: each[2]):
        coded_width, coded_height = _coded(width, height, sizes)
        found.append(Representation(_named(height, names), width, height, rate, coded_width, coded_height))
    return Ladder(name, tuple(found))


_STUDY = [(512, 288, 1_150_000), (768, 432, 1_820_000), (1280, 720, 4_140_000), (1920, 1080, 7_940_000)]
_ABOVE = [(2560, 1440, 16_000_000), (3840, 2160, 25_000_000), (3840, 2160, 45_000_000), (7680, 4320, 100_000_000)]

LADDERS = {"study": _ladder("study", _STUDY), "uhd": _ladder("uhd", _STUDY + _ABOVE)}
"""``study``: the four of the study by Karlstad University; ``uhd``: the same, and four above them to 100 Mbit/s."""


def _side(value: str) -> int:
    if not value.isdecimal() or not value.isascii() or len(value) > 5:
        raise Problem(f"{value!r} is not a number of pixels")
    side = int(value)
    if not 128 <= side <= 8192 or side % 2:
        raise Problem(f"{side} is out of range: write an even number of pixels from 128 to 8192")
    return side


@reader("WIDTHxHEIGHT", {"type": "string", "pattern": "^[0-9]+x[0-9]+$"})
def _size(value: object) -> tuple[int, int]:
    if not isinstance(value, str) or value.count("x") != 1:
        raise Problem(f'{described(value)} is not a picture size: write one such as "1280x720"')
    width, _, height = value.partition("x")
    return _side(width), _side(height)


@reader("RATE", RATE_SCHEMA)
def _rate(value: object) -> int:
    rate = rate_bps(value)
    if not LEAST_BPS <= rate <= MOST_BPS:
        raise Problem("is out of range: write a bitrate from 500kbit to 1gbit")
    return rate


class _Nominal(Struct, frozen=True, kw_only=True):
    size: Annotated[tuple[int, int], Key(_size, "size of the picture")]
    rate_bps: Annotated[int, Key(_rate, "bitrate")]


def _representation(value: object) -> tuple[int, int, int]:
    given = read_table(_Nominal, value, "{size = …, rate = …}")
    return *given.size, given.rate_bps


def _raw(ladder: Ladder) -> Json:
    if ladder.name in LADDERS:
        return ladder.name
    return [
        {"size": f"{each.width}x{each.height}", "rate": format_rate(each.rate_bps)} for each in ladder.representations
    ]


@reader(
    'study|uhd|[{size = "1280x720", rate = "4.14mbit"}, …]',
    lambda: {"anyOf": [{"enum": list(LADDERS)}, dict(array_schema(_Nominal))]},
    _raw,
)
def read_ladder(value: object) -> Ladder:
    """Read ``study``, ``uhd`` or an array of ``{size = "1280x720", rate = "4.14mbit"}``.

    Raises
    ------
    Problem
        If it is none of them.
    """
    if not isinstance(value, list):
        if not isinstance(value, str):
            raise Problem(f"{described(value)} is not a ladder: write {' or '.join(LADDERS)}, or an array of tables")
        return LADDERS[choose(value, LADDERS)]
    if not 1 <= len(value) <= MOST_REPRESENTATIONS:
        raise Problem(f"has {len(value)} representations: write 1 to {MOST_REPRESENTATIONS}")
    nominal = [at(str(number), _representation, each) for number, each in enumerate(value)]
    if len({rate for _, _, rate in nominal}) < len(nominal):
        raise Problem("has two representations of one bitrate: write different ones")
    return _ladder("own", nominal)


HEADER_BYTES = 8


def _boxes(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while start < end:
        size, kind = struct.unpack_from(">I4s", data, start)
        if size < HEADER_BYTES or start + size > end:
            raise ValueError(f"box at byte {start} has size {size}")
        yield kind, start, start + size
        start += size


def top_level(data: bytes) -> list[tuple[str, int]]:
    """Return kind and size of the boxes of a file."""
    return [(kind.decode("latin-1"), end - start) for kind, start, end in _boxes(data, 0, len(data))]


def find(data: bytes, *path: bytes) -> tuple[int, int]:
    """Return where the content of the first box at `path` starts and ends.

    Raises
    ------
    ValueError
        If there is no such box.
    """
    start, end = 0, len(data)
    for wanted in path:
        for kind, box_start, box_end in _boxes(data, start, end):
            if kind == wanted:
                start, end = box_start + HEADER_BYTES, box_end
                break
        else:
            raise ValueError(f"no box {wanted.decode()}")
    return start, end


def initialization(data: bytes) -> bytes:
    """Return the initialization segment of a fragmented file: everything before its first fragment."""
    for kind, start, _ in _boxes(data, 0, len(data)):
        if kind == b"moof":
            return data[:start]
    raise ValueError("no box moof")


def fragments(data: bytes) -> list[bytes]:
    """Return the fragments of a file: ``moof`` and ``mdat`` together."""
    found: list[bytes] = []
    for kind, start, end in _boxes(data, 0, len(data)):
        if kind == b"moof":
            found.append(data[start:end])
        elif kind == b"mdat":
            found[-1] += data[start:end]
    return found


class Segment:
    """A fragment that can be repeated at any time, followed by a box ``free`` that fills it up.

    Parameters
    ----------
    fragment : bytes
        A ``moof`` with one track, whose ``tfdt`` has 64 bits, and its ``mdat``.
    """

    def __init__(self, fragment: bytes) -> None:
        self._bytes = bytearray(fragment)
        self._sequence_at = find(fragment, b"moof", b"mfhd")[0] + 4
        time_at = find(fragment, b"moof", b"traf", b"tfdt")[0]
        if fragment[time_at] != 1:
            raise ValueError("tfdt has 32 bits")
        self._time_at = time_at + 4
        run_at = find(fragment, b"moof", b"traf", b"trun")[0]
        self.samples = int(struct.unpack_from(">I", fragment, run_at + 4)[0])

    @property
    def least_bytes(self) -> int:
        """The smallest size that it can be filled up to."""
        return len(self._bytes) + HEADER_BYTES

    def at(self, number: int, decode_time: int, size: int) -> bytes:
        """Return its first bytes; zeros after them, to `size`, are the content of the box that fills it up.

        Parameters
        ----------
        number : int
            Its number, from 1.
        decode_time : int
            In units of the track's time scale.
        size : int
            Of the whole segment.
        """
        struct.pack_into(">I", self._bytes, self._sequence_at, number)
        struct.pack_into(">Q", self._bytes, self._time_at, decode_time)
        return bytes(self._bytes) + struct.pack(">I4s", size - len(self._bytes), b"free")


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


PLAYER_VERSION = "5.2.1"
ABR_RULES = {"dynamic": ("throughputRule", "bolaRule"), "throughput": ("throughputRule",), "bola": ("bolaRule",)}
"""The active ones of the two main rules; with both, dash.js switches between them by the buffer's level."""

INSTALL_TIMEOUT_S = 120


def dashjs(cache: Path) -> Path:
    """Return the file of the player in the cache; npm installs it if it is missing.

    Raises
    ------
    MachineError
        If it is missing and npm cannot install it.
    """
    if not has_dashjs(cache):
        _install(cache / "npm")
    return _package(cache / "npm") / "dist" / "modern" / "umd" / "dash.all.min.js"


def has_dashjs(cache: Path) -> bool:
    """Return whether the player is in the cache in the right version."""
    return _is_there(cache / "npm")


def _package(folder: Path) -> Path:
    return folder / "node_modules" / "dashjs"


def _is_there(folder: Path) -> bool:
    try:
        about = json.loads((_package(folder) / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("version") == PLAYER_VERSION


def _install(folder: Path) -> None:
    """Install the packages of the lock file, with their hashes checked."""
    argv = ["npm", "ci", "--prefix", str(folder), "--omit=dev", "--silent", "--no-audit", "--no-fund"]
    argv += ["--ignore-scripts"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two npm cannot install in one folder at once
            if not _is_there(folder):
                for name in ("package.json", "package-lock.json"):
                    content = (resources.files("wavebed.workload") / "npm" / name).read_bytes()
                    (folder / name).write_bytes(content)
                subprocess.run(
                    argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=INSTALL_TIMEOUT_S
                )
    except (OSError, subprocess.SubprocessError):
        raise MachineError(f"dash.js {PLAYER_VERSION} is not in the cache: run `{' '.join(argv)}`") from None
    if not _is_there(folder):
        raise MachineError(f"npm did not install dash.js {PLAYER_VERSION}: run `{' '.join(argv)}`")


def player_settings(abr: str, buffer_s: float | None) -> dict[str, Json]:
    """Return the argument of ``updateSettings``.

    Parameters
    ----------
    abr : str
        One of `ABR_RULES`.
    buffer_s : float or None
        Target level of the buffer at any quality; the player's own with ``None``.
    """
    rules: dict[str, Json] = {rule: {"active": rule in ABR_RULES[abr]} for rule in ("throughputRule", "bolaRule")}
    streaming: dict[str, Json] = {"abr": {"rules": rules}, "utcSynchronization": {"enabled": False}}
    if buffer_s is not None:
        names = ("bufferTimeDefault", "bufferTimeAtTopQuality", "bufferTimeAtTopQualityLongForm")
        streaming["buffer"] = dict.fromkeys(names, buffer_s)
    return {"debug": {"logLevel": 0}, "streaming": streaming}
