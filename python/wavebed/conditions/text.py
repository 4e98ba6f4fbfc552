"""Figures of conditions: computed by the channel model over several seeds, in virtual time, and kept in a file.

The list of conditions must be quick, so that the figures of each seed are stored with the conditions. A test computes
some of them again, and ``docs/validation/condition_figures.py`` all of them.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.conditions import lookup
from wavebed.conditions.condition import LOW_ORBIT, TECHNOLOGIES, condition, condition_names, low_orbit, radio_scene
from wavebed.foreign import read_text
from wavebed.scene.model import shipped
from wavebed.shipped import folder
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.channel.realisation import Realisation
    from wavebed.conditions.condition import Condition, PublishedTable, Variant
    from wavebed.conditions.lookup import Profile
    from wavebed.config.data import Json
    from wavebed.pattern.model import Pattern


SEEDS = range(1, 21)
FILE = "condition-figures.json"
SEED_FIGURES = (
    *("down_mean_bps", "down_median_bps", "down_p5_bps", "down_p95_bps"),
    *("up_median_bps", "no_service_ppm", "longest_gap_ms"),
)
"""What is kept of a seed: of whole seconds the mean rate and its statistics, and the time in which nothing is sent."""


class ConditionSpread(Struct, frozen=True):
    """A figure over seeds: its median, and the percentiles 5 and 95."""

    median: float
    low: float
    high: float


class ConditionFigures(Struct, frozen=True):
    """The figures of a variant.

    Parameters
    ----------
    seeds : tuple of int
        The seeds.
    down_mean_bps, down_median_bps, down_p5_bps, down_p95_bps : ConditionSpread
        Downlink rate that arrives at the first attempt, averaged over whole seconds: the mean, the median and the
        percentiles of the seconds of a seed.
    up_median_bps : ConditionSpread
        The same of the uplink: the median.
    no_service : ConditionSpread
        Fraction of time in outage or handover.
    longest_gap_s : ConditionSpread
        The longest time without a break in which nothing is sent.
    rtt_idle_ms : float
        Median round trip of a packet of 64 bytes in an idle path, by the link engine in virtual time.
    """

    seeds: tuple[int, ...]
    down_mean_bps: ConditionSpread
    down_median_bps: ConditionSpread
    down_p5_bps: ConditionSpread
    down_p95_bps: ConditionSpread
    up_median_bps: ConditionSpread
    no_service: ConditionSpread
    longest_gap_s: ConditionSpread
    rtt_idle_ms: float


@cache
def stored() -> dict[str, dict[str, object]]:
    """Return what is stored of each variant, as in the file: a list with a value for each seed, and the idle RTT."""
    found: dict[str, dict[str, object]] = json.loads(read_text(folder() / FILE, "install wavebed again"))
    return found


def figures_of(name: str) -> ConditionFigures:
    """Return the stored figures of a variant."""
    rows = stored()[name]

    def spread(key: str, unit: float = 1.0) -> ConditionSpread:
        values = rows[key]
        assert isinstance(values, list), "a value for each seed"
        return _spread([value * unit for value in values])

    rtt = rows["rtt_idle_us"]
    assert isinstance(rtt, int), "it is shipped"
    return ConditionFigures(
        seeds=tuple(SEEDS),
        **{key: spread(key) for key in SEED_FIGURES if key.endswith("_bps")},
        no_service=spread("no_service_ppm", 1e-6),
        longest_gap_s=spread("longest_gap_ms", 1e-3),
        rtt_idle_ms=rtt / 1e3,
    )


def _spread(values: Sequence[float]) -> ConditionSpread:
    """Return the median and the percentiles 5 and 95, with linear interpolation."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return ConditionSpread(at(0.5), at(0.05), at(0.95))


