"""Times of a page in Chromium on known paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.small_site import small_site
from tests.lab.workload_trial import Trial, run_scenario
from tests.measure.known_path import DELAY, KNOWN_PATH, RATE

if TYPE_CHECKING:
    from pathlib import Path


def load(folder: Path, path: str = KNOWN_PATH, keys: str = 'settle = "0.5s"\nlimit = "20s"\n') -> Trial:
    """Load the small page."""
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


def test_a_new_connection_takes_a_round_trip_for_tcp_and_one_for_tls(known: Trial) -> None:
    other = known.outcome().details["requests"][2]  # type: ignore[call-overload, index]
    assert other["connect_ms"][1] - other["connect_ms"][0] >= 74  # type: ignore[call-overload, index, operator]
    assert other["tls_ms"][1] - other["tls_ms"][0] >= 34  # type: ignore[call-overload, index, operator]


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


def test_a_page_that_is_not_loaded_by_its_limit_keeps_the_times_that_it_reached(tmp_path: Path) -> None:
    # 270 kB at 100 kbit/s last 22 s; style sheet and text are there long before.
    trial = load(tmp_path, KNOWN_PATH.replace(RATE, 'rate = "100kbit"\n'), 'settle = "0.5s"\nlimit = "8s"\n')
    assert (trial.outcome().status, trial.outcome().reason) == ("failed", "not loaded within 8 s")
    found = trial.metrics()
    assert found["ttfb"] is not None
    assert found["first contentful paint"] is not None
    assert found["on load"] is None
    assert found["speed index"] is None
    assert found["visually complete"] is None


def test_a_page_that_is_loaded_but_not_recorded_long_enough_is_partial(tmp_path: Path) -> None:
    trial = load(tmp_path, keys='settle = "30s"\nlimit = "5s"\n')
    assert trial.outcome().status == "partial"
    assert trial.outcome().reason == "loaded, but stopped before the screen was recorded for 30 s"
    assert trial.metrics()["speed index"] is not None
