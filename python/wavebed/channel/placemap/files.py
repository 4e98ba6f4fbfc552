"""The file of a map: JSON, one row of numbers per line; see docs/reference/map-format.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from wavebed.channel.placemap.levels import AGES, SIDES
from wavebed.channel.placemap.model import QUANTILES, PlaceMap
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.formats import MAP, require_version
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.config.data import Json

__all__ = ["VERSION", "decode_map", "encode_map", "is_map", "load_map"]

VERSION = MAP.version
SUFFIX = ".json"
_REMEDY = "name a map that wavebed fit wrote"
_MOST_BYTES = 64 << 20
_ROUNDING = 0.005
"""Of the sum of probabilities that are written with few digits."""

Probability = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Text = Annotated[str, Meta(min_length=1, max_length=10_000)]


class _Course(Struct, frozen=True, forbid_unknown_fields=True):
    weight: Probability
    shares: Annotated[list[list[Probability]], Meta(min_length=1, max_length=100_000)]


class _File(Struct, frozen=True, forbid_unknown_fields=True, rename={"version": "wavebed-map"}):
    version: Literal[1]
    title: Text
    source: Text
    duration_s: Annotated[float, Meta(ge=1, le=1_000_000)]
    step_s: Annotated[float, Meta(ge=0.1, le=1000)]
    edges_mbps: Annotated[list[Rate], Meta(max_length=63)]
    quantiles_mbps: list[list[Rate]]
    stay: Annotated[float, Meta(ge=0, lt=1)]
    tilt: Probability
    moves: list[list[Probability]]
    transitions: list[list[list[list[Probability]]]]
    courses: Annotated[list[_Course], Meta(min_length=1, max_length=64)]


def is_map(file: str | Path) -> bool:
    """Tell whether a name is that of a map, and not of a scene: it ends in ``.json``."""
    return Path(file).suffix.lower() == SUFFIX


def load_map(file: str | Path) -> PlaceMap:
    """Read a map.

    Raises
    ------
    UserError
        If it cannot be read or is none; the line names the file, the key and the rule.
    """
    return decode_map(read_bytes(file, _REMEDY, most=_MOST_BYTES), str(file))


def decode_map(text: bytes, name: str) -> PlaceMap:
    """Return the map that a JSON text holds; `name` is its file, for messages.

    Raises
    ------
    UserError
        If it is none.
    """
    try:
        found = msgspec.json.decode(text, type=prepared(_File))
        _check(found)
    except msgspec.ValidationError as error:
        document = msgspec.json.decode(text)
        if isinstance(document, dict) and "wavebed-map" in document:
            require_version(name, document["wavebed-map"], MAP)
        rule, _, place = str(error).partition(" - at `$")
        key = place.rstrip("`").removeprefix(".") or "map"
        raise UserError(f"{name}: {key}: {rule[:1].lower()}{rule[1:]}: {_REMEDY}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{name}: is not JSON ({error}): {_REMEDY}") from None
    except Problem as problem:
        raise UserError(f"{name}: {problem}") from None
    return PlaceMap(
        name=Path(name).name.removesuffix(SUFFIX),
        title=found.title,
        source=found.source,
        duration_s=found.duration_s,
        step_s=found.step_s,
        edges_mbps=_array(found.edges_mbps),
        quantiles_mbps=_array(found.quantiles_mbps),
        stay=found.stay,
        transitions=_array(found.transitions),
        tilt=found.tilt,
        weights=_array([course.weight for course in found.courses]),
        shares=_array([course.shares for course in found.courses]),
        moves=_array(found.moves),
    )


def _array(values: object) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _check(found: _File) -> None:
    levels = len(found.edges_mbps) + 1
    if not found.title.isprintable() or not found.source.isprintable():
        raise Problem("is not on one line: write printable text", "title" if found.source.isprintable() else "source")
    _check_shape("quantiles_mbps", found.quantiles_mbps, (levels, len(QUANTILES)))
    _check_shape("moves", found.moves, (3, 3))
    _check_shape("transitions", found.transitions, (levels, len(AGES) + 1, SIDES, levels))
    places = len(found.courses[0].shares)
    for number, course in enumerate(found.courses):
        _check_shape(f"courses[{number}].shares", course.shares, (places, levels))
    for key, rows in (("edges_mbps", [found.edges_mbps]), ("quantiles_mbps", found.quantiles_mbps)):
        if any((np.diff(row) < 0).any() for row in rows):
            raise Problem("is not ascending: sort it", key)
    sums: list[tuple[str, object]] = [
        ("moves", found.moves),
        ("transitions", found.transitions),
        ("courses.weight", [course.weight for course in found.courses]),
        *((f"courses[{number}].shares", course.shares) for number, course in enumerate(found.courses)),
    ]
    for key, values in sums:
        if np.abs(_array(values).sum(axis=-1) - 1).max() > _ROUNDING:
            raise Problem("has probabilities whose sum is not 1: write each row so that it is", key)
    _check_reached(found)


def _check_reached(found: _File) -> None:
    """Refuse a level that the map has nowhere: factors of its place would divide by zero."""
    overall = np.sum([course.weight * _array(course.shares).sum(axis=0) for course in found.courses], axis=0)
    if overall.min() <= 0:
        raise Problem(f"level {int(np.argmin(overall))} is at no place: remove it, or give it a share", "courses")


def _check_shape(key: str, values: object, shape: tuple[int, ...]) -> None:
    try:
        given = np.asarray(values, dtype=np.float64).shape
    except ValueError:
        given = ()
    if given != shape:
        raise Problem(f"is not an array of {' × '.join(map(str, shape))} numbers: {_REMEDY}", key)


def encode_map(learned: PlaceMap) -> bytes:
    """Return the text of a map's file."""
    content: dict[str, Json] = {
        "wavebed-map": VERSION,
        "title": learned.title,
        "source": learned.source,
        "duration_s": learned.duration_s,
        "step_s": learned.step_s,
        "edges_mbps": _rounded(learned.edges_mbps, 3),
        "quantiles_mbps": _rounded(learned.quantiles_mbps, 3),
        "stay": round(learned.stay, 4),
        "tilt": round(learned.tilt, 4),
        "moves": _rounded(learned.moves, 6),
        "transitions": _rounded(learned.transitions, 6),
        "courses": [
            {"weight": round(float(weight), 6), "shares": _rounded(shares, 5)}
            for weight, shares in zip(learned.weights, learned.shares, strict=True)
        ],
    }
    return f"{_text(content, '')}\n".encode()


def _rounded(values: NDArray[np.float64], digits: int) -> Json:
    rows: Json = np.round(values, digits).tolist()
    return rows


def _text(value: Json, indent: str) -> str:
    """Write JSON with one row of numbers on each line."""
    inner = f"{indent} "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return "[\n" + ",\n".join(f"{inner}{_text(each, inner)}" for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
