"""The load of the device's processor during a trial: the source, its readings, and what they show."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from wavebed.config.problems import Problem, described
from wavebed.errors import MachineError, WavebedError
from wavebed.forward.model import PlainValue
from wavebed.secret import Secret, redacted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from wavebed.forward.model import ForwardTrial

_EXAMPLES = "local, ssh://root@192.168.1.1, snmp://public@192.168.1.1 or http://192.168.1.1:9100/metrics"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")


class CpuSource(NamedTuple):
    """The source of the processor's load; `address` is for a page, `community` for SNMP."""

    kind: Literal["local", "ssh", "snmp", "http"]
    host: str = ""
    port: int | None = None
    user: str | None = None
    address: str = ""
    community: Secret | None = None


def parse_source(text: str) -> CpuSource:
    """Read the option.

    Raises
    ------
    Problem
        If it names no place.
    """
    if text == "local":
        return CpuSource("local")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Problem(f"{described(redacted(text))} is not an address: write {_EXAMPLES}") from None
    if parts.scheme not in {"ssh", "snmp", "http", "https"}:
        raise Problem(f"{described(redacted(text))} is not a place to look at a processor: write {_EXAMPLES}")
    if not _NAME.fullmatch(host):
        raise Problem(f"{described(redacted(text))} names no host: write {_EXAMPLES}")
    if parts.scheme in {"http", "https"}:
        if parts.username is not None or parts.password is not None:
            raise Problem(
                f"{described(redacted(text))}: a page with a password cannot be read: let the tester in without one"
            )
        return CpuSource("http", host, port, address=text if parts.path else f"{text}/metrics")
    _nothing_more(text, parts)
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "ssh":
        if user is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", user):
            raise Problem(f"{described(user)} is not the name of a user: write ssh://root@192.168.1.1")
        return CpuSource("ssh", host, port, user)
    if user is None or not re.fullmatch(r"[!-~]+", user) or set(user) & set("\"'#\\"):
        raise Problem(
            f"{described(redacted(text))} has no community: write snmp://COMMUNITY@HOST, without blanks and quotes"
        )
    return CpuSource("snmp", host, port, community=Secret(user))


def _nothing_more(text: str, parts: SplitResult) -> None:
    if parts.password is not None:
        raise Problem(f"{parts.scheme}://…: a password cannot be written here: use a key")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise Problem(f"{described(redacted(text))} has something after the host: write {_EXAMPLES}")


WARM_UP = "warm-up"
GIVE_UP = 3
"""After this many failures in a row the source is not asked again: each may take as long as a reading is allowed to."""
FLAG_AFTER_S = 1.0
"""In a shorter trial a load from ticks is too rough to say that work is missing."""


class CpuLog:
    """Reads the processor's load in each trial, and keeps it for the record.

    Parameters
    ----------
    meter : CpuMeter
        It stays the caller's to close.
    """

    def __init__(self, meter: CpuMeter) -> None:
        self._meter = meter
        self._last: CpuUse | None = None
        self._looked: list[float] = []
        self._doubts: dict[str, int] = {}
        self._dropped = 0
        self._failed = 0
        self._in_a_row = 0
        self._began = False
        self._why = ""
        self._flag: str | None = None

    def try_out(self) -> None:
        """Read the source once.

        Raises
        ------
        MachineError, WavebedError
            If it cannot be read: better now than in the middle of a test.
        """
        self._meter.start()
        self._meter.stop()

    def start(self) -> None:
        """Begin."""
        self._last, self._began = None, False
        if self._in_a_row >= GIVE_UP:
            self._failed += 1
            return
        try:
            self._meter.start()
        except WavebedError as error:
            self._fail(error)
            return
        self._began = True

    def stop(self) -> dict[str, float]:
        """End, and return the loads that are known; nothing if the source could not be read."""
        if not self._began:
            return {}
        try:
            use = self._meter.stop()
        except WavebedError as error:
            self._fail(error)
            return {}
        self._last, self._in_a_row = use, 0
        return use.for_trial()

    def _fail(self, error: WavebedError) -> None:
        self._failed, self._in_a_row, self._why = self._failed + 1, self._in_a_row + 1, str(error)

    def hear(self, trial: ForwardTrial) -> None:
        """Keep the load in a trial, and compare it with the frames that were forwarded."""
        use, self._last = self._last, None
        if use is None or trial.purpose == WARM_UP:
            return
        self._looked.append(use.seconds)
        self._dropped += use.dropped or 0
        for doubt in use.doubts:
            if not doubt.startswith("short"):
                self._doubts[doubt] = self._doubts.get(doubt, 0) + 1
        if trial.refusals or use.seconds < FLAG_AFTER_S:
            return
        self._flag = flag_offload(use, trial.received_pps) or self._flag

    @property
    def doubts(self) -> tuple[str, ...]:
        """The doubts about all trials, a line each."""
        told = []
        if self._flag:
            told.append(self._flag)
        if self._looked and median(self._looked) < SURE_S:
            told.append(
                f"processor loads are of trials of {median(self._looked):.1f} s (median): most kernels count in ticks,"
                f" and a load to quote needs {SURE_S:.0f} s (--thorough)"
            )
        told += [f"processor, in {count} of {len(self._looked)} trials: {text}" for text, count in self._doubts.items()]
        if self._dropped:
            told.append(f"a full backlog of a processor dropped {self._dropped} packets (softnet_stat)")
        if self._failed:
            told.append(f"the processor could not be read in {self._failed} trials: {self._why}")
        return tuple(told)


