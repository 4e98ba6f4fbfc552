"""The cells of a league: planned, run one after the other, kept, and judged.

A cell is an emulator, a recording and a run of applications. Its workloads begin `GATE_S` after the recording began, in
every emulator, so that all see the same part of it.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Struct

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.league.emulators import CELLREPLAY, CONTROL, EMULATORS, NETEM, path_file, path_tables, running
from wavebed.league.recordings import (
    PACKET_BYTES,
    SEGMENT_BYTES,
    peak_bps,
    served_s,
    tc_schedule,
    write_inputs,
)
from wavebed.output import replace_file
from wavebed.prepared import prepared
from wavebed.result.names import RUN_FILE
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.league.emulators import Ends
    from wavebed.league.recordings import LeagueRecording

GATE_S: Final = 12.0
"""When the applications begin, seconds of the recording: the real hosts' backend needs some to connect."""
APPLICATIONS: Final = {"download": "load", "rtt": "load", "page": "page", "call": "call", "video": "video"}
"""Each application, and the run that measures it."""
TAKES_S: Final = {"load": 22.0, "page": 18.0, "call": 22.0, "video": 40.0}
"""What a run takes here, for the estimate until one has ended."""
_SETTLE_S = 2.0
"""The downlink is judged after this time of a transfer: slow start is TCP's."""
_VOICE_BYTES = 200
_SITE = "google"
_GATE = "gate"
_RECORD_S = 24
_LIMIT_S = 300.0
_FAST_BPS = 500_000_000
RESULT_FILE, SETTINGS_FILE, CELL_FILE = "result.json", "league.json", "cell.toml"


class LeagueSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a league's folder measures."""

    recordings: tuple[str, ...]
    emulators: tuple[str, ...]
    applications: tuple[str, ...]
    seconds: int


class LeagueCell(Struct, frozen=True):
    """One run of one emulator over one recording."""

    recording: str
    emulator: str
    run: str

    @property
    def folder(self) -> Path:
        """Its folder below the league's."""
        return Path("cells") / self.recording / self.emulator / self.run


class CellResult(Struct, frozen=True, kw_only=True):
    """What a cell measured, or why it measured nothing.

    Parameters
    ----------
    reason : str
        Why there are no figures; empty if there are.
    verdict, doubts
        Of the trial; the machine was late if the verdict is ``suspect``.
    figures : mapping
        Metrics by ``WORKLOAD METRIC UNIT``.
    errors : mapping
        Differences from the recording or the live measurement, by name.
    goodput : sequence of pairs
        Seconds of the recording and Mbit/s, each 100 ms.
    processor_s, wall_s : float or None
        Processor time of the emulator, and how long the cell took.
    """

    reason: str = ""
    verdict: str = ""
    doubts: tuple[str, ...] = ()
    figures: dict[str, float] = {}
    errors: dict[str, float] = {}
    goodput: tuple[tuple[float, float], ...] = ()
    processor_s: float | None = None
    wall_s: float = 0.0


def plan(settings: LeagueSettings, order_seed: int = 1) -> list[LeagueCell]:
    """Return all cells: recordings and runs in order, the emulators of each interleaved in a drawn order."""
    runs = list(dict.fromkeys(APPLICATIONS[name] for name in settings.applications))
    rng = random.Random(order_seed)  # noqa: S311 - the order of measurements
    found = []
    for run in runs:
        for recording in settings.recordings:
            drawn = rng.sample(settings.emulators, len(settings.emulators))
            found += [LeagueCell(recording, emulator, run) for emulator in drawn]
    return found


def begin(folder: Path, settings: LeagueSettings, recordings: Sequence[LeagueRecording]) -> None:
    """Make the folder of a league, or check that it has the same league; write the emulators' inputs.

    Raises
    ------
    UserError
        If the folder has another league, or something else.
    """
    file = folder / SETTINGS_FILE
    text = msgspec.json.format(msgspec.json.encode(settings)).decode()
    if file.exists():
        if file.read_text(encoding="utf-8") != text:
            raise UserError(f"-o {folder}: has a league of other settings: repeat its options, or name another folder")
    elif folder.exists() and any(folder.iterdir()):
        raise UserError(f"-o {folder}: is not empty, and no league: name a new folder")
    for recording in recordings:
        inputs = folder / "recordings" / recording.name
        notes = write_inputs(recording, inputs)
        path_file(recording, inputs.absolute())
        replace_file(inputs / "notes.txt", "".join(f"{note}\n" for note in notes).encode())
    replace_file(file, text.encode())


def result_of(folder: Path, cell: LeagueCell) -> CellResult | None:
    """Return the result of a cell that was run."""
    file = folder / cell.folder / RESULT_FILE
    return msgspec.json.decode(file.read_bytes(), type=prepared(CellResult)) if file.exists() else None


