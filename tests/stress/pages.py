"""Reports of records with hostile names, opened in Chromium: nothing of theirs runs, and nothing is asked for."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress.figure import Figure, of_all
from tests.stress.sandbox import inside, wavebed_command

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["HOSTILE", "make_run", "measure", "records"]

PORT = 7200
EVIL = f"http://127.0.0.1:{PORT}/"
HOSTILE: dict[str, str] = {
    "a script": "<script>window.ran=1</script>",
    "the end of an attribute": f"\"><img src={EVIL}a onerror='window.ran=1'>",
    "the end of a script": f"</script><script>window.ran=1;fetch('{EVIL}b')</script>",
    "the end of everything": "</title></style></svg></pre><svg onload=window.ran=1><iframe srcdoc='<b>'></iframe>",
    "quotes of a program": "'-(window.ran=1)-'\"-(window.ran=1)-\"`${window.ran=1}`\\",
    "a link": "javascript:window.ran=1",
    "entities": "&lt;script&gt;window.ran=1&lt;/script&gt;&#60;img src=x onerror=window.ran=1&#62;",
    "other directions": "\u202e\u2066evil\u2069\u200f\u202dabc\u2067",
    "escapes of a terminal": f"\x1b]8;;{EVIL}\x07click\x1b]8;;\x07\x1b[2J\x9b31m\x07\x00",
    "a style": f"url({EVIL}c) }}</style><style>@import url({EVIL}d); * {{ background: url({EVIL}e) }}",
    "a huge name": "A<b>" * 5000,
    "half a character": "\ud800<script>window.ran=1</script>\u2028\ufffe",
}
KEPT_KEYS = ("folder", "verdict", "started", "ended", "kind", "status", "severity", "better", "stage")
"""Keys whose values are not free: with another value the record is refused, and there is no page to look at."""
USER_ERROR = 2
SCENARIO = """title = "A small run"
[path]
rate = "20mbit"
delay = "5ms"
[[workload]]
kind = "download"
size = "200kb"
[[workload]]
kind = "latency"
"""
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
TOUCH = """() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  document.querySelectorAll("input").forEach((each) => each.click());
  document.querySelectorAll("select").forEach((each) => {
    each.selectedIndex = each.options.length - 1;
    each.dispatchEvent(new Event("change", { bubbles: true }));
  });
  for (const each of document.querySelectorAll("figure, svg, td, tr")) {
    for (const kind of ["pointerenter", "pointermove", "mouseover", "focus", "click"]) {
      each.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: 100, clientY: 100 }));
    }
  }
}"""
STRANGE = "document.querySelectorAll('iframe, object, embed, base, a[href^=\"javascript:\" i]').length"


def measure(count: int = len(HOSTILE)) -> list[Figure]:
    """Open the reports of the first `count` hostile names."""
    names = list(HOSTILE)[:count]
    looked = inside("tests.stress.pages:look", names=names, timeout_s=120 + 30 * count)
    return [
        of_all(
            "reports with hostile names: nothing runs, or one line refuses them",
            [tuple(each) for each in looked],
            what="pages",
        )
    ]


def make_run() -> Path:
    """Make a small run, and return its folder."""
    Path("s.toml").write_text(SCENARIO)
    argv = wavebed_command("run", "s.toml", "-o", "run")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    if not Path("run/report.html").exists():
        raise RuntimeError(done.stderr)
    return Path("run")


def records(folder: Path) -> list[Path]:
    """Return the records of a run."""
    return [folder / "run.json", *sorted(folder.glob("trials/*/trial.json"))]


def look(names: list[str]) -> list[tuple[str, bool]]:
    """Open the report of each; return whether nothing ran and nothing was asked for. Runs in a sandbox."""
    from playwright.sync_api import sync_playwright

    from wavebed.lab.tools import find

    run = make_run()
    asked: list[bytes] = []
    results = []
    with socket.create_server(("127.0.0.1", PORT)) as listener, sync_playwright() as playwright:
        threading.Thread(target=_hear, args=(listener, asked), daemon=True).start()
        browser = playwright.chromium.launch(executable_path=find("chromium"), args=list(ARGUMENTS))
        for name in names:
            folder = Path("hostile", name.replace(" ", "-"))
            shutil.copytree(run, folder)
            problem = _report(folder, HOSTILE[name])
            if (folder / "report.html").exists():
                problem = problem or _visited(browser, folder / "report.html")
            problem += f", asked {asked}" if asked else ""
            results.append((f"{name}: {problem}", not problem))
            asked.clear()
        browser.close()
    return results


def _report(folder: Path, text: str) -> str:
    """Make the report of a record with hostile names; return what went wrong. A refusal in one line is right, too."""
    for file in records(folder):
        file.write_text(json.dumps(hostile(json.loads(file.read_text()), text)))
    (folder / "report.html").unlink()
    done = subprocess.run(wavebed_command("report", str(folder)), capture_output=True, timeout=90, check=False)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    refused = done.returncode == USER_ERROR and len(lines) == 1
    return "" if refused or not (done.returncode or lines) else f"no page: {lines[-1:]}"


def _visited(browser: Browser, report: Path) -> str:
    """Open a page with a fresh profile, touch everything, and return what it did that it should not."""
    context = browser.new_context()
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append("a dialog"), dialog.dismiss()))
    address = report.absolute().as_uri()
    page.goto(address, timeout=60_000)
    page.evaluate(TOUCH)
    ran, strange = page.evaluate("window.ran"), page.evaluate(STRANGE)
    others = [url for url in requests if url != address and not url.startswith("data:")]
    context.close()
    said = ["a script ran"] if ran is not None else []
    said += [f"asked for {others[0]}"] if others else []
    said += [f"{strange} strange elements"] if strange else []
    return ", ".join([*said, *complaints])


def _hear(listener: socket.socket, asked: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            asked.append(connection.recv(100))
            connection.close()


def hostile(data: Any, text: str, key: str = "") -> Any:
    """Return a record in which every free text ends with a hostile one, the same wherever the same text stands."""
    if isinstance(data, dict):
        return {each: hostile(value, text, each) for each, value in data.items()}
    if isinstance(data, list):
        return [hostile(value, text, key) for value in data]
    return data + text if isinstance(data, str) and key not in KEPT_KEYS else data
