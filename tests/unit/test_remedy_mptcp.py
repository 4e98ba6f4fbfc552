"""The remedy mptcp: endpoints, the library that programs get, and what the kernel's counters say; in virtual time."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryHost, Program
from tests.unit.test_run_trial import check, command, trial

from wavebed.remedy import remedy_of, third_party
from wavebed.remedy.third_party import fallback_problem, read_counters

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.memory_lab import MemoryProcess, Script

ADDRESSES = """[
 {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "scope": "host"}]},
 {"ifname": "sit0", "addr_info": []},
 {"ifname": "wb0", "addr_info": [{"family": "inet", "local": "198.18.1.2", "scope": "global"}]},
 {"ifname": "wb1", "addr_info": [{"family": "inet", "local": "198.18.2.2", "scope": "global"},
  {"family": "inet6", "local": "fd77:6176:6562:2::2", "scope": "global"},
  {"family": "inet6", "local": "fe80::1", "scope": "link"}]}]"""
REMEDY = '[path.client]\nremedy = { kind = "mptcp" }\n'
GOOD = {"ActiveOpens": 4}, {"MPCapableSYNTX": 2, "MPCapableSYNACKRX": 2, "MPJoinSynTx": 2, "MPJoinSynAckRx": 2}


def files(tcp: Mapping[str, int], extended: Mapping[str, int]) -> dict[str, str]:
    """Return the texts of the kernel's files of counters."""
    own = {"RtoMin": 200, **tcp}, {"SyncookiesSent": 0}, {"MPCapableFallbackACK": 0, **extended}
    snmp, netstat, mib = (
        f"{group}: {' '.join(table)}\n{group}: {' '.join(map(str, table.values()))}\n"
        for group, table in zip(("Tcp", "TcpExt", "MPTcpExt"), own, strict=True)
    )
    return {"/proc/net/snmp": snmp, "/proc/net/netstat": netstat + mib}


def counters(tcp: Mapping[str, int], extended: Mapping[str, int]) -> dict[str, int]:
    return read_counters("".join(files(tcp, extended).values()))


def programs(tcp: Mapping[str, int], extended: Mapping[str, int]) -> dict[str, Script]:
    def ip(process: MemoryProcess) -> int:
        process.write(ADDRESSES if "address" in process.args else "")
        return 0

    def cat(process: MemoryProcess) -> int:
        process.write(files(tcp, extended)[process.args[1]])
        return 0

    return {"client:ip": ip, "client:cat": cat, "curl": Program(3.0)}


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(third_party, "_library", lambda: "/lib/wrap.so")


@pytest.mark.parametrize(("backup", "flags"), [("", "subflow"), (", backup = true", "subflow backup")])
def test_the_second_radio_is_an_endpoint_while_the_workloads_run(tmp_path: Path, backup: str, flags: str) -> None:
    text = REMEDY.replace('"mptcp"', f'"mptcp"{backup}') + command("curl")
    made = trial(tmp_path, text, programs(*GOOD))
    record = made.run()
    assert check(record, "remedy") == (True, "mptcp on client")
    assert record.workloads[0].outcome.status == "ok"
    said = [" ".join(process.args) for process in made.lab.started]
    add = [f"ip mptcp endpoint add {each} dev wb1 {flags}" for each in ("198.18.2.2", "fd77:6176:6562:2::2")]
    assert said[:3] == ["ip -json address show", *add]
    assert said.index("curl") < said.index("cat /proc/net/snmp")
    log = (tmp_path / "trial/raw/remedy.client.mptcp.log").read_text()
    assert log.startswith("LD_PRELOAD=/lib/wrap.so\n")
    assert "MPTcpExt.MPJoinSynTx 2\n" in log


def test_programs_of_workloads_get_the_library_at_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "1")
    seen: dict[tuple[str, str], Mapping[str, str] | None] = {}
    start = MemoryHost.start

    def watched(host: MemoryHost, argv, **options):  # type: ignore[no-untyped-def]
        seen[host.name, argv[0].rpartition("/")[2]] = options.get("env")
        return start(host, argv, **options)

    monkeypatch.setattr(MemoryHost, "start", watched)
    served = '[[workload]]\nkind = "command"\nrun = ["x"]\nserver-run = ["s"]\n'
    scripts = {**programs(*GOOD), "x": Program(1.0), "s": Program(None)}
    assert check(trial(tmp_path, REMEDY + served, scripts).run(), "remedy")[0]
    for place in (("client", "x"), ("server", "s")):
        environment = seen[place]
        assert environment is not None
        assert environment["LD_PRELOAD"] == "/lib/wrap.so"
    assert seen["client", "ip"] is None
    other = tmp_path / "other"
    other.mkdir()
    trial(other, served, scripts).run()
    assert "LD_PRELOAD" not in (seen["client", "x"] or {})


