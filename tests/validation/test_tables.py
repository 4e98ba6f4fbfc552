"""Rates against published numbers. Each tolerance says where it comes from."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.adaptation import adapt, peak_rate_bps
from wavebed.channel.transport_formats import (
    code_rate,
    lte_transport_block_bits,
    mcs_rates_bps,
    modulation_order,
    need_db,
    nr_transport_block_bits,
    waterfall,
    wifi_efficiency,
)
from wavebed.radio.carriers import read_table, resource_blocks
from wavebed.radio.fiveqi import characteristics, standardised
from wavebed.radio.presets import WifiSettings
from wavebed.scene.model import Carrier
from wavebed.spec.network import WrittenQueue


def test_the_transport_block_of_400_mhz_is_192_624_bits() -> None:
    """TS 38.214 5.1.3.2 by hand: 264 blocks, 12 symbols, 12 elements of DMRS, MCS 28 of 64QAM, one layer. Exact."""
    assert nr_transport_block_bits(28, 264, symbols=12, dmrs_elements=12) == 192_624


def test_the_largest_transport_block_of_nr_is_1_277_992_bits() -> None:
    """273 blocks, 156 elements each, 948/1024 of 8 bits, 4 layers: 1 277 992 in public TBS tables of NR. Exact."""
    assert nr_transport_block_bits(27, 273, symbols=14, dmrs_elements=12, layers=4, mcs_table="256qam") == 1_277_992


@pytest.mark.parametrize(("order", "megabits"), [(6, 1616), (8, 2155)])
def test_the_peak_rate_of_a_layer(order: int, megabits: int) -> None:
    """TS 38.306 4.1.2 for 264 blocks at 120 kHz. The published values are whole Mbit/s: half of one."""
    blocks = resource_blocks("nr", 400e6, 3, 28e9)
    assert peak_rate_bps(blocks, 3, 28e9, modulation_order=order) / 1e6 == pytest.approx(megabits, abs=0.5)


def test_transport_blocks_stay_below_the_peak_rate() -> None:
    """1541 Mbit/s by transport blocks against 1616: control takes 2 of 14 symbols and DMRS 1, so 0.786 against 0.82."""
    found = mcs_rates_bps(Carrier("nr", 28e9, 400e6, 3), "down")[-1]
    assert found / 1e6 == pytest.approx(1541, abs=0.5)
    assert found / peak_rate_bps(264, 3, 28e9) == pytest.approx((11 / 14) / 0.82, rel=0.01)  # rounding of a block


@pytest.mark.parametrize(("blocks", "group", "goodput"), [(25, 2, 17.2), (75, 4, 51.6), (100, 4, 73.7)])
def test_lte_peak_against_the_goodput_of_a_simulator(blocks: int, group: int, goodput: float) -> None:
    """UDP goodput of ns-3's LTE model at a strong signal.

    Its scheduler gives whole resource block groups (TS 36.213 Table 7.1.6.1-1: groups of 2 for 25 blocks, of 4 for 75
    and 100), so 24, 72 and 100 blocks. What is left is headers: UDP and IP 28 bytes of a packet of about 1052, less
    than 1 % for PDCP, RLC and MAC: 2 to 4 % below the transport blocks.
    """
    hertz = {25: 5e6, 75: 15e6, 100: 20e6}[blocks]
    ours = adapt(np.full(100, 30.0), 1e-3, Carrier("lte", 2.1e9, hertz), "down").rate_bps[-1] / 1e6
    whole_groups = blocks // group * group / blocks
    assert 0.96 <= goodput / (ours * whole_groups) <= 0.98


def test_lte_code_rates_are_near_those_of_nr_at_the_same_index() -> None:
    """Why LTE may take NR's error rates: same modulation, code rate within 3 % at 120 elements a block.

    120 = 11 symbols of 12 subcarriers less 12 of two antenna ports' reference signals: three symbols of control. The
    highest MCS does not fit there; it has NR's code rate, within 1 %, at 136 elements.
    """
    for table in ("64qam", "256qam"):
        order = modulation_order(table)
        assert (read_table(f"lte_mcs_{table}", "modulation_order") == order).all()
        coded = lte_transport_block_bits(np.arange(order.size), 100, mcs_table=table) / (100 * order * code_rate(table))
        assert coded[:-1] / 120 == pytest.approx(1, abs=0.03)
    assert lte_transport_block_bits(28, 100) / (100 * 6 * code_rate("64qam")[28]) / 136 == pytest.approx(1, abs=0.01)


def test_spectral_efficiencies_are_the_published_column() -> None:
    """TS 38.214 Tables 5.1.3.1-1 and -2 print efficiency to four digits; first, change of modulation and last."""
    small, large = (modulation_order(table) * code_rate(table) for table in ("64qam", "256qam"))
    assert small[[0, 9, 10, 16, 17, 28]] == pytest.approx([0.2344, 1.3262, 1.3281, 2.5703, 2.5664, 5.5547], abs=5e-5)
    assert large[[0, 4, 5, 10, 11, 19, 20, 27]] == pytest.approx(
        [0.2344, 1.1758, 1.4766, 2.5703, 2.7305, 5.1152, 5.3320, 7.4063], abs=5.1e-5
    )


def test_thresholds_lie_above_capacity_by_one_to_three_decibels() -> None:
    """No code beats capacity; NR's LDPC comes within 3 dB of it."""
    for table in ("64qam", "256qam"):
        capacity_db = 10 * np.log10(2 ** (modulation_order(table) * code_rate(table)) - 1)
        gap_db = waterfall("nr", table).snr_db - capacity_db
        assert gap_db.min() > 0.6
        assert gap_db.max() < 3.0


