"""State of a modem as ModemManager, QMI or an Android phone tells it: cell, band, and the strength of its signal."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.stranger import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["SCRIPT", "ModemState", "Tool", "read_states"]

Tool: TypeAlias = Literal["mmcli", "qmicli", "adb"]

SCRIPT = """which=$1
has() { { [ "$which" = auto ] || [ "$which" = "$1" ]; } && command -v "$1" >/dev/null; }
if has mmcli && timeout 5 mmcli -m any -J >/dev/null 2>&1; then
  look() { timeout 5 mmcli -m any -J --signal-get; echo; timeout 5 mmcli -m any -J --location-get; }; tool=mmcli
elif has qmicli && device=$(ls /dev/cdc-wdm* 2>/dev/null | head -n 1) && [ -n "$device" ]; then
  ask() { timeout 5 qmicli -p -d "$device" "$1"; }; tool=qmicli
  look() { ask --nas-get-signal-info; ask --nas-get-rf-band-info; ask --nas-get-serving-system; }
elif has adb && [ "$(timeout 5 adb get-state 2>/dev/null)" = device ]; then
  tool=adb
  look() { timeout 5 adb shell dumpsys telephony.registry | grep -e mSignalStrength= -e mCellIdentity= | head -c 20000
  }
else
  exit 0
fi
while :; do echo "=== $tool $(date +%s%N)"; look 2>/dev/null; echo; sleep 1; done
"""
"""Runs on the client host, with the tool as its argument, ``auto`` for the first that finds a modem."""

_HEAD = re.compile(r"=== (mmcli|qmicli|adb) ([0-9]{15,19})")
_MOST_SAMPLES = 100_000
_MOST_TEXT = 1 << 15
_ABSENT = 2147483647
"""What Android writes for an unknown number."""
_LTE, _NR = "LTE", "NR"


@dataclass(frozen=True, slots=True)
class ModemState:
    """A sample; what the tool does not tell is ``None``.

    Parameters
    ----------
    unix_ns : int
        When it was taken, on the host's clock.
    tool : str
        What told it.
    technology : str or None
        ``NR`` or ``LTE``: of the signal.
    rsrp_dbm, sinr_db : float or None
        Power of the reference signal, and its ratio to noise and interference.
    cell, band : str or None
        Identity of the serving cell, and its band, as the tool writes them.
    """

    unix_ns: int
    tool: str
    technology: str | None = None
    rsrp_dbm: float | None = None
    sinr_db: float | None = None
    cell: str | None = None
    band: str | None = None


def read_states(lines: Iterable[str]) -> list[ModemState]:
    """Return the samples in what `SCRIPT` has printed; those that tell nothing are left out.

    A host may print anything: of a sample only the first 32 KiB are read, and no more than 10^5 samples.
    """
    found: list[ModemState] = []
    head: re.Match[str] | None = None
    text: list[str] = []
    room = 0
    for line in itertools.chain(lines, [None]):
        begins = None if line is None else _HEAD.fullmatch(line)
        if line is not None and begins is None:
            room -= len(line) + 1
            if room >= 0:
                text.append(line)
            continue
        if head is not None:
            state = _READERS[head[1]](int(head[2]), "\n".join(text))
            if (state.rsrp_dbm, state.sinr_db, state.cell) != (None, None, None):
                found.append(state)
        if len(found) == _MOST_SAMPLES:
            break
        head, text, room = begins, [], _MOST_TEXT
    return found


def _mmcli(unix_ns: int, text: str) -> ModemState:
    decoder, place = json.JSONDecoder(), 0
    parts: list[object] = []
    while (begin := text.find("{", place)) >= 0:
        try:
            part, place = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            break
        parts.append(part)
    signals = [_below(part, "modem", "signal") for part in parts]
    cell = next((cell for part in parts if (cell := _text(_below(part, "modem", "location", "3gpp").get("cid")))), None)
    for key, technology in (("5g", _NR), ("lte", _LTE)):
        for signal in signals:
            values = _below(signal, key)
            rsrp, sinr = _number(values.get("rsrp")), _number(values.get("snr"))
            if rsrp is not None or sinr is not None:
                return ModemState(unix_ns, "mmcli", technology, rsrp, sinr, cell)
    return ModemState(unix_ns, "mmcli", cell=cell)


def _below(value: object, *keys: str) -> Mapping[str, object]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) and value not in ("", "--") else None


def _number(value: object) -> float | None:
    """Return the number that a text begins with."""
    found = re.match(r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)", value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _qmicli(unix_ns: int, text: str) -> ModemState:
    signals: dict[str, dict[str, float | None]] = {}
    technology = ""
    for line in text.splitlines():
        if head := re.fullmatch(r"\s*(LTE|5G|NR5G|WCDMA|GSM|CDMA|HDR|TDMA):\s*", line):
            technology = _NR if "5G" in head[1] else head[1]
        elif value := re.fullmatch(r"\s*(RSRP|SNR): '([^']*)'\s*", line):
            signals.setdefault(technology, {})[value[1]] = _number(value[2])
    bands = {
        _NR if "5g" in radio.lower() else _LTE: band
        for radio, band in re.findall(r"Radio Interface:\s*'([^']*)'\s*Active Band Class:\s*'([^']*)'", text)
        if "5g" in radio.lower() or "lte" in radio.lower()
    }
    cell = re.search(r"3GPP cell ID: '([^']+)'", text)
    for technology in (_NR, _LTE):
        values = signals.get(technology, {})
        if any(value is not None for value in values.values()):
            band = one_line(bands[technology]) if technology in bands else None
            told = one_line(cell[1]) if cell else None
            return ModemState(unix_ns, "qmicli", technology, values.get("RSRP"), values.get("SNR"), told, band)
    return ModemState(unix_ns, "qmicli", cell=one_line(cell[1]) if cell else None)


def _adb(unix_ns: int, text: str) -> ModemState:
    nr = re.search(r"mNr=CellSignalStrengthNr:\{([^}]*)\}", text)
    lte = re.search(r"mLte=CellSignalStrengthLte:([^,}]*)", text)
    identity = re.search(r"mCellIdentity=CellIdentity(?:Nr|Lte):\{(.*)", text)
    cell = _field(identity[1], "mNci", "mCi") if identity else None
    band = re.search(r"mBands\s*=\s*\[([^\]]*)\]", identity[1]) if identity else None
    about = (None if cell is None else f"{cell:.0f}", one_line(band[1]) if band and band[1] else None)
    if nr and (rsrp := _field(nr[1], "ssRsrp")) is not None:
        return ModemState(unix_ns, "adb", _NR, rsrp, _field(nr[1], "ssSinr"), *about)
    if lte and (rsrp := _field(lte[1], "rsrp")) is not None:
        # Its ratio, rssnr, is in dB or in tenths, by the phone: it is left out.
        return ModemState(unix_ns, "adb", _LTE, rsrp, None, *about)
    return ModemState(unix_ns, "adb", None, None, None, *about)


def _field(text: str, *names: str) -> float | None:
    for name in names:
        found = re.search(rf"\b{name}\s*=\s*(-?[0-9]{{1,15}})\b", text)
        if found and abs(int(found[1])) != _ABSENT:
            return float(found[1])
    return None


_READERS: dict[str, Callable[[int, str], ModemState]] = {"mmcli": _mmcli, "qmicli": _qmicli, "adb": _adb}
