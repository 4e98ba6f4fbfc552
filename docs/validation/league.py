"""Write the tables and the picture of a league's folder into `league.md`, `recorded` and `pictures`.

Usage: python docs/validation/league.py FOLDER

FOLDER is from `wavebed league -o FOLDER`.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from real_traces import with_tables

from wavebed.league.cells import SETTINGS_FILE, LeagueSettings
from wavebed.league.emulators import EMULATORS
from wavebed.league.page import League, text
from wavebed.page.charts import STYLES, Picture, panels
from wavebed.page.text import MISSING
from wavebed.result.machine import machine

if TYPE_CHECKING:
    from wavebed.page.charts import Axes

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "league.txt"
PICTURE: Final = HERE / "pictures" / "league.svg"
_VIDEOS: Final = ("100mbit", "1gbit", "street-canyon-bus")
"""Recordings whose videos the page shows: a constant rate, the highest bitrate, and a link that changes."""


def short(name: str) -> str:
    """Return the name of a recording that fits beside a picture."""
    return "M2HO, 13 February, 1" if name.startswith("20230213-tcp-recv-1") else Path(name).stem


def draw(league: League) -> None:
    """Draw the share of each recording that every emulator delivered."""
    recordings = league.settings.recordings

    def shares(axes: Axes) -> None:
        for place, emulator in enumerate(league.settings.emulators):
            style, xs, ys = STYLES[place % len(STYLES)], [], []
            for row, recording in enumerate(recordings):
                result = league.result(recording, emulator, "download")
                if result is not None and result.errors.get("offered Mbit/s"):
                    xs.append(100 * result.errors["delivered Mbit/s"] / result.errors["offered Mbit/s"])
                    ys.append(row + (place - 2.5) * 0.12)
            axes.plot(
                xs, ys, linestyle="none", marker=style.marker, color=style.colour, markersize=6,
                label=EMULATORS[emulator].title,
            )  # fmt: skip
        axes.axvline(100, color="black", linewidth=0.6)
        axes.set_yticks(range(len(recordings)), [short(name) for name in recordings], fontsize=9)
        axes.invert_yaxis()
        axes.set_xlabel("delivered, % of what the recording offers")
        axes.legend(fontsize=9, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, frameon=False)

    figure, (axes,) = panels([4.4], 5.0)
    figure.set_figwidth(8)
    shares(axes)
    Picture(figure, "Downloads over each recording").save(PICTURE)


def summary(league: League) -> str:
    """Return the table of the page: errors of downloads and calls, and the cost."""
    names = league.settings.emulators
    rows = [["download: mean difference, %", *(EMULATORS[name].title for name in names)], ["---"] * (len(names) + 1)]
    for recording in league.settings.recordings:
        found = [league.value(recording, name, "download") for name in names]
        rows.append(
            [short(recording), *(f"{each[1]:.1f}" if each and each[1] is not None else MISSING for each in found)]
        )
    calls = []
    for name in names:
        found = [league.value(recording, name, "call") for recording in league.settings.recordings]
        errors = [abs(each[1]) for each in found if each and each[1] is not None]
        calls.append(f"{statistics.median(errors):.2f}" if errors else MISSING)
    rows.append(["call: median error of delay p95, ms", *calls])
    for recording in _VIDEOS:
        videos = [league.value(recording, name, "video") for name in names]
        bitrates = [MISSING if each is None else f"{each[0]:.1f}" for each in videos]
        rows.append([f"video at {short(recording)}, Mbit/s", *bitrates])
    for rate in ("100mbit", "1gbit"):
        costs = [league.cost(rate, name) for name in names]
        rows.append([f"processor at {rate}, s/Gbit", *(MISSING if each is None else f"{each:.2f}" for each in costs)])
    return "".join(f"|{'|'.join(row)}|\n" for row in rows)


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    league = League(folder, msgspec.json.decode((folder / SETTINGS_FILE).read_bytes(), type=LeagueSettings))
    facts = machine()
    where = f"{facts['cores']} × {facts['processor']}, Linux {platform.release()}"
    head = f"Tables that docs/validation/league.py writes. Machine: {where}."
    PAGE.write_text(f"{head}\n\n{text(league)}", encoding="utf-8")
    draw(league)
    page = HERE / "league.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), {"league": summary(league)}), encoding="utf-8")


if __name__ == "__main__":
    main()