def test_needs_are_those_of_measured_ldpc_curves_but_for_their_grid() -> None:
    """26 code rates of QPSK, 16QAM and 64QAM, 8448 bits. Read from a grid of 1.8 dB, linear between its points.

    A logistic curve with 3.8 per decibel between points 1.8 dB apart is read up to 0.55 dB wrong, as much as the table
    zigzags from one code rate to the next. The one parameter that was fitted is the mean.
    """
    order, rate, measured_db = (
        read_table("nr_bler", name) for name in ("modulation_order", "code_rate_x1024", "snr_db")
    )
    left_db = measured_db - need_db(order.astype(int), order * rate / 1024, 8448)
    assert left_db.mean() == pytest.approx(0, abs=0.01)
    assert np.abs(left_db).max() < 0.55
    assert left_db.std() < 0.31
    for each in (2, 4, 6):  # the same decoder, whatever the modulation: three standard errors of 7 to 12 rows
        assert abs(left_db[order == each].mean()) < 3 * 0.3 / np.sqrt((order == each).sum())


def test_60_ghz_needs_mcs_10_for_two_and_a_half_gbit_of_tcp() -> None:
    """A 60 GHz router carried 2.5 Gbit/s of TCP or more.

    A segment of 1448 bytes travels in 1540 bytes; aggregates of 64 packets lose 30 µs each. MCS 9 stays below the
    figure, MCS 10 reaches it, by 4 %: acknowledgements of TCP in the other direction take about that much.
    """
    settings = WifiSettings("802.11ad", WrittenQueue("infinite"), 262_143, 64, 30_000, 7, 40)
    tcp = read_table("dmg_mcs", "rate_bps") * wifi_efficiency(settings) * 1448 / 1540
    assert tcp[9] < 2.2e9
    assert tcp[10] == pytest.approx(2.5e9, rel=0.05)
    assert tcp[11] > 3.0e9


def test_single_carrier_rates_follow_from_blocks_of_448_symbols() -> None:
    """IEEE 802.11ad: 448 of 512 chips carry data at 1.76 GHz; MCS 1 says everything twice. Exact."""
    order, rate = read_table("dmg_mcs", "modulation_order"), read_table("dmg_mcs", "code_rate")
    repeated = np.where(np.arange(13) == 1, 2, 1)
    found = 1.76e9 * 448 / 512 * order * rate / repeated
    assert found[1:] == pytest.approx(read_table("dmg_mcs", "rate_bps")[1:])


def test_5qi_keep_the_priority_levels_of_qci() -> None:
    """TS 23.203 tables 6.1.7-A and -B have the same services, their levels ten times smaller. Copied; exact."""
    of_qci = {1: 2, 2: 4, 3: 3, 4: 5, 65: 0.7, 66: 2, 67: 1.5, 71: 5.6, 72: 5.6, 73: 5.6, 74: 5.6, 76: 5.6}
    of_qci |= {5: 1, 6: 6, 7: 7, 8: 8, 9: 9, 10: 9, 69: 0.5, 70: 5.5, 79: 6.5, 80: 6.8}
    of_qci |= {82: 1.9, 83: 2.2, 84: 2.4, 85: 2.1}
    new = {86: 18, 87: 25, 88: 25, 89: 25, 90: 25}  # not in 4G
    assert {number: row.level for number, row in standardised().items()} == new | {
        number: round(10 * level) for number, level in of_qci.items()
    }


def test_5qi_have_the_delays_and_error_rates_of_the_standard() -> None:
    """TS 23.501 table 5.7.4-1, one row of each pair of resource type and group of services. Copied by hand; exact."""
    rows = {1: ("gbr", 100, 1e-2), 2: ("gbr", 150, 1e-3), 4: ("gbr", 300, 1e-6), 73: ("gbr", 300, 1e-8)}
    rows |= {7: ("non-gbr", 100, 1e-3), 9: ("non-gbr", 300, 1e-6), 69: ("non-gbr", 60, 1e-6), 79: ("non-gbr", 50, 1e-2)}
    rows |= {82: ("delay-critical-gbr", 10, 1e-4), 85: ("delay-critical-gbr", 5, 1e-5)}
    for number, (resource, milliseconds, errors) in rows.items():
        found = characteristics(number)
        assert (found.resource, found.delay_budget_ns, found.error_rate) == (resource, milliseconds * 10**6, errors)
    with pytest.raises(ValueError, match="5QI 75 is not standardised: write one of 1, 2, 3, 4, 5, 6"):
        characteristics(75)