def seconds_bps(realisation: Realisation, direction: str) -> NDArray[np.float64]:
    """Return the mean of each whole second of what arrives at the first attempt, bits per second."""
    import numpy as np

    down = direction == "down"
    rate_bps = realisation.rate_bps if down else realisation.up_rate_bps
    bler = realisation.bler if down else realisation.up_bler
    arriving = rate_bps * (1 - bler)
    per_second = max(1, round(1 / realisation.scene.step_s))
    whole = arriving[: arriving.size // per_second * per_second]
    return np.asarray(whole.reshape(-1, per_second).mean(axis=1), dtype=np.float64)


def compute(name: str, seeds: Sequence[int] = SEEDS) -> dict[str, list[int]]:
    """Return the figures of each seed of a variant, by the channel model."""
    if name.endswith(f"/{LOW_ORBIT}"):
        rows = [_of_access(low_orbit(name), seed) for seed in seeds]
    else:
        from wavebed.channel import ensemble

        rows = [_of_seed(realisation) for realisation in ensemble(radio_scene(name), "3gpp", seeds)]
    return {key: [row[key] for row in rows] for key in SEED_FIGURES}


def _of_seed(realisation: Realisation) -> dict[str, int]:
    down, up = (seconds_bps(realisation, direction) for direction in ("down", "up"))
    return _figures(down, up, realisation.rate_bps == 0, realisation.scene.step_s)


def _of_access(access: LowOrbit, seed: int) -> dict[str, int]:
    import numpy as np

    from wavebed.channel.low_orbit import STEP_NS, STEPS_PER_S, to_pattern

    rates = []
    for pattern in (to_pattern(access, seed, "down"), to_pattern(access, seed, "up")):
        assert pattern.rate_bps is not None, "it has all columns"
        rates.append(np.repeat(pattern.rate_bps, pattern.lengths() // STEP_NS))
    down, up = (each.reshape(-1, STEPS_PER_S).mean(axis=1) for each in rates)
    return _figures(down, up, rates[0] == 0, STEP_NS / 1e9)


def _figures(
    down: NDArray[np.float64], up: NDArray[np.float64], silent: NDArray[np.bool_], step_s: float
) -> dict[str, int]:
    import numpy as np

    low, median, high = np.percentile(down, (5, 50, 95)).tolist()
    edges = np.diff(np.concatenate(([0], silent.astype(np.int8), [0])))
    gaps = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    found = {
        "down_mean_bps": float(down.mean()),
        "down_median_bps": median,
        "down_p5_bps": low,
        "down_p95_bps": high,
        "up_median_bps": float(np.median(up)),
    }
    return {
        **{key: round(value, -3) for key, value in ((key, round(value)) for key, value in found.items())},
        "no_service_ppm": round(float(silent.mean()) * 1e6),
        "longest_gap_ms": round(float(gaps.max(initial=0)) * step_s * 1e3),
    }


def text(rows: dict[str, dict[str, object]]) -> str:
    """Return the file: a line for each figure."""
    lines = []
    for name in sorted(rows):
        inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in rows[name].items())
        lines.append(f"  {json.dumps(name)}: {{\n{inner}\n  }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


WINDOW_NS = 100_000_000
"""Of the mean rates that are drawn."""


def render(variants: Sequence[Variant], seed: int, kind: str) -> bytes:
    """Return the picture of one seed of these variants.

    Parameters
    ----------
    kind : {"png", "svg", "html"}
        The file format.
    """
    from wavebed.pattern.curves import draw

    drawings = [draw(_rates(variant, seed), variant.name) for variant in variants]
    if kind == "html":
        from wavebed.pattern.plot import render_page

        return render_page(drawings, stacked=True)
    from wavebed.pattern.plot import render_picture

    return render_picture(drawings, kind, stacked=True)


def _rates(variant: Variant, seed: int) -> Pattern:
    """Return the mean rates of windows, which show the form and not the fading."""
    from wavebed.channel import realise, to_pattern
    from wavebed.pattern.resample import window_rates

    if variant.technology == LOW_ORBIT:
        from wavebed.channel import low_orbit as model

        pattern = model.to_pattern(low_orbit(variant.name), seed, "down")
    else:
        pattern = to_pattern(realise(radio_scene(variant.name), "3gpp", seed), "down")
    title = f"{variant.name}: {TECHNOLOGIES[variant.technology]}, seed {seed}"
    return replace(window_rates(pattern, WINDOW_NS), header=(("title", title),))


WIDTH = 118
COLUMNS = ("name", "down median", "p5", "p95", "RTT idle", "no service", "condition")
OURS = f"ours: medians (percentiles 5 to 95) of seeds {SEEDS[0]} to {SEEDS[-1]}, by the channel model in virtual time"
METHOD = (
    "Rates are what arrives at the first attempt, averaged over whole seconds, without transport protocol and headers;"
    " the RTT is that of a packet of 64 bytes in an idle path; no service is the time in outage or handover."
)


def _rate(value_bps: float) -> str:
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s")):
        if value_bps >= scale:
            return f"{value_bps / scale:.3g} {unit}"
    return f"{value_bps / 1e3:.3g} kbit/s" if value_bps else "0"


def _percent(value: float) -> str:
    return "0" if value == 0 else f"{value * 100:.2g} %"


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _seconds(value_s: float) -> str:
    return _ms(value_s * 1e3) if value_s < 1 else f"{value_s:.3g} s"


def list_text() -> str:
    """Return the list of all names, the conditions with their figures."""
    every = [condition(name) for name in condition_names()]
    rows = [
        _row(variant, found.line if variant is found.variants[0] else "")
        for found in every
        for variant in found.variants
    ]
    return "\n".join(
        [
            table_text(_aligned([COLUMNS, *rows]), left=True),
            "",
            f"Medians of seeds {SEEDS[0]} to {SEEDS[-1]}. A name without a variant is its first one.",
            "",
            f"5QI profiles ({lookup.SOURCE}): {', '.join(lookup.PROFILES)}",
            f"QUIC network simulator, with its options: {', '.join(lookup.SIMULATOR_NAMES)}",
            f"radio scenes: {', '.join(shipped())}",
            "",
            "wavebed scenes NAME explains one; wavebed shell --scene NAME runs behind it.",
        ]
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return rows whose figures are aligned to the right, between a name and a text that are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (row[0], *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)), row[-1])
        for row in rows
    ]


def _row(variant: Variant, line: str) -> tuple[str, ...]:
    figures = figures_of(variant.name)
    return (
        variant.name,
        _rate(figures.down_median_bps.median),
        _rate(figures.down_p5_bps.median),
        _rate(figures.down_p95_bps.median),
        _ms(figures.rtt_idle_ms),
        _percent(figures.no_service.median),
        line,
    )


def _paragraph(head: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"{head:<9}", subsequent_indent=" " * 9)


def condition_text(found: Condition, only: Variant | None = None) -> str:
    """Return the page of a condition, or of one of its variants."""
    variants = found.variants if only is None else (only,)
    lines = [
        f"{found.name}: {found.title}",
        "",
        _paragraph("happens", found.happens),
        _paragraph("shows", found.shows),
        "",
        textwrap.fill(f"{OURS}. {METHOD}", WIDTH),
    ]
    for variant in variants:
        lines += ["", *_variant_lines(variant)]
    lines += [
        "",
        f"wavebed shell --scene {variants[0].name} -- CMD",
        f"wavebed channel {variants[0].name} --plot channel.png",
    ]
    return "\n".join(lines)


def _variant_lines(variant: Variant) -> list[str]:
    figures = figures_of(variant.name)
    path = ", ".join(f"{key} {value}" for key, value in variant.path.items()) or "no further keys"
    rows = [
        ("", "median", "p5", "p95"),
        *((name, *_said(spread, write)) for name, spread, write in _ours(figures)),
        ("RTT idle", _ms(figures.rtt_idle_ms), "", ""),
    ]
    lines = [f"{variant.name}: {TECHNOLOGIES[variant.technology]}; {path}", *_indented(table_text(rows))]
    if variant.note:
        lines += textwrap.wrap(variant.note, WIDTH, initial_indent="  ", subsequent_indent="  ")
    if not variant.published:
        lines.append("  published: none found; illustrative")
    for figure in variant.published:
        lines += _published_lines(figure)
    return lines


def _ours(figures: ConditionFigures) -> list[tuple[str, ConditionSpread, object]]:
    return [
        ("down, median of seconds", figures.down_median_bps, _rate),
        ("down, p5 of seconds", figures.down_p5_bps, _rate),
        ("down, p95 of seconds", figures.down_p95_bps, _rate),
        ("down, mean", figures.down_mean_bps, _rate),
        ("up, median of seconds", figures.up_median_bps, _rate),
        ("no service", figures.no_service, _percent),
        ("longest gap", figures.longest_gap_s, _seconds),
    ]


def _said(spread: ConditionSpread, write: object) -> tuple[str, str, str]:
    assert callable(write), "of _ours"
    return write(spread.median), write(spread.low), write(spread.high)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _published_lines(figure: PublishedTable) -> list[str]:
    said = f"published, {figure.figure.replace('-', ' ')}: {figure.says} [{figure.source}]"
    lines = textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if figure.value is not None and figure.within is not None:
        unit = "" if figure.figure != "no-service" else " of the time"
        said = f"tested: ours within {figure.within * 100:g} %{unit} of {figure.value}, because {figure.because}"
        lines += textwrap.wrap(said, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


def _spread_json(spread: ConditionSpread, digits: int) -> dict[str, Json]:
    return {
        "p50": round(spread.median, digits),
        "p5": round(spread.low, digits),
        "p95": round(spread.high, digits),
    }


def _variant_json(variant: Variant) -> dict[str, Json]:
    figures = figures_of(variant.name)
    return {
        "name": variant.name,
        "technology": variant.technology,
        "path": {key: str(value) for key, value in variant.path.items()},
        "note": variant.note,
        "seeds": list(figures.seeds),
        "down_mean_bps": _spread_json(figures.down_mean_bps, 0),
        "down_median_bps": _spread_json(figures.down_median_bps, 0),
        "down_p5_bps": _spread_json(figures.down_p5_bps, 0),
        "down_p95_bps": _spread_json(figures.down_p95_bps, 0),
        "up_median_bps": _spread_json(figures.up_median_bps, 0),
        "no_service_share": _spread_json(figures.no_service, 6),
        "longest_gap_s": _spread_json(figures.longest_gap_s, 3),
        "rtt_idle_ms": figures.rtt_idle_ms,
        "illustrative": not variant.published,
        "published": [
            {"figure": figure.figure, "says": figure.says, "source": figure.source} for figure in variant.published
        ],
    }


def condition_json(found: Condition, only: Variant | None = None) -> dict[str, Json]:
    """Return a condition as JSON data, the unit in each key."""
    variants = found.variants if only is None else (only,)
    return {
        "kind": "condition",
        "name": found.name,
        "title": found.title,
        "line": found.line,
        "happens": found.happens,
        "shows": found.shows,
        "variants": [_variant_json(variant) for variant in variants],
    }


def profile_json(name: str, profile: Profile) -> dict[str, Json]:
    """Return a 5QI profile as JSON data."""
    return {
        "kind": "5qi",
        "name": name,
        "resource": profile.resource,
        "packet_delay_budget_ms": profile.delay_ms,
        "packet_error_rate": profile.error,
        "service": profile.service,
        "source": lookup.SOURCE,
        "statement": lookup.STATEMENT,
    }


def profile_text(name: str, profile: Profile) -> str:
    """Return the page of a 5QI profile."""
    return "\n".join(
        [
            f"{name}: {profile.service} ({profile.resource})",
            "",
            f"delay {profile.delay_ms} ms one way, loss {profile.error}, in each direction; no rate limit",
            lookup.STATEMENT,
            f"source: {lookup.SOURCE}",
        ]
    )


def list_json() -> dict[str, Json]:
    """Return everything that has a name as JSON data."""
    return {
        "conditions": [condition_json(condition(name)) for name in condition_names()],
        "profiles": [profile_json(name, profile) for name, profile in lookup.PROFILES.items()],
        "simulator": list(lookup.SIMULATOR_NAMES),
        "scenes": list(shipped()),
    }