LEAST_FRAME_S = 50e-9
"""The fastest forwarding of Linux takes 187 ns of a core per frame (XDP, 5.36 Mpps on one core: Høiland-Jørgensen et
al., The eXpress Data Path, CoNEXT 2018). A software path that needs a quarter of that is not known."""

_LEAST_FRACTION = 0.01
"""Below this much work a load from ticks is noise: nothing is said."""


def flag_offload(cpu: CpuUse, pps: float) -> str | None:
    """Say in one line that the processor cannot have done the work, if it cannot.

    Parameters
    ----------
    pps : float
        Frames forwarded per second while `cpu` was looked at.

    Returns
    -------
    str, optional
        Nothing if the processor was busy enough, or if that is not known.
    """
    if cpu.busy_mean is None or cpu.core_count is None:
        return None
    least = pps * LEAST_FRAME_S
    spent = cpu.busy_mean * cpu.core_count
    if least < _LEAST_FRACTION or spent >= least:
        return None
    return (
        f"forwarding {pps:,.0f} pps at {spent:.1%} of one processor: hardware offload hides it; software needs at least"
        f" {least:.1%}, so this is not the processor's rate (turn flow offload off in the device to see that)"
    )


SURE_S = 10.0
"""Most kernels charge a whole tick (4 to 10 ms) to whatever runs when it ends. Over 10 s a load is then within about
one part in a hundred; over less it is a hint."""

LIMIT_S = 5.0
"""Each reading is over by then, whatever the other side does: name service, connection and answer in all."""

_STEAL_FRACTION = 0.05
_JITTER_TICKS = 0.1
"""Idle and iowait may step back a little between two readings (proc_stat(5)); seconds."""


class Ticks(PlainValue, frozen=True):
    """The time of a processor since it started, in any one unit.

    Parameters
    ----------
    busy, softirq, total : float
        `busy` is everything but idle and iowait, and holds `softirq`.
    stolen : float
        Part of `busy` that a hypervisor took.
    """

    busy: float
    softirq: float
    total: float
    stolen: float = 0.0


class Reading(PlainValue, frozen=True):
    """The counters of a source at one moment.

    Parameters
    ----------
    at_s : float
        Its own clock, or ours where it has none.
    cores : mapping
        By number of the processor; `-1` stands for the sum over all of them.
    core_count : int, optional
        How many there are, where only the sum is known.
    started_s : float, optional
        When the machine started, on any clock that does not change while it runs.
    """

    at_s: float
    cores: Mapping[int, Ticks]
    core_count: int | None = None
    started_s: float | None = None
    net_rx: Mapping[int, int] | None = None
    dropped: Mapping[int, int] | None = None
    squeezed: Mapping[int, int] | None = None


