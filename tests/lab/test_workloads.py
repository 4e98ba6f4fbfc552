"""Workloads over real paths: what they count agrees with the path and its links, and each end has its reason."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lab.workload_trial import KNOWN_PATH, Trial, link_now, run_in_virtual_time, run_scenario, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.workload.model import TrialContext

pytestmark = pytest.mark.timeout(1800)

BULK_PATH = """
[path]
down-rate = "20mbit"
up-rate = "5mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:50kb"
"""
PACKET_BYTES, SEGMENT_BYTES = 1500, 1448
"""A packet, and its payload: without 20 bytes of IPv4 and 32 of TCP with time stamps."""
TCP_SHARE = SEGMENT_BYTES / PACKET_BYTES


@pytest.fixture(scope="module")
def both(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Two streams in each direction for a second."""
    text = (
        '[[workload]]\nkind = "bulk"\ndirection = "both"\nstreams = 2\nduration = "1s"\ncongestion-control = "reno"\n'
    )
    return run_in_virtual_time(BULK_PATH + text, tmp_path_factory.mktemp("both"))


def test_streams_use_the_congestion_control_of_the_scenario(both: Trial) -> None:
    assert both.outcome().status == "ok", both.outcome().reason
    assert both.outcome().details["congestion_control"] == {"down": "reno", "up": "reno"}


@pytest.mark.parametrize("direction", ["down", "up"])
def test_the_receiver_of_each_direction_counts_the_bytes_of_its_link(both: Trial, direction: str) -> None:
    received = both.metrics()[f"goodput {direction}"] * 1e6 / 8  # in a second
    link = both.engine("links", f"radio.{direction}")
    # The link also carries acknowledgements, segments sent again, and what arrives after the last second.
    assert link["delivered_bytes"] / 3 < received < 1.1 * TCP_SHARE * link["delivered_bytes"]
    assert both.metrics()[f"retransmits {direction}"] >= 0


@pytest.mark.parametrize("direction", ["down", "up"])
def test_streams_sum_up_to_the_goodput_of_their_direction(both: Trial, direction: str) -> None:
    parts = [both.series(f"goodput {direction} stream {number}").value for number in (1, 2)]
    whole = both.series(f"goodput {direction}").value
    assert all(sum(part) > 0 for part in parts)  # type: ignore[arg-type]
    assert math.isclose(sum(map(sum, parts)), sum(whole), rel_tol=0.02)  # type: ignore[arg-type]


def test_round_trips_take_the_delay_of_the_path(both: Trial) -> None:
    for direction in ("down", "up"):
        series = both.series(f"rtt {direction} stream 1")
        assert min(value for value in series.value if value is not None) >= 40
        assert series.time_s[0] >= both.span().start_s
        assert series.time_s[-1] <= both.span().end_s


