"""Trials in virtual time: the same bytes in each run, on a busy machine, without a privilege; and what a kill leaves.

The guest kernel comes from the cache. Without one, the tests build it, which takes minutes. They are skipped only if
the archive has its source no more.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.lab.guests import CUBIC, PING, assert_same, ended, started, trial_files

import wavebed
from wavebed.result.names import COMPUTING_FILE, INPUTS_FILE
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)

LINK = """
[path]
rate = "20mbit"
delay = "10ms"
packet-log = true
"""
WORKLOADS = {
    "page": '[[workload]]\nkind = "web"\nsite = "google"\nprotocol = "http/1.1"\ntls = false\nlimit = "20s"\n',
    "video": '[[workload]]\nkind = "video"\nladder = [{ size = "512x288", rate = "1.15mbit" }]\n'
    'duration = "4s"\nsegment = "1s"\nlimit = "6s"\n',
    "download": '[[workload]]\nkind = "download"\nsize = "1mb"\nprotocol = "h2"\n',
    "command": """
[[workload]]
kind = "command"
name = "python"
run = ["python3", "-c", "import random, time; print('drawn =', random.random()); print('now =', time.time())"]
parser = "key-value"
[[workload]]
kind = "command"
name = "iperf3"
run = ["iperf3", "-4", "-c", "{server}", "-p", "{port}", "-t", "1", "-J"]
server-run = ["iperf3", "-s", "-1", "-p", "{port}"]
parser = "iperf3"
""",
}
SCENARIOS = {name: f'title = "{name}"\n{LINK}{text}' for name, text in WORKLOADS.items()}
# A rate below the lowest bitrate: the video stalls, and drops the pictures that come late.
SCENARIOS["video"] = (
    SCENARIOS["video"].replace("20mbit", "700kbit").replace("[[workload]]", 'queue = "droptail:100kb"\n[[workload]]', 1)
)

FIGURES = {
    # TCP and the request; then four round trips of 20 ms at least for the other files. Beside its round trips Chromium
    # makes some thousand system calls of 1 µs each: four builds of the engine had 40.6 to 42.1 ms.
    "page": {"ttfb": (40, 43), "on load": (120, 600)},
    # A segment of 1.15 Mbit takes 1.64 s of 0.7 Mbit/s: three of 6 s at most.
    "video": {"stalls": (3, 4), "stalled time": (2, 4), "media played": (1, 6 * 0.7 / 1.15)},
    "download": {"connect time": (20, 20.5)},
}
"""Metrics of a workload: at least, and below."""


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep every processor busy beside the test."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_ping_has_the_delay_of_the_path_and_two_runs_are_the_same(cache: Path, tmp_path: Path, busy: None) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    programs = str(Path(sys.executable).parent)
    paths = ("", f"{Path.home()}:{programs}:{tmp_path / 'absent'}")
    both = [started(PING, folder, "--trials", "1", path=path) for folder, path in zip(folders, paths, strict=True)]
    for process in both:
        ended(process)
    assert_same(*folders)
    results = wavebed.load(folders[0])
    (trial,) = results.record.trials  # type: ignore[union-attr]
    assert (trial.verdict, trial.reasons) == ("valid", [])
    spec = json.loads((folders[0] / "trials" / trial.folder / "spec.json").read_text())
    assert (spec["lab"]["time"], spec["lab"]["processor"]) == ("virtual", "exact")
    sent = (folders[0] / "trials" / trial.folder / "raw/latency/ping.txt.gz").read_bytes()
    least, _, most, deviation = gzip.decompress(sent).decode().splitlines()[-1].split(" = ")[1].split()[0].split("/")
    assert 20.0 < float(least) <= float(most) < 20.1, "milliseconds"
    assert float(deviation) < 0.01
    run = json.loads((folders[0] / "run.json").read_text())
    assert run["versions"]["kernel"] == needed_kernel()[1].release
    assert run["overrides"] == {"lab.time": "virtual"}


def test_two_runs_of_a_flow_are_the_same_and_another_seed_is_not(cache: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        ended(started(CUBIC, folder, "--trials", "2"))
    assert_same(*folders)
    names = {name.split("/", 1)[1] for name in trial_files(folders[0])}
    assert {"series/links.parquet", "series/departures.parquet", "series/packets.parquet"} <= names


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_guests_give_the_same_files(name: str, cache: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for process in [started(SCENARIOS[name], folder, "--trials", "1") for folder in folders]:  # both at once
        ended(process)
    assert_same(*folders)
    run = wavebed.load(folders[0])
    (trial,) = run.record.trials  # type: ignore[union-attr]
    if name == "video":
        (reason,) = trial.reasons
        assert reason.startswith("check failed: every workload is complete: video: stopped at its limit: ")
    else:
        assert (trial.verdict, trial.reasons) == ("valid", [])
    found = {each.name: each.value for each in run.trial(trial.folder).workloads[0].outcome.metrics}
    for metric, (least, most) in FIGURES.get(name, {}).items():
        assert least <= cast("float", found[metric]) < most, metric


def _shell(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    folder.mkdir()
    (folder / "note").write_text("read\n")
    command = [sys.executable, "-m", "wavebed", "shell", "--virtual-time", "--delay", "10ms", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False)


def test_a_command_in_a_shell_prints_the_same_in_each_run_and_its_files_are_kept(cache: Path, tmp_path: Path) -> None:
    pattern = tmp_path / "rates.csv"
    pattern.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 2\ntime_s,rate_bps\n0,5000000\n1,9000000\n")
    line = "cat note; ping -c 3 -i 1 server; date; echo lost >note; exit 7"
    options = ("--trace", str(pattern), "--summary", "s.json", "--pcap", "pcap", "--log", "log", "--", "sh", "-c", line)
    first, second = (_shell(tmp_path / name, *options) for name in ("one", "two"))
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (7, second.stdout), first.stderr
    assert first.stdout.startswith(b"read\nPING server")
    assert b"3 packets transmitted, 3 received, 0% packet loss, time 200" in first.stdout, "a second between two"
    assert b"2027" in first.stdout
    assert b"delivered 3" in first.stderr
    assert (tmp_path / "one/note").read_text() == "read\n", "what the command writes is in memory"
    summary = json.loads((tmp_path / "one/s.json").read_text())
    assert [link["delivered_segments"] for link in summary["links"]] == [3, 3]
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".pcapng", ".csv"}
    assert [name for name in files if _exact(tmp_path / "two" / name) != _exact(tmp_path / "one" / name)] == []


def _exact(file: Path) -> object:
    """Return what is the same in each run: of a summary all but how long the programs computed on the host."""
    if file.name != "s.json":
        return file.read_bytes()
    return {key: value for key, value in json.loads(file.read_text()).items() if key != "host_cpu_ns"}


def test_a_pattern_from_a_pipe_and_a_scene_come_along(cache: Path, tmp_path: Path) -> None:
    pattern = "# wavebed pattern 1\\n# kind = steps\\n# duration_s = 2\\ntime_s,rate_bps\\n0,5000000\\n1,9000000\\n"
    for path in (f"--trace <(printf '{pattern}')", "--scene street-canyon-bus"):
        line = f"{sys.executable} -m wavebed shell {path} --virtual-time -- ping -c 1 server"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "1 packets transmitted, 1 received" in done.stdout, done.stderr


SUITE = """
    import os, time
    import pytest

    @pytest.mark.wavebed(delay="20ms", seeds=2)
    def test_it(lab):
        began = time.monotonic()
        lab.client.run(["ping", "-c", "2", "server"], check=True)
        lab.record("took", time.monotonic() - began, "s")
        assert lab.seed == 1
        assert lab.client.call(where) == "client"

    def where():
        return os.environ["WAVEBED_HOST"]
