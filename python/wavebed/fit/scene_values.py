"""The values of a scene that a fit may change, and the text of a scene file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Document = dict[str, object]

__all__ = ["MOST_PARAMETERS", "Parameter", "parameters_of", "toml_text", "value_of", "with_values"]

MOST_PARAMETERS = 12
LONGEST_LINE = 100


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value of a scene, or one that several tables have in common.

    Parameters
    ----------
    key : str
        Its place; ``*`` stands for each table of an array.
    low, high : float
        Bounds.
    unit : str
        Written behind the number; without one it is a bare number.
    logarithmic : bool
        Whether ratios count, not differences.
    """

    key: str
    low: float
    high: float
    unit: str
    logarithmic: bool = False

    def value(self, part: float) -> float:
        """Return the value at a part of the range, 0 to 1."""
        if self.logarithmic:
            return self.low * math.exp(math.log(self.high / self.low) * part)
        return self.low + (self.high - self.low) * part

    def part(self, value: float) -> float:
        """Return the part of the range at which a value stands."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def text(self, value: float) -> str:
        """Return a value as people read it, with four digits."""
        return f"{_rounded(value):g}{self.unit or ' m'}"

    def written(self, value: float) -> str | float:
        """Return a value as a scene has it."""
        return f"{_rounded(value):.10g}{self.unit}" if self.unit else _rounded(value)


def _rounded(value: float) -> float:
    """Return a value with four digits, none below 0.0001: units are written without an exponent."""
    return round(float(f"{value:.4g}"), 4)


_KNOWN = (
    Parameter("base-station.*.power", 0.0, 60.0, "dbm"),
    *(Parameter(f"base-station.{place}.array.azimuth", -360.0, 360.0, "deg") for place in range(4)),
    Parameter("nlos-offset", -20.0, 30.0, "db"),
    Parameter("shadowing.spread", 1.0, 20.0, "db"),
    Parameter("shadowing.distance", 3.0, 200.0, "", logarithmic=True),
    Parameter("carrier.evm", 3.0, 40.0, "%", logarithmic=True),
    Parameter("cell-load.mean", 1.0, 95.0, "%"),
    Parameter("cell-load.time-constant", 500.0, 500_000.0, "ms", logarithmic=True),
    Parameter("timers.out-of-sync", -10.0, 3.0, "db"),
    Parameter("timers.in-sync", 3.0, 20.0, "db"),
    Parameter("timers.t310", 50.0, 6000.0, "ms", logarithmic=True),
    Parameter("timers.fallback", 20.0, 4000.0, "ms", logarithmic=True),
    Parameter("timers.return-hysteresis", 50.0, 30_000.0, "ms", logarithmic=True),
    Parameter("ue.body-loss", 0.0, 40.0, "db"),
    Parameter("fallback.cell-load", 0.0, 95.0, "%"),
    Parameter("fallback.base-station.power", -20.0, 60.0, "dbm"),
)
"""What may be fitted. The power stands for the EIRP, whose other part is the array; the EVM is the SINR ceiling. The
bounds of the two levels meet, since in-sync is never below out-of-sync."""


def parameters_of(document: Document, keys: Sequence[str] | None = None) -> list[Parameter]:
    """Return the parameters of a scene: those named, or those that its `fitted` names, or all that it has.

    Raises
    ------
    UserError
        If a key is none, or the scene does not have it, or there are more than 12.
    """
    known = {parameter.key: parameter for parameter in _KNOWN}
    if keys is None:
        keys = [key for key in _named(document) if key in known and _places(document, key)] or None
    if keys is None:
        chosen = [parameter for parameter in _KNOWN if _places(document, parameter.key)]
    else:
        for key in keys:
            if key not in known or not _places(document, key):
                raise UserError(f"{key}: cannot be fitted in this scene: name some of {', '.join(known)}, and write it")
        chosen = [known[key] for key in keys]
    if not 1 <= len(chosen) <= MOST_PARAMETERS:
        raise UserError(
            f"the scene has {len(chosen)} values to fit: name 1 to {MOST_PARAMETERS} of"
            f" {', '.join(parameter.key for parameter in chosen) or ', '.join(known)}"
        )
    return chosen


def _named(document: Document) -> list[str]:
    """Return what each line of a scene's `fitted` begins with: a key, if a fit wrote it."""
    lines = document.get("fitted")
    return [str(line).split(" (")[0] for line in lines] if isinstance(lines, list) else []


def _places(document: object, key: str) -> list[tuple[dict[str, object], str]]:
    """Return the tables that have a key, and its last part."""
    here, _, rest = key.partition(".")
    if isinstance(document, list):
        if here == "*":
            found = [_places(each, rest) for each in document]
            return [place for each in found for place in each]
        return _places(document[int(here)], rest) if int(here) < len(document) else []
    if not isinstance(document, dict) or here not in document:
        return []
    return _places(document[here], rest) if rest else [(document, here)]


def value_of(document: Document, parameter: Parameter) -> float:
    """Return the value that a scene has, in the unit of the parameter."""
    table, key = _places(document, parameter.key)[0]
    given = table[key]
    if not parameter.unit:
        return float(str(given))
    return _READERS[parameter.unit](given)


def _milliseconds(given: object) -> float:
    from wavebed.config.values import seconds

    return seconds()(given) * 1e3


def _percent(given: object) -> float:
    from wavebed.config.values import percentage

    return percentage(given) * 100


def _decibels(given: object) -> float:
    from wavebed.scene.values import level_db

    return level_db(given)


def _power(given: object) -> float:
    from wavebed.scene.values import power_dbm

    return power_dbm(given)


def _degrees(given: object) -> float:
    from wavebed.scene.values import angle_deg

    return angle_deg(given)


_READERS = {"ms": _milliseconds, "%": _percent, "db": _decibels, "dbm": _power, "deg": _degrees}


def with_values(document: Document, values: Mapping[Parameter, float]) -> Document:
    """Return a scene with other values; the one given stays as it is."""
    copied: Document = json.loads(json.dumps(document))
    for parameter, value in values.items():
        for table, key in _places(copied, parameter.key):
            table[key] = parameter.written(value)
    return copied


def toml_text(document: Mapping[str, object]) -> str:
    """Return a scene as TOML; comments of the file that it was read from are lost."""
    top: list[str] = []
    tables: list[str] = []
    _write(document, "", top, tables)
    return "\n".join(["#:schema ../schema/scene.json", *top, *tables, ""])


def _write(table: Mapping[str, object], header: str, lines: list[str], tables: list[str]) -> None:
    for key, value in table.items():
        name = f"{header}.{key}" if header else key
        if isinstance(value, dict) and (not header or header == "fallback") and key not in _INLINE:
            inner: list[str] = []
            tables.extend(["", f"[{name}]"])
            after: list[str] = []
            _write(value, name, inner, after)
            tables.extend([*inner, *after])
        elif key in {"base-station", "obstacle"} and isinstance(value, list):
            for each in value:
                tables.extend(["", f"[[{name}]]", *(f"{inner} = {_inline(what)}" for inner, what in each.items())])
        else:
            lines.append(f"{key} = {_inline(value)}")


_INLINE = {"cell-load", "shadowing"}


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_inline(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        parts = [_inline(each) for each in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) < LONGEST_LINE else "".join(["[\n", *(f"  {part},\n" for part in parts), "]"])
    return json.dumps(value, ensure_ascii=False)
