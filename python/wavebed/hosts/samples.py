"""State of a modem as ModemManager, QMI or an Android phone tells it: cell, band, and the strength of its signal."""

from __future__ import annotations

import heapq
import itertools
import json
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from wavebed.errors import WavebedError
from wavebed.lab.protocol import CPU, FLOW_TEXTS, FLOWS, WORKLOAD_PORTS
from wavebed.stranger import StrangerError, lines_of, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.hosts.host import AgentHost, AgentProcess


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


NONE = "none"
_ENDED_S = 5.0


class ModemSamples:
    """What a tool on the client host says of its modem, from now on.

    Parameters
    ----------
    client : AgentHost
        The host.
    tool : str
        ``mmcli``, ``qmicli``, ``adb``; ``auto``: the first that finds a modem.
    file : pathlib.Path
        What the tool prints goes there; removed if it prints nothing.

    Raises
    ------
    WavebedError
        If the host does not answer.
    """

    def __init__(self, client: AgentHost, tool: str, file: Path) -> None:
        self._client = client
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            # As the user of ssh: the modem belongs to the system, and a phone to a user.
            argv = ["sh", "-c", SCRIPT, "sh", tool]
            self._process: AgentProcess = client.start(argv, stdout=stream, stderr=subprocess.DEVNULL)

    def end(self) -> Json:
        """End the sampling and return the samples, or nothing without a modem.

        Raises
        ------
        StrangerError
            If the tool printed no text.
        """
        with suppress(WavebedError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(_ENDED_S)
        states = read_states(lines_of(self._file))
        if not states:
            self._file.unlink(missing_ok=True)
            return None
        samples: list[Json] = []
        for state in states:
            time_s = self._client.clock.of_unix_s(state.unix_ns / 1e9)
            offset = self._client.clock_offset(time_s)
            samples.append(
                {
                    "time_s": round(time_s - (0.0 if offset is None else offset.ahead_s), 3),
                    "technology": state.technology,
                    "rsrp_dbm": state.rsrp_dbm,
                    "sinr_db": state.sinr_db,
                    "cell": state.cell,
                    "band": state.band,
                }
            )
        return {"tool": states[0].tool, "samples": samples}


BUSY = 0.97
"""A host is saturated in an interval if all its processors together were busier."""
_LATE = 1.5
"""A sample is late after this number of intervals."""
_BUSY, _CORE = CPU.index("busy"), CPU.index("core")
_COOKIE, _LOCAL, _REMOTE = FLOWS.index("cookie"), FLOWS.index("local"), FLOWS.index("remote")
_NUMBER = "-?[0-9]{0,18}"
_TEXT = r"[\w.:*%\[\]@ -]{0,255}"
_SHARE = r"(?:[0-9]{1,3}(?:\.[0-9]{1,18})?)?"
_ADDRESS = r"[0-9A-Za-z.:*%\[\]-]{1,100}:[0-9]{1,5}"
_FIELDS = {
    "time_ns": "[0-9]{1,18}",
    "core": "[0-9]{1,5}",
    "busy": _SHARE,
    "softirq": _SHARE,
    "cookie": "[0-9]{0,20}",
    "delivery_app_limited": "(?:true|false)?",
    "local": _ADDRESS,
    "remote": _ADDRESS,
}
"""What a column may have; the others are whole numbers, or the texts of `FLOW_TEXTS`."""


class HostLoad(NamedTuple):
    """How busy a host was: intervals of the sampler, those in which it was saturated, and those that came late."""

    intervals: int
    saturated: int
    late: int


def load_of(folder: Path, every_ns: int) -> HostLoad:
    """Return the load of a host from its ``cpu.csv``; without one there are no intervals.

    Raises
    ------
    StrangerError
        If the file is not what a sampler writes.
    """
    intervals = saturated = late = 0
    before_ns: int | None = None
    for at_ns, rows in itertools.groupby(_rows(folder / "cpu.csv", CPU), _time):
        busy = [float(row[_BUSY] or 0) for row in rows]
        intervals += 1
        saturated += sum(busy) / len(busy) > BUSY
        late += before_ns is not None and at_ns - before_ns > _LATE * every_ns
        before_ns = at_ns
    return HostLoad(intervals, saturated, late)


def merge_samples(folders: Mapping[str, Path], log: Path) -> None:
    """Write ``flows.csv`` and ``cpu.csv`` of a laboratory from the files of its hosts; a missing one counts as empty.

    Parameters
    ----------
    folders : mapping
        The folder of each host's files, by its name.
    log : pathlib.Path
        Where the two files go. Processors are numbered on, in the order of the hosts.

    Raises
    ------
    StrangerError
        If a file is not what a sampler writes; what was written of it then is removed.
    """
    _merge(log / "flows.csv", FLOWS, [_flows(folder / "flows.csv") for folder in folders.values()])
    processors, first = [], 0
    for folder in folders.values():
        processors.append(_processors(folder / "cpu.csv", first))
        first += 1 + max((int(row[_CORE]) for row in _rows(folder / "cpu.csv", CPU)), default=-1)
    _merge(log / "cpu.csv", CPU, processors)


def _merge(file: Path, columns: Sequence[str], hosts: Sequence[Iterator[list[str]]]) -> None:
    merged = heapq.merge(*hosts, key=_time)
    try:
        first = next(merged, None)
        if first is None:  # no sampler wrote anything
            return
        with file.open("w", encoding="utf-8") as stream:
            stream.write(",".join(columns) + "\n")
            stream.writelines(",".join(row) + "\n" for row in itertools.chain([first], merged))
    except StrangerError:
        file.unlink(missing_ok=True)
        raise


def _rows(file: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a sampler's file, one at a time: it may be large, and its host may be anybody's."""
    if not file.exists():
        return
    fits = re.compile(",".join(_FIELDS.get(name, _TEXT if name in FLOW_TEXTS else _NUMBER) for name in columns))
    lines, latest_ns = lines_of(file), 0
    head = next(lines, "")
    if head and head != ",".join(columns):
        raise StrangerError(f"{file.name}: its columns are not those of a sampler")
    for number, line in enumerate(lines, 2):
        if not fits.fullmatch(line):
            raise StrangerError(f"{file.name}: line {number} is no sample")
        row = line.split(",")
        if _time(row) < latest_ns:
            raise StrangerError(f"{file.name}: line {number} is earlier than the line before")
        latest_ns = _time(row)
        yield row


def _flows(file: Path) -> Iterator[list[str]]:
    for row in _rows(file, FLOWS):
        if int(row[_COOKIE] or 0) >= 1 << 64:
            raise StrangerError(f"{file.name}: {row[_COOKIE]} is no cookie of a socket")
        if _port(row[_LOCAL]) in WORKLOAD_PORTS or _port(row[_REMOTE]) in WORKLOAD_PORTS:
            yield row


def _processors(file: Path, first: int) -> Iterator[list[str]]:
    for at_ns, core, *shares in _rows(file, CPU):
        yield [at_ns, str(int(core) + first), *shares]


def _time(row: Sequence[str]) -> int:
    return int(row[0])


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
