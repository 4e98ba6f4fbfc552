"""The live page: frames of a minute of 16 links, memory over time, and what samples cost the link engine.

Usage: python benches/live_page.py [--minutes N] [--every MS] [--rounds N] [--pages N] [--against DIR] [--save FILE]

1. Chromium, drawing by software, shows a played laboratory of 8 hops with two links each, a point each 10 ms, a minute
   of them, all five charts in view. Draws of the charts and gaps between frames are counted for ten seconds, several
   times; with `--against`, in turn with the page of another folder `assets`. Then the heap of the page after a
   collection, and the resident memory of the server, each minute.
2. A laboratory carries iperf3 over 1 Gbit/s for some seconds, with nobody watching and with a watch each 10 ms, in
   turn: processor time of the engine, and its lateness.

Prints JSON; needs root, iperf3 and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from run import machine
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

from wavebed.errors import WavebedError
from wavebed.lab.tools import find
from wavebed.path.api import Path as LabPath
from wavebed.path.control import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.ui_client import Client

    from wavebed.path.lab import Laboratory

WIDTHS = (1280, 390)
HEIGHT = 1000
SECONDS = 10
TRANSFER_S = 8
COUNT = """
window.draws = new Map();
window.frames = [];
const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  if (this.canvas.isConnected) window.draws.set(this.canvas, (window.draws.get(this.canvas) ?? 0) + 1);
  return clear.apply(this, box);
};
const note = (time) => { window.frames.push(time); requestAnimationFrame(note); };
requestAnimationFrame(note);
"""
DRAWS = "[...window.draws].filter(([canvas]) => canvas.isConnected).map(([, draws]) => draws)"
IN_VIEW = """[...document.querySelectorAll("#charts canvas")].filter((canvas) => {
  const box = canvas.getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight;
}).length"""


def frames(page: Page) -> dict[str, float]:
    """Count for some seconds."""
    page.evaluate("window.frames.length = 0")
    before = page.evaluate(DRAWS)
    began = time.monotonic()
    page.wait_for_timeout(SECONDS * 1000)
    after = page.evaluate(DRAWS)
    elapsed = time.monotonic() - began
    times = page.evaluate("window.frames")
    gaps = sorted(later - one for one, later in pairwise(times))
    seconds = [
        sum(start <= time < start + 1000 for time in times)
        for start in range(int(times[0]), int(times[-1]) - 1000, 100)
    ]
    drawn = sorted((new - old) / elapsed for old, new in zip(before, after, strict=True) if new > old)
    return {
        "load_average": round(os.getloadavg()[0], 1),
        "charts_in_view": page.evaluate(IN_VIEW),
        "charts_drawn": len(drawn),
        "least_draws_per_s": round(drawn[0], 1),
        "draws_per_s": round(drawn[-1], 1),
        "frames_per_s": round(len(times) / elapsed, 1),
        "frames_in_the_worst_second": min(seconds),
        "frame_gap_p99_ms": round(gaps[int(len(gaps) * 0.99)], 1),
        "frame_gap_most_ms": round(gaps[-1], 1),
    }


def heap_bytes(page: Page) -> int:
    """Return the heap of the page after a collection, with its columns of numbers."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    session.detach()
    return int(usage["usedSize"] + usage["backingStorageSize"])


