"""How busy the device's processor is: from /proc, by ssh, SNMP and node_exporter."""

from __future__ import annotations

import http.server
import os
import socket
import stat
import sys
import textwrap
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.unit.forward.test_cpu import AFTER, BEFORE, SOFTIRQS, _patient, softnet, write_proc  # noqa: F401

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.cpu import parse_source
from wavebed.forward.cpu_remote import NodeExporterMeter, SnmpMeter, SshMeter, open_meter
from wavebed.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path


def write_program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def programs_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


# ---- ssh: a program of that name that runs the loop on files of the test ----

FAKE_SSH = """
    import os, sys
    assert sys.argv[1:sys.argv.index("--")][:3] == ["-T", "-o", "BatchMode=yes"], sys.argv
    open(os.environ["FAKE_LOG"], "a").write(" ".join(sys.argv[1:-1]) + "\\n")
    os.execvp("sh", ["sh", "-c", sys.argv[-1].replace("/proc/", os.environ["FAKE_PROC"] + "/")])
"""


def test_ssh_reads_a_router_over_one_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "ssh", FAKE_SSH)
    programs_first(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_PROC", str(tmp_path / "proc"))
    with SshMeter("router", "root", 2222) as meter:
        for _ in range(2):
            write_proc(tmp_path / "proc", BEFORE, (10, 20), softnet((1, 2), (3, 4)))
            meter.start()
            write_proc(tmp_path / "proc", AFTER, (15, 27), softnet((2, 2), (3, 9)))
            use = meter.stop()
            assert use.busy == pytest.approx({0: 0.3, 1: 0.9})
            assert (use.net_rx, use.dropped, use.squeezed, use.seconds) == (12, 1, 5, 10.0)
            assert use.source == "ssh://root@router:2222"
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("-l root -p 2222 -- router")


def test_ssh_that_is_refused_says_why_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "ssh", 'import sys; sys.exit("warning\\nPermission denied (publickey).")')
    programs_first(tmp_path / "bin", monkeypatch)
    with SshMeter("router") as meter, pytest.raises(WavebedError, match=r"ssh://router: ssh ended: Permission denied"):
        meter.start()


def test_a_router_that_falls_silent_does_not_hold_the_trial_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "ssh", "import time; time.sleep(60)")
    programs_first(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr("wavebed.forward.cpu_remote.LIMIT_S", 0.8)
    with SshMeter("router") as meter, pytest.raises(WavebedError, match="no answer within"):
        meter.start()


def test_a_host_that_is_not_linux_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "ssh", FAKE_SSH)
    programs_first(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_PROC", str(tmp_path / "nothing"))
    with SshMeter("router") as meter, pytest.raises(WavebedError, match="only Linux is read by ssh"):
        meter.start()


def test_a_missing_program_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with SshMeter("router") as meter, pytest.raises(MachineError, match="openssh-client"):
        meter.start()
    snmp = SnmpMeter(Secret("public"), "router")
    with snmp, pytest.raises(MachineError, match="package snmp"):
        snmp.start()


# ---- SNMP: the answers that Net-SNMP 5.9.3 gives for a Linux machine with two processors ----

FAKE_SNMPGET = """
    import os, sys
    conf = open(os.path.join(os.environ["SNMPCONFPATH"], "snmp.conf")).read()
    assert "defCommunity secret\\n" in conf and "secret" not in " ".join(sys.argv), (conf, sys.argv)
    count = os.path.join(os.path.dirname(sys.argv[0]), "count")
    n = int(open(count).read()) if os.path.exists(count) else 0
    open(count, "w").write(str(n + 1))
    first = {50: 711872, 51: 324284, 52: 304034, 53: 3432414, 54: 13625, 55: 0, 56: 0, 61: 11229, 64: 3245, 67: 2}
    more = {50: 1000, 51: 0, 52: 2000, 53: 8000, 54: 0, 55: 0, 56: 0, 61: 1000, 64: 0, 67: 0}
    print(f".1.3.6.1.2.1.1.3.0 {100000 + 6000 * n}")
    for oid in sys.argv[1:]:
        if oid.startswith(".1.3.6.1.4.1.2021.11."):
            number = oid.split(".")[-2]
            print(oid, first[int(number)] + n * more[int(number)])
"""


def test_snmp_gives_the_mean_over_all_processors_and_says_that_it_is_a_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "bin", "snmpget", FAKE_SNMPGET)
    programs_first(tmp_path / "bin", monkeypatch)
    with SnmpMeter(Secret("secret"), "192.0.2.1") as meter:
        meter.start()
        use = meter.stop()
    assert use.for_trial() == pytest.approx({"busy_mean": 4000 / 12000})
    assert (use.core_count, use.seconds, use.source) == (2, 60.0, "snmp://192.0.2.1")
    assert use.doubts == ("it tells one sum over all processors: the busiest is not known",)