"""


def test_a_test_of_pytest_runs_in_a_guest_and_its_reports_and_results_come_out(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/test_it.py").write_text(textwrap.dedent(SUITE))
    words = ["-p", "no:cacheprovider", "-p", "pytest_wavebed.plugin", "--wavebed-virtual-time"]
    for name in ("one", "two"):
        command = [sys.executable, "-m", "pytest", *words, "--wavebed-report=never", f"--wavebed-dir={tmp_path / name}"]
        done = subprocess.run(command, cwd=tmp_path / "suite", capture_output=True, text=True, check=False)
        assert "1 failed, 1 passed" in done.stdout, done.stdout
        assert "assert 2 == 1" in done.stdout
    runs = [tmp_path / name for name in ("one", "two")]
    for one in runs[0].iterdir():
        # The processor time of all programs has that of pytest, which looks at folders of this machine.
        assert_same(one, runs[1] / one.name, but=("trial.json", "cpu.parquet"))
        (trial,) = (one / "trials").iterdir()
        assert json.loads((trial / "spec.json").read_text())["lab"]["time"] == "virtual"
        (took,) = [
            each["value"]
            for each in json.loads((trial / "trial.json").read_text())["metrics"]
            if each["name"] == "took"
        ]
        assert 1.0 < took < 1.2, "a second between two, and a round trip"


SCRIPT = """
import json, sys, time
import wavebed

