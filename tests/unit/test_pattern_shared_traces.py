"""Published traces, and made-up ones in their formats, are read as their own lines say."""

from __future__ import annotations

import csv
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from tests.traces import SECONDS, trace

from wavebed.pattern import ReadOptions, read_trace, render

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("made-up-walk.txt", SECONDS),
        ("lumos5g_32_walking.txt", 800),
        ("lumos5g_116_walking.txt", 799),
        ("lumos5g_103_driving.txt", 236),
        ("lumos5g_100_walking.txt", 800),
    ],
)
def test_a_walk_has_its_duration_and_the_mean_of_its_samples(name: str, seconds: int, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    samples = [Fraction(line.split()[1]) for line in path.read_text().splitlines()]
    pattern = read_trace(path)
    assert pattern.period == seconds * 10**9
    assert Fraction(pattern.bit_ns(), pattern.period) == sum(samples) * 10**6 / len(samples)
    written = render(pattern, "seconds-mbit")
    assert [tuple(map(float, line.split())) for line in written.splitlines()] == [
        tuple(map(float, line.split())) for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [
        ("made-up-lte.down", SECONDS * 1000),
        ("ATT-LTE-driving-2016.down", 120_002),
        ("ATT-LTE-driving-2016.up", 120_002),
        ("Verizon-LTE-short.down", 140_000),
        ("Verizon-LTE-short.up", 140_000),
    ],
)
def test_mahimahi_has_its_duration_its_bytes_and_the_same_lines_again(
    name: str, milliseconds: int, tmp_path: Path
) -> None:
    path = trace(name, tmp_path)
    pattern = read_trace(path)
    lines = path.read_text().splitlines()
    assert pattern.period == milliseconds * 10**6
    assert pattern.bit_ns() == len(lines) * 1500 * 8 * 10**9
    assert render(pattern, "mahimahi").splitlines() == lines


@pytest.mark.parametrize("name", ["made-up-sinr.csv", "mmwave_sinr_throughput.csv"])
def test_mmwave_measurements_are_read_by_column(name: str, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    with path.open() as file:
        rates = [round(Fraction(row["downlink_Mbps"]) * 10**6) for row in csv.DictReader(file)]
    pattern = read_trace(path, options=ReadOptions(columns=("every=1s", "rate=downlink_Mbps:mbit")))
    assert pattern.period == len(rates) * 10**9
    assert pattern.rate_bps.tolist() == rates


@pytest.mark.parametrize("name", ["made-up-probes.csv", "rrc_probe_verizon_nsa_mmwave.csv"])
def test_idle_probes_are_read_as_delays(name: str, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    with path.open() as file:
        delays = [int(row["RTT1"]) * 10**6 for row in csv.DictReader(file)]
    pattern = read_trace(path, options=ReadOptions(columns=("every=10s", "delay=RTT1:ms")))
    assert pattern.delay_ns.tolist() == delays
    assert pattern.period == len(delays) * 10**10