def test_an_agent_without_the_counters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "snmpget", 'print(".1.3.6.1.2.1.1.3.0 100")')
    programs_first(tmp_path / "bin", monkeypatch)
    with SnmpMeter(Secret("secret"), "192.0.2.1") as meter, pytest.raises(WavebedError, match="no ssCpuRaw counters"):
        meter.start()


def test_an_agent_that_does_not_answer_is_named_without_its_community(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "bin", "snmpget", 'import sys; sys.exit("Timeout: No Response from udp:192.0.2.1.")')
    programs_first(tmp_path / "bin", monkeypatch)
    with SnmpMeter(Secret("secret"), "192.0.2.1") as meter, pytest.raises(WavebedError, match="No Response") as ended:
        meter.start()
    assert "secret" not in str(ended.value)


# ---- node_exporter: a real server on loopback ----


def metrics(idle: float, softirq: float, at_s: float) -> str:
    return textwrap.dedent(f"""\
        # HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
        # TYPE node_cpu_seconds_total counter
        node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle}
        node_cpu_seconds_total{{cpu="0",mode="iowait"}} 5
        node_cpu_seconds_total{{cpu="0",mode="softirq"}} {softirq}
        node_cpu_seconds_total{{cpu="0",mode="user"}} 7.5
        node_softnet_dropped_total{{cpu="0"}} {softirq}
        node_softnet_times_squeezed_total{{cpu="0"}} 1
        node_boot_time_seconds 1.7e+09
        node_time_seconds {at_s}
        other_metric{{text="a \\"quoted\\" {{word}}"}} NaN
        """)


class Pages(http.server.BaseHTTPRequestHandler):
    texts: list[str]

    def do_GET(self) -> None:
        found = self.path == "/metrics"
        self.send_response(200 if found else 404)
        self.end_headers()
        if found:
            self.wfile.write(self.texts.pop(0).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def exporter():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_node_exporter_gives_fractions_of_each_processor(exporter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy of the environment is not for the device.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    Pages.texts = [metrics(100, 1, 1000.0), metrics(106, 5, 1010.0)]
    meter = open_meter(parse_source(exporter))
    meter.start()
    use = meter.stop()
    assert use.for_trial() == pytest.approx({"busy_max": 0.4, "busy_mean": 0.4, "softirq_max": 0.4})
    assert (use.seconds, use.dropped, use.squeezed, use.net_rx) == (10.0, 4, 0, None)
    assert not use.doubts


def test_a_page_that_is_not_there_or_not_node_exporters_is_refused(exporter: str) -> None:
    with pytest.raises(WavebedError, match="404"):
        NodeExporterMeter(f"{exporter}/other").start()
    Pages.texts = ["hello\n", 'node_cpu_seconds_total{cpu="0,mode} x\n', 'node_cpu_seconds_total{cpu="0"} 1\n']
    with pytest.raises(WavebedError, match="lacks node_cpu_seconds_total"):
        NodeExporterMeter(f"{exporter}/metrics").start()
    with pytest.raises(WavebedError, match="line 1 is not in the text format"):
        NodeExporterMeter(f"{exporter}/metrics").start()
    with pytest.raises(WavebedError, match="lacks node_time_seconds"):
        NodeExporterMeter(f"{exporter}/metrics").start()


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\nnode_"])
def test_a_page_that_drips_is_given_up_in_time(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.forward.cpu_remote.LIMIT_S", 0.5)
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(begin)
            while not over.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()
        try:
            meter = NodeExporterMeter(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics?token=hunter2")
            with pytest.raises(WavebedError, match=r"no answer within") as ended:
                meter.start()
        finally:
            over.set()
            dripping.join()
    assert "hunter2" not in str(ended.value)


def test_a_device_that_is_not_there_is_said_in_one_line() -> None:
    with pytest.raises(WavebedError, match="refused"):
        NodeExporterMeter("http://127.0.0.1:9/metrics").start()


# ---- the option and the rule of offload ----
