"""What the page of a forwarding test says, and what it leaves out."""

from __future__ import annotations

import re
from html import unescape

import pytest
from msgspec.structs import replace
from tests.unit.forward.example import LIMIT, SUPER, EmulatedSetup, device, rates, record

from wavebed.forward.comparison import compare
from wavebed.forward.report.build import page, small_page
from wavebed.forward.report.compare import comparison_page
from wavebed.forward.report.device import findings_in_words
from wavebed.forward.report.words import frames, percent, us
from wavebed.forward.result import refused_parts, verdict_of
from wavebed.forward.search import GoalFinding
from wavebed.page.plots import Chart, ChartLine, Scale, linear, logarithmic


def text_of(html: str) -> str:
    """Return the words of a page, with one space between them."""
    html = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).replace("\N{NARROW NO-BREAK SPACE}", "").split())


def test_a_device_without_doubt_is_measured() -> None:
    result = device("a", 6e5)
    assert verdict_of(result) == "valid"
    assert "What was refused" not in page(record(result))


def test_a_refused_test_is_told_with_reason_and_remedy_and_has_no_number() -> None:
    result = device("a", 6e5, refused=True)
    told = text_of(page(record(result)))
    assert verdict_of(result) == "suspect"
    assert f"overload test : {SUPER.reason} (super_packets) . Remedy: {SUPER.remedy}" in told
    assert "overload test, 64 B – –" in told


def test_a_device_of_which_all_is_refused_has_no_figure() -> None:
    result = device("a", 6e5)
    sizes = tuple(
        replace(size, goals=tuple(GoalFinding(goal.goal, "refused", refusal=SUPER) for goal in size.goals))
        for size in result.sizes
    )
    bare = replace(result, sizes=sizes, overload=(), latency=(), loss_rates=(), bursts=())
    assert verdict_of(bare) == "invalid"
    told = text_of(page(record(bare)))
    assert "✗ invalid There is no figure that can be proved." in told
    assert "Frames of 64 B: no rate is reported, for the reason below." in told


def test_a_rate_that_the_tester_limits_is_refused_and_not_drawn() -> None:
    result = device("fast", 3e6, ceiling_pps=500_000.0)
    told = text_of(page(record(result)))
    assert f"search 64 B, search 128 B, search 256 B : {LIMIT.reason}" in told
    assert "refused the tester's limit; at least 450000" in told
    assert "The tester, not the device, was the limit, at 450000 per second." in told
    assert "64 B 500000 1488095 298 %" in told, "an overload result above the ceiling would show"


def test_findings_in_words_tell_the_smallest_and_the_largest_size() -> None:
    told = [sentence.replace("\N{NARROW NO-BREAK SPACE}", "") for sentence in findings_in_words(device("a", 6e5))]
    assert told == [
        "Frames of 64 B: 598800 per second without loss, 40.2 % of line rate.",
        "Frames of 1518 B: 81274 per second without loss: line rate.",
        "Under overload (throughput test, 1518 B): 81274 of 81274 offered frames per second got through, 0 % lost.",
        "Under overload (overload test, 64 B): 600000 of 1488095 offered frames per second got through, 59.7 % lost.",
    ]


def test_one_reason_in_many_trials_is_told_once() -> None:
    result = device("a", 6e5, refused=True)
    other = replace(SUPER, reason="1300 frames of 2818 B and more arrived, and frames of 64 B were sent")
    overload = replace(result.overload[1], refusals=(SUPER, other))
    assert refused_parts(replace(result, overload=(overload,))) == {SUPER: ["overload test"]}


def test_counters_that_do_not_balance_are_told() -> None:
    result = device("a", 6e5)
    first = replace(result.trials[0], received=result.trials[0].received - 5)
    told = text_of(page(record(replace(result, trials=(first, *result.trials[1:])))))
    assert "In 1 trials that count, sent is not received + lost." in told


def test_the_accounting_shows_what_was_dropped_at_the_sending_interface() -> None:
    result = device("a", 6e5)
    first = next(trial for trial in result.trials if trial.purpose == "overload")
    assert first.tx is not None
    left = replace(first.tx, tx_packets=first.received, tx_dropped=first.lost)
    told = text_of(page(record(replace(result, trials=(replace(first, tx=left),)))))
    sent, received, lost = first.sent, first.received, first.lost
    assert f"64 B valid 1 {sent} {received} {lost} {received + 2} {received} 2 {lost} 0" in told


def test_every_rate_is_named_in_its_units() -> None:
    told = text_of(page(record(device("a", 3e6))))
    assert "64 B line rate 1488095 1000 761.9 214.3 by arithmetic" in told
    assert "1518 B line rate 81274 1000 987 957.1 by arithmetic" in told
    assert "pps Mbit/s at L1 Mbit/s of frames Mbit/s of payload" in told