def test_variables_of_a_program_stay_beside_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "1")
    given: list[tuple[Mapping[str, str], bool]] = []

    class Recorder(MemoryHost):
        def __init__(self) -> None:
            self.name, self.clock = "client", None  # type: ignore[assignment]

        def start(self, argv, *, env=None, confined=False, **_):  # type: ignore[no-untyped-def, override]
            assert argv == ["a"]
            given.append((env, confined))

    host = third_party._RunningMptcp(Recorder(), "/lib/wrap.so", None).of_programs(Recorder())  # type: ignore[arg-type]
    host.start(["a"])
    host.start(["a"], confined=True)
    host.start(["a"], env={"LD_PRELOAD": "/lib/own.so", "A": "1"}, confined=True)
    assert given[0][0]["OF_THIS_PROCESS"] == "1"
    assert given[1] == ({"LD_PRELOAD": "/lib/wrap.so"}, True)
    assert given[2] == ({"LD_PRELOAD": "/lib/wrap.so /lib/own.so", "A": "1"}, True)


def test_a_trial_whose_connections_fall_back_is_invalid(tmp_path: Path) -> None:
    # Measured with a server without MPTCP, on Linux 6.18.
    plain = {"ActiveOpens": 1}, {"MPCapableSYNTX": 1, "MPCapableFallbackSYNACK": 1, "MPJoinSynTx": 0}
    record = trial(tmp_path, REMEDY + command("curl"), programs(*plain)).run()
    line = "MPTCP connections of the client fell back to TCP: MPCapableFallbackSYNACK 1"
    assert check(record, "remedy") == (False, line)
    assert f"check failed: every remedy worked: {line}" in record.reasons


@pytest.mark.parametrize(
    ("tcp", "extended", "line"),
    [
        ({"ActiveOpens": 4}, {"MPCapableSYNTX": 2, "MPJoinSynTx": 2}, ""),
        ({"ActiveOpens": 0}, {"MPJoinSynTx": 0}, ""),
        (
            {"ActiveOpens": 5},
            {"MPCapableSYNTX": 2, "MPJoinSynTx": 1},
            "2 of 4 TCP connections of the client did not ask for MPTCP",
        ),
        (
            {"ActiveOpens": 1},
            {"MPCapableSYNTX": 1, "MPJoinSynTx": 0, "MPCapableSYNTXDrop": 1},
            "MPTCP connections of the client fell back to TCP: MPCapableSYNTXDrop 1",
        ),
        ({"ActiveOpens": 4}, {"MPCapableSYNTX": 2, "MPJoinSynAckRx": 2}, ""),
        ({"ActiveOpens": 1}, {}, "1 of 1 TCP connections of the client did not ask for MPTCP"),
    ],
)
def test_counters_tell_connections_that_did_not_use_mptcp(
    tcp: Mapping[str, int], extended: Mapping[str, int], line: str
) -> None:
    assert fallback_problem(counters(tcp, extended)) == line


def test_a_refusal_of_the_kernel_is_told(tmp_path: Path) -> None:
    def refuses(process: MemoryProcess) -> int:
        process.write("", "" if "address" in process.args else "Error: Operation not permitted.\n")
        process.write(ADDRESSES if "address" in process.args else "")
        return 0 if "address" in process.args else 2

    record = trial(tmp_path, REMEDY + command("curl"), {**programs(*GOOD), "client:ip": refuses}).run()
    line = "on client: ip mptcp endpoint: Error: Operation not permitted."
    assert check(record, "remedy") == (False, line)


def test_a_program_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(MemoryHost):
        def __init__(self) -> None:
            self.name = "client"

        def host(self, _: str) -> MemoryHost:
            return self

        def run(self, argv, *, timeout=None, **_):  # type: ignore[no-untyped-def, override]
            raise subprocess.TimeoutExpired(argv, timeout)

    with pytest.raises(Exception, match="on client: ip did not end within 10 s"):
        remedy_of("mptcp", {}).start(Slow(), "client", None)  # type: ignore[arg-type]
