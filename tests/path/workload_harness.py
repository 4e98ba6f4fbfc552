"""Run workloads on a path as a trial would, without the runner: open, begin, run, stop at the limit, report."""

from __future__ import annotations

import csv
import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.path.api import Path as EmulatedPath
from wavebed.workload import read_workload
from wavebed.workload.model import Outcome, Session, Span, TrialContext, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.path.lab import Laboratory

KNOWN_PATH = {"rate": "100mbit", "delay": "20ms", "queue": "droptail:500kb", "congestion_control": "cubic"}
"""Constant 100 Mbit/s, round trip 40 ms, a queue of one bandwidth-delay product (333 packets).

Where cubic leaves slow start is random: HyStart takes acknowledgements that come 5 ms late, or bunched, for a full
path. In Linux it does so with 16 segments at the least, and cubic then grows by a twentieth in each round trip or
faster until its first loss. So it needs at most 62 round trips, 2.5 s, until it fills this path.
"""

STOP_GRACE_S = 5.0
FIRST_PORT = 20000


@dataclass
class RunningWorkload:
    """One workload in the trial; its thread, and when it ran."""

    workload: Workload
    context: TrialContext
    session: Session | None = None
    thread: threading.Thread | None = None
    start_s: float = 0.0
    end_s: float = 0.0
    error: str = ""
    overdue_s: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def play(self, running: Mapping[str, RunningWorkload]) -> None:
        """Wait for the moment, run, note when."""
        try:
            if self.workload.common.after is not None:
                running[self.workload.common.after].over.wait()
                time.sleep(self.workload.common.start_s)
            else:
                time.sleep(max(0.0, self.workload.common.start_s - self.context.clock.now_s()))
            self.start_s = self.context.clock.now_s()
            assert self.session is not None
            self.session.run()
        except WavebedError as error:
            self.error = str(error)
        finally:
            self.end_s = self.context.clock.now_s()
            self.over.set()

    def end(self, running: Mapping[str, RunningWorkload]) -> None:
        """Wait until it is over; ask it to stop at its limit, or when all others have ended if it is endless."""
        assert self.thread is not None
        assert self.session is not None
        from_s = 0.0
        if self.workload.common.after is not None:
            running[self.workload.common.after].over.wait()
            from_s = running[self.workload.common.after].end_s
        end_s = from_s + self.workload.common.start_s + self.workload.common.limit_s
        self.over.wait(max(0.0, end_s - self.context.clock.now_s()))
        if not self.over.is_set():
            asked = time.monotonic()
            self.session.stop()
            self.over.wait(self.workload.tail_s + 30)
            self.overdue_s = time.monotonic() - asked - self.workload.tail_s - STOP_GRACE_S
        self.thread.join(30)
        assert not self.thread.is_alive(), f"{self.workload.name} did not stop"
        assert self.overdue_s <= 0, f"{self.workload.name} took {self.overdue_s:.1f} s too long to stop"


def _context(lab: Laboratory, workload: Workload, folder: Path, number: int, seed: int) -> TrialContext:
    common = workload.common
    folder = folder / "raw" / workload.name
    folder.mkdir(parents=True)
    return TrialContext(
        server=lab.host(common.server),
        client=lab.host(common.client),
        folder=folder,
        clock=lab.clock,
        port=FIRST_PORT + 20 * number,
        address=f"198.19.{number + 1}.",
        seed=seed,
        limit_s=common.limit_s,
    )


def run_workloads(
    tables: Sequence[Mapping[str, object]],
    path_options: Mapping[str, object],
    tmp_path: Path,
    *,
    seed: int = 1,
    during: Callable[[Laboratory, dict[str, TrialContext]], None] | None = None,
) -> tuple[dict[str, Outcome], dict[str, object]]:
    """Run workloads in one trial; return their outcomes by name, and ``about``.

    `during` is called in the main thread as soon as time has begun. ``about`` has ``summary`` (the engine's books),
    ``schedule``, ``folder`` (the trial's; raw outputs are in ``raw/NAME``), ``wall_s`` and ``messages``.
    """
    workloads = [read_workload(table) for table in tables]
    cache = tmp_path / "cache"
    cache.mkdir(exist_ok=True)
    for workload in workloads:
        workload.prepare(cache)
    folder = tmp_path / "trial"
    folder.mkdir()
    began = time.monotonic()
    with EmulatedPath.of(**{"seed": str(seed), **path_options}).up(log=folder / "log", wait=True) as lab:
        running = {
            workload.name: RunningWorkload(workload, _context(lab, workload, folder, number, seed))
            for number, workload in enumerate(workloads)
        }
        for one in running.values():
            one.session = one.workload.open(one.context)
            one.thread = threading.Thread(target=one.play, args=(running,), daemon=True)
        lab.begin()
        for one in running.values():
            assert one.thread is not None
            one.thread.start()
        if during is not None:
            during(lab, {name: one.context for name, one in running.items()})
        for one in sorted(running.values(), key=lambda one: one.workload.endless):
            if one.workload.endless and one.session is not None:
                one.session.stop()
            one.end(running)
    schedule = {name: Span(one.start_s, one.end_s, one.workload.is_load) for name, one in running.items()}
    outcomes = {}
    for name, one in running.items():
        assert one.session is not None
        outcome = one.session.report(schedule)
        outcomes[name] = replace(outcome, status="failed", reason=one.error) if one.error else outcome
        json.dumps(outcome.details, allow_nan=False)
    about: dict[str, object] = {
        "summary": lab.summary,
        "schedule": schedule,
        "folder": folder,
        "wall_s": time.monotonic() - began,
        "messages": lab.messages,
    }
    return outcomes, about


def run_workload(
    table: Mapping[str, object],
    path_options: Mapping[str, object],
    tmp_path: Path,
    *,
    seed: int = 1,
    during: Callable[[Laboratory, TrialContext], None] | None = None,
) -> tuple[Outcome, dict[str, object]]:
    """Run one workload alone, as `run_workloads` does."""
    name = read_workload(table).name
    watch = None if during is None else lambda lab, contexts: during(lab, contexts[name])
    outcomes, about = run_workloads([table], path_options, tmp_path, seed=seed, during=watch)
    return outcomes[name], about


def nginx_pid(folder: Path) -> str:
    """Return the number of the nginx in a workload's folder: it listens before it writes it."""
    end = time.monotonic() + 30
    while not (text := _read(folder / "nginx.pid").strip()):
        assert time.monotonic() < end, "nginx writes its number"
        time.sleep(0.01)
    return text


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def first_packet_s(folder: Path) -> float:
    """Return the beginning of the millisecond in which a trial's first packet entered a link, seconds."""
    rows = [
        row for file in (folder / "log").glob("radio.*.csv") for row in csv.DictReader(file.read_text().splitlines())
    ]
    return min(int(row["time_ms"]) for row in rows if int(row["offered_segments"])) / 1e3


def metrics(outcome: Outcome) -> dict[str, float | None]:
    """Return the values of an outcome's metrics by name."""
    return {metric.name: metric.value for metric in outcome.metrics}
