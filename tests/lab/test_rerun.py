"""A trial is repeated from the folder of its results alone: same specification, same block errors, same report."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.on_time import assert_ended

import wavebed

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
title = "a walk, and its wires"
[run]
primary = "bulk.jitter"
[path]
[[path.hop]]
name = "wire"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
trace = "walk.txt"
radio = { preset = "nr-120khz", frame = "fdd", harq = "off", bler = "10%" }
[[workload]]
kind = "bulk"
duration = "5s"
direction = "down"
protocol = "udp"
rate = "60mbit"
"""
SLOTS_PER_MS = 8
TRACE_MS = 5000


def run(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wavebed", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert_ended(done, folder / words[-1])


def spec(folder: Path) -> Any:
    (file,) = folder.glob("trials/*/spec.json")
    return json.loads(file.read_text())


def blocks(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return blocks sent and failed in each millisecond of the downlink while its trace lasts."""
    links = wavebed.load(folder).table("links")  # type: ignore[union-attr]
    rows = links[(links["link"] == "radio.down") & (links["time_ms"] < TRACE_MS)]
    sent, failed = np.zeros(TRACE_MS, int), np.zeros(TRACE_MS, int)
    sent[rows["time_ms"]] = rows["blocks_sent"]
    failed[rows["time_ms"]] = rows["blocks_failed"]
    return sent, failed


def verdict(folder: Path) -> str:
    (trial,) = json.loads((folder / "run.json").read_text())["trials"]
    return str(trial["verdict"])


def headings(folder: Path) -> list[str]:
    return re.findall(r"<h[1-4][^>]*>.*?</h[1-4]>", (folder / "report.html").read_text(encoding="utf-8"))


def test_a_trial_is_repeated_from_a_copy_of_its_folder_with_scenario_and_trace_gone(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "walk.txt").write_text("".join(f"{0.1 * step:.1f}\t{20 + step % 7}\n" for step in range(1, 51)))
    (first / "s.toml").write_text(SCENARIO)
    run(first, "run", "s.toml", "-o", "out")
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(first / "out", other / "copied")
    shutil.rmtree(first)
    run(other, "rerun", "copied/0001-as-described", "-o", "again")
    assert spec(other / "again") == spec(other / "copied")
    assert json.loads((other / "again/run.json").read_text())["primary"] == "bulk.jitter"
    assert spec(other / "again")["patterns"].popitem()[1]["name"].endswith("walk.txt")
    (sent_a, failed_a), (sent_b, failed_b) = blocks(other / "copied"), blocks(other / "again")
    both = (sent_a == SLOTS_PER_MS) & (sent_b == SLOTS_PER_MS)
    assert both.sum() > 20
    assert failed_a[both].sum() > 0
    assert (failed_a[both] == failed_b[both]).all()
    if verdict(other / "again") == verdict(other / "copied"):  # A late trial has fewer figures.
        assert headings(other / "again") == headings(other / "copied")
    # And a third time, from the repetition.
    run(other, "run", "again/trials/0001-as-described/spec.json", "-o", "third")
    assert spec(other / "third") == spec(other / "copied")


def test_a_report_is_made_of_the_folder_and_computes_no_channel(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[path]\nscene = "kau-e5g-1"\n[[workload]]\nkind = "download"\nsize = "200kb"\n')
    run(tmp_path, "run", "s.toml", "-o", "out")
    (tmp_path / "out/report.html").unlink()
    (tmp_path / "out/scenario.toml").unlink()
    program = (
        "import sys; from wavebed.cli import main; status = main(['report', 'out']);"
        " sys.exit(status or any(name.startswith('wavebed.channel') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert 'src="data:image/svg+xml;base64,' in page
    assert "rate of the scene kau-e5g-1" in page
