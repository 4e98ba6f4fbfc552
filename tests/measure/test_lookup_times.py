"""Times of names that are looked up over the path: curl and Chromium by the stub resolver of glibc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.small_site import small_site
from tests.lab.workload_trial import run_scenario

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RTT_MS = 50
RETRY_MS = 5000
"""After which glibc repeats a query: resolv.conf(5), option timeout."""
TRIES = 4
DELAY = 'delay = "25ms"\nqueue = "droptail:500kb"\n'
DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "1kb"\nnames = "resolver"\nlimit = "20s"\n'
OUTAGE = "# wavebed pattern 1\n# kind = steps\n# duration_s = 2\ntime_s,rate_bps\n0,0\n1,100000000\n"
"""An outage in the first second."""
WITH_OUTAGE = f'[path]\ntrace = "outage.csv"\ntrace-end = "hold"\noutage = "drop"\n{DELAY}'


def test_a_lookup_takes_one_round_trip(tmp_path: Path) -> None:
    best = 1e9
    for number in range(TRIES):
        trial = run_scenario(f'[path]\nrate = "100mbit"\n{DELAY}{DOWNLOAD}', tmp_path / str(number))
        assert trial.outcome().status == "ok", trial.outcome().reason
        best = min(best, trial.metrics()["name lookup"])
        if best < 1.3 * RTT_MS:
            break
    assert RTT_MS <= best < 1.3 * RTT_MS


def test_a_lookup_that_an_outage_drops_is_repeated_after_five_seconds(tmp_path: Path) -> None:
    (tmp_path / "outage.csv").write_text(OUTAGE)
    trial = run_scenario(WITH_OUTAGE + DOWNLOAD, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    assert RETRY_MS + RTT_MS <= trial.metrics()["name lookup"] < RETRY_MS + 10 * RTT_MS


def test_a_page_repeats_a_lookup_after_five_seconds_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = small_site(tmp_path / "site")
    monkeypatch.setattr("wavebed.workload.site.load_site", lambda *_: built)
    (tmp_path / "outage.csv").write_text(OUTAGE)
    page = '[[workload]]\nkind = "web"\nsite = "small"\nnames = "resolver"\nsettle = "0.5s"\nlimit = "20s"\n'
    trial = run_scenario(WITH_OUTAGE + page, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    # Chromium's own stub resolver would repeat it after a second. On a busy machine the count begins late.
    assert 0.9 * RETRY_MS <= trial.metrics()["name lookup"] < 1.1 * RETRY_MS
