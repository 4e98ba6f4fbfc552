"""The plugin with real laboratories: they need namespaces and /dev/net/tun."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


TEXT = """
    import http.server, os, pytest, threading, time, urllib.request

    pytestmark = pytest.mark.wavebed(rate="20mbit", delay="20ms")

    def where(number):
        return os.environ["WAVEBED_HOST"], number + 1

    def refuse():
        raise ValueError("refused")

    def test_programs_and_functions_run_on_the_hosts(lab):
        lab.server.start(["python3", "-m", "http.server", "8000"], port=8000)
        began = time.monotonic()
        address = f"http://{lab.server.address}:8000/"
        lab.client.run(["curl", "-sSf", "-o", "/dev/null", address], check=True)
        assert time.monotonic() - began > 0.08
        assert lab.client.call(where, 3) == ("client", 4)
        with pytest.raises(ValueError, match="refused"):
            lab.server.call(refuse)
        assert lab.metrics["tcp rtt max"] > 40
        assert lab.metrics["dropped down"] == 0

    @pytest.mark.wavebed(rate="20mbit", delay="20ms", loopback=True)
    def test_a_server_of_the_test_itself_is_on_the_other_side():
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        began = time.monotonic()
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
        assert time.monotonic() - began > 0.08
        server.shutdown()
        server.server_close()
"""


def test_a_suite_runs_behind_a_path_and_its_results_are_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEXT)
    words = ("-p", "pytest_wavebed.plugin", "-rsf", "--wavebed-dir=here", "--wavebed-report=always")
    result = pytester.runpytest_subprocess(*words)
    outcomes = result.parseoutcomes()
    assert "failed" not in outcomes
    assert "errors" not in outcomes
    folders: list[Path] = sorted((pytester.path / "here").iterdir())
    assert len(folders) == 2
    assert all((folder / "report.html").exists() for folder in folders)
    if outcomes.get("passed") != 2:
        found = re.search(r"SKIPPED.* inconclusive: (.*)", result.stdout.str())
        pytest.skip(f"inconclusive: {found[1] if found else 'the machine was late'}")