def run_cell(folder: Path, cell: LeagueCell, recording: LeagueRecording, seconds: int) -> CellResult:
    """Run one cell and keep its result; a cell that fails has its reason."""
    emulator, place = EMULATORS[cell.emulator], folder.absolute() / cell.folder
    began_s = time.monotonic()
    place.mkdir(parents=True, exist_ok=True)
    reason = emulator.absent() or emulator.needs(recording)
    result = CellResult(reason=reason)
    if not reason:
        try:
            result = _measured(folder.absolute(), cell, recording, seconds, place)
        except WavebedError as error:
            result = CellResult(reason=str(error))
    result = msgspec.structs.replace(result, wall_s=round(time.monotonic() - began_s, 1))
    replace_file(place / RESULT_FILE, msgspec.json.encode(result))
    return result


def _measured(folder: Path, cell: LeagueCell, recording: LeagueRecording, seconds: int, place: Path) -> CellResult:
    emulator, inputs = EMULATORS[cell.emulator], folder / "recordings" / recording.name
    run = place / "run"
    _remove(run)
    if emulator.is_virtual:
        begun = f'start = "{GATE_S:g}s"\n'
        text = _virtual_text(cell, recording, inputs, seconds, folder) + workloads(cell.run, seconds, begun)
        (place / CELL_FILE).write_text(text, encoding="utf-8")
        _wavebed([], place, run, ["--virtual-time"], {})
        return _judged(run, recording, seconds, GATE_S)
    with running(emulator, recording, inputs, place / "emulator.log") as ends:
        (place / CELL_FILE).write_text(outside_text(ends, cell.run, seconds), encoding="utf-8")
        before = ends.processor_s()
        _wavebed(["nsenter", f"--net=/proc/{ends.client_pid}/ns/net"], place, run, [], {"WAVEBED_SSH": _joining(ends)})
        spent = ends.processor_s() - before
    return _judged(run, recording, seconds, None, spent)


def outside_text(ends: Ends, run: str, seconds: int) -> str:
    """Return the scenario between the ends of an emulator of others; a command waits for the moment of the start."""
    wait = (
        f'awk -v at={ends.zero_s + GATE_S:.2f} \'{{d = at - $1; print "ahead = " (d > 0 ? d : 0);'
        ' system("sleep " (d > 0 ? d : 0))}\' /proc/uptime'
    )
    lab = f'[lab]\nbackend = "hosts"\nserver = "ssh://server"\nserver-address = "{ends.address}"\nmodem = "none"\n'
    gate = f'[path]\n[[workload]]\nkind = "command"\nname = "gate"\nparser = "key-value"\nrun = {json.dumps(wait)}\n'
    return lab + gate + workloads(run, seconds, 'after = "gate"\n')


def workloads(run: str, seconds: int, begun: str) -> str:
    """Return the ``[[workload]]`` tables of a run; `begun` is when they begin."""
    found = {
        "load": [
            ("bulk", f'duration = "{seconds}s"\ncongestion-control = "{CONTROL}"\n'),
            ("latency", f'duration = "{seconds}s"\n'),
        ],
        "page": [("web", f'site = "{_SITE}"\n')],
        "call": [("voice", f'duration = "{seconds}s"\n')],
        "video": [("video", f'duration = "{2 * seconds}s"\nsegment = "2s"\nbuffer = "4s"\nladder = "uhd"\n')],
    }[run]
    return "".join(f'[[workload]]\nkind = "{kind}"\n{begun}{keys}' for kind, keys in found)


def _virtual_text(cell: LeagueCell, recording: LeagueRecording, inputs: Path, seconds: int, folder: Path) -> str:
    lab = '[lab]\ntime = "virtual"\n'
    if cell.emulator == NETEM:
        return lab + netem_text(recording, GATE_S + seconds * (4 if cell.run == "video" else 2))
    if cell.emulator == CELLREPLAY:
        return _replayed(recording, inputs, folder) + lab
    return lab + path_tables(recording, inputs)


