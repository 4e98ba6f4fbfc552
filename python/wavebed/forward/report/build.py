"""The page of one device's forwarding test: one HTML file that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.folder import read_forward
from wavebed.forward.report.device import (
    beside_section,
    bursts_section,
    cpu_section,
    head,
    latency_section,
    loss_rate_section,
    rates_section,
)
from wavebed.forward.report.proof import plan_section, proof_section, repeat_section, trials_section
from wavebed.output import write_output
from wavebed.page import asset
from wavebed.page.document import document, joined

if TYPE_CHECKING:
    from pathlib import Path

    from markupsafe import Markup

    from wavebed.forward.folder import ForwardRecord

MOST_BYTES = 3_000_000
MOST_TRIALS = (3000, 1000, 300)
REPORT_FILE = "report.html"


def write_forward_report(folder: Path, file: Path | None = None) -> Path:
    """Write the page of a test; it appears whole or not at all.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of results.
    file : pathlib.Path, optional
        Where to write it; by default ``report.html`` in `folder`.

    Returns
    -------
    pathlib.Path
        Where it is.

    Raises
    ------
    UserError
        If the folder holds no forwarding test, or the file cannot be written.
    """
    from wavebed.forward.folder import ForwardRecord

    run = read_forward(folder)
    record = ForwardRecord(run.result, run.record.command_line, run.record.versions)
    target = file or folder / REPORT_FILE
    write_output(target, small_page(record))
    return target


def small_page(record: ForwardRecord, most_bytes: int = MOST_BYTES) -> str:
    """Return the page, with as many trials as fit; all are in the tables of the results."""
    text = ""
    for most in (*MOST_TRIALS, 0):
        text = page(record, most)
        if len(text.encode()) < most_bytes:
            break
    return text


def page(record: ForwardRecord, most_trials: int = MOST_TRIALS[0]) -> str:
    """Return the page with at most `most_trials` trials in its table."""
    result = record.result
    sections = (
        head(record),
        rates_section(result),
        beside_section(result),
        loss_rate_section(result),
        latency_section(result),
        bursts_section(result),
        cpu_section(result),
        proof_section(result),
        plan_section(result),
        trials_section(result, most_trials),
        repeat_section(record),
    )
    return forward_document(f"Small packets through {result.device}", joined(sections))


def forward_document(title: str, body: Markup) -> str:
    """Return a page with the style and script of charts."""
    return document(title, body, asset("chart.js"), asset("chart.css"))
