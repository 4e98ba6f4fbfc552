"""Blocks of TOML, each read by the reader of its file."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING

from tests.docs.scene_guide import SCENE_GUIDE

from wavebed._core import find_edge
from wavebed.campaign.read import read_campaign
from wavebed.path import Path as NetworkPath
from wavebed.path.timeline import load_timeline
from wavebed.run.scenario import read_plan
from wavebed.scene import load as load_scene
from wavebed.workload.site.spec import read_spec

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.blocks import Block

__all__ = ["read_toml_block"]

_PATH = '[path]\nrate = "100mbit"\n'
_HOPS = """[[path.hop]]
name = "internet"
kind = "wired"
delay = "11ms"

[[path.hop]]
name = "radio"
kind = "radio"
rate = "100mbit"

"""
_WORKLOAD = '\n[[workload]]\nkind = "download"\nsize = "1mb"\n'


def read_toml_block(block: Block, folder: Path) -> None:
    """Read a block by the reader of its kind; the mark ``toml`` says which, a scenario without.

    Raises
    ------
    UserError
        If the reader refuses it.
    """
    kind, _, name = (block.value("toml") or "scenario").partition(": ")
    reader = {
        "scenario": _scenario,
        "keys of path": lambda text, file, _: _scenario(_with_rate(text), file, ""),
        "lines of path": _lines,
        "hosts of path": lambda text, file, _: _scenario(_HOPS + text, file, ""),
        "part of scenario": lambda text, file, whole: _scenario((file.parent / whole).read_text() + text, file, ""),
        "campaign": _campaign,
        "part of campaign": _part_of_campaign,
        "scene": lambda text, file, _: load_scene(_written(text, file)),
        "part of scene": lambda *_: _part_of_scene(block),
        "timeline": lambda text, file, _: load_timeline(_written(text, file)),
        "site": lambda text, file, _: read_spec(_written(text, file)),
        "of another program": lambda text, *_: tomllib.loads(text),
        "splitter": _splitter,
        "tunnel": _tunnel,
    }[kind]
    reader(block.text, folder / (block.value("file") or f"block-{block.line}.toml"), name)


def _written(text: str, file: Path) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def _scenario(text: str, file: Path, _: str) -> None:
    document = tomllib.loads(text)
    if not {"path", "lab"} & document.keys():
        text = _PATH + text if "workload" not in document and "treatment" not in document else _with_path(text)
    _written(text, file)
    if {"workload", "treatment", "lab"} & document.keys():
        if "workload" not in document:
            _written(text + _WORKLOAD, file)
        read_plan(file)
    else:
        path = NetworkPath.load(file)
        if "scene" not in text:  # a channel takes seconds, and has tests of its own
            path.laboratory()


def _with_path(text: str) -> str:
    return f"{text}\n{_PATH}"


def _with_rate(text: str) -> str:
    return ("[path]\n" if re.search(r"^(down-)?rate = ", text, re.MULTILINE) else _PATH) + text


def _lines(text: str, file: Path, _: str) -> None:
    for line in text.splitlines():
        _scenario(_with_rate(f"{line}\n"), file, "")


def _campaign(text: str, file: Path, _: str) -> None:
    read_campaign(_written(text, file))


def _part_of_campaign(text: str, file: Path, whole: str) -> None:
    """Read the page's campaign with this part in it, in place of its own tables of the same name."""
    given = (file.parent / whole).read_text(encoding="utf-8")
    names = {match[1] for match in re.finditer(r"^\[\[?(\w+)\]\]?", text, re.MULTILINE)}
    parts = re.split(r"^(?=\[)", given, flags=re.MULTILINE)
    kept = [part for part in parts if not any(part.startswith(f"[[{name}]]") for name in names)]
    read_campaign(_written("".join(kept) + text, file))


def _part_of_scene(block: Block) -> None:
    """Read the scene of the guide, which `lay_out` put together from its parts."""
    assert block.page == SCENE_GUIDE, f"{block.place}: a part of a scene that no test puts together"
    load_scene("street.toml")


def _edge(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = find_edge()
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=20, check=False)


def _splitter(text: str, file: Path, _: str) -> None:
    done = _edge("splitter", "rules", "--config", str(_written(text, file)))
    assert done.returncode == 0, done.stderr


def _tunnel(text: str, file: Path, _: str) -> None:
    """The settings are read before the key, which is not there."""
    given = text.replace("…", "0f" * 32).replace("/etc/wavebed/", str(file.parent / "nowhere") + "/")
    done = _edge("tunnel", "--config", str(_written(given, file)))
    assert done.returncode == 2, done.stderr
    assert "tunnel: key:" in done.stderr
