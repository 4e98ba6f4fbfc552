"""Captures hold the wire segments of the books, with checksums that a third party finds right."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, cast

import pytest
from programs import transfer
from tests.samples_by_seed import sample

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

CHECKS = [
    # The port of the tests belongs to a protocol that tshark would read into the zeros.
    "--disable-protocol", "gsm_ipa",
    "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
]  # fmt: skip


def tshark(file: FilePath, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["tshark", "-n", "-r", str(file), *CHECKS, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    complaints = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    assert not complaints, complaints
    return done.stdout.splitlines()


@pytest.mark.parametrize("within", sample(["off", "125us"], 1))
def test_captures_agree_with_the_books_and_tshark_finds_no_fault(tmp_path: FilePath, within: str) -> None:
    with Path.of(rate="300mbit", delay="2ms", loss="0.5%", duplicate="0.5%", coalesce=within).up(pcap=tmp_path) as lab:
        transfer(lab, 8_000_000)
        lab.client.run(["ping", "-4", "-c", "2", "-i", "0.2", "server"], check=True)
    assert lab.summary is not None
    lost = 0
    links = {link["name"]: link for link in cast("list[dict[str, Any]]", lab.summary["links"])}
    for name, link in links.items():
        for point, counted in (("in", link["offered_segments"]), ("out", link["delivered_segments"])):
            file = tmp_path / f"{name}.{point}.pcapng"
            rows = tshark(file, "-T", "fields", "-e", "frame.len", "-e", "frame.time_epoch", "-e", "_ws.malformed")
            assert len(rows) <= counted, f"{name}.{point}"
            lost += counted - len(rows)
            assert all(int(row.split("\t")[0]) <= 1500 for row in rows), "wire segments, not super-packets"
            assert not any(row.split("\t")[2] for row in rows)
            times = [row.split("\t")[1] for row in rows]
            assert any(not time.endswith("000") for time in times), "time stamps are nanoseconds"
            assert [float(time) for time in times] == sorted(float(time) for time in times)
            bad = tshark(file, "-Y", "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0")
            assert bad == []
    assert links["radio.down"]["offered_segments"] > 5_000
    # Only where the writer was without a processor for long.
    assert lost == lab.summary["capture_dropped_segments"]


def test_a_mark_shows_on_the_way_out_only(tmp_path: FilePath) -> None:
    scenario = tmp_path / "ecn.toml"
    scenario.write_text(
        '[path]\nrate = "50mbit"\ndelay = "5ms"\nqueue = {kind = "codel", limit = "1000p", ecn = true}\n'
        # It grows until its first mark. Another one, such as BBR, may leave a queue too short to be marked.
        'congestion-control = "cubic"\n'
        "[path.server.sysctl]\n'net.ipv4.tcp_ecn' = 1\n[path.client.sysctl]\n'net.ipv4.tcp_ecn' = 1\n"
    )
    with Path.load(scenario).up(pcap=tmp_path) as lab:
        transfer(lab, 8_000_000)
    assert lab.summary is not None
    marked = cast("list[dict[str, Any]]", lab.summary["links"])[0]["marked_segments"]
    assert marked > 0
    assert tshark(tmp_path / "radio.down.in.pcapng", "-Y", "ip.dsfield.ecn == 3 || ipv6.tclass.ecn == 3") == []
    found = tshark(tmp_path / "radio.down.out.pcapng", "-Y", "ip.dsfield.ecn == 3 || ipv6.tclass.ecn == 3")
    assert marked - cast("int", lab.summary["capture_dropped_segments"]) <= len(found) <= marked