def test_iperf3_stands_beside_with_the_right_conversion() -> None:
    beside = {
        "iperf3": [
            {
                "test": "overload", "pps": 150_000.0, "claimed_mbps": 21.6, "command": "iperf3 -u -c 10.0.0.2 -l 18",
                "conversion": {"study_mpps": 0.03214, "corrected_mpps": 0.15}, "doubt": "", "payload_bytes": 18,
            },
            {"test": "throughput", "failed": "iperf3 was not there"},
        ]
    }  # fmt: skip
    told = text_of(page(record(replace(device("a", 6e5), beside=beside))))
    assert "overload 600000 150000 21.6 0.03214 0.15" in told
    assert "iperf3 -u -c 10.0.0.2 -l 18" in told
    assert "throughput: iperf3 was not there" in told


def test_what_others_named_cannot_break_out_of_the_page() -> None:
    nasty = "<script>alert(1)</script>"
    result = replace(device(nasty, 6e5, refused=True), doubts=(nasty,), machine={nasty: nasty}, kind=nasty)
    result = replace(result, refusals=(replace(SUPER, reason=nasty, remedy=nasty),))
    for text in (page(record(result)), comparison_page(compare([result, result]))):
        assert "<script>alert" not in text


def test_a_page_with_very_many_trials_stays_below_three_megabytes() -> None:
    result = device("a", 6e5)
    many = replace(result, trials=result.trials * 300)
    text = small_page(record(many))
    assert len(text.encode()) < 3_000_000
    assert f"{len(many.trials)} trials" in text
    assert "all are in series/trials.parquet" in text


def test_a_test_that_ended_at_once_still_has_a_page() -> None:
    bare = replace(
        device("a", 6e5), frames=None, link_mbps=None, probed=(), ceilings=(), sizes=(), overload=(), latency=(),
        loss_rates=(), bursts=(), trials=(), plan=(), machine={}, refusals=(SUPER,), took_s=0.0,
    )  # fmt: skip
    told = text_of(page(record(bare)))
    assert "✗ invalid" in told
    assert f"the test : {SUPER.reason}" in told
    assert "Nothing was measured." in told


def test_a_mix_is_shown_with_its_genome() -> None:
    told = text_of(page(record(device("a", 6e5))))
    assert re.search(r"IMIX IMIX - [aAg]{12} \(A=594\) 327368", told)


def test_a_refused_delay_is_a_reason_and_no_number() -> None:
    result = device("a", 6e5)
    refused = replace(
        result.latency[0], refusal=SUPER, p50_s=None, typical_s=None, worst_s=None, min_s=None, mean_s=None, p90_s=None,
        p99_s=None, p999_s=None, max_s=None, counts=(), frames=0,
    )  # fmt: skip
    told = text_of(page(record(replace(result, latency=(refused,)))))
    assert f"64 B 10 % 59880 refused: {SUPER.reason}" in told


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (frames(1_488_095.24), "1\N{NARROW NO-BREAK SPACE}488\N{NARROW NO-BREAK SPACE}095"),
        (frames(None), "–"),
        (percent(0.0), "0 %"),
        (percent(1e-9), "1e-07 %"),
        (percent(None), "–"),
        (us(50.04e-6), "50.0"),
    ],
)
def test_numbers_are_written_so_that_nothing_measured_looks_like_nothing(written: str, expected: str) -> None:
    assert written == expected


def test_an_axis_holds_its_values_and_has_ticks() -> None:
    for axis in (linear([0.0, 3.7]), logarithmic([0.081, 1.488]), logarithmic([5.0, 5.0]), linear([2.0])):
        assert len(axis.ticks) >= 2
        assert all(axis.low <= value <= axis.high for value, _ in axis.ticks)
    assert logarithmic([64.0, 1518.0]).fraction(1518.0) < 1
    assert Scale(1, 100, [], log=True).fraction(10) == pytest.approx(0.5)


def test_a_line_breaks_where_nothing_is_known() -> None:
    line = ChartLine("a", "t0", [(0, 1), (1, 2), (2, float("nan")), (3, 4)])
    drawn = Chart("t", "u", "x", linear([0, 3]), linear([0, 4]), [line]).render()
    path = re.search(r'<path class="line t0" d="([^"]*)"', drawn.partition("</div>")[2])
    assert path is not None
    lines = re.findall(r'<path class="line t0" d="(M[^"]*L[^"]*)"', drawn)
    assert [found.count("M") for found in lines] == [2]


def test_what_a_stepped_line_says_holds_until_its_next_step() -> None:
    first = ChartLine("a", "t0", [(1.0, 0.0), (4.0, 100.0)], stepped=True)
    second = ChartLine("b", "t1", [(2.0, 0.0), (3.0, 100.0)], stepped=True)
    data = Chart("t", "%", "x", linear([1, 4]), linear([0, 100]), [first, second])._data()
    assert data["lines"] == [
        {"name": "a", "style": "t0", "values": ["0", "0", "0", "100"]},
        {"name": "b", "style": "t1", "values": [None, "0", "100", "100"]},
    ]


def test_an_example_forwards_what_it_can() -> None:
    setup = EmulatedSetup(100_000.0)
    trial = setup.trials[setup.trial("x", (64,), 150_000.0)]
    assert (trial.sent, trial.received, trial.lost) == (150_000, 100_000, 50_000)
    assert rates(1e6, (64,)).l1_mbps == pytest.approx(672)
