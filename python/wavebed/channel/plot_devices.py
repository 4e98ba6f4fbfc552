"""The picture of a scene with several devices: the map with all of them, and the capacity of each over time."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from wavebed.channel.plot import LEFT, MAP_BELOW, MAP_TOP, RIGHT, WIDTH, Sheet, for_a_page
from wavebed.channel.plot_data import said_of, state_spans, walk_of
from wavebed.channel.plot_map import draw_devices, region_of
from wavebed.channel.summary import Gathering, SeedSpread, cells, step_edges_s
from wavebed.page.charts import COLOURS, FAINT, INK, STATE_COLOURS, figure_bytes, joined_spans, spans, styled
from wavebed.page.document import curves_page, filled
from wavebed.pattern.curves import Curve, say_rate
from wavebed.pattern.plot import DARK, TEMPLATE, curve_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.plot_data import Walk
    from wavebed.channel.plot_map import Region
    from wavebed.channel.realisation import Realisation
    from wavebed.channel.summary import Summary
    from wavebed.page.charts import Axes
    from wavebed.scene.model import SceneModel

    Floats = NDArray[np.float64]


BINS = 240
COLUMNS = ("device", "LOS", "SINR", "capacity down", "up", "BLER", "handovers")
HEADER, STATES_ROW, CHART, CHART_GAP, BESIDE = 0.78, 0.3, 0.62, 0.2, 0.14
MOST_IN_A_ROW = 4
TALLEST = 5.2
LINE = 0.165
LEAST_SPAN = 600
"""A span is drawn at least as wide as the whole time divided by this."""
PAGE_CHART = 96


class DeviceRow(NamedTuple):
    """The figures of a device over the seeds.

    Parameters
    ----------
    name : str
        Its name.
    summary : Summary
        As in a scene with one device.
    los_share : SeedSpread
        Fraction of the time with a line of sight to the serving base station.
    handovers : SeedSpread
        How often another base station begins to serve.
    """

    name: str
    summary: Summary
    los_share: SeedSpread
    handovers: SeedSpread

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table; the columns are `COLUMNS`."""
        _, _, _, _, *figures = cells(self.summary.whole)
        median, low, high = self.los_share
        share = f"{median:.0%}" if low == high else f"{median:.0%} ({low:.0%} to {high:.0%})"
        count, least, most = self.handovers
        times = f"{count:g}" if least == most else f"{count:g} ({least:g} to {most:g})"
        return (self.name, share.replace("%", " %"), *figures, times)


@dataclass
class _Device:
    """What is kept of a device."""

    first: Realisation
    gathering: Gathering
    rates_bps: list[Floats]
    los: list[float]
    handovers: list[float]


class DeviceAlbum:
    """Takes in the realisations of all devices, seed by seed, and keeps only what tables and pictures need."""

    def __init__(self) -> None:
        self._devices: dict[str, _Device] = {}
        self._all = Gathering()
        self._seeds: dict[int, None] = {}
        self._warnings: dict[str, None] = {}

    def add(self, realisation: Realisation) -> None:
        """Take in the realisation of one device."""
        name = realisation.scene.ue.name
        if name not in self._devices:
            self._devices[name] = _Device(realisation, Gathering(), [], [], [])
        device = self._devices[name]
        device.gathering.add(realisation)
        self._all.add(realisation)
        self._seeds[realisation.seed] = None
        self._warnings |= dict.fromkeys(realisation.warnings)
        edges, cuts = step_edges_s(realisation), self._cuts(realisation)
        done = np.concatenate(([0.0], np.cumsum(realisation.rate_bps * np.diff(edges))))
        device.rates_bps.append(np.diff(np.interp(cuts, edges, done)) / np.diff(cuts))
        device.los.append(float(np.average(realisation.los, weights=np.diff(edges))))
        device.handovers.append(float(np.count_nonzero(np.diff(realisation.serving))))

    @staticmethod
    def _cuts(realisation: Realisation) -> Floats:
        return np.linspace(0, realisation.scene.duration_s, min(BINS, len(realisation.time_s)) + 1)

    @property
    def seeds(self) -> list[int]:
        """The seeds that were taken in."""
        return list(self._seeds)

    @property
    def warnings(self) -> list[str]:
        """The warnings, each once."""
        return list(self._warnings)

    def summary(self) -> Summary:
        """Return the figures over all devices and seeds."""
        return self._all.summary()

    def rows(self) -> list[DeviceRow]:
        """Return the figures of each device."""
        return [
            DeviceRow(name, device.gathering.summary(), _spread(device.los), _spread(device.handovers))
            for name, device in self._devices.items()
        ]

    def view(self) -> DevicesView:
        """Prepare the picture; the map is of the first seed."""
        firsts = [device.first for device in self._devices.values()]
        cuts = self._cuts(firsts[0])
        curves = {}
        for name, device in self._devices.items():
            low, median, high = np.percentile(np.array(device.rates_bps), (5, 50, 95), axis=0)
            curves[name] = Curve(cuts, median, low, high)
        notes = [f"Warning: {warning}" for warning in self._warnings]
        if len(self._seeds) > 1:
            notes.append("Lines are medians over the seeds, bands their percentiles 5 to 95; map and states: seed 1.")
        notes.append("Each chart shows the capacity of the downlink that the device would have with all slots.")
        return DevicesView(
            scene=firsts[0].scene,
            subtitle=said_of(firsts[0], self.seeds),
            walks={each.scene.ue.name: walk_of(each, step_edges_s(each), each.state) for each in firsts},
            spans={each.scene.ue.name: state_spans(step_edges_s(each), each.state) for each in firsts},
            curves=curves,
            rows=self.rows(),
            notes=tuple(notes),
        )


