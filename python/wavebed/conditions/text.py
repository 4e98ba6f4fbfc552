"""Conditions as text and as JSON data: the list, and the page of one of them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from wavebed.conditions import fiveqi, quic
from wavebed.conditions.condition import condition, condition_names
from wavebed.conditions.figures import SEEDS, figures_of
from wavebed.conditions.tables import TECHNOLOGIES
from wavebed.scene.files import shipped
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from wavebed.conditions.condition import Condition, Variant
    from wavebed.conditions.figures import Figures, Spread
    from wavebed.conditions.fiveqi import Profile
    from wavebed.conditions.tables import PublishedTable
    from wavebed.config.data import Json

__all__ = ["condition_json", "condition_text", "list_json", "list_text", "profile_json", "profile_text"]

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
            f"5QI profiles ({fiveqi.SOURCE}): {', '.join(fiveqi.PROFILES)}",
            f"QUIC network simulator, with its options: {', '.join(quic.NAMES)}",
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
    path = ", ".join(f"{key} {value}" for key, value in variant.path.items())
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


def _ours(figures: Figures) -> list[tuple[str, Spread, object]]:
    return [
        ("down, median of seconds", figures.down_median_bps, _rate),
        ("down, p5 of seconds", figures.down_p5_bps, _rate),
        ("down, p95 of seconds", figures.down_p95_bps, _rate),
        ("down, mean", figures.down_mean_bps, _rate),
        ("up, median of seconds", figures.up_median_bps, _rate),
        ("no service", figures.no_service, _percent),
        ("longest gap", figures.longest_gap_s, _seconds),
    ]


def _said(spread: Spread, write: object) -> tuple[str, str, str]:
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


def _spread_json(spread: Spread, digits: int) -> dict[str, Json]:
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
        "source": fiveqi.SOURCE,
        "statement": fiveqi.STATEMENT,
    }


def profile_text(name: str, profile: Profile) -> str:
    """Return the page of a 5QI profile."""
    return "\n".join(
        [
            f"{name}: {profile.service} ({profile.resource})",
            "",
            f"delay {profile.delay_ms} ms one way, loss {profile.error}, in each direction; no rate limit",
            fiveqi.STATEMENT,
            f"source: {fiveqi.SOURCE}",
        ]
    )


def list_json() -> dict[str, Json]:
    """Return everything that has a name as JSON data."""
    return {
        "conditions": [condition_json(condition(name)) for name in condition_names()],
        "profiles": [profile_json(name, profile) for name, profile in fiveqi.PROFILES.items()],
        "simulator": list(quic.NAMES),
        "scenes": list(shipped()),
    }
