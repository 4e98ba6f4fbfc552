"""The folder of a reproduction: a folder for each device, the tables, and a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.beneath import guard, remove_tree
from wavebed.foreign import read_bytes
from wavebed.forward.comparison import compare, comparison_csv, comparison_json
from wavebed.forward.folder import RAW_FOLDER, SAMPLE_FILE, ForwardRecord, read_forward, write_forward
from wavebed.forward.report.build import REPORT_FILE, write_forward_report
from wavebed.forward.report.compare import comparison_page
from wavebed.output import replace_file, write_output
from wavebed.reproduce.small_packets import KINDS, PUBLISHED, PUBLISHED_CPU, SOURCE
from wavebed.reproduce.small_packets_text import beside_sections
from wavebed.result.machine import versions
from wavebed.result.names import DEVICES_FOLDER, INCOMPLETE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.forward.comparison import DeviceComparison
    from wavebed.reproduce.small_packets import Reproduction


def write_reproduction(
    folder: Path, reproduction: Reproduction, comparison: DeviceComparison, seed: int, command_line: Sequence[str]
) -> Path:
    """Write everything beside the trials, and return where the page is; what an earlier call wrote is replaced."""
    guard(folder)
    remove_tree(folder / DEVICES_FOLDER)
    for result in reproduction.results:
        raw = reproduction.raw.get(result.kind, {})
        device = folder / DEVICES_FOLDER / result.device
        found = versions(["iperf3"] if raw else [])
        write_forward(device, ForwardRecord(result, tuple(command_line), found), raw)
        _copy_sample(folder, device, result.kind)
        write_forward_report(device)
    told = {**tables_json(comparison, reproduction), "seed": seed}
    write_output(folder / "tables.json", json.dumps(told, allow_nan=False, ensure_ascii=False, indent=1) + "\n")
    write_output(folder / "tables.csv", comparison_csv(comparison))
    return _write_page(folder / REPORT_FILE, comparison)


def _copy_sample(folder: Path, device: Path, kind: str) -> None:
    """Keep the sampled frames of the first round beside the result of all rounds."""
    first = min((folder / TRIALS_FOLDER).glob(f"*-{kind}/{RAW_FOLDER}/{SAMPLE_FILE}"), default=None)
    if first is not None:
        replace_file(device / RAW_FOLDER / SAMPLE_FILE, read_bytes(first, INCOMPLETE))


def write_reproduction_report(folder: Path, file: Path | None = None) -> Path:
    """Write the page again from the folders of the devices, and return where it is."""
    guard(folder)
    results = [read_forward(device).result for device in (folder / DEVICES_FOLDER).iterdir()]
    results.sort(key=lambda result: KINDS.index(result.kind) if result.kind in KINDS else len(KINDS))
    return _write_page(file or folder / REPORT_FILE, compare(results))


def _write_page(page: Path, comparison: DeviceComparison) -> Path:
    write_output(page, comparison_page(comparison, beside_sections(comparison)))
    return page


def tables_json(comparison: DeviceComparison, reproduction: Reproduction) -> dict[str, Json]:
    """Return our tables, the order of the blocks, and the published figures."""
    iperf3: dict[str, Json] = {}
    for result in reproduction.results:
        told = result.to_plain()["beside"]
        iperf3[result.device] = told.get("iperf3") if isinstance(told, dict) else None
    return {
        "measured": comparison_json(comparison),
        "blocks": [list(block) for block in reproduction.blocks],
        "iperf3": iperf3,
        "published": {
            "source": SOURCE,
            "table_1": [{"test": test, "rate": rate, "cpu_share": cpu} for test, rate, cpu in PUBLISHED_CPU],
            "table_2": [one._asdict() for one in PUBLISHED],
        },
    }