@dataclass(frozen=True, eq=False)
class DevicesView:
    """Everything that a picture of several devices shows, by the name of the device."""

    scene: SceneModel
    subtitle: str
    walks: dict[str, Walk]
    spans: dict[str, dict[str, list[tuple[float, float]]]]
    curves: dict[str, Curve]
    rows: list[DeviceRow]
    notes: tuple[str, ...]

    @property
    def scale(self) -> tuple[float, str]:
        """What a unit of the charts is, in bits per second, and its name."""
        return (1e9, "Gbit/s") if self.highest_bps >= 1e9 else (1e6, "Mbit/s")

    @property
    def highest_bps(self) -> float:
        """The highest rate of any chart."""
        return max(float(curve.high.max()) for curve in self.curves.values())

    @property
    def states(self) -> list[str]:
        """The states of the radio that occur."""
        return [state for state in STATE_COLOURS if any(state in spans for spans in self.spans.values())]


def _spread(values: Sequence[float]) -> SeedSpread:
    low, median, high = np.percentile(np.array(values), (5, 50, 95)).tolist()
    return SeedSpread(median, low, high)


def _map_size(region: Region) -> tuple[float, float]:
    shape = region.width / region.height
    width = min(WIDTH - LEFT - RIGHT, TALLEST * shape)
    return width, width / shape


