"""The folder of a reproduction: a folder for each device, the tables, and a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.forward.record import ForwardRecord
from wavebed.forward.report.build import write_forward_report
from wavebed.forward.report.compare import comparison_page
from wavebed.forward.tables import comparison_csv, comparison_json
from wavebed.forward.write import write_forward
from wavebed.output import write_output
from wavebed.reproduce.small_packets import PUBLISHED, PUBLISHED_CPU, SOURCE
from wavebed.reproduce.small_packets_text import beside_sections
from wavebed.result.machine import versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.forward.plain import Plain
    from wavebed.forward.tables import Comparison
    from wavebed.reproduce.small_packets import Reproduction

__all__ = ["tables_json", "write_reproduction"]


def write_reproduction(
    folder: Path, made: Reproduction, comparison: Comparison, seed: int, command_line: Sequence[str]
) -> Path:
    """Write everything beside the trials, and return where the page is."""
    for result in made.results:
        raw = made.raw.get(result.kind, {})
        device = folder / "devices" / result.device
        found = versions(["iperf3"] if raw else [])
        write_forward(device, ForwardRecord(result, tuple(command_line), found), raw)
        write_forward_report(device)
    told = {**tables_json(comparison, made), "seed": seed}
    write_output(folder / "tables.json", json.dumps(told, allow_nan=False, ensure_ascii=False, indent=1) + "\n")
    write_output(folder / "tables.csv", comparison_csv(comparison))
    page = folder / "report.html"
    write_output(page, comparison_page(comparison, beside_sections(comparison)))
    return page


def tables_json(comparison: Comparison, made: Reproduction) -> dict[str, Plain]:
    """Return our tables, the order of the blocks, and the published figures."""
    iperf3: dict[str, Plain] = {}
    for result in made.results:
        told = result.to_plain()["beside"]
        iperf3[result.device] = told.get("iperf3") if isinstance(told, dict) else None
    return {
        "measured": comparison_json(comparison),
        "blocks": [list(block) for block in made.blocks],
        "iperf3": iperf3,
        "published": {
            "source": SOURCE,
            "table_1": [{"test": test, "rate": rate, "cpu_share": cpu} for test, rate, cpu in PUBLISHED_CPU],
            "table_2": [one._asdict() for one in PUBLISHED],
        },
    }
