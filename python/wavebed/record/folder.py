"""The folder of a recording: a pattern for each direction, and a path that replays them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from wavebed import __version__
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import open_foreign
from wavebed.pattern.formats import to_native
from wavebed.record.build import Direction, LightTrain, direction, joined, pattern, saturating, split_delays
from wavebed.result.model import COUNTED
from wavebed.result.names import INCOMPLETE, TRIALS_FOLDER
from wavebed.store.records import read_run, read_trial
from wavebed.workload.probing import MOST_ERROR
from wavebed.workload.record import DIRECTIONS, LIGHT_IDLE_S, curves_of
from wavebed.workload.record_curves import read_received

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.pattern.model import Pattern
    from wavebed.result.model import RunRecord

PATHS = {"replay": "replay.toml", "saturating": "saturating.toml"}
"""The files of paths: with all that was recorded, and with the saturated rate and the least delay only."""
_LONGEST_RAW = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Recordings of one access, one after the other.

    Parameters
    ----------
    directions : mapping
        ``down`` and ``up``; a direction without heavy load is missing.
    load : LightTrain
        What light load was.
    shift_ns : float
        By how much one-way delays of the downlink grow, and of the uplink fall.
    header : tuple of (str, str)
        Provenance.
    notes : tuple of str
        What a reader should know, one line each.
    """

    directions: Mapping[str, Direction]
    load: LightTrain
    shift_ns: float
    header: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def _shift_ns(self, direction: str) -> float:
        return self.shift_ns if direction == "down" else -self.shift_ns

    def patterns(self) -> dict[str, Pattern]:
        """Return the patterns by file name."""
        found: dict[str, Pattern] = {}
        for name, part in self.directions.items():
            shift_ns = self._shift_ns(name)
            header = (*self.header, ("direction", name))
            found[f"{name}.csv"] = pattern(part, self.load, header, shift_ns)
            found[f"saturating-{name}.csv"] = saturating(part, header, shift_ns)
        return found

    def summary(self) -> dict[str, Json]:
        """Return the figures of each direction."""
        found: dict[str, Json] = {}
        for name, part in self.directions.items():
            shift_ns = self._shift_ns(name)
            found[name] = {
                "rate_mbps": _percentiles(part.rate_bps / 1e6),
                "light_rate_mbps": _percentiles(part.light_rate_bps / 1e6),
                "delay_ms": _percentiles((part.delay_ns + shift_ns) / 1e6),
                "loss": float(part.loss.mean()),
                "share_measured": part.known,
                "queue_bytes": part.queue_bytes,
                "queue_is_full": part.queue_is_full,
            }
        return found


def _percentiles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Json]:
    return {f"p{part}": float(np.percentile(values, part)) for part in (5, 50, 95)}


def read_recordings(results: Path, workload: str) -> Recording:
    """Return what the trials of a folder of results recorded.

    Raises
    ------
    UserError
        If there is no recording that counts.
    WavebedError
        If one is damaged, or measured no rate or no delay.
    """
    run = read_run(results)
    parts: dict[str, list[Direction]] = {name: [] for name in DIRECTIONS}
    load, worst_ms, starts = LightTrain(0, LIGHT_IDLE_S), 0.0, []
    for line in run.trials:
        if line.verdict not in COUNTED:
            continue
        folder = results / TRIALS_FOLDER / line.folder
        trial = read_trial(folder)
        record = next((each for each in trial.workloads if each.name == workload), None)
        if record is None or record.outcome.status == "failed":
            continue
        details = record.outcome.details
        for name, part in _directions(folder, workload, details).items():
            parts[name].append(part)
        load = LightTrain(int(cast("int", details["train_bytes"])), LIGHT_IDLE_S)
        worst_ms = max(worst_ms, float(cast("float", details["error of the clocks, ms"])))
        starts.append(trial.started)
    if not starts:
        raise UserError(f"{results}: has no recording that counts: its verdicts say why")
    found = {name: joined(each) for name, each in parts.items() if each}
    return _recording(found, load, worst_ms, _header(run, starts))


def _directions(folder: Path, workload: str, details: Mapping[str, Json]) -> dict[str, Direction]:
    received = {}
    for name, receiver in DIRECTIONS.items():
        file = folder / "raw" / workload / f"{receiver}.csv.gz"
        try:
            with (
                open_foreign(file, INCOMPLETE) as packed,
                gzip.open(cast("io.BufferedReader", packed), "rt", encoding="ascii") as text,
            ):
                received[name] = read_received(text.read(_LONGEST_RAW), receiver)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise WavebedError(f"{file}: cannot be read: {error}") from None
    curves = curves_of(received, details)
    if curves is None:
        raise WavebedError(f"{folder}: a clock was set during the recording")
    measured = {kind for kind, _ in cast("Sequence[tuple[str, float]]", details["cycle"])}
    return {name: direction(each, name) for name, each in curves.items() if name in measured}


def _recording(
    found: Mapping[str, Direction], load: LightTrain, worst_ms: float, header: Sequence[tuple[str, str]]
) -> Recording:
    notes = []
    shift_ns = 0.0
    delays_ms = [float(np.median(part.delay_ns)) / 1e6 for part in found.values()]
    split = f"measured, clocks known to ±{worst_ms:.3f} ms"
    if worst_ms > MOST_ERROR * min(delays_ms) and len(found) > 1:
        shift_ns = split_delays(found["down"], found["up"])
        split = f"half of the round trip each: the clocks are known to ±{worst_ms:.3f} ms only"
        notes.append(f"one-way delays are {split}")
    for name, part in found.items():
        if part.queue_bytes is not None and not part.queue_is_full:
            notes.append(f"{name}: no packet was lost while the queue was filled: it is longer than the replay's")
        if part.queue_bytes is None:
            notes.append(f"{name}: the limit of the queue was not measured: the replay has the default")
    return Recording(found, load, shift_ns, (*header, ("one_way_delays", split)), tuple(notes))


def _header(run: RunRecord, starts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    when = starts[0] if len(starts) == 1 else f"{len(starts)} times from {starts[0]} to {starts[-1]}"
    said = (("title", f"recording: {run.title}"), ("source", f"recorded by wavebed {__version__}, {when}"))
    return tuple((key, " ".join(value.split())) for key, value in said)


def recording_files(recording: Recording) -> dict[str, str]:
    """Return the content of each file of a recording's folder by its name."""
    files = {name: to_native(each) for name, each in recording.patterns().items()}
    title = dict(recording.header)["title"].replace("recording: ", "").replace('"', "'")
    for kind, name in PATHS.items():
        prefix = "" if kind == "replay" else "saturating-"
        lines = [f'title = "Replay: {title}"' if kind == "replay" else f'title = "Replay of the rate alone: {title}"']
        lines += [f'source = "{dict(recording.header)["source"]}"', "", "[path]"]
        for each, part in recording.directions.items():
            lines.append(f'{each}-trace = "{prefix}{each}.csv"')
            if part.queue_bytes is not None:
                lines.append(f'{each}-queue = "droptail:{part.queue_bytes}b"')
        files[name] = "\n".join(lines) + "\n"
    told = {"notes": list(recording.notes), **recording.summary()}
    files["recording.json"] = json.dumps(told, indent=2, allow_nan=False) + "\n"
    return files
