"""Downloads: keys, files and times, the drafts of the cache, and names that are looked up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.memory_lab import MemoryLab, Program

from wavebed.config.problems import Problem
from wavebed.errors import MachineError, WavebedError
from wavebed.workload import call, read_workload
from wavebed.workload.download import Arrivals, Download
from wavebed.workload.download import metrics_of as metrics_of_download
from wavebed.workload.drafts import drafted
from wavebed.workload.serve import make_certificate, start_resolver
from wavebed.workload.serve.names import chromium_arguments
from wavebed.workload.web_figures import PageCourse, PageTrace
from wavebed.workload.web_figures import metrics_of as metrics_of_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.lab.protocol import Clock


def download(**keys: object) -> Download:
    workload = read_workload({"kind": "download", **keys})
    assert isinstance(workload, Download)
    return workload


def test_by_default_two_megabytes_come_by_http_1_1() -> None:
    assert (download().size_bytes, download().protocol) == (2_000_000, "http/1.1")


def test_the_file_has_its_size_and_takes_no_space(tmp_path: Path) -> None:
    workload = download(size="20gb")
    workload.prepare(tmp_path)
    file = tmp_path / "download" / workload.file_name
    assert file.stat().st_size == 20_000_000_000
    assert file.stat().st_blocks < 100
    made = file.stat().st_ino
    download(size="20gb").prepare(tmp_path)
    assert file.stat().st_ino == made
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_the_estimate_never_exceeds_the_limit() -> None:
    assert download(size="2gb", limit="40s").expected_s() == 40
    assert download().expected_s() < 3


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"size": "0b"}, "size: 0 bytes are not a download"),
        ({"size": 2_000_000}, "size: 2000000 has no unit"),
        ({"protocol": "h3"}, "protocol: 'h3' is not a choice"),
    ],
)
def test_a_wrong_value_is_said_with_its_key(keys: dict[str, object], line: str) -> None:
    with pytest.raises(Problem) as caught:
        download(**keys)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("marks", "line"),
    [
        ("2mb", r"marks: '2mb' is not an array: write sizes, as in \[\"2mb\", \"20mb\"\]"),
        (["2mb", 20], r"marks\[2\]: 20 has no unit"),
        (["2mb", "2mb"], "marks: a size is there twice: leave one out"),
        (["2mb", "200mb"], "marks: 200mb is more than the file has: write at most 20mb"),
        (["0b"], r"marks\[1\]: 0 bytes are not a download"),
    ],
)
def test_wrong_marks_are_said_with_their_key(marks: object, line: str) -> None:
    with pytest.raises(Problem, match=line):
        read_workload({"kind": "download", "size": "20mb", "marks": marks})


class Still:
    """A clock that stands."""

    def now_s(self) -> float:
        return 7.0


def test_a_pipe_is_timed_at_its_first_byte_and_at_each_mark() -> None:
    arrivals = Arrivals([5, 3], cast("Clock", Still()))

    def program(pipe: int) -> int:
        return os.dup(pipe)

    pipe = arrivals.started(program)
    os.write(pipe, b"1234")
    os.close(pipe)
    arrivals.end()
    assert arrivals.first_s == 7.0
    assert arrivals.reached_s == {3: 7.0}


def test_a_program_that_cannot_start_leaves_no_pipe() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    arrivals = Arrivals([1], cast("Clock", Still()))

    def fail(_pipe: int) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        arrivals.started(fail)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_draft_takes_the_place_of_its_file_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    with drafted(file) as draft:
        draft.write(b"new")
        assert not file.exists()
    assert file.read_text() == "new"
    assert list(file.parent.iterdir()) == [file]


def test_a_draft_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write() -> None:
        with drafted(file) as draft:
            draft.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def _download(cache: Path) -> None:
    read_workload({"kind": "download"}).prepare(cache)


def _film(cache: Path) -> None:
    call.camera_film(cache, 32, 16, 5)


def _certificate(cache: Path) -> None:
    make_certificate(cache, ["server"])


@pytest.mark.parametrize("make", [_download, _film, _certificate])
def test_a_cache_that_is_no_folder_is_said_in_one_line(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match=r"cannot be made: (not a directory|file exists)"):
        make(tmp_path / "cache")


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
    course, trace = PageCourse(page={"navigation": navigation, "tasks": []}), PageTrace(0, [], 0, [])
    found = {metric.name: metric.value for metric in metrics_of_page(course, trace, looks_up=True)[0]}
    assert found["name lookup"] == pytest.approx(5030.5)
    assert "name lookup" not in {metric.name for metric in metrics_of_page(course, trace)[0]}
