"""Compare the model with public traces: write a picture, and tables to `recorded/real-traces.txt`.

The traces are looked for in the folder that WAVEBED_TRACES names.
"""

from __future__ import annotations

import os
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import real_traces_data as data
from real_traces_data import IDLE_GROUPS, MMWAVE_LOST_MBPS, MMWAVE_OUTAGE_MBPS, Outages, Pair, ks_distance
from real_traces_pictures import draw_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from real_traces_data import Efficiency, Probes

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "real-traces.txt"
IMAGES: Final = HERE.parent / "images"
END: Final = "<!-- end -->"
NONE: Final = "–"

Row: TypeAlias = "Sequence[str]"


def main() -> int:
    """Write everything; 2 if there are no traces."""
    folder = Path(os.environ.get("WAVEBED_TRACES", HERE.parents[1] / ".." / "shared" / "traces"))
    if not folder.is_dir():
        print(f"{folder}: no such folder: name the traces' in WAVEBED_TRACES", file=sys.stderr)
        return 2
    pairs, levels, idle = data.rate_pairs(folder), data.efficiency(folder), data.probes(folder)
    draw_rates(IMAGES / "real-traces-rates.png", pairs)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_tables(page, tables(folder, pairs, levels, idle)), encoding="utf-8")
    return 0


def with_tables(page: str, new: Mapping[str, str]) -> str:
    """Put each table between its two comments."""
    for name, table in new.items():
        head, rest = page.split(f"<!-- table {name} -->\n")
        page = f"{head}<!-- table {name} -->\n{table}{rest[rest.index(END) :]}"
    return page


def tables(folder: Path, pairs: Sequence[Pair], levels: Efficiency, idle: Probes) -> dict[str, str]:
    """Return each table of the page, in Markdown. Where a cell has two values, the first is the model's."""
    changed = data.changed_pairs(folder)
    return {
        "rates": _markdown(
            "model|measured|seconds|median, Mbit/s|above 200|KS|KS of shape|KS above 200", _rates(pairs)
        ),
        "changes": _markdown("model|measured|median, Mbit/s|KS", _changes(changed)),
        "walks": _markdown("one|other|seconds|KS|KS above 200", _walks(folder)),
        "sinr": _markdown("what|value", _sinr(levels)),
        "outages": _markdown(
            "model|measured|below, Mbit/s|times|fraction of time|median, s|longest, s|KS", _outages(pairs)
        ),
        "idle": _markdown("state|idle, s|probes|mean RTT, ms|KS", _idle(idle)),
    }


def _markdown(head: str, rows: Iterable[Row]) -> str:
    names = head.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _beside(one: object, other: object) -> str:
    """Write the model's value and the measured one."""
    return f"{one} / {other}"


def _rates(pairs: Sequence[Pair]) -> Iterable[Row]:
    for pair in pairs:
        one, other = pair.model.rates, pair.measured.rates
        yield (
            pair.model.name,
            pair.measured.name,
            _beside(one.size, other.size),
            _beside(_short(np.median(one)), _short(np.median(other))),
            _beside(*(f"{100 * (rates > data.ON_MMWAVE_MBPS).mean():.0f} %" for rates in (one, other))),
            f"{pair.distance:.2f}",
            f"{pair.shape_distance:.2f}",
            _fast(pair),
        )


def _changes(pairs: Sequence[Pair]) -> Iterable[Row]:
    for pair in pairs:
        medians = _beside(*(_short(np.median(runs.rates)) for runs in (pair.model, pair.measured)))
        yield pair.model.name, pair.measured.name, medians, f"{pair.distance:.2f}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _walks(folder: Path) -> Iterable[Row]:
    for one, other in combinations([*data.WALKING, *data.DRIVING], 2):
        first, second = (data.lumos(folder, name.removesuffix(".txt"), (name,)) for name in (one, other))
        pair = Pair(first, second)
        sizes = _beside(pair.model.rates.size, pair.measured.rates.size)
        yield pair.model.name, pair.measured.name, sizes, f"{pair.distance:.2f}", _fast(pair)


def _fast(pair: Pair) -> str:
    distance = pair.fast_distance
    return NONE if distance is None else f"{distance:.2f}"


def _sinr(levels: Efficiency) -> Iterable[Row]:
    yield "samples", str(levels.sinr_db.size)
    yield "KS of rates divided by their 95th percentile", f"{levels.shape_distance:.2f}"
    yield "correlation of the two rates", f"{np.corrcoef(levels.model, levels.measured)[0, 1]:.2f}"


def _outages(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Yield a row for each pair and threshold; models without any such time share one."""
    without: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        mmwave = pair.threshold_mbps == MMWAVE_OUTAGE_MBPS
        for threshold in (MMWAVE_OUTAGE_MBPS, MMWAVE_LOST_MBPS) if mmwave else (pair.threshold_mbps,):
            one, other = (data.outages(runs, threshold) for runs in (pair.model, pair.measured))
            if one.lengths_s.size == 0:
                without.setdefault((pair.measured.name, f"{threshold:g}"), []).append(pair.model.name)
                continue
            yield (
                pair.model.name,
                pair.measured.name,
                f"{threshold:g}",
                _beside(one.lengths_s.size, other.lengths_s.size),
                _beside(f"{100 * one.fraction:.1f} %", f"{100 * other.fraction:.1f} %"),
                _beside(_length(one, 50), _length(other, 50)),
                _beside(_length(one, 100), _length(other, 100)),
                f"{ks_distance(one.lengths_s, other.lengths_s):.2f}",
            )
    measured = {pair.measured.name: pair.measured for pair in pairs}
    for (name, threshold_text), models in without.items():
        found = data.outages(measured[name], float(threshold_text))
        yield (
            "; ".join(models),
            name,
            threshold_text,
            _beside(0, found.lengths_s.size),
            _beside("0", f"{100 * found.fraction:.1f} %"),
            _beside(NONE, _length(found, 50)),
            _beside(NONE, _length(found, 100)),
            NONE,
        )


def _length(found: Outages, percentile: float) -> str:
    return f"{np.percentile(found.lengths_s, percentile):g}" if found.lengths_s.size else NONE


def _idle(idle: Probes) -> Iterable[Row]:
    for name, low_s, high_s in IDLE_GROUPS:
        group = idle.between(low_s, high_s)
        yield (
            name,
            f"{low_s:g} to {high_s:g}",
            str(group.idle_s.size),
            _beside(f"{group.model_ms.mean():.0f}", f"{group.measured_ms.mean():.0f}"),
            f"{group.distance:.2f}",
        )


if __name__ == "__main__":
    raise SystemExit(main())