class CpuUse(PlainValue, frozen=True):
    """Fractions of time (0 to 1) that the device's processors were busy.

    Parameters
    ----------
    busy, softirq : mapping
        By number of the processor; empty where the source knows only the sum, or where nothing can be said.
    busy_mean, busy_max, softirq_max : float, optional
        Missing where the source does not tell.
    core_count : int, optional
        How many processors the mean is of.
    net_rx : int, optional
        How often the receive softirq ran.
    dropped, squeezed : int, optional
        Packets dropped because a processor's backlog was full, and rounds that ended for lack of time or budget.
    seconds : float
        How long it was looked at.
    doubts : tuple of str
        Doubts about the numbers, one line each.
    """

    source: str
    seconds: float
    busy: Mapping[int, float] = msgspec.field(default_factory=dict)
    softirq: Mapping[int, float] = msgspec.field(default_factory=dict)
    busy_mean: float | None = None
    busy_max: float | None = None
    softirq_max: float | None = None
    core_count: int | None = None
    net_rx: int | None = None
    dropped: int | None = None
    squeezed: int | None = None
    doubts: tuple[str, ...] = ()

    @property
    def short(self) -> bool:
        """Whether it was looked at for less time than a load to quote needs."""
        return self.seconds < SURE_S

    def for_trial(self) -> dict[str, float]:
        """Return the known values for `wavebed.forward.model.ForwardTrial.cpu`."""
        known = {"busy_max": self.busy_max, "busy_mean": self.busy_mean, "softirq_max": self.softirq_max}
        return {name: value for name, value in known.items() if value is not None}


class CpuMeter:
    """A meter that reads counters twice and tells the difference.

    Parameters
    ----------
    source : str
        As the user wrote it, without secrets.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._first: Reading | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> Reading:
        """Read the counters now."""
        raise NotImplementedError

    def start(self) -> None:
        """Read the counters for the first time."""
        self._first = self.read()

    def stop(self) -> CpuUse:
        """Read them again, and tell the difference."""
        assert self._first is not None, "start() comes before stop()"
        return between(self.source, self._first, self.read())

    def close(self) -> None:
        """Release its resources."""


def between(source: str, first: Reading, last: Reading) -> CpuUse:
    """Return the load between two readings of one source."""
    seconds = last.at_s - first.at_s
    if _restarted(first, last):
        return CpuUse(
            source, max(0.0, seconds), doubts=("the device started anew in between: its counters say nothing",)
        )
    doubts = []
    if seconds < SURE_S:
        doubts.append(f"short: looked at for {seconds:.1f} s, a load to quote needs {SURE_S:.0f} s")
    used = {core: _used(first.cores[core], ticks) for core, ticks in last.cores.items() if core in first.cores}
    if used.keys() != first.cores.keys() | last.cores.keys():
        doubts.append("processors came or went in between: only those that stayed are counted")
    used = {core: ticks for core, ticks in used.items() if ticks.total > 0}
    if not used:
        doubts.append("its counters did not move: nothing is known")
    for core, ticks in used.items():
        if ticks.stolen > _STEAL_FRACTION * ticks.total:
            whose = "its processors" if core < 0 else f"processor {core}"
            doubts.append(f"a hypervisor took {ticks.stolen / ticks.total:.0%} of {whose}: it counts as busy")
    busy = {core: ticks.busy / ticks.total for core, ticks in used.items()}
    softirq = {core: ticks.softirq / ticks.total for core, ticks in used.items()}
    whole = -1 in used
    if whole and last.core_count != 1:
        doubts.append("it tells one sum over all processors: the busiest is not known")
    one_core = whole and last.core_count == 1
    return CpuUse(
        source,
        seconds,
        {} if whole else busy,
        {} if whole else softirq,
        busy_mean=sum(busy.values()) / len(busy) if busy else None,
        busy_max=max(busy.values()) if busy and (not whole or one_core) else None,
        softirq_max=max(softirq.values()) if softirq and (not whole or one_core) else None,
        core_count=last.core_count if whole else len(busy) or None,
        net_rx=_more(first.net_rx, last.net_rx),
        dropped=_more(first.dropped, last.dropped),
        squeezed=_more(first.squeezed, last.squeezed),
        doubts=tuple(doubts),
    )


def _restarted(first: Reading, last: Reading) -> bool:
    if last.at_s < first.at_s:
        return True
    if first.started_s is not None and last.started_s is not None and abs(last.started_s - first.started_s) > 1:
        return True
    return any(core in first.cores and ticks.total < first.cores[core].total for core, ticks in last.cores.items())


def _used(first: Ticks, last: Ticks) -> Ticks:
    total = last.total - first.total
    # Each part lies within the whole, though idle may step back.
    busy = min(max(0.0, last.busy - first.busy), total)
    return Ticks(busy, min(max(0.0, last.softirq - first.softirq), busy), total, max(0.0, last.stolen - first.stolen))


def _more(first: Mapping[int, int] | None, last: Mapping[int, int] | None) -> int | None:
    """Return how much a 32-bit counter of the processors that stayed has grown."""
    if first is None or last is None:
        return None
    return sum((count - first[core]) % 2**32 for core, count in last.items() if core in first)


class LocalMeter(CpuMeter):
    """Reads /proc.

    Parameters
    ----------
    cores : collection of int, optional
        The device's processors; all by default.
    """

    def __init__(self, cores: Collection[int] | None = None, proc: Path = Path("/proc")) -> None:
        super().__init__("local")
        self._cores = None if cores is None else frozenset(cores)
        self._proc = proc

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If /proc/stat cannot be read.
        """
        try:
            stat = (self._proc / "stat").read_text("ascii", "replace")
        except OSError as error:
            raise MachineError(f"--cpu local: {self._proc}/stat cannot be read: {error.strerror}") from None
        return reading(time.monotonic(), stat, self._text("softirqs"), self._text("net/softnet_stat"), self._cores)

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text("ascii", "replace")
        except OSError:
            return ""


