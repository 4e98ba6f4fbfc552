"""Losses of the QUIC network simulator's scenarios, and a condition, in a laboratory."""

from __future__ import annotations

import subprocess
import sys

LINK = "--delay=5ms --bandwidth=10Mbps --queue=25"
MORE = 10
"""Requests after those that are looked at: ping waits for the answer to its last one for 0.1 s only."""


def ping(scene: str, count: int) -> tuple[list[int], list[float]]:
    """Return the numbers and the round trips (ms) of the answered pings among the first `count`."""
    argv = [sys.executable, "-m", "wavebed", "shell", "--scene", scene, "--"]
    argv += ["ping", "-n", "-c", str(count + MORE), "-i", "0.1", "server"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    answers = [line for line in done.stdout.splitlines() if "icmp_seq=" in line and "time=" in line]
    assert answers, done.stderr
    numbers = [int(line.partition("icmp_seq=")[2].partition(" ")[0]) for line in answers]
    trips_ms = [float(line.partition("time=")[2].partition(" ")[0]) for line in answers]
    kept = [place for place, number in enumerate(numbers) if number <= count]
    return [numbers[place] for place in kept], [trips_ms[place] for place in kept]


def test_listed_packets_of_each_direction_are_lost() -> None:
    # The second request never reaches the server, so that the third answer is that of the fourth request.
    numbers, trips_ms = ping(f"droplist {LINK} --drops_to_client=1,3 --drops_to_server=2", 6)
    assert numbers == [3, 5, 6]
    assert min(trips_ms) >= 10


def test_losses_that_are_limited_never_come_in_a_longer_row() -> None:
    numbers, _ = ping(f"drop-rate {LINK} --rate_to_client=90 --rate_to_server=0 --burst_to_client=2", 12)
    gaps = [after - before - 1 for before, after in zip([0, *numbers], numbers, strict=False)]
    assert max(gaps) == 2


def test_a_condition_carries_packets_with_the_delay_of_its_path_and_its_radio() -> None:
    numbers, trips_ms = ping("stadium/lte", 5)
    assert numbers == [1, 2, 3, 4, 5]
    assert min(trips_ms) >= 20
