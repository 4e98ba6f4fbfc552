"""Link adaptation: reports, outer loop, rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel.adaptation import Adapted, LoopSettings, adapt
from wavebed.channel.transport_formats import block_error_rate, mcs_rates_bps, waterfall
from wavebed.radio.carriers import resource_blocks
from wavebed.radio.presets import WifiSettings
from wavebed.scene.model import Carrier
from wavebed.spec.network import WrittenQueue

MMWAVE = Carrier("nr", 28e9, 400e6, 3, 264, "DDDSU")
FDD = Carrier("nr", 2.1e9, 20e6, 0)
LTE = Carrier("lte", 1.8e9, 20e6)
DMG = Carrier("802.11ad", 60.48e9, 2.16e9)
STILL = LoopSettings(step_db=0.0)


def wifi() -> WifiSettings:
    return WifiSettings("802.11ad", WrittenQueue("infinite"), 262_143, 64, 30_000, 7, 40)


def static(sinr_db: float, carrier: Carrier = MMWAVE, seconds: int = 40) -> Adapted:
    settled = adapt(np.full(1000 * (seconds + 20), sinr_db), 1e-3, carrier, "down", wifi=wifi())
    return Adapted(*(values[20_000:] for values in settled))


@pytest.mark.parametrize("carrier", [MMWAVE, LTE, replace(MMWAVE, mcs_table="256qam")])
@pytest.mark.parametrize("sinr_db", [-1.7, 3.4, 9.0, 14.6, 15.8])
def test_between_two_mcs_a_tenth_of_the_blocks_fails(carrier: Carrier, sinr_db: float) -> None:
    found = static(sinr_db, carrier)
    assert np.unique(found.mcs).size >= 2
    # The correction swings by at most one step of 1 dB in 4000 periods: 0.9 / 4000 of the mean, and rounding.
    assert found.bler.mean() == pytest.approx(0.1, abs=0.002)


def test_without_outer_loop_the_report_alone_decides() -> None:
    found = adapt(np.full(100, 15.8), 1e-3, MMWAVE, "down", loop=STILL)
    assert set(found.mcs) == {24}  # CQI 13 (15.1 dB) is what 15.8 dB is reported as
    assert found.sinr_db[0] == pytest.approx(15.8)
    # Its code blocks are shorter than the largest, and its transport block is rounded: some hundredths of a decibel.
    assert found.need_db[0] == pytest.approx(float(waterfall("nr").snr_db[24]), abs=0.2)
    shift_db = float(waterfall("nr").snr_db[24] - found.need_db[0])
    assert found.bler[0] == pytest.approx(float(block_error_rate(15.8 + shift_db, 24)), rel=0.01)


def test_the_uplink_is_measured_and_not_quantised() -> None:
    down, up = (adapt(np.full(100, 14.5), 1e-3, MMWAVE, link, loop=STILL) for link in ("down", "up"))
    assert set(down.mcs) == {21 + 1}  # CQI 12 (13.1 dB)
    assert set(up.mcs) == {23}  # 14.2 dB


def test_a_report_is_used_after_its_delay_and_until_the_next() -> None:
    sinr = np.repeat([20.0, 5.0, 20.0], 30)
    loop = LoopSettings(period_s=0.01, delay_s=0.004, step_db=0.0)
    found = adapt(sinr, 1e-3, MMWAVE, "down", loop=loop)
    assert np.flatnonzero(np.diff(found.mcs)).tolist() == [33, 63]
    assert found.bler[30:34] == pytest.approx(1)


def test_old_reports_make_blocks_fail_while_the_sinr_falls() -> None:
    falling = np.linspace(25, 0, 1000)  # 25 dB in a second
    prompt, late = (
        adapt(falling, 1e-3, MMWAVE, "down", loop=LoopSettings(delay_s=delay, step_db=0.0)) for delay in (0.0, 0.05)
    )
    assert late.bler.mean() > prompt.bler.mean() + 0.1
    rising = adapt(falling[::-1], 1e-3, MMWAVE, "down", loop=LoopSettings(delay_s=0.05, step_db=0.0))
    assert rising.bler.mean() < prompt.bler.mean()


def test_below_the_lowest_mcs_nothing_is_sent() -> None:
    found = adapt(np.full(50, -20.0), 1e-3, MMWAVE, "down")
    assert set(found.mcs) == {-1}
    assert not found.rate_bps.any()
    assert not found.bler.any()


def test_with_the_lowest_cqi_the_lowest_mcs_is_tried() -> None:
    """TS 38.214 5.2.2.1: CQI 1 is in range, with 78/1024 of QPSK; MCS 0 has 120/1024 and needs its repetitions."""
    found = adapt(np.full(50, -8.0), 1e-3, MMWAVE, "down", loop=STILL)
    assert set(found.mcs) == {0}
    assert found.bler.min() > 0.9
    out_of_range = adapt(np.full(50, -9.0), 1e-3, MMWAVE, "down", loop=STILL)
    assert set(out_of_range.mcs) == {-1}


@pytest.mark.parametrize("outage_db", [-20.0, -7.0, -np.inf])
def test_it_comes_back_after_an_outage(outage_db: float) -> None:
    sinr = np.repeat([20.0, outage_db, 15.0], 1000)
    found = adapt(sinr, 1e-3, MMWAVE, "down")
    assert found.mcs[1100:2000].max() <= 0
    assert (found.mcs[2500:] >= 20).all()


def test_a_strong_signal_does_not_wind_the_outer_loop_up() -> None:
    sinr = np.concatenate([np.full(60_000, 37.0), np.full(100, 15.0)])
    fresh = adapt(np.concatenate([np.full(100, 37.0), np.full(100, 15.0)]), 1e-3, MMWAVE, "down")
    found = adapt(sinr, 1e-3, MMWAVE, "down")
    assert found.mcs[-100:].tolist() == fresh.mcs[-100:].tolist()


def test_realisations_do_not_meet() -> None:
    rng = np.random.default_rng(3)
    sinr = 12 + np.cumsum(rng.normal(0, 0.3, (2, 3, 500)), axis=-1)
    found = adapt(sinr, 1e-3, MMWAVE, "down")
    assert found.mcs.shape == found.rate_bps.shape == found.bler.shape == (2, 3, 500)
    alone = adapt(sinr[1, 2], 1e-3, MMWAVE, "down")
    for all_of, one in zip(found, alone, strict=True):
        assert (all_of[1, 2] == one).all()


@given(
    st.lists(st.floats(-60, 60), min_size=1, max_size=60),
    st.sampled_from([MMWAVE, FDD, LTE, DMG]),
    st.sampled_from(["down", "up"]),
    st.sampled_from([1e-4, 1e-3, 0.02]),
)
def test_what_is_written_fits_the_pattern(sinr: list[float], carrier: Carrier, direction: str, step_s: float) -> None:
    found = adapt(sinr, step_s, carrier, "down" if direction == "down" else "up", wifi=wifi())
    assert found.mcs.dtype == np.int16
    assert found.rate_bps.dtype == np.int64
    assert ((found.bler >= 0) & (found.bler <= 1)).all()
    assert ((found.mcs >= 0) == (found.rate_bps > 0)).all()
    assert ((found.layers > 0) == (found.rate_bps > 0)).all()
    assert np.isfinite(found.sinr_db).all()
    assert np.isfinite(found.need_db).all()


@given(st.floats(-30, 50), st.floats(0, 20), st.sampled_from([MMWAVE, FDD, LTE, DMG]))
def test_more_sinr_is_never_slower_at_first(sinr_db: float, more_db: float, carrier: Carrier) -> None:
    low, high = (adapt([value], 1e-3, carrier, "down", wifi=wifi()) for value in (sinr_db, sinr_db + more_db))
    assert high.rate_bps[0] >= low.rate_bps[0]


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        adapt([1.0, np.nan], 1e-3, MMWAVE, "down")


def test_the_duplex_frame_divides_the_rate() -> None:
    whole = mcs_rates_bps(replace(MMWAVE, frame=""), "down")[28]
    assert whole == 192_624 * 8000
    # DDDSU, S with 10 downlink symbols of which 2 are control: 84 of 144 - 12 elements remain.
    assert mcs_rates_bps(MMWAVE, "down")[28] / whole == pytest.approx((3 + 84 / 132) / 5, rel=0.01)
    assert mcs_rates_bps(replace(MMWAVE, special_symbols=(2, 10, 2)), "down")[28] == whole * 3 / 5
    assert mcs_rates_bps(MMWAVE, "up")[28] / mcs_rates_bps(replace(MMWAVE, frame=""), "up")[28] == pytest.approx(1 / 5)


def test_layers_of_each_direction_multiply_the_rate() -> None:
    two = replace(LTE, layers=2)
    assert (mcs_rates_bps(two, "down") == 2 * mcs_rates_bps(LTE, "down")).all()
    assert (mcs_rates_bps(two, "up") == mcs_rates_bps(LTE, "up")).all()


def test_a_special_subframe_of_lte_carries_three_quarters() -> None:
    frame = replace(LTE, frame="DSUUD")
    assert mcs_rates_bps(frame, "down")[28] == (2 + 0.75) * 75_376 * 1000 / 5
    assert mcs_rates_bps(frame, "up")[28] == 2 * 75_376 * 1000 / 5


def test_given_resource_blocks_win() -> None:
    assert (mcs_rates_bps(replace(MMWAVE, resource_blocks=0), "down") == mcs_rates_bps(MMWAVE, "down")).all()
    assert mcs_rates_bps(replace(MMWAVE, resource_blocks=132), "down")[28] < mcs_rates_bps(MMWAVE, "down")[28]


def test_wifi_skips_what_a_faster_mcs_does_at_less_sinr() -> None:
    chosen = {int(adapt([sinr], 1e-3, DMG, "down", wifi=wifi()).mcs[0]) for sinr in np.arange(-5, 30, 0.05)}
    assert chosen == {-1, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12}


def test_wifi_needs_its_aggregates() -> None:
    with pytest.raises(ValueError, match="aggregates"):
        adapt([10.0], 1e-3, DMG, "down")


@pytest.mark.parametrize(
    ("carrier", "message"),
    [
        (("nr", 1e9, 3, 28e9), r"bandwidth 1000 MHz is not one of 50, 100, 200, 400 MHz, which numerology 3 in FR2 al"),
        (("nr", 100e6, 3, 3.5e9), r"numerology 3 is not one of 0, 1, 2, which FR1 allows"),
        (("nr", 100e6, None, 3.5e9), r"numerology None is not one of 0, 1, 2, which FR1 allows"),
        (("nr", 100e6, 1, 10e9), r"frequency 10 GHz is neither in FR1"),
        (("lte", 7e6, None, 1.8e9), r"bandwidth 7 MHz is not one of 1.4, 3, 5, 10, 15, 20 MHz, which LTE allows"),
    ],
)
def test_a_bandwidth_that_no_numerology_allows_is_named(carrier: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resource_blocks(*carrier)
