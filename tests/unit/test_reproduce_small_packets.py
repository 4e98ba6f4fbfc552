"""``wavebed reproduce small-packets``: the order, the merging of rounds, the study's figures beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.unit.forward.example import device, rates

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.forward.comparison import compare
from wavebed.forward.model import ForwardTrial, Refusal
from wavebed.forward.parts import OverloadFinding
from wavebed.interface.results import load
from wavebed.reproduce.small_packets import PUBLISHED, ROUNDS, Reproduction, merge, said_plan, spec_of
from wavebed.reproduce.small_packets_text import arithmetic_rows, beside_sections, tables_text
from wavebed.reproduce.small_packets_write import write_reproduction
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.forward.result import DeviceResult


def trial(pps: float, *refusals: Refusal) -> ForwardTrial:
    frames = int(pps)
    return ForwardTrial(
        "overload",
        (64,),
        None,
        1.0,
        frames,
        frames,
        0,
        pps,
        pps,
        1.0,
        None,
        None,
        None,
        None,
        refusals,
        {"busy_max": 0.9},
    )


def one_round(pps: float, *refusals: Refusal, sizes: bool = False) -> DeviceResult:
    """A round: a warm-up trial, then one of the 64-byte test; in the last one there is a search too."""
    whole = device("routing", 5e5)
    counted = [] if refusals else [pps]
    test = OverloadFinding(
        "overload",
        (64,),
        None,
        median_interval(counted),
        median_interval(counted),
        rates(pps, (64,)),
        rates(pps, (64,)),
        median_interval([0.0] * len(counted)),
        median_interval([0.9] * len(counted)),
        tuple(refusals),
        (1,),
    )
    searches = tuple(replace(size, trials=(0, 1)) for size in whole.sizes) if sizes else ()
    return replace(
        whole, overload=(test,), sizes=searches, trials=(trial(1.0), trial(pps, *refusals)), refusals=(), doubts=("d",)
    )


def test_rounds_become_one_result_with_the_median_over_all_of_them() -> None:
    rounds = [one_round(pps * 1e5, sizes=pps == 9) for pps in (1, 2, 3, 4, 5, 9)]
    merged = merge(rounds)
    (test,) = merged.overload
    assert test.received_pps.estimate == pytest.approx(3.5e5)
    assert (test.received_pps.low, test.received_pps.high) == (1e5, 9e5)
    assert test.received is not None
    assert test.received.pps == pytest.approx(3.5e5)
    assert [merged.trials[place].received_pps for place in test.trials] == [1e5, 2e5, 3e5, 4e5, 5e5, 9e5]
    assert all(size.trials == (10, 11) for size in merged.sizes)
    assert merged.doubts == ("d",)


def test_a_refused_round_is_left_out_of_the_median_and_said() -> None:
    refusal = Refusal("late", "the sender was late")
    merged = merge([one_round(1e5), one_round(9e5, refusal), one_round(3e5)])
    (test,) = merged.overload
    assert (test.received_pps.estimate, test.received_pps.count) == (2e5, 2)
    assert test.refusals == (refusal,)
    assert len(merged.trials) == 6


def test_rounds_that_were_all_refused_give_no_number() -> None:
    refusal = Refusal("late", "the sender was late")
    (test,) = merge([one_round(1e5, refusal), one_round(2e5, refusal)]).overload
    assert (test.received, test.received_pps.estimate) == (None, None)


def test_every_device_is_offered_a_gigabit_at_l1_in_both_sizes() -> None:
    for last in (False, True):
        spec = spec_of("nat", quick=True, last=last)
        assert (spec.settings.link_mbps, spec.settings.sizes_bytes) == (1000.0, (64, 1518))
        assert spec.settings.overload_repeats == 1
        assert ("search" in spec.settings.parts) == last


def test_the_plan_says_how_long_and_where_the_gigabit_is_held() -> None:
    told = said_plan(quick=True)
    assert f"5 devices in {ROUNDS} rounds" in told
    assert "at most 1 Gbit/s at L1 at the device's input" in told


def test_the_published_ranks_are_those_of_the_published_rates() -> None:
    for value, rank in (("throughput_mbps", "throughput_rank"), ("small_mpps", "small_rank")):
        ordered = sorted(PUBLISHED, key=lambda row, value=value: -getattr(row, value))  # type: ignore[misc]
        assert [getattr(row, rank) for row in ordered] == [1, 2, 3, 4, 5]


def test_tables_stand_beside_the_published_ones_with_both_arithmetics() -> None:
    conversion = {"study_mpps": 0.0217, "corrected_mpps": 0.1012}
    run = {"test": "overload", "claimed_mbps": 14.576, "pps": 101_500.0, "conversion": conversion, "doubt": ""}
    comparison = compare([replace(device("routing", 5e5), beside={"iperf3": [run]}), device("xdp", 1.2e6)])
    text = tables_text(comparison)
    assert "Published" in text
    assert "BCM4908" in text
    assert "at most 1 Gbit/s at L1, at the device's input" in text
    row = arithmetic_rows([one.result for one in comparison.devices])[1]
    assert row[:6] == ["routing", "overload", "14.6", "0.0217", "0.1012", "0.1015"]
    page = beside_sections(comparison)
    assert "0.1012" in page
    assert "MT7622B" in page


def test_without_iperf3_there_is_no_table_of_arithmetic() -> None:
    assert len(arithmetic_rows([device("xdp", 1.2e6)])) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["small-packet"], "did you mean 'small-packets'?"),
        (["small-packets", "--seed", "x"], "--seed: 'x' is not a whole number"),
    ],
)
def test_a_mistake_is_answered_with_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_report_and_compare_take_the_folder_of_a_reproduction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tuple(replace(device(kind, pps), kind=kind) for kind, pps in (("bridge", 9e5), ("xdp", 1.2e6)))
    made = Reproduction(results, (("xdp", "bridge"),), {}, interrupted=False)
    page = write_reproduction(tmp_path, made, compare(results), 1, ["wavebed"])
    first = page.read_text()
    page.unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text() == first
    assert main(["compare", str(tmp_path)]) == 0
    assert "Table 1." in capsys.readouterr().out
    with pytest.raises(UserError, match="holds several forwarding tests: name one of the folders in"):
        load(tmp_path)
