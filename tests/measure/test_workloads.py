"""Times of pages on a path with known figures, beside theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.small_site import small_site
from tests.lab.workload_trial import KNOWN_PATH, Trial, run_scenario

if TYPE_CHECKING:
    from pathlib import Path


RATE = 'rate = "100mbit"\n'
DELAY = 'delay = "20ms"\n'


def load(folder: Path, path: str = KNOWN_PATH) -> Trial:
    """Load the small page."""
    keys = 'settle = "0.5s"\nlimit = "20s"\n'
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        built = small_site(folder / "site")
        patch.setattr("wavebed.workload.site.load_site", lambda *_: built)
        return run_scenario(f'{path}[[workload]]\nkind = "web"\nsite = "small"\n{keys}', folder)


def ahead_ms(trial: Trial) -> float:
    """Return how long before the navigation that it reports Chromium connects: 5 ms, on a busy machine 45."""
    return float((trial.outcome().details["start_s"] - trial.first_packet_s()) * 1e3)  # type: ignore[operator]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = load(tmp_path_factory.mktemp("known"))
    assert trial.outcome().status == "ok", trial.outcome().reason
    return trial


def test_the_first_picture_in_the_trace_is_the_first_frame_of_the_page(known: Trial) -> None:
    found = known.metrics()
    assert found["first visual change"] == pytest.approx(found["first contentful paint"], abs=50)


def test_the_first_byte_comes_after_three_round_trips(known: Trial) -> None:
    found = known.metrics()
    # TCP, TLS 1.3 and the request, from the first packet: 40 ms each. Above are the time of browser and server.
    assert found["ttfb"] + ahead_ms(known) >= 120
    assert found["ttfb"] <= 400


def test_longer_and_slower_paths_make_later_pages(known: Trial, tmp_path: Path) -> None:
    near = known.metrics()
    trial = load(tmp_path / "far", KNOWN_PATH.replace(DELAY, 'delay = "100ms"\n'))
    far = trial.metrics()
    # Three round trips until the first byte, one for the style, three and more for the picture: a busy machine adds to
    # all pages, so the bounds are theory's, from the first packet.
    for name, round_trips in (("ttfb", 3), ("speed index", 4), ("on load", 7)):
        assert far[name] + ahead_ms(trial) >= round_trips * 200
        assert far[name] > near[name]
    slow = load(tmp_path / "slow", KNOWN_PATH.replace(RATE, 'rate = "1mbit"\n')).metrics()
    # 270 kB at 1 Mbit/s last 2.1 s, at 100 Mbit/s 22 ms.
    for name, least_ms in (("on load", 2100), ("visually complete", 1500)):
        assert slow[name] > least_ms
        assert slow[name] > near[name]


RETRY_MS = 5000
"""After which glibc repeats a query: resolv.conf(5), option timeout."""
OUTAGE = "# wavebed pattern 1\n# kind = steps\n# duration_s = 2\ntime_s,rate_bps\n0,0\n1,100000000\n"
"""An outage in the first second."""
WITH_OUTAGE = '[path]\ntrace = "outage.csv"\ntrace-end = "hold"\noutage = "drop"\ndelay = "25ms"\n'


def test_a_page_repeats_a_lookup_after_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = small_site(tmp_path / "site")
    monkeypatch.setattr("wavebed.workload.site.load_site", lambda *_: built)
    (tmp_path / "outage.csv").write_text(OUTAGE)
    page = '[[workload]]\nkind = "web"\nsite = "small"\nnames = "resolver"\nsettle = "0.5s"\nlimit = "20s"\n'
    trial = run_scenario(WITH_OUTAGE + page, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    # Chromium's own stub resolver would repeat it after a second. On a busy machine the count begins late.
    assert 0.9 * RETRY_MS <= trial.metrics()["name lookup"] < 1.1 * RETRY_MS
