"""Steady throughput by models of TCP beside ours, for each cell of which the models know the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import Table
from wavebed.report.numbers import MISSING, figure
from wavebed.reproduce.steady import steady_of
from wavebed.reproduce.tcp_models import bbr_mbps, cubic_mbps, mathis_mbps, pftk_mbps
from wavebed.result.names import SPEC_FILE, TRIALS_FOLDER
from wavebed.spec.trial import load_spec

if TYPE_CHECKING:
    from wavebed.campaign.report.tables import Cell
    from wavebed.reproduce.steady import Steady
    from wavebed.reproduce.study import PartResults

__all__ = ["models_table"]

_GOODPUT = "goodput"
_HEAD = ("loss, %", "round trip, ms", "flows", "Mathis", "CUBIC", "PFTK", "BBR")
_CAPTION = (
    "Mbit/s. Models of steady flows with independent losses, without slow start, buffers and queues: Mathis and others"
    " (1997), CUBIC (RFC 9438, section 5.1), PFTK (1998) with timeouts of Linux, and BBR, which fills the link whatever"
    " is lost. Ours are sent with CUBIC where the table names no algorithm."
)


def models_table(part: PartResults) -> Table:
    """Return the models beside our median goodput: a row for each cell; none if the part asks for no models."""
    name = f"{part.part.name}-models"
    results = part.results
    folders = {line.treatment: line.folder for line in reversed(results.run.trials)} if part.part.models else {}
    steady: dict[str, Steady] = {}
    for cell, folder in folders.items():
        file = results.folder / TRIALS_FOLDER / folder / SPEC_FILE
        found = steady_of(load_spec(file, "run the study again")) if file.exists() else None
        if found is not None and found.loss > 0:
            steady[cell] = found
    if not steady:
        return Table(name, "", (), ())
    medians = {
        metric: dict(zip(results.cells, matrix.medians().estimate.tolist(), strict=True))
        for (_, metric), matrix in results.matrices.items()
        if metric.startswith(_GOODPUT)
    }
    rows: list[list[Cell]] = [
        [
            *results.levels[cell].values(),
            *_modelled(steady[cell]),
            *(figure(values[cell]) for values in medians.values()),
        ]
        for cell in results.cells
        if cell in steady
    ]
    head = [*next(iter(results.levels.values())), *_HEAD, *(f"our {metric}" for metric in medians)]
    return Table(name, _CAPTION, head, rows)


def _modelled(path: Steady) -> list[Cell]:
    each = [model(path.loss, path.rtt, path.mss) * path.flows for model in (mathis_mbps, cubic_mbps, pftk_mbps)]
    filled = MISSING if path.link_mbps is None else figure(bbr_mbps(path.loss, path.link_mbps, path.mss))
    return [f"{100 * path.loss:.3g}", f"{1000 * path.rtt:.3g}", path.flows, *map(figure, each), filled]
