"""A page in Chromium over HTTP/3, with names of a resolver over the path: requests, pictures, names and confinement."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lab.small_site import MAIN, OTHER, small_site
from tests.lab.workload_trial import Trial, run_scenario, until_done

from wavebed.lab.confine import confined_user

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.workload.model import TrialContext

SCENARIO = """
[path]
rate = "20mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:100kb"
[[workload]]
kind = "web"
site = "small"
protocol = "h3"
names = "resolver"
start = "1s"
settle = "2s"
limit = "60s"
"""
RTT_MS = 40
ABSENT = "elsewhere.example"
MORE = f'<img src="gone.png"><img src="//{ABSENT}/gone.png">'


@dataclass(frozen=True, slots=True)
class Page:
    """The trial of a page, the folder of its site, and the processes of its browser."""

    trial: Trial
    site: Path
    processes: dict[str, list[dict[str, str]]]

    @property
    def raw(self) -> Path:
        """The folder of the raw outputs."""
        return self.trial.folder / "raw" / "web"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests in the order of their start."""
        return cast("list[dict[str, Any]]", self.trial.outcome().details["requests"])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Load a page of three objects that are there, and two that are not."""
    folder = tmp_path_factory.mktemp("page")
    found: dict[str, list[dict[str, str]]] = {}

    def find_browser(_: Lab, context: TrialContext) -> bool:
        found.update(browser_processes(context))
        return {"browser", "renderer"} <= set(found)

    with pytest.MonkeyPatch.context() as patch:
        built = small_site(folder / "site", MORE)
        patch.setattr("wavebed.workload.site.load_site", lambda *_: built)
        trial = run_scenario(SCENARIO, folder, until_done(find_browser))
    return Page(trial, folder / "site", found)


def browser_processes(context: TrialContext) -> dict[str, list[dict[str, str]]]:
    """Return the status of every process of Chromium in a laboratory by its type; ``browser`` is the first."""
    script = (
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q chromium && "
        "{ echo; echo \"Line: $(tr '\\0' ' ' < $p/cmdline)\"; cat $p/status; }; done"
    )
    text = context.client.run(["sh", "-c", script], capture_output=True).stdout
    found: dict[str, list[dict[str, str]]] = {}
    for part in text.split("\n\n"):
        status = dict(line.split(":", 1) for line in part.strip().splitlines() if ":" in line)
        words = status.get("Line", "").split()
        if any(word.endswith(("/chromium", "/chrome")) for word in words[:1]):
            kind = next((word.removeprefix("--type=") for word in words if word.startswith("--type=")), "browser")
            found.setdefault(kind, []).append(status)
    return found


def test_the_page_is_measured_as_it_was_painted(page: Page) -> None:
    outcome = page.trial.outcome()
    assert outcome.status == "ok", outcome.reason
    found = page.trial.metrics()
    assert found["ttfb"] < found["dom interactive"] <= found["dom content loaded"] <= found["on load"]
    assert found["first visual change"] <= found["speed index"] <= found["visually complete"]
    assert found["first contentful paint"] <= found["largest contentful paint"]
    assert {event.name for event in outcome.events} == {"request"}
    assert page.trial.series("visual progress").value[-1] == 100


def test_bytes_and_requests_are_those_of_the_site_and_cross_the_link_down(page: Page) -> None:
    found = page.trial.metrics()
    assert (found["requests"], found["failed requests"], found["connections"]) == (5, 2, 2)
    bodies = sum(file.stat().st_size for file in page.site.rglob("*.*") if file.is_file())
    # Heads are a few hundred bytes each.
    assert bodies < found["bytes"] < bodies + 3 * 1000
    carried = page.trial.engine("links", "radio.down")["delivered_bytes"]
    assert found["bytes"] < carried < 2 * found["bytes"]
    assert 0 < page.trial.engine("links", "radio.up")["delivered_bytes"] < carried / 3


def test_nothing_is_sent_before_the_page_begins(page: Page) -> None:
    details = page.trial.outcome().details
    assert page.trial.span().start_s <= cast("float", details["start_s"]) < page.trial.span().end_s
    assert page.trial.first_packet_s() >= 1.0


def test_the_first_byte_comes_after_a_lookup_a_handshake_and_the_request(page: Page) -> None:
    # Chromium may connect before the navigation that it reports.
    ahead_ms = (cast("float", page.trial.outcome().details["start_s"]) - page.trial.first_packet_s()) * 1e3
    assert page.trial.metrics()["ttfb"] + ahead_ms >= 3 * RTT_MS


def test_each_request_has_its_phases_in_order(page: Page) -> None:
    answered = page.requests[:3]
    assert [request["path"] for request in answered] == ["/index.html", "/style.css", "/picture.png"]
    assert [request["origin"] for request in answered] == [MAIN, MAIN, OTHER]
    assert [request["kind"] for request in answered] == ["document", "stylesheet", "image"]
    assert [request["blocking"] for request in answered] == [False, True, False]
    assert {request["protocol"] for request in answered} == {"h3"}
    for request in answered:
        assert request["asked_ms"] < request["sent_ms"] < request["answered_ms"] <= request["end_ms"]
        # Chromium may stamp the end of a phase late, but never its start.
        assert request["answered_ms"] - request["asked_ms"] >= RTT_MS - 0.2
    assert answered[2]["connection"] != answered[0]["connection"]


def test_missing_objects_make_the_trial_suspect(page: Page) -> None:
    doubts = page.trial.outcome().doubts
    assert any("gone.png: 404" in doubt for doubt in doubts)
    assert any(ABSENT in doubt for doubt in doubts)
    assert page.trial.record.verdict != "valid"


def test_the_page_looks_up_its_names_and_no_others(page: Page) -> None:
    lines = (page.raw / "dnsmasq.log").read_text().splitlines()
    asked = {line.split("query")[1].split(" from ")[0] for line in lines if "query" in line}
    assert asked == {f"[{kind}] {name}" for name in (MAIN, OTHER, ABSENT) for kind in ("A", "AAAA")}
    # Chromium looks a name up before the request that needs it: of the lookup's time little may be left.
    assert page.trial.metrics()["name lookup"] >= 0


def test_raw_outputs_are_a_trace_and_the_figures_of_the_page(page: Page) -> None:
    assert json.loads((page.raw / "trace.json").read_bytes())["traceEvents"]
    assert json.loads((page.raw / "page.json").read_bytes())["page"]["navigation"]["loadEventEnd"] > 0


def test_the_browser_has_no_privileges_and_uses_its_own_sandbox(page: Page) -> None:
    assert page.trial.outcome().details["browser sandbox"] == "on"
    assert {"browser", "renderer"} <= set(page.processes), sorted(page.processes)
    for status in (each for processes in page.processes.values() for each in processes):
        assert status["NoNewPrivs"].strip() == "1", status
        assert set(status["Uid"].split()) == {str(confined_user())}, status
    assert {status["Seccomp"].strip() for status in page.processes["renderer"]} == {"2"}