def resident_bytes() -> int:
    """Return the resident memory of this process, which has the server and the played laboratory in it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def show(browser: Browser, client: Client, width: int, every_ms: int = 10, *, count: bool = True) -> Page:
    """Open the page at its charts, with a minute of points; notes of draws and frames take memory."""
    page = browser.new_page(viewport={"width": width, "height": HEIGHT})
    if count:
        page.add_init_script(COUNT)
    page.goto(f"http://{client.host}/?token={client.token}")
    page.select_option("#every", str(every_ms))
    page.wait_for_selector("#chart-throughput canvas")
    page.evaluate("document.querySelector('#charts').scrollIntoView()")  # only what can be seen is drawn
    page.wait_for_timeout(7000)
    return page


@contextmanager
def files_of(folder: Path | None) -> Iterator[None]:
    """Let the page be that of another folder."""
    from wavebed.ui import command

    with pytest.MonkeyPatch.context() as patch:
        if folder is not None:
            files = {
                path: file
                for path, file in command.FILES.items()
                if file.package != "wavebed.ui" or (folder / file.name).exists()
            }
            own = command.asset
            patch.setattr(command, "FILES", files)
            patch.setattr(
                command,
                "asset",
                lambda name, package: own(name, package) if package != "wavebed.ui" else (folder / name).read_text(),
            )
        yield


def page_figures(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the page."""
    from playwright.sync_api import sync_playwright

    folders = {"this": None, **({} if options.against is None else {"against": options.against})}
    found: dict[str, Any] = {"frames": {name: {str(width): [] for width in WIDTHS} for name in folders}, "memory": []}
    arguments = ["--no-sandbox", "--disable-gpu"]
    with (
        pytest.MonkeyPatch.context() as patch,
        played(patch, PlayedLab("many", 8, past_s=70, bursts=True)),
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find("chromium"), args=arguments) as browser,
    ):
        for number in range(options.pages):
            for name in list(folders)[:: 1 if number % 2 == 0 else -1]:
                with files_of(folders[name]), page_server() as client:
                    for width in WIDTHS:
                        page = show(browser, client, width)
                        found["frames"][name][str(width)].append(frames(page))
                        print(name, width, found["frames"][name][str(width)][-1], file=sys.stderr)
                        page.close()
        if options.minutes:
            with page_server() as client:
                found["memory"] = memory(show(browser, client, WIDTHS[0], options.every, count=False), options.minutes)
    return found


def memory(page: Page, minutes: int) -> list[dict[str, float]]:
    """Return the memory of the page and of the server each minute."""
    rows = []
    for minute in range(minutes + 1):
        row = {"minute": minute, "heap_bytes": heap_bytes(page), "server_resident_bytes": resident_bytes()}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
        if minute < minutes:
            page.wait_for_timeout(60_000)
    return rows


def read_samples(lab: Laboratory, counts: list[int]) -> None:
    """Read samples to the end of the laboratory."""
    watch = Watch(lab.connect(), 10)
    try:
        while True:
            sample = watch.next(5)
            counts[0], counts[1] = counts[0] + 1, sample.lost
    except WavebedError:
        watch.close()


def transfer(*, watched: bool) -> dict[str, float]:
    """Carry a transfer, and return what the engine says of itself."""
    counts = [0, 0]
    with LabPath.of(rate="1gbit", delay="5ms").up() as lab:
        thread = threading.Thread(target=read_samples, args=(lab, counts))
        if watched:
            thread.start()
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201)
        done = lab.client.run(["iperf3", "-c", "server", "-R", "-t", str(TRANSFER_S), "-J"], capture_output=True)
        server.wait(5)
    if watched:
        thread.join()
    summary: Any = lab.summary
    late = max(each["late_p99_us"] or 0 for each in summary["departures"])
    sent = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]
    return {
        "engine_cpu_s": round(summary["cpu_s"], 3), "late_p99_us": late, "mbit_per_s": round(sent / 1e6, 1),
        "samples": counts[0], "lost": counts[1],
    }  # fmt: skip


def engine_figures(rounds: int) -> dict[str, Any]:
    """Measure the engine with and without a reader, in turn."""
    runs: dict[str, list[dict[str, float]]] = {"alone": [], "watched": []}
    for number in range(rounds):
        for watched in (number % 2 == 0, number % 2 == 1):
            runs["watched" if watched else "alone"].append(transfer(watched=watched))
    medians = {
        name: {key: statistics.median(run[key] for run in all_runs) for key in all_runs[0]}
        for name, all_runs in runs.items()
        if all_runs
    }
    return {"runs": runs, "medians": medians}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--every", type=int, default=10, choices=(10, 100, 1000), help="ms, while memory is looked at")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pages", type=int, default=3, help="how often each page is shown")
    parser.add_argument("--against", type=Path, metavar="DIR", help="a folder `assets` of another version")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    found = {
        "machine": machine(),
        "every_ms": options.every,
        "engine": engine_figures(options.rounds),
        "page": page_figures(options),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if options.save:
        options.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
