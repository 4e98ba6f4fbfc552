"""The pictures of bufferbloat: capacity, throughput, queue and ping over one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from bufferbloat_plan import DEEP, FALLING_LINK, PHONE, SCENE_END_S, SHALLOW, USB, Cell, Course
from experiments import echoes

from wavebed.page.charts import INK, blank, styled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.page.charts import Axes
    from wavebed.store.load import Run

Dash: TypeAlias = "str | tuple[float, tuple[float, ...]]"

DPI: Final = 100
BIN_MS: Final = 100
PING_TICKS_MS: Final = (20, 50, 100, 200, 500, 1000, 2000)
# Okabe and Ito's palette, with a dash for each line.
STYLES: Final[tuple[tuple[str, Dash], ...]] = (
    ("#d55e00", "-"),
    ("#0072b2", (0, (5, 1.5))),
    ("#009e73", (0, (1.5, 1.2))),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """Cells that share a link, with their legends."""

    file: str
    title: str
    lines: Sequence[tuple[str, Cell]]
    end_s: float


def _falling(direction: str, name: str) -> Picture:
    return Picture(
        f"bufferbloat-{name}.png",
        f"One flow, {name}, rate falls from 300 to 60 Mbit/s",
        [
            ("CUBIC, 20 MiB", Cell(FALLING_LINK, direction, DEEP, "cubic")),
            ("BBR, 20 MiB", Cell(FALLING_LINK, direction, DEEP, "bbr")),
            ("CUBIC, 256 KiB", Cell(FALLING_LINK, direction, SHALLOW, "cubic")),
        ],
        Course().end_s,
    )


PICTURES: Final = (
    _falling("down", "download"),
    _falling("up", "uplink"),
    Picture(
        "bufferbloat-devices.png",
        "Four flows, download, scenes bbr-5g-phone-mobile and bbr-5g-usb-mobile",
        [
            ("phone, CUBIC", Cell(PHONE, "down", DEEP, "cubic", 4)),
            ("phone, BBR", Cell(PHONE, "down", DEEP, "bbr", 4)),
            ("USB modem, CUBIC", Cell(USB, "down", DEEP, "cubic", 4)),
        ],
        SCENE_END_S,
    ),
)


def draw_all(folder: Path, run: Run) -> None:
    """Write every picture, from the trials of the first seed."""
    trials = {line.treatment: line.folder for line in run.record.trials if line.block == 1}
    for picture in PICTURES:
        _draw(folder / picture.file, picture, run, [trials[cell.name] for _, cell in picture.lines])


def _draw(file: Path, picture: Picture, run: Run, trials: Sequence[str]) -> None:
    with styled():
        figure, _ = blank(9.0, 8.2, DPI, is_laid_out=True)
        panels = figure.subplots(4, 1, sharex=True, height_ratios=(0.8, 1.1, 1.1, 1.6))
        direction = picture.lines[0][1].direction
        _capacity(panels[0], run, trials[0], direction, picture.end_s)
        for trial, (label, _), (colour, dash) in zip(trials, picture.lines, STYLES, strict=True):
            style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.5, "label": label}
            _lines(panels[1:], run, trial, direction, style)
        _label(panels, picture.end_s)
        figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(file, metadata={"Software": None})


def _capacity(panel: Axes, run: Run, trial: str, direction: str, end_s: float) -> None:
    """Draw the capacity: the steps of a pattern, or the mean of each bin of a scene's channel."""
    steps = run.table("capacity", trial=trial)
    steps = steps[steps["link"] == f"radio.{direction}"]
    time_s, mbps = np.append(steps["time_s"], end_s), np.append(steps["rate_bps"], 0) / 1e6
    if len(steps) > 2 * end_s * 1e3 / BIN_MS:
        carried = np.append(0, np.cumsum(np.diff(time_s) * mbps[:-1]))
        edges = np.arange(0, end_s, BIN_MS / 1e3)
        time_s, mbps = edges, np.diff(np.interp(np.append(edges, end_s), time_s, carried), append=0)[:-1] * 1e3 / BIN_MS
    else:
        mbps[-1] = mbps[-2]
    panel.step(time_s, mbps, where="post", color=INK, linewidth=1.3)


def _lines(panels: Sequence[Axes], run: Run, trial: str, direction: str, style: dict[str, Any]) -> None:
    links = run.table("links", trial=trial, columns=["time_ms", "link", "delivered_bytes", "queue_peak_bytes"])
    links = links[(links["link"] == f"radio.{direction}") & (links["time_ms"] >= 0)]
    bins = links.groupby(links["time_ms"] // BIN_MS).agg({"delivered_bytes": "sum", "queue_peak_bytes": "max"})
    bins = bins.reindex(range(int(bins.index.max()) + 1), fill_value=0)
    middles_s = (bins.index + 0.5) * BIN_MS / 1e3
    panels[0].plot(middles_s, bins["delivered_bytes"] * 8 / BIN_MS / 1e3, **style)
    panels[1].plot(middles_s, (bins["queue_peak_bytes"] / 2**20).clip(lower=1e-3), **style)
    pings = echoes(run, trial)
    panels[2].plot(pings["time_s"], pings["value"], **style)


def _label(panels: Sequence[Axes], end_s: float) -> None:
    names = ("capacity\nMbit/s", "throughput\nMbit/s", "queue\nMiB (log)", "ping\nms (log)")
    for panel, name in zip(panels, names, strict=True):
        panel.set_ylabel(name)
        panel.grid(visible=True)
        panel.axvline(Course().idle_s, color=INK, linewidth=0.8, linestyle=":")
    for panel in panels[:2]:
        panel.set_ylim(0, 1.1 * panel.get_ylim()[1])
    panels[2].set_yscale("log")
    panels[2].set_ylim(0.01, 30)
    panels[2].set_yticks([0.01, 0.1, 0.25, 1, 4, 20], ["0.01", "0.1", "¼", "1", "4", "20"])
    panels[2].minorticks_off()
    panels[3].set_yscale("log")
    panels[3].set_ylim(PING_TICKS_MS[0], PING_TICKS_MS[-1] * 1.2)
    panels[3].set_yticks(PING_TICKS_MS, [str(tick) for tick in PING_TICKS_MS])
    panels[3].minorticks_off()
    panels[3].set_xlabel("time, s (dotted line: start of the transfer; an echo is drawn at its sending time)")
    panels[3].set_xlim(0, end_s)
