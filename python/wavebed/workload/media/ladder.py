"""The ladder of a video: its representations and their coded pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import reader
from wavebed.config.table import Key, array_schema, read_table
from wavebed.config.units import format_rate
from wavebed.config.values import RATE_SCHEMA, rate_bps

if TYPE_CHECKING:
    from wavebed.config.data import Json

__all__ = ["AUDIO_BPS", "FRAMES_PER_S", "LADDERS", "Ladder", "Representation", "read_ladder"]

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
