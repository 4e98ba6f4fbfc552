"""A run of one trial in a cell: two or more devices, whose links have series of air time, bytes and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.result_folders import open_run, write_run

from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.names import AIR
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Given = Callable[[int], tuple[int, int, int | None]]
    """Bytes, air time (ns) and wait (ns) of a millisecond."""


def made_cell(tmp_path: Path, links: Mapping[str, Given], *, lasts_ms: int, with_air: bool = True) -> Path:
    """Write the run and return its folder; the links are ``DEVICE.down`` or ``.up`` of the cell ``mast``."""
    folder, log = tmp_path / "run", tmp_path / "log"
    log.mkdir()
    names = [name for name in SCHEMAS["links"].names if name != "link" and (with_air or name != AIR)]
    for link, given in links.items():
        lines = [",".join(names)]
        for at in range(lasts_ms):
            delivered, air, wait = given(at)
            row: dict[str, object] = {
                **dict.fromkeys(names, 0), "time_ms": at, "delivered_bytes": delivered, AIR: air,
                "delivered_segments": delivered // 1500, "sojourn_mean_ns": "" if wait is None else wait,
            }  # fmt: skip
            lines.append(",".join(str(row[name]) for name in names))
        (log / f"mast.{link}.csv").write_text("\n".join(lines) + "\n")
    devices = [
        {"host": name, "down": [], "up": []} for name in dict.fromkeys(link.rpartition(".")[0] for link in links)
    ]
    scheduler = {"policy": "proportional_fair", "units": 17}
    cell = {"name": "mast", "down": scheduler, "up": scheduler, "devices": devices}
    network = {"mtu": 1500, "nat": False, "coalesce": {"kind": "off"}, "hosts": [{"name": "server"}], "legs": []}
    network |= {"cell": cell}
    workload = {
        "name": "phone.bulk", "kind": "bulk", "start_ns": 0, "after": None, "limit_ns": 60_000_000_000,
        "server": "server", "client": "server", "options": {},
    }  # fmt: skip
    record = RunRecord(
        "cell", "cell.toml", "", {}, [], "2026-11-28T10:00:00Z", 1, 1, {}, {}, [], [], ended="2026-11-28T10:00:20Z"
    )
    open_run(folder, record, "")
    partial = new_partial(folder, "0001-standard", "mark")
    capacity = [(0.0, f"mast.{link}", 100_000_000, "los") for link in links]
    write_tables(partial / "series", log, capacity=capacity, samples={}, events={})
    outcome = Outcome(metrics=[Metric("goodput", 20.0, "Mbit/s", "higher", "")])
    trial = TrialRecord(
        "0001-standard", 1, "standard", 7, "2026-11-28T10:00:01+00:00", 12.0, "valid",
        workloads=[WorkloadRecord("phone.bulk", "bulk", TimeSpan(0.0, lasts_ms / 1e3, True), outcome)],
        resolved={
            "version": 1, "title": "", "source": "", "treatment": {"name": "standard", "changes": {}}, "block": 1,
            "seed": 7, "network": network, "patterns": {}, "workloads": [workload],
        },
    )  # fmt: skip
    write_trial(folder, partial, trial)
    record.trials.append(TrialLine("0001-standard", 1, "standard", 7, "valid"))
    write_run(folder, record)
    return folder
