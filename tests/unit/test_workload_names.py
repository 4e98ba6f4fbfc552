"""Names of servers that are looked up: the key, the resolver, and the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryLab, Program

from wavebed.config.problems import Problem
from wavebed.errors import WavebedError
from wavebed.workload import read_workload
from wavebed.workload.download_figures import metrics_of as metrics_of_download
from wavebed.workload.names import chromium_arguments
from wavebed.workload.serve import start_resolver
from wavebed.workload.web_figures import Course
from wavebed.workload.web_figures import metrics_of as metrics_of_page
from wavebed.workload.web_trace import PageTrace

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = {"www.site.example": "198.19.1.1", "images.site.example": "198.19.1.2"}
FIGURES: dict[str, object] = {"time_total": 0.15, "time_namelookup": 0.05, "time_connect": 0.1}


@pytest.mark.parametrize("table", [{"kind": "download"}, {"kind": "web", "site": "google"}])
def test_names_are_mapped_unless_a_resolver_is_asked_for(table: dict[str, object]) -> None:
    assert read_workload(table).options.names == "mapped"
    assert read_workload({**table, "names": "resolver"}).options.names == "resolver"
    with pytest.raises(Problem, match="names: 'dns' is not a choice"):
        read_workload({**table, "names": "dns"})


def test_a_mapped_browser_knows_all_names_and_asks_for_none() -> None:
    (rules,) = chromium_arguments("mapped", ADDRESSES)
    assert rules == (
        "--host-resolver-rules=MAP www.site.example 198.19.1.1, MAP images.site.example 198.19.1.2, MAP * ~NOTFOUND"
    )


def test_a_browser_with_a_resolver_asks_for_all_names_but_its_own() -> None:
    (rules,) = chromium_arguments("resolver", {**ADDRESSES, "accounts.google.com": "198.19.1.3"})
    assert rules == "--host-resolver-rules=MAP update.googleapis.com ~NOTFOUND"


def test_a_resolver_listens_before_its_clients_start(tmp_path: Path) -> None:
    lab = MemoryLab({"dnsmasq": Program(None, ports=(53,), opens_s=1.0), "unshare": Program()})
    resolver = start_resolver(lab.host("server"), lab.host("client"), "198.19.1.1", ADDRESSES, tmp_path)
    assert lab.clock.monotonic_s() >= 1
    assert (tmp_path / "resolv.conf").read_text() == "nameserver 198.19.1.1\n"
    assert (tmp_path / "nsswitch.conf").read_text() == "hosts: files files dns\n"
    assert (tmp_path / "hosts").read_text() == "127.0.0.1 localhost client\n"
    assert resolver.asked_by(["curl", "http://server/"])[-2:] == ["curl", "http://server/"]
    assert resolver.failure() is None
    resolver.stop()
    assert resolver.process.poll() == -15


def test_a_machine_without_user_namespaces_is_told_in_one_line(tmp_path: Path) -> None:
    refused = Program(status=1, errors="unshare: unshare failed: Operation not permitted\n")
    lab = MemoryLab({"dnsmasq": Program(None, ports=(53,)), "unshare": refused})
    line = 'names: "resolver" takes a user namespace .* in /etc: unshare: unshare failed: Operation not permitted'
    with pytest.raises(WavebedError, match=line):
        start_resolver(lab.host("server"), lab.host("client"), "198.19.1.1", ADDRESSES, tmp_path)
    (dnsmasq,) = [each for each in lab.started if each.args[0].endswith("dnsmasq")]
    assert dnsmasq.returncode == -15


def test_a_download_has_the_time_of_its_lookup_where_it_makes_one() -> None:
    found = {metric.name: metric.value for metric in metrics_of_download(FIGURES, "ok", 1000, looks_up=True)}
    assert found["name lookup"] == pytest.approx(50)
    never = metrics_of_download({**FIGURES, "time_namelookup": 0}, "partial", 0, looks_up=True)
    assert [metric.value for metric in never if metric.name == "name lookup"] == [None]
    assert "name lookup" not in {metric.name for metric in metrics_of_download(FIGURES, "ok", 1000)}


def test_a_page_has_the_time_of_the_lookup_of_its_document() -> None:
    navigation = {"domainLookupStart": 8.5, "domainLookupEnd": 5039.0}
    course, trace = Course(page={"navigation": navigation, "tasks": []}), PageTrace(0, [], 0, [])
    found = {metric.name: metric.value for metric in metrics_of_page(course, trace, looks_up=True)[0]}
    assert found["name lookup"] == pytest.approx(5030.5)
    assert "name lookup" not in {metric.name for metric in metrics_of_page(course, trace)[0]}
