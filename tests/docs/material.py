"""The input files that pages name: traces, walks, folders of results. A page gets the files that its blocks name."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.blocks import ROOT, files, mentions
from tests.docs.scene_guide import SCENE_GUIDE, scene_of_the_guide
from tests.made_up_walks import write_walks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.docs.blocks import Block

__all__ = ["lay_out"]


def _walk(file: Path) -> None:
    """Write a trace of seconds and Mbit/s."""
    rates = [(20 + 7 * second % 90) if second % 50 else 0 for second in range(480)]
    file.write_text("".join(f"{second + 1:.1f}\t{rate:.1f}\n" for second, rate in enumerate(rates)), encoding="utf-8")


def _phone(file: Path) -> None:
    rows = "".join(f"{second},{30 + second % 20}\n" for second in range(60))
    file.write_text(f"Timestamp,downlink_Mbps\n{rows}", encoding="utf-8")


def _kaunet(file: Path) -> None:
    file.write_text("0 945\n2100 318\n22100 1005\n", encoding="utf-8")


def _losses(file: Path) -> None:
    file.write_text(
        "# wavebed pattern 1\n# kind = packets\n# count = 1000\nindex,loss\n0,0\n10,1\n11,0\n", encoding="utf-8"
    )


def _pattern(file: Path) -> None:
    shutil.copy(ROOT / "scenarios/patterns/kau-e5g-1.csv", file)


def _shipped(name: str) -> Callable[[Path], object]:
    """Copy something of the repository: what a page writes stays in its folder."""
    source = ROOT / name
    return lambda place: shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)


def _heavy(file: Path) -> None:
    file.write_text("".join(f"{second + 1:.1f}\t{20.0 + second % 9:.1f}\n" for second in range(4)), encoding="utf-8")


def _light(file: Path) -> None:
    file.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 4\ntime_s,delay_s\n0,0.02\n", encoding="utf-8")


def _scenario(file: Path) -> None:
    file.write_text('[path]\nrate = "50mbit"\n\n[[workload]]\nkind = "download"\nsize = "1mb"\n', encoding="utf-8")


def _campaign(file: Path) -> None:
    file.write_text(files()["buffers.toml"].text, encoding="utf-8")


def _scene_of_the_guide(file: Path) -> None:
    file.write_text(scene_of_the_guide(), encoding="utf-8")


def _walks(folder: Path) -> None:
    folder.mkdir()
    write_walks(folder, 8)


@functools.cache
def _example() -> Path:
    import tempfile

    from tests.unit.report_example import Plan, write_example

    return write_example(Path(tempfile.mkdtemp(prefix="wavebed-docs-")) / "results", Plan(blocks=2, excluded=False))


def _results(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(_example(), folder)


_MADE: dict[str, Callable[[Path], object]] = {
    "scenarios": _shipped("scenarios"),
    "patterns": _shipped("scenarios/patterns"),
    "my-scene.toml": _shipped("scenarios/scenes/kau-e5g-1.toml"),
    "slow.toml": _shipped("scenarios/lte-54mbit.toml"),
    "scenario.toml": _scenario,
    "my-scenario.toml": _scenario,
    "congestion.toml": _campaign,
    "heavy.txt": _heavy,
    "light.csv": _light,
    "both.csv": _pattern,
    "walk.txt": _walk,
    "drive.txt": _walk,
    "phone.csv": _phone,
    "list.kaunet": _kaunet,
    "losses.csv": _losses,
    "other.csv": _pattern,
    "walks": _walks,
}
_RESULTS = dict.fromkeys(("results", "DIR", "old", "new", "before", "after", "kept/release"), _results)
"""Folders that only commands and programs read which run."""


def _file(text: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")


def lay_out(folder: Path, blocks: Sequence[Block], *, results: bool) -> None:
    """Write the input files that the commands and programs of a page name, and file blocks of other pages.

    Parameters
    ----------
    folder : pathlib.Path
        The folder in which the page is read or played.
    blocks : sequence of Block
        The blocks of the page.
    results : bool
        Whether to write folders of results as well; parsing does not need them.
    """
    if blocks and blocks[0].page == SCENE_GUIDE:
        _scene_of_the_guide(folder / "street.toml")
    text = "\n".join(block.text for block in blocks if block.language in {"sh", "console", "python", "toml"})
    own = {block.value("file") for block in blocks} | {each.name for each in folder.iterdir()}
    made = _MADE | (_RESULTS if results else {})
    made |= {name: functools.partial(_file, block.text) for name, block in files().items() if name not in own}
    for name, make in made.items():
        made_by_page = re.search(rf"mkdir {re.escape(name)}$", text, re.MULTILINE)
        if not made_by_page and mentions(text, name):
            make(folder / name)
