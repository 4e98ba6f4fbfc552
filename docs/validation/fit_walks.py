"""Fit the measured walks, and write their tables to `recorded/fit-walks.txt`.

The traces are looked for in the folder that WAVEBED_TRACES names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wavebed.fit.judgement import fit_map
from wavebed.fit.laps import DEFAULT_RULE, find_files, split
from wavebed.fit.page import distance_rows, prediction_rows, trait_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.fit.judgement import FitJudgement

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "fit-walks.txt"
END: Final = "<!-- end -->"
KINDS: Final = ("mmwave", "last", "quarters", "lte")


def main() -> int:
    """Write the tables; 2 if there are no traces."""
    folder = Path(os.environ.get("WAVEBED_TRACES", HERE.parents[1] / ".." / "shared" / "traces"))
    if not folder.is_dir():
        print(f"{folder}: no such folder: name the traces' in WAVEBED_TRACES", file=sys.stderr)
        return 2
    page = PAGE.read_text(encoding="utf-8")
    for kind in KINDS:
        for name, table in tables(folder, kind).items():
            head, rest = page.split(f"<!-- table {name} -->\n")
            page = f"{head}<!-- table {name} -->\n{table}{rest[rest.index(END) :]}"
    PAGE.write_text(page, encoding="utf-8")
    return 0


def fitted(folder: Path, rule: str) -> FitJudgement:
    """Return the judgement of the walks of a folder by a rule."""
    files = [file for file in find_files([folder]) if "walking" in file.name]
    return fit_map(split(files, rule), "map", lambda _text, _left_s: None, lambda _places: None, [])[0]


def tables(folder: Path, kind: str) -> dict[str, str]:
    """Return the tables of one kind of network, or of the quarters, in Markdown."""
    if kind == "quarters":
        rows: list[Sequence[str]] = []
        for quarter in range(1, 5):
            head, *found = distance_rows(fitted(folder / "lumos-5g", f"quarter:{quarter}"))
            rows = rows or [("quarter", *head[:4])]
            rows += [(str(quarter), *row[:4]) for row in found if "median" in row[0] or "pooled" in row[0]]
        return {"quarters": markdown(rows)}
    if kind == "last":
        judgement = fitted(folder / "lumos-5g", "last:0.25")
        return {"last": markdown(distance_rows(judgement)), "last seconds": markdown(prediction_rows(judgement))}
    judgement = fitted(folder / ("lumos-5g" if kind == "mmwave" else "lumos-4g"), DEFAULT_RULE)
    return {
        f"{kind} distances": markdown(distance_rows(judgement)),
        f"{kind} traits": markdown(trait_rows(judgement)),
        f"{kind} seconds": markdown(prediction_rows(judgement)),
    }


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown; the first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
