"""The pictures of bufferbloat: capacity, throughput, queue and ping over one time axis."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bufferbloat_plan import PHONE, SCENE_COURSE, USB
from bufferbloat_run import DEEP, SHALLOW, Cell, Course
from bufferbloat_series import binned, read_capacity

from wavebed.pattern.plot import INK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bufferbloat_run import Result
    from matplotlib.axes import Axes

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
            ("CUBIC, 20 MiB", Cell("falling", direction, DEEP, "cubic")),
            ("BBR, 20 MiB", Cell("falling", direction, DEEP, "bbr")),
            ("CUBIC, 256 KiB", Cell("falling", direction, SHALLOW, "cubic")),
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
        SCENE_COURSE.end_s,
    ),
)


def draw_all(folder: Path, results: Mapping[Cell, Sequence[Result]]) -> None:
    """Write every picture, each of the first seed."""
    for picture in PICTURES:
        _draw(folder / picture.file, picture, {cell: results[cell][0] for _, cell in picture.lines})


def _draw(file: Path, picture: Picture, results: Mapping[Cell, Result]) -> None:
    from matplotlib import rc_context, rc_params_from_file
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with resources.as_file(resources.files("wavebed.pattern").joinpath("picture.mplstyle")) as style:
        parameters = rc_params_from_file(style, use_default_template=False)
    with rc_context(parameters):
        figure = Figure(figsize=(9.0, 8.2), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(4, 1, sharex=True, height_ratios=(0.8, 1.1, 1.1, 1.6))
        _capacity(panels[0], results[picture.lines[0][1]])
        for (label, cell), (colour, dash) in zip(picture.lines, STYLES, strict=True):
            _lines(panels[1:], results[cell], label, colour, dash)
        _label(panels, results[picture.lines[0][1]], picture.end_s)
        figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(file, metadata={"Software": None})


def _capacity(panel: Axes, result: Result) -> None:
    if result.cell.link == "falling":
        steps = Course().steps()
        time_s = [at_s for at_s, _, _ in steps] + [Course().end_s]
        mbps = [value for _, value, _ in steps] + [steps[-1][1]]
    else:
        time_s, mbps = _scene_capacity(result)
    panel.step(time_s, mbps, where="post", color=INK, linewidth=1.3)


def _scene_capacity(result: Result) -> tuple[list[float], list[float]]:
    """Return the mean of each bin of what the scene's channel carries with the laboratory's seed."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pattern.csv"
        command = [sys.executable, "-m", "wavebed", "channel", result.cell.link, "--seed", str(result.seed)]
        subprocess.run([*command, "-o", str(file)], check=True, stdout=subprocess.DEVNULL)
        capacity = read_capacity(file)
    width_s = BIN_MS / 1e3
    time_s = [number * width_s for number in range(int(capacity.duration_s / width_s))]
    return time_s, [capacity.bits(at_s, at_s + width_s) / width_s / 1e6 for at_s in time_s]


def _lines(panels: Sequence[Axes], result: Result, label: str, colour: str, dash: Dash) -> None:
    style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.5, "label": label}
    delivered = binned(result.series.delivered_bytes, BIN_MS, "sum")
    queued = binned(result.series.queue_peak_bytes, BIN_MS, "max")
    middles_s = [(number + 0.5) * BIN_MS / 1e3 for number in range(len(delivered))]
    panels[0].plot(middles_s, [(value or 0) * 8 / BIN_MS / 1e3 for value in delivered], **style)
    panels[1].plot(middles_s, [max((value or 0) / 2**20, 1e-3) for value in queued], **style)
    pings = sorted(result.pings)
    panels[2].plot([sent_s for sent_s, _ in pings], [rtt_ms for _, rtt_ms in pings], **style)


def _label(panels: Sequence[Axes], result: Result, end_s: float) -> None:
    names = ("capacity\nMbit/s", "throughput\nMbit/s", "queue\nMiB (log)", "ping\nms (log)")
    for panel, name in zip(panels, names, strict=True):
        panel.set_ylabel(name)
        panel.grid(visible=True)
        panel.axvline(result.load_s[0], color=INK, linewidth=0.8, linestyle=":")
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
    panels[3].set_xlabel("time, s (the transfer begins at the dotted line; an echo stands where it was sent)")
    panels[3].set_xlim(0, end_s)