def measure(lab, count):
    print("on the", lab.client.name)
    began = time.monotonic()
    lab.client.run(["ping", "-c", str(count), "server"], capture_output=True, check=True)
    return {"took": time.monotonic() - began}

def refuse(lab):
    raise ValueError("refused")

if __name__ == "__main__":
    path = wavebed.Path.of(delay="20ms", seed=3)
    for name in ("first", "second"):
        kept = {"log": f"../{name}", "summary": f"../{name}.json"}
        print(json.dumps(wavebed.virtual_time(path, measure, 2, **kept)))
    for function in (refuse, lambda lab: None):
        try:
            wavebed.virtual_time(path, function)
        except wavebed.errors.WavebedError as error:
            print(error)
"""


def test_a_function_of_a_script_runs_in_a_guest(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "script"  # the interpreter lists it: what the first call leaves is not in it
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert lines[0] == lines[2] == "on the client", done.stderr
    assert lines[1] == lines[3]
    assert 1.0 < json.loads(lines[1])["took"] < 1.2
    assert lines[4] == "ValueError: refused"
    assert "'<lambda>': cannot be imported by another process" in lines[5]
    assert 'raise ValueError("refused")' in done.stderr
    files = sorted(file.name for file in (tmp_path / "first").iterdir())
    assert "radio.down.csv" in files
    assert not [
        name for name in files if (tmp_path / "first" / name).read_bytes() != (tmp_path / "second" / name).read_bytes()
    ]


def test_a_check_allows_for_the_computing_of_its_programs(cache: Path, tmp_path: Path) -> None:
    line = f"ping -c 1 $WAVEBED_SERVER; {sys.executable} -c 'for _ in range(3 * 10**7): pass'"
    options = ["--delay", "1ms", "--seeds", "1", "--virtual-time", "--require", "wall time every < 0.1 s", "--json"]

    def check(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wavebed", "check", *options, *more, "--", "sh", "-c", line]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = check("-o", "out")
    found = json.loads(done.stdout)
    (trial,) = (tmp_path / "out/trials").iterdir()
    required = found["requirements"][1]
    assert required["value"] < 0.1, "computing takes no time"
    assert (done.returncode, required["outcome"]) == (3, "inconclusive"), done.stderr
    assert "which virtual time leaves out: decide with --processor host or --real-time" in required["reasons"][0]
    computed_ns = int(json.loads((trial / COMPUTING_FILE).read_text())["total_ns"])
    assert found["trials"][0]["computed_s"] == computed_ns / 1e9
    done = check("-o", "host", "--processor", "host", "--attempts", "1")
    assert json.loads(done.stdout)["requirements"][1]["value"] > 0.1, "computing takes this machine's time"
    (trial,) = (tmp_path / "host/trials").iterdir()
    assert json.loads((trial / "trial.json").read_text())["verdict"] != "invalid", "the link goes on meanwhile"


def test_what_a_server_computes_before_its_client_delays_nothing(cache: Path, tmp_path: Path) -> None:
    serve = "for _ in range(10**8): pass\nimport socket, sys, time\n"
    serve += "listening = socket.create_server(('', int(sys.argv[1])))\ntime.sleep(60)\n"
    (tmp_path / "serve.py").write_text(serve)
    options = ["--delay", "1ms", "--seeds", "1", "--virtual-time", "--require", "wall time every < 0.4 s", "--json"]
    options += ["--server", f"{sys.executable} serve.py {{port}}", "-o", "out"]
    command = [sys.executable, "-m", "wavebed", "check", *options, "--", "ping", "-c", "1", "{server}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["trials"][0]["computed_s"] > 0.4


def test_a_check_runs_a_program_that_failed_once_since_it_would_fail_again(cache: Path, tmp_path: Path) -> None:
    options = ["--delay", "1ms", "--seeds", "1", "--virtual-time", "-o", "out"]
    command = [sys.executable, "-m", "wavebed", "check", *options]
    line = "ping -c 1 $WAVEBED_SERVER; exit 3"
    done = subprocess.run([*command, "--", "sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [trial.name for trial in (tmp_path / "out/trials").iterdir()] == ["0001-as-described"]


PLAYED = """
import subprocess, sys
sys.exit(subprocess.call(["curl", "-s", "-o", "/dev/null", "--", sys.argv[1]]))
"""


def _wavebed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavebed", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_trial_of_a_block_is_repeated_alone_to_the_byte(cache: Path, tmp_path: Path) -> None:
    treatment = '[[treatment]]\nname = "{each}"\nset = {{ "path.delay" = "{each}ms" }}\n'
    treatments = "".join(treatment.format(each=each) for each in (11, 15))
    ended(started(PING + treatments, tmp_path / "run", "--trials", "2"))
    second = next((tmp_path / "run/trials").glob("0004-*"))
    record = json.loads((second / "trial.json").read_text())
    assert (record["folder"], record["block"]) == (second.name, 2)
    done = _wavebed("rerun", second, "-o", tmp_path / "again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"identical to {second}: "), done.stdout
    assert "series/links.parquet" in done.stdout.splitlines()[-1]
    files = json.loads((second / INPUTS_FILE).read_text())["files"]
    assert {"ping", "libc.so.6"} <= {Path(name).name for name in files}
    spec = json.loads((second / "spec.json").read_text())
    (second / "spec.json").write_text(json.dumps(spec | {"seed": spec["seed"] + 1}))
    other = _wavebed("rerun", second, "-o", tmp_path / "other")
    assert other.returncode == 1
    assert f"differs from {second}:\n  inputs: none differs\n  first difference: " in other.stdout


def test_a_bundle_is_repeated_without_the_users_files_and_stops_where_a_packet_was_lost(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "play.py").write_text(PLAYED)
    (user / "page").write_bytes(bytes(300_000))
    monkeypatch.chdir(user)
    path = ("--rate", "5mbit", "--delay", "10ms", "--queue", "droptail:8p", "--packet-log", "--virtual-time")
    asked = ("--seeds", "1", "--require", "path.dropped down every = 0 segments", "-o", tmp_path / "check")
    served = (
        "--server",
        "python3 -m http.server {port}",
        "--",
        "python3",
        user / "play.py",
        "http://{server}:{port}/page",
    )
    failed = _wavebed("check", *path, *asked, *served)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    (bundle,) = (tmp_path / "check/bundles").iterdir()
    assert f"bundle: {bundle}: " in failed.stderr
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(user)
    refused = _wavebed("rerun", bundle, "-o", tmp_path / "refused")
    assert "then add --trust" in refused.stderr
    done = _wavebed("rerun", bundle, "--trust", "-o", tmp_path / "again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"identical to {bundle}: "), done.stdout
    stopped = _wavebed("rerun", bundle, "--trust", "--until-late", "-o", tmp_path / "stopped")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    lines = stopped.stdout.splitlines()
    assert lines[0].startswith("stopped at ")
    assert lines[1].startswith("packet: ")
    assert "towards the client" in lines[1]
    assert lines[1].endswith("dropped at radio.down: overflow")
    (queue,) = [line for line in lines if line.startswith("radio.down") and "packets" in line]
    assert "5 Mbit/s" in queue
    assert int(queue.split()[1]) >= 8, "the queue is full when it drops"
    assert "cubic" in stopped.stdout
    assert re.fullmatch(r"exact: [0-9]+ rows of the packet log up to there are those of the first run", lines[-1])