def test_udp_above_the_rate_loses_what_the_queue_of_the_link_drops(kernel: Path, tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "bulk"\nprotocol = "udp"\nrate = "10mbit"\nduration = "1s"\ndirection = "up"\n'
    trial = run_in_virtual_time(BULK_PATH + text, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    link, server = trial.engine("links", "radio.up"), trial.engine("hosts", "server")
    dropped = link["dropped_segments"]["overflow"]
    assert dropped > 0
    lost = dropped + server["udp_receive_buffer_errors"]
    # Besides datagrams, the link carries about 20 segments of control.
    assert trial.metrics()["loss"] == pytest.approx(100 * lost / link["offered_segments"], rel=0.15)
    assert 0 < trial.metrics()["goodput"] < 10
    assert trial.metrics()["jitter"] is not None


def test_one_ends_at_its_limit_with_its_intervals_and_one_fails_with_the_words_of_iperf3(
    kernel: Path, tmp_path: Path
) -> None:
    text = """
[[workload]]
kind = "bulk"
name = "long"
duration = "60s"
limit = "8s"
[[workload]]
kind = "bulk"
name = "unknown"
congestion-control = "nonesuch"
limit = "30s"
"""
    trial = run_in_virtual_time(BULK_PATH + text, tmp_path)
    long, unknown = trial.outcome("long"), trial.outcome("unknown")
    assert (long.status, long.reason) == ("partial", "stopped at its limit of 8 s")
    assert trial.metrics("long")["goodput"] > 0
    assert sum(trial.series("goodput", "long").value) > 0  # type: ignore[arg-type]
    assert unknown.status == "failed"
    assert unknown.reason.startswith("iperf3: unable to set TCP_CONGESTION")


def test_a_server_that_dies_ends_the_transfer_before_its_limit(tmp_path: Path) -> None:
    def kill_server(lab: Lab, context: TrialContext) -> bool:
        if link_now(lab, "radio.down")["delivered_bytes"] < 100_000:
            return False
        pids = context.server.run(["pidof", "iperf3"], capture_output=True, check=True).stdout.split()
        # The server is older than the client; both are in the laboratory's own PID namespace.
        context.server.run(["kill", "-KILL", str(min(map(int, pids)))], check=True)
        return True

    text = '[[workload]]\nkind = "bulk"\nduration = "60s"\nlimit = "60s"\n'
    trial = run_scenario(BULK_PATH + text, tmp_path, until_done(kill_server))
    assert trial.outcome().status == "failed"
    assert "iperf3" in trial.outcome().reason
    assert trial.span().end_s < 60


PATH = '[path]\nrate = "20mbit"\ndown-delay = "30ms"\nup-delay = "10ms"\nqueue = "droptail:100kb"\n'
RTT_MS = 40
PACKETS = PACKET_BYTES / SEGMENT_BYTES
"""Bytes of packets for each byte of payload."""
OUTPUTS = ["access.log", "curl.json", "curl.log", "nginx.conf", "nginx.log"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """A download over HTTP/2, and one over HTTP/1.1 after it."""
    text = """
[[workload]]
kind = "download"
size = "300kb"
protocol = "h2"
marks = ["100kb"]
limit = "30s"
[[workload]]
kind = "download"
name = "plain"
size = "50kb"
after = "download"
limit = "30s"
"""
    return run_scenario(PATH + text, tmp_path_factory.mktemp("done"))


@pytest.mark.parametrize(("name", "size", "version"), [("download", 300_000, "2"), ("plain", 50_000, "1.1")])
def test_all_bytes_come_by_the_version_of_http_of_the_scenario(done: Trial, name: str, size: int, version: str) -> None:
    outcome = done.outcome(name)
    assert (outcome.status, outcome.reason) == ("ok", "")
    assert outcome.details["http_version"] == version
    assert done.metrics(name)["bytes"] == size


@pytest.mark.parametrize(("name", "round_trips"), [("download", 3), ("plain", 2)])
def test_each_handshake_takes_a_round_trip(done: Trial, name: str, round_trips: int) -> None:
    """TCP takes one, TLS 1.3 one, the request one."""
    found = done.metrics(name)
    assert found["connect time"] >= RTT_MS
    assert found["time to first byte"] >= round_trips * RTT_MS
    span = done.span(name)
    # Milliseconds and seconds.
    assert found["time to first byte"] / 1e3 <= found["download time"] <= span.end_s - span.start_s


def test_the_bytes_cross_the_link_down_once(done: Trial) -> None:
    carried = done.engine("links", "radio.down")["delivered_bytes"]
    # Two certificates, headers and segments that were sent again come on top.
    assert 350_000 * PACKETS < carried < 2 * 350_000 * PACKETS
    assert 0 < done.engine("links", "radio.up")["delivered_bytes"] < carried / 3


def test_a_download_leaves_only_its_outputs(done: Trial) -> None:
    assert sorted(file.name for file in (done.folder / "raw" / "download").iterdir()) == OUTPUTS


def test_at_its_limit_a_download_keeps_what_it_has(kernel: Path, tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "download"\nsize = "2gb"\nlimit = "1s"\nmarks = ["1kb", "1gb"]\n'
    trial = run_in_virtual_time(PATH + text, tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "partial"
    assert trial.outcome().reason == f"stopped at its limit of 1 s with {found['bytes']:.0f} of 2000000000 bytes"
    assert found["download time"] is None
    assert 0 < found["bytes"] < trial.engine("links", "radio.down")["delivered_bytes"]
    assert found["goodput"] == pytest.approx(found["bytes"] * 8 / 1e6, rel=0.5)
    assert found["goodput first 1kb"] > 0
    assert found["goodput first 1gb"] is None


def test_a_server_that_dies_ends_the_download_before_its_limit(tmp_path: Path) -> None:
    def kill_nginx(lab: Lab, context: TrialContext) -> bool:
        if link_now(lab, "radio.down")["delivered_bytes"] < 100_000:
            return False
        # nginx has written its number: it did so before it answered.
        pid = (context.folder / "nginx.pid").read_text().strip()
        context.server.run(["kill", "-KILL", pid], check=True)
        return True

    text = '[[workload]]\nkind = "download"\nsize = "1gb"\nlimit = "60s"\n'
    trial = run_scenario(PATH + text, tmp_path, until_done(kill_nginx))
    assert trial.outcome().status == "failed"
    assert "nginx was ended by signal 9" in trial.outcome().reason
    assert trial.span().end_s < 60
    assert trial.metrics()["goodput"] is None


@pytest.fixture(scope="module")
def probes(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Probes of all kinds, and a load that begins after a second."""
    text = """
[[workload]]
kind = "latency"
probe = "both"
interval = "10ms"
udp-size = "1200b"
rpm = true
[[workload]]
kind = "bulk"
protocol = "udp"
rate = "1mbit"
duration = "1s"
start = "1s"
"""
    return run_in_virtual_time(PATH + text, tmp_path_factory.mktemp("probes"))


def test_no_probe_is_quicker_than_its_direction(probes: Trial) -> None:
    assert probes.outcome().status == "ok", probes.outcome().reason
    # ping rounds to 0.1 ms.
    for name, least_ms in (("rtt", 39.9), ("udp rtt", 40), ("one-way delay up", 10), ("one-way delay down", 30)):
        known = [value for value in probes.series(name).value if value is not None]
        assert least_ms <= min(known) < 10 * least_ms, name
        assert probes.metrics()[f"{name} average"] >= min(known)


def test_every_probe_is_answered_lost_or_in_flight(probes: Trial) -> None:
    for kind in ("icmp", "udp"):
        count = cast("dict[str, Any]", probes.outcome().details[kind])
        assert count["sent"] == count["answered"] + count["lost"] + count["in flight at the end"]
        assert count["lost"] == 0
    assert probes.metrics()["probe loss"] == probes.metrics()["udp probe loss"] == 0


def test_probes_have_the_size_of_the_scenario(probes: Trial) -> None:
    found = json.loads(probes.raw("latency/irtt.json"))
    assert found["config"]["params"]["length"] == 1172  # accepted by the server: without IPv4 and UDP


def test_the_loaded_window_is_the_time_of_the_load(probes: Trial) -> None:
    span = probes.span("bulk")
    assert probes.outcome().details["loaded"] == [[span.start_s, span.end_s]]
    assert probes.metrics()["rtt loaded average"] >= 39.9


def test_a_new_connection_takes_a_round_trip_for_each_of_its_parts(probes: Trial) -> None:
    assert probes.metrics()["rpm failed"] == 0
    for part in ("tcp_f", "tls_f", "http_f"):
        values = probes.series(f"rpm {part}").value
        assert min(cast("float", value) for value in values) >= 39.9, part


def test_lost_probes_are_the_drops_of_the_link(kernel: Path, tmp_path: Path) -> None:
    text = (
        PATH + 'up-loss = "20%"\n[[workload]]\nkind = "latency"\nprobe = "both"\nduration = "3s"\ninterval = "10ms"\n'
    )
    trial = run_in_virtual_time(text, tmp_path)
    counts = [cast("dict[str, Any]", trial.outcome().details[kind]) for kind in ("icmp", "udp")]
    lost = sum(count["lost"] for count in counts)
    undetermined = sum(count["in flight at the end"] for count in counts)
    dropped = trial.engine("links", "radio.up")["dropped_segments"]["loss"]
    assert trial.engine("links", "radio.down")["dropped_segments"]["loss"] == 0
    # The handshake of irtt loses segments too. A machine that stood still may answer a probe too late to count.
    assert 0 < lost <= dropped + (0 if trial.record.verdict == "valid" else 10)
    assert dropped <= lost + undetermined + 10
    for name, series in (("probe loss", "rtt"), ("udp probe loss", "udp rtt")):
        values = trial.series(series).value
        assert trial.metrics()[name] == pytest.approx(100 * sum(value is None for value in values) / len(values))
        assert list(trial.series(series).time_s) == sorted(trial.series(series).time_s)


@pytest.fixture(scope="module")
def voice(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Voice over a path with a long delay down and a lossy link up."""
    text = """
[path]
rate = "20mbit"
down-delay = "200ms"
up-delay = "10ms"
up-loss = "20%"
queue = "droptail:50kb"
[[workload]]
kind = "voice"
codec = "g711-without-plc"
duration = "4s"
"""
    return run_in_virtual_time(text, tmp_path_factory.mktemp("voice"))


@pytest.mark.parametrize(("direction", "least_ms"), [("down", 200), ("up", 10)])
def test_a_direction_has_its_own_delay(voice: Trial, direction: str, least_ms: float) -> None:
    assert voice.outcome().status == "ok", voice.outcome().reason
    found = voice.metrics()
    delays = [value for value in voice.series(f"one-way delay {direction}").value if value is not None]
    assert least_ms <= min(delays) < 10 * least_ms
    assert found[f"one-way delay {direction} p50"] >= least_ms
    # 20 ms of speech and 60 ms of buffer.
    assert found[f"mouth-to-ear delay {direction}"] == pytest.approx(20 + 60 + min(delays))


def test_lost_packets_are_the_drops_of_the_link(voice: Trial) -> None:
    packets = cast("dict[str, Any]", voice.outcome().details["up"])["packets"]
    lost = voice.metrics()["packet loss up"] * packets / 100
    dropped = voice.engine("links", "radio.up")["dropped_segments"]["loss"]
    # Packets of the last second are undetermined; the handshake of irtt loses segments too.
    assert 0 < lost <= dropped + 0.01
    assert dropped <= lost + 60
    assert voice.metrics()["packet loss down"] == 0


@pytest.fixture(scope="module")
def call(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Call for three seconds."""
    text = '[[workload]]\nkind = "call"\nduration = "3s"\nlimit = "60s"\n'
    return run_in_virtual_time(PATH + text, tmp_path_factory.mktemp("call"))


def test_both_ends_are_connected_in_the_browsers_own_sandbox(call: Trial) -> None:
    outcome = call.outcome()
    assert outcome.status == "ok", outcome.reason
    assert outcome.details["state"] == {"server": "connected", "client": "connected"}
    assert outcome.details["browser sandbox"] == "on"
    # A STUN check takes one round trip; the ends answer when their event loops come to it.
    assert RTT_MS <= call.metrics()["rtt p50"] < RTT_MS + 1


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_direction_shows_the_pictures_that_its_link_carries(call: Trial, direction: str) -> None:
    found = call.metrics()
    # ICE and DTLS take three round trips before the first picture.
    assert 3 * RTT_MS <= found[f"time to first frame {direction}"] < 10 * RTT_MS
    # A microsecond moves which pictures the encoder leaves out at first: builds had 27.2 to 30.4 in three seconds.
    assert 26 < found[f"frame rate {direction}"] <= 31
    assert found[f"resolution {direction}"] == 360
    assert (found[f"frozen {direction}"], found[f"packet loss {direction}"]) == (0, 0)
    link = call.engine("links", f"radio.{direction}")
    # From the first picture to the end of the call the link carries the video, and little more.
    assert 0 < found[f"bitrate {direction}"] * 1e6 / 8 < link["delivered_bytes"]
    assert len(call.series(f"bitrate {direction}").value) >= 3


VIDEO = """
[[workload]]
kind = "video"
ladder = [{ size = "512x288", rate = "1.15mbit" }, { size = "768x432", rate = "1.82mbit" }]
duration = "2s"
segment = "1s"
protocol = "h2"
limit = "60s"
"""


@pytest.fixture(scope="module")
def video(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Play two segments."""
    return run_in_virtual_time(PATH + VIDEO, tmp_path_factory.mktemp("video"))


def test_a_video_starts_after_its_round_trips_and_plays_its_ladder(video: Trial) -> None:
    found = video.metrics()
    assert (video.outcome().status, video.outcome().reason) == ("ok", "")
    assert found["media played"] == pytest.approx(2, abs=0.001)
    assert (found["stalled time"], found["media skipped"], found["dropped frames"]) == (0, 0, 0)
    assert found["first frame"] <= found["startup time"]
    # TCP, TLS, the MPD, an initialization segment and the first media segment take a round trip each; the first one
    # of 144 kB takes two more of slow start.
    assert 7e-3 * RTT_MS <= found["startup time"] < 10e-3 * RTT_MS
    # The first segment is in the lowest representation, the second in the highest.
    assert found["time at 288p"] == pytest.approx(50, abs=0.1)
    assert found["mean bitrate"] == pytest.approx((1.15 + 1.82) / 2, abs=0.001)
    assert [event.text for event in video.outcome().events if event.name == "switch"] == ["288p → 432p"]


def test_requests_are_of_the_player_alone_and_their_bytes_cross_the_link(video: Trial) -> None:
    requests = [event for event in video.outcome().events if event.name == "request"]
    assert requests[0].text == "manifest.mpd"
    assert requests[0].time_s >= video.span().start_s
    assert video.metrics()["failed requests"] == 0
    received = video.metrics()["bytes received"]
    carried = video.engine("links", "radio.down")["delivered_bytes"]
    # Two segments at the lowest bitrate at least.
    assert 2 * 1.15e6 / 8 < received < carried < 2 * received
    assert 0 < video.engine("links", "radio.up")["delivered_bytes"] < carried / 3
    assert "HTTP/2.0" in video.raw("video/access.log")


def test_the_input_of_p1203_has_the_segments_and_the_startup(video: Trial) -> None:
    given = json.loads(video.raw("video/p1203-input.json"))
    assert given["I23"]["stalling"][0] == [0, video.metrics()["startup time"]]
    starts = [segment["start"] for segment in given["I13"]["segments"]]
    assert starts
    assert starts == [0, 1][: len(starts)]


def test_the_browser_uses_its_own_sandbox(video: Trial) -> None:
    assert video.outcome().details["browser sandbox"] == "on"


def test_a_video_is_played_in_the_time_of_this_machine_too(tmp_path: Path) -> None:
    trial = run_scenario(PATH + VIDEO, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    assert trial.metrics()["media played"] > 0
    assert trial.outcome().details["browser sandbox"] == "on"


KINDS = {
    "bulk": ("failed", "nothing arrived down within 1 s"),
    "download": ("partial", "stopped at its limit of 1 s with 0 of 2000000 bytes"),
    "latency": ("ok", ""),
    "voice": ("failed", "irtt left no result"),
}


@pytest.fixture(scope="module")
def silent(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """All workloads that need no browser."""
    text = '[path]\nrate = "20mbit"\ndelay = "20ms"\nloss = "100%"\n'
    limits = {kind: 'duration = "2s"' if kind == "latency" else 'limit = "1s"' for kind in KINDS}
    text += "".join(f'[[workload]]\nkind = "{kind}"\n{limit}\n' for kind, limit in limits.items())
    return run_in_virtual_time(text, tmp_path_factory.mktemp("silent"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_reason_says_that_nothing_came(silent: Trial, kind: str) -> None:
    status, reason = KINDS[kind]
    assert silent.outcome(kind).status == status
    assert silent.outcome(kind).reason.startswith(reason)


def test_a_download_without_a_byte_has_no_times(silent: Trial) -> None:
    found = silent.metrics("download")
    assert (found.pop("bytes"), found.pop("goodput")) == (0, 0)
    assert list(found.values()) == [None] * 3


def test_unanswered_probes_are_lost_and_have_no_round_trip(silent: Trial) -> None:
    found = silent.metrics("latency")
    assert found["probe loss"] == 100
    assert found["rtt average"] is None
    assert silent.outcome("latency").doubts == ["ping: no probe was answered"]


def test_a_lookup_is_one_query_over_the_path(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "download"\nsize = "1kb"\nnames = "resolver"\nlimit = "30s"\n'
    trial = run_scenario(PATH + text, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    lines = (trial.folder / "raw/download/dnsmasq.log").read_text().splitlines()
    assert [line.split("query")[1].split(" from ")[0] for line in lines if "query" in line] == ["[A] server"]
    found = trial.metrics()
    assert RTT_MS <= found["name lookup"] <= found["connect time"] - RTT_MS
    assert found["connect time"] <= found["time to first byte"] - RTT_MS


KNOWN_RTT_S, KNOWN_BPS = 0.040, 100e6
INITIAL_WINDOW = 10
"""Segments; RFC 6928, and Linux since 2.6.39."""


def theory_s(size_bytes: int) -> float:
    """Return the least time of a download over a new connection: slow start from 10 segments, then the link's rate.

    One round trip for the handshake, one until the first byte. The window doubles in each round trip until sending it
    takes the link a whole round trip; from then on the link never rests.
    """
    segments = math.ceil(size_bytes / SEGMENT_BYTES)
    packet_s = PACKET_BYTES * 8 / KNOWN_BPS
    elapsed_s, window = 2 * KNOWN_RTT_S, INITIAL_WINDOW
    while window * packet_s < KNOWN_RTT_S and segments > window:
        segments -= window
        window *= 2
        elapsed_s += KNOWN_RTT_S
    return elapsed_s + segments * packet_s


def test_two_megabytes_take_what_slow_start_takes(kernel: Path, tmp_path: Path) -> None:
    expected_s = theory_s(2_000_000)
    assert math.isclose(expected_s, 0.410, abs_tol=0.001)
    found = run_in_virtual_time(KNOWN_PATH + '[[workload]]\nkind = "download"\n', tmp_path).metrics()
    # Above theory are headers, and system calls, of which each takes a microsecond or more.
    assert 40 <= found["connect time"] < 40.5
    assert 80 <= found["time to first byte"] < 81
    assert expected_s <= found["download time"] < expected_s + 0.005


def test_a_full_queue_shows_in_the_loaded_window_alone(kernel: Path, tmp_path: Path) -> None:
    # More than the link carries: its queue is full after 0.2 s.
    load = 'kind = "bulk"\nprotocol = "udp"\nrate = "120mbit"\ndirection = "down"\nduration = "3s"\nstart = "1s"\n'
    text = f'{KNOWN_PATH}[[workload]]\nkind = "latency"\nprobe = "both"\n[[workload]]\n{load}'
    trial = run_in_virtual_time(text, tmp_path)
    found = trial.metrics()
    for probe in ("", "udp "):
        assert found[f"{probe}rtt idle p50"] == pytest.approx(40, abs=0.1)
        # The queue holds 40 ms.
        assert found[f"{probe}rtt loaded p50"] == pytest.approx(80, abs=0.2)
        increase_ms = found[f"{probe}rtt loaded p50"] - found[f"{probe}rtt idle p50"]
        assert found[f"{probe}loaded latency increase p50"] == pytest.approx(increase_ms)
    # Only the downlink has a queue.
    assert found["loaded one-way delay increase up p50"] == pytest.approx(0, abs=0.05)
    assert found["loaded one-way delay increase down p50"] == pytest.approx(40, abs=0.2)
    said = cast("dict[str, Any]", trial.outcome().details["icmp"])["ping said"]
    average, mdev = (float(part) for part in re.findall(r"= [0-9.]+/([0-9.]+)/[0-9.]+/([0-9.]+) ms", said)[0])
    # ping sums in microseconds what it prints with three digits.
    assert found["rtt average"] == pytest.approx(average, abs=0.1)
    assert found["rtt mdev"] == pytest.approx(mdev, abs=0.1)