def devices_picture(view: DevicesView, kind: str = "png") -> bytes:
    """Draw everything into one picture; the same view makes the same bytes.

    Parameters
    ----------
    kind : {"png", "svg"}
        The file format.
    """
    with styled():
        region = region_of(view.scene)
        width, height = _map_size(region)
        columns = min(MOST_IN_A_ROW, max(1, round(len(view.curves) ** 0.5)))
        rows = -(-len(view.curves) // columns)
        lines = [line for note in view.notes for line in textwrap.wrap(note, 165)]
        top = HEADER + height + MAP_BELOW + STATES_ROW
        below = top + rows * (CHART + CHART_GAP) + 0.3
        sheet = Sheet(below + LINE * len(lines) + 0.12)
        title = textwrap.shorten(view.scene.title, 105, placeholder=" …")
        sheet.text(LEFT - 0.45, 0.16, title, fontsize=13, fontweight="bold")
        subtitle = textwrap.shorten(view.subtitle, 170, placeholder=" …")
        sheet.text(LEFT - 0.45, 0.43, subtitle, fontsize=9, color=FAINT)
        axes = sheet.axes(LEFT + (WIDTH - LEFT - RIGHT - width) / 2, HEADER, width, height)
        draw_devices(axes, view.scene, region, view.walks, sheet.renderer)
        for place, state in enumerate(view.states):
            sheet.text(
                LEFT + 1.1 * place,
                top - STATES_ROW,
                f"\N{BLACK SQUARE} {state}",
                fontsize=9,
                color=STATE_COLOURS[state],
            )
        wide = (WIDTH - LEFT - RIGHT - BESIDE * (columns - 1)) / columns
        for number, name in enumerate(view.curves):
            row, column = divmod(number, columns)
            chart = sheet.axes(LEFT + column * (wide + BESIDE), top + row * (CHART + CHART_GAP), wide, CHART)
            _draw_chart(chart, view, name, isleft=column == 0, islast=number + columns >= len(view.curves))
        for number, line in enumerate(lines):
            colour = "#8a3b00" if line.startswith("Warning") else FAINT
            sheet.text(LEFT - 0.45, below + LINE * number, line, fontsize=8, color=colour)
        return figure_bytes(sheet.figure, kind)


def _draw_chart(axes: Axes, view: DevicesView, name: str, *, isleft: bool, islast: bool) -> None:
    """Draw the capacity of one device, shaded by the state of its radio."""
    duration_s, (scale, unit), curve = view.scene.duration_s, view.scale, view.curves[name]
    for state, times in view.spans[name].items():
        if state != "los":
            spans(axes, times, duration_s / LEAST_SPAN, STATE_COLOURS[state])
    low, mean, high = (np.append(each, each[-1]) / scale for each in (curve.low, curve.mean, curve.high))
    if curve.banded:
        axes.fill_between(curve.edges, low, high, step="post", color=COLOURS[0], alpha=0.25, lw=0)
    axes.plot(curve.edges, mean, drawstyle="steps-post", color=COLOURS[0], lw=0.8)
    axes.set_xlim(0, duration_s)
    axes.set_ylim(0, view.highest_bps / scale * 1.3 or 1.0)
    axes.tick_params(length=2, labelsize=7, labelleft=isleft, labelbottom=islast)
    if islast:
        axes.set_xlabel("time  (s)", fontsize=7.5)
    if isleft:
        axes.set_ylabel(unit, fontsize=7.5)
    said = say_rate(float(f"{float(curve.mean.mean()):.3g}"))
    axes.text(0.01, 0.96, name, transform=axes.transAxes, ha="left", va="top", fontsize=7.5, color=INK)
    axes.text(0.99, 0.96, f"mean {said}", transform=axes.transAxes, ha="right", va="top", fontsize=7, color=FAINT)


def devices_map(view: DevicesView) -> tuple[str, Region, tuple[float, float, float, float]]:
    """Draw the map alone: its SVG, what it shows, and where that lies in it: left, top, width, height, as fractions."""
    with styled():
        region = region_of(view.scene)
        width, height = _map_size(region)
        sheet = Sheet(height + MAP_TOP + MAP_BELOW, LEFT + width + RIGHT)
        axes = sheet.axes(LEFT, MAP_TOP, width, height)
        draw_devices(axes, view.scene, region, view.walks, sheet.renderer)
        svg = figure_bytes(sheet.figure, "svg", clear=True).decode()
        box = (LEFT / sheet.width, MAP_TOP / sheet.height, width / sheet.width, height / sheet.height)
        return for_a_page(svg), region, box


def devices_page(view: DevicesView) -> bytes:
    """Make the page; the same view makes the same bytes."""
    svg, region, (left, top, width, height) = devices_map(view)
    scale, unit = view.scale
    high = view.highest_bps / scale * 1.06 or 1.0
    least = view.scene.duration_s / 2000
    walks = [
        {
            "time": np.round(walk.time_s, 4).tolist(),
            "x": np.round(left + (walk.position_m[:, 0] - region.left) / region.width * width, 5).tolist(),
            "y": np.round(top + (region.top - walk.position_m[:, 1]) / region.height * height, 5).tolist(),
        }
        for walk in view.walks.values()
    ]
    panels = [
        {
            "name": "",
            "unit": unit,
            "label": name,
            "height": PAGE_CHART,
            "base": 0.0,
            "top": high,
            "outages": [],
            "states": [
                {"colour": STATE_COLOURS[state], "spans": joined_spans(times, least)}
                for state, times in view.spans[name].items()
                if state != "los"
            ],
            "curves": [{**curve_data(curve, 0, scale), "name": name}],
        }
        for name, curve in view.curves.items()
    ]
    data = {
        "names": ["down"],
        "packets": False,
        "end": view.scene.duration_s,
        "colours": COLOURS,
        "dark": DARK,
        "panels": panels,
        "walks": walks,
    }
    states = [(STATE_COLOURS[state], state) for state in view.states]
    drawn = Markup(svg)  # noqa: S704 - drawn by ourselves
    return curves_page(
        view.scene.title,
        filled(TEMPLATE, "table", COLUMNS, [(None, row.cells()) for row in view.rows]),
        filled(TEMPLATE, "channel_foot", view.notes),
        data,
        top=filled(TEMPLATE, "devices_top", view.subtitle, drawn, states, list(view.walks)),
        map_width="1180px" if region.width > region.height else "640px",
    )