def netem_text(recording: LeagueRecording, until_s: float) -> str:
    """Return a path without links of ours, at whose edge ``tc`` sets netem and tbf, and their rate over time.

    The edge's device ``wb0`` leads to the server, ``wb1`` to the client.
    """
    delay = f"netem delay {recording.delay_ms}ms limit 1000000"
    lines = [f"tc qdisc add dev {device} root handle 1: {delay}" for device in ("wb0", "wb1")]
    changes = []
    for device, pattern, limit in (
        ("wb1", recording.down, recording.down_queue_bytes),
        ("wb0", recording.up, recording.up_queue_bytes),
    ):
        for place, (time_s, rate) in enumerate(tc_schedule(pattern, until_s)):
            burst = max(PACKET_BYTES + 14, rate // 8 // 1000)
            verb = "change" if place else "add"
            tbf = f"dev {device} parent 1:1 handle 10: tbf rate {rate}bit burst {burst} limit {limit}"
            changes.append((time_s, f"tc qdisc {verb} {tbf}"))
    now_s = 0.0
    for time_s, line in sorted(changes, key=lambda each: each[0]):
        lines += [f"sleep {time_s - now_s:.3f}"] if time_s > now_s else []
        now_s = max(now_s, time_s)
        lines.append(line)
    lines.append(f"sleep {max(until_s - now_s, 0):.3f}")
    hops = "".join(f'[[path.hop]]\nname = "{name}"\nkind = "wired"\n' for name in ("inside", "outside"))
    command = json.dumps("; ".join(["set -e", *lines]))
    # A guest takes minutes for single packets of a fast link.
    coalesce = 'coalesce = "off"\n' if peak_bps(recording.down) < _FAST_BPS else ""
    path = f'[path]\ncongestion-control = "{CONTROL}"\n{coalesce}{hops}[path.edge]\nafter = "inside"\n'
    runs = f'client = "edge"\nconfined = false\nlimit = "{until_s + 5:g}s"\nrun = {command}\n'
    return f'{path}[[workload]]\nkind = "command"\nname = "{NETEM}"\n{runs}'


def _replayed(recording: LeagueRecording, inputs: Path, folder: Path) -> str:
    """Record a recording by light and heavy load in our engine, once, and return the path that replays it."""
    made = folder / "recordings" / recording.name / "recorded"
    replay = made / "replay.toml"
    if not replay.exists():
        _remove(made)
        access = inputs / "access.toml"
        access.write_text(
            f'{path_tables(recording, inputs)}[[workload]]\nkind = "latency"\nduration = "1s"\n', encoding="utf-8"
        )
        words = ["record", str(access), "--duration", f"{_RECORD_S}s", "--virtual-time", "-o", str(made)]
        _run([sys.executable, "-m", "wavebed", *words], {})
    text = replay.read_text(encoding="utf-8")
    for name in ("down.csv", "up.csv"):
        text = text.replace(f'"{name}"', f'"{made / name}"')
    return text


def _joining(ends: Ends) -> str:
    """Return what stands for ssh: its last argument is run in the server's namespace."""
    script = f'for last; do :; done; exec nsenter --net=/proc/{ends.server_pid}/ns/net sh -c "$last"'
    return shlex.join(["sh", "-c", script, "ssh"])


def _wavebed(before: Sequence[str], place: Path, run: Path, after: Sequence[str], variables: dict[str, str]) -> None:
    words = [sys.executable, "-m", "wavebed", "run", str(place / CELL_FILE), "-o", str(run), *after]
    _run([*before, *words], variables)


def _run(argv: Sequence[str], variables: dict[str, str]) -> None:
    """Run wavebed; an interrupt ends it first.

    Raises
    ------
    MachineError
        If it ends with another status than 0 or 1, or takes too long; with its last line.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **variables}, start_new_session=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise MachineError(f"the cell took more than {_LIMIT_S:g} s") from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20.0)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode not in (0, 1):
        raise MachineError((said.strip().splitlines() or ["wavebed ended without a word"])[-1])


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _judged(
    folder: Path, recording: LeagueRecording, seconds: int, start_s: float | None, spent_s: float | None = None
) -> CellResult:
    """Return a cell's figures; `start_s` is the recording's time at the trial's time zero plus `GATE_S` if given."""
    if not (folder / RUN_FILE).exists():
        raise MachineError("the run has no results")
    run = load_run(folder)
    if not run.record.trials:
        raise MachineError("the run has no trial")
    line = run.record.trials[-1]
    trial = run.trial(line.folder)
    figures = {
        " ".join(filter(None, (each.name, metric.name, metric.unit))): float(metric.value)
        for each in trial.workloads
        for metric in each.outcome.metrics
        if metric.value is not None and each.name not in (_GATE, NETEM)
    }
    if line.verdict in ("invalid", "failed"):
        return CellResult(reason=f"the trial was {line.verdict}: {trial.reasons[0] if trial.reasons else ''}")
    waits = [each for each in trial.workloads if each.name == _GATE]
    ahead = [metric.value for each in waits for metric in each.outcome.metrics if metric.name == "ahead"]
    if start_s is None and (not ahead or not ahead[0]):
        return CellResult(reason=f"the hosts were connected later than {GATE_S:g} s: the machine was busy")
    gate = next((each.span.end_s for each in waits if each.span is not None), GATE_S)
    shift_s = 0.0 if start_s is not None else GATE_S - gate
    samples = run.table("samples", trial=line.folder)

    def series(workload: str, name: str) -> tuple[list[float], list[float]]:
        rows = samples[(samples["workload"] == workload) & (samples["series"] == name)].dropna().sort_values("time_s")
        return [float(each) + shift_s for each in rows["time_s"]], [float(each) for each in rows["value"]]

    goodput = series("bulk", "goodput")
    errors = {
        **_load_errors(recording, goodput, series("bulk", "rtt"), seconds),
        **_call_errors(recording, series("voice", "one-way delay down"), series("voice", "one-way delay up")),
    }
    pairs = tuple((round(at, 3), round(value, 4)) for at, value in zip(*goodput, strict=True))
    doubts = tuple(trial.reasons)
    return CellResult(
        verdict=line.verdict, doubts=doubts, figures=figures, errors=errors, goodput=pairs, processor_s=spent_s
    )


Points = tuple[list[float], list[float]]


def _load_errors(recording: LeagueRecording, goodput: Points, rtt: Points, seconds: int) -> dict[str, float]:
    """Compare what a transfer delivered in each second with the recording, and with the live measurement."""
    if not goodput[0]:
        return {}
    times, rates = np.array(goodput[0]), np.array(goodput[1])
    first, last = GATE_S + _SETTLE_S, GATE_S + seconds
    offered, delivered = [], []
    for start in np.arange(first, last - 0.5, 1.0):
        inside = (times > start) & (times <= start + 1.0)
        offered.append(recording.offered_mbit(float(start), float(start) + 1.0) * SEGMENT_BYTES / PACKET_BYTES)
        delivered.append(float(rates[inside].mean()) if inside.any() else 0.0)
    mean = float(np.mean(offered))
    found = {"offered Mbit/s": mean, "delivered Mbit/s": float(np.mean(delivered))}
    if mean > 0:
        found["each second %"] = 100 * float(np.mean(np.abs(np.array(delivered) - np.array(offered)))) / mean
        found["mean rate %"] = 100 * (float(np.mean(delivered)) / mean - 1)
    if recording.live is not None and rtt[0]:
        inside = (recording.live.time_s > first) & (recording.live.time_s <= last)
        ours = [value for at, value in zip(*rtt, strict=True) if first < at <= last]
        live = recording.live.rtt_ms[inside & (recording.live.rtt_ms > 0)]
        if ours and len(live):
            found["live round trip ms"] = float(np.median(live))
            found["round trip ms"] = statistics.median(ours)
            found["live round trip %"] = 100 * (statistics.median(ours) / float(np.median(live)) - 1)
    return found


def _call_errors(recording: LeagueRecording, delays: Points, up_delays: Points) -> dict[str, float]:
    """Compare delays of voice packets with the same queue, computed packet by packet.

    A packet of the server answers one of the client, which arrived after its own delay.
    """
    up_ms = dict(zip(*up_delays, strict=True))
    known = [(at + up_ms[at] / 1e3, delay) for at, delay in zip(*delays, strict=True) if at in up_ms]
    if not known:
        return {}
    sent = sorted(at for at, _ in known)
    left = served_s(recording.down, sent, _VOICE_BYTES)
    ideal = [1e3 * (out - at) + recording.delay_ms for out, at in zip(left, sent, strict=True)]
    found = {}
    for percent in (50, 95):
        measured, exact = (float(np.percentile(each, percent)) for each in ([delay for _, delay in known], ideal))
        found[f"delay p{percent} ms"] = measured
        found[f"exact delay p{percent} ms"] = exact
    return found


def run_all(
    folder: Path, settings: LeagueSettings, recordings: Sequence[LeagueRecording], say: Callable[[str, float], None]
) -> None:
    """Run the cells that have no figures yet; `say` gets each cell and the seconds left."""
    by_name = {each.name: each for each in recordings}
    cells = plan(settings)
    taken: dict[str, list[float]] = {}
    for cell in cells:
        done = result_of(folder, cell)
        if done is not None and not done.reason:
            taken.setdefault(cell.run, []).append(done.wall_s)
    left = [cell for cell in cells if (done := result_of(folder, cell)) is None or done.reason]
    for place, cell in enumerate(left):
        left_s = sum(_expected_s(each.run, taken) for each in left[place:])
        say(
            f"cell {len(cells) - len(left) + place + 1} of {len(cells)}: {cell.run}, {cell.recording}, {cell.emulator}",
            left_s,
        )
        result = run_cell(folder, cell, by_name[cell.recording], settings.seconds)
        if not result.reason:
            taken.setdefault(cell.run, []).append(result.wall_s)


def _expected_s(run: str, taken: dict[str, list[float]]) -> float:
    return statistics.fmean(taken[run]) if taken.get(run) else TAKES_S[run]