_CORE = re.compile(r"cpu(\d+)((?: +\d+){4,})\s*", re.ASCII)
_SOFTNET_CORE = 12
"""Column of softnet_stat with the processor's number, since Linux 5.10; before, lines were in order."""


def parse_stat(text: str) -> tuple[dict[int, Ticks], float | None]:
    """Read /proc/stat: ticks by processor, and when the machine started (seconds since 1970).

    The columns are user, nice, system, idle, iowait, irq, softirq, steal; guest time, which follows, is in user already
    (proc_stat(5)).

    Raises
    ------
    WavebedError
        If no processor is in it.
    """
    cores: dict[int, Ticks] = {}
    started: float | None = None
    for line in text.splitlines():
        if match := _CORE.fullmatch(line):
            columns = [int(column) for column in match.group(2).split()][:8]
            columns += [0] * (8 - len(columns))
            total = sum(columns)
            cores[int(match.group(1))] = Ticks(total - columns[3] - columns[4], columns[6], total, columns[7])
        elif line.startswith("btime ") and line[6:].strip().isdigit():
            started = float(line[6:])
    if not cores:
        raise WavebedError("/proc/stat has no line of a processor")
    return cores, started


def parse_net_rx(text: str) -> dict[int, int] | None:
    """Read the row NET_RX of /proc/softirqs: how often it ran, by processor; nothing if there is no such row."""
    lines = text.splitlines()
    if not lines:
        return None
    heads = lines[0].split()
    if not heads or not all(re.fullmatch(r"CPU\d+", head) for head in heads):
        return None
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        counts = rest.split()
        if name.strip() == "NET_RX" and len(counts) == len(heads) and all(count.isdigit() for count in counts):
            return {int(head[3:]): int(count) for head, count in zip(heads, counts, strict=True)}
    return None


def parse_softnet(text: str) -> tuple[dict[int, int], dict[int, int]] | None:
    """Read /proc/net/softnet_stat: packets dropped and rounds squeezed, by processor; nothing if it is not that."""
    dropped: dict[int, int] = {}
    squeezed: dict[int, int] = {}
    for number, line in enumerate(text.splitlines()):
        try:
            columns = [int(column, 16) for column in line.split()]
        except ValueError:
            return None
        if len(columns) < 3:
            return None
        core = columns[_SOFTNET_CORE] if len(columns) > _SOFTNET_CORE else number
        dropped[core], squeezed[core] = columns[1], columns[2]
    return (dropped, squeezed) if dropped else None


def reading(at_s: float, stat: str, softirqs: str, softnet: str, only: Collection[int] | None = None) -> Reading:
    """Put the three files together.

    Parameters
    ----------
    only : collection of int, optional
        The processors that matter.

    Raises
    ------
    WavebedError
        If none of them is there.
    """
    cores, started = parse_stat(stat)
    if only is not None:
        missing = sorted(set(only) - cores.keys())
        if missing:
            raise WavebedError(f"/proc/stat has no processor {missing[0]}")
    counters = parse_softnet(softnet)
    return Reading(
        at_s,
        _of(cores, only),
        started_s=started,
        net_rx=_counts(parse_net_rx(softirqs), only),
        dropped=_counts(counters[0] if counters else None, only),
        squeezed=_counts(counters[1] if counters else None, only),
    )


def _of(cores: Mapping[int, Ticks], only: Collection[int] | None) -> dict[int, Ticks]:
    return {core: ticks for core, ticks in cores.items() if only is None or core in only}


def _counts(counts: Mapping[int, int] | None, only: Collection[int] | None) -> dict[int, int] | None:
    if counts is None:
        return None
    return {core: count for core, count in counts.items() if only is None or core in only}
