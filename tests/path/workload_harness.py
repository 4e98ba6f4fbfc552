"""Run workloads on a path as a trial would, without the runner: open, begin, run, stop at the limit, report."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.path.api import Path as EmulatedPath
from wavebed.workload import read_workload
from wavebed.workload.model import Outcome, Session, Span, Stage, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.path.lab import Laboratory

KNOWN_PATH = {"rate": "100mbit", "delay": "20ms", "queue": "droptail:500kb", "congestion_control": "cubic"}
"""Constant 100 Mbit/s, round trip 40 ms, a queue of one bandwidth-delay product."""

STOP_GRACE_S = 5.0
FIRST_PORT = 20000


@dataclass
class Act:
    """One workload in the trial; its thread, and when it ran."""

    workload: Workload
    stage: Stage
    session: Session | None = None
    thread: threading.Thread | None = None
    start_s: float = 0.0
    end_s: float = 0.0
    error: str = ""
    overdue_s: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def play(self, acts: Mapping[str, Act]) -> None:
        """Wait for the moment, run, note when."""
        try:
            if self.workload.common.after is not None:
                acts[self.workload.common.after].over.wait()
                time.sleep(self.workload.common.start_s)
            else:
                time.sleep(max(0.0, self.workload.common.start_s - self.stage.clock.now_s()))
            self.start_s = self.stage.clock.now_s()
            assert self.session is not None
            self.session.run()
        except WavebedError as error:
            self.error = str(error)
        finally:
            self.end_s = self.stage.clock.now_s()
            self.over.set()

    def end(self, acts: Mapping[str, Act]) -> None:
        """Wait until it is over; ask it to stop at its limit, or when all others have ended if it is endless."""
        assert self.thread is not None
        assert self.session is not None
        from_s = 0.0
        if self.workload.common.after is not None:
            acts[self.workload.common.after].over.wait()
            from_s = acts[self.workload.common.after].end_s
        end_s = from_s + self.workload.common.start_s + self.workload.common.limit_s
        self.over.wait(max(0.0, end_s - self.stage.clock.now_s()))
        if not self.over.is_set():
            asked = time.monotonic()
            self.session.stop()
            self.over.wait(self.workload.tail_s + 30)
            self.overdue_s = time.monotonic() - asked - self.workload.tail_s - STOP_GRACE_S
        self.thread.join(1)
        assert not self.thread.is_alive(), f"{self.workload.name} did not stop"
        assert self.overdue_s <= 0, f"{self.workload.name} took {self.overdue_s:.1f} s too long to stop"


def _stage(lab: Laboratory, workload: Workload, folder: Path, number: int, seed: int) -> Stage:
    common = workload.common
    folder = folder / "raw" / workload.name
    folder.mkdir(parents=True)
    return Stage(
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
    during: Callable[[Laboratory, dict[str, Stage]], None] | None = None,
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
        acts = {
            workload.name: Act(workload, _stage(lab, workload, folder, number, seed))
            for number, workload in enumerate(workloads)
        }
        for act in acts.values():
            act.session = act.workload.open(act.stage)
            act.thread = threading.Thread(target=act.play, args=(acts,), daemon=True)
        lab.begin()
        for act in acts.values():
            assert act.thread is not None
            act.thread.start()
        if during is not None:
            during(lab, {name: act.stage for name, act in acts.items()})
        for act in sorted(acts.values(), key=lambda act: act.workload.endless):
            if act.workload.endless and act.session is not None:
                act.session.stop()
            act.end(acts)
    schedule = {name: Span(act.start_s, act.end_s, act.workload.is_load) for name, act in acts.items()}
    outcomes = {}
    for name, act in acts.items():
        assert act.session is not None
        outcome = act.session.report(schedule)
        outcomes[name] = replace(outcome, status="failed", reason=act.error) if act.error else outcome
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
    during: Callable[[Laboratory, Stage], None] | None = None,
) -> tuple[Outcome, dict[str, object]]:
    """Run one workload alone, as `run_workloads` does."""
    name = read_workload(table).name
    watch = None if during is None else lambda lab, stages: during(lab, stages[name])
    outcomes, about = run_workloads([table], path_options, tmp_path, seed=seed, during=watch)
    return outcomes[name], about


def metrics(outcome: Outcome) -> dict[str, float | None]:
    """Return the values of an outcome's metrics by name."""
    return {metric.name: metric.value for metric in outcome.metrics}
