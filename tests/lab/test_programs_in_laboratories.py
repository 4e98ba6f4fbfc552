"""Programs in laboratories: from Python and from the command line; and what is left when somebody dies."""

from __future__ import annotations

import ast
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import pytest

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.lab.confine import Confined
from wavebed.path.api import Path

if TYPE_CHECKING:
    from wavebed.path.lab import Laboratory


ROOT = FilePath(__file__).resolve().parents[2]


def wavebed(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "wavebed", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


def laboratories() -> set[str]:
    names = (line.split()[-1] for line in FilePath("/proc/net/unix").read_text().splitlines())
    return {name for name in names if name.startswith("@wavebed/")}


def wait_until_gone(name: str) -> None:
    end = time.monotonic() + 60
    while any(f"/{name}/" in address for address in laboratories()):
        assert time.monotonic() < end, f"{name} is still there"
        time.sleep(0.02)


def test_run_is_like_subprocess_run(tmp_path: FilePath) -> None:
    with Path.of().up() as lab:
        done = lab.client.run(
            ["sh", "-c", "cat; echo bad >&2; pwd; exit 3"], input="in ", capture_output=True, cwd=tmp_path
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, f"in {tmp_path}\n", "bad\n")
        done = lab.client.run(["sh", "-c", "echo $A"], env={"A": "b", "PATH": os.environ["PATH"]}, capture_output=True)
        assert done.stdout == "b\n"
        with pytest.raises(subprocess.CalledProcessError) as error:
            lab.client.run(["sh", "-c", "echo out; exit 4"], capture_output=True, check=True)
        assert (error.value.returncode, error.value.stdout) == (4, "out\n")
        assert output_until(lab, 1.0) == "begun\n"
        with pytest.raises(UserError, match="no-such-program"):
            lab.client.run(["no-such-program"])
        with pytest.raises(UserError, match="no edge host"):
            _ = lab.edge


def output_until(lab: Laboratory, limit_s: float) -> str:
    """Return the output of a program at its time limit; a busy machine that has not started it gets a longer limit."""
    with pytest.raises(subprocess.TimeoutExpired) as late:
        lab.client.run(["sh", "-c", "echo begun; exec sleep 1000"], capture_output=True, timeout=limit_s)
    output = str(late.value.stdout)
    return output if output or limit_s > 60 else output_until(lab, 2 * limit_s)


def test_a_status_is_no_signal_and_a_signal_is_no_status() -> None:
    with Path.of(delay="1ms").up() as lab:
        for status in (1, 128, 129, 137, 255):
            assert lab.client.run(["sh", "-c", f"exit {status}"]).returncode == status
        assert lab.client.run(["sh", "-c", "kill -9 $$"]).returncode == -9


def test_much_output_does_not_stall() -> None:
    with Path.of().up() as lab:
        done = lab.server.run(
            ["sh", "-c", "head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2"], capture_output=True
        )
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 1_000_000)


def test_started_programs_are_handles(tmp_path: FilePath) -> None:
    with Path.of().up() as lab:
        process = lab.server.start(["sleep", "60"])
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        assert process.terminate() == -signal.SIGTERM
        assert process.poll() == -signal.SIGTERM
        process.kill()
        ready = tmp_path / "ready"
        ignore = "trap '' TERM; touch ready; while :; do sleep 60; done"
        stubborn = lab.server.start(["sh", "-c", ignore], cwd=tmp_path)
        end = time.monotonic() + 60
        while not ready.exists():
            assert time.monotonic() < end, "it ignores the signal"
            time.sleep(0.01)
        assert stubborn.terminate(grace_s=0.2) == -signal.SIGKILL


def test_leaving_ends_everything() -> None:
    marker = f"{time.time_ns()}.25"
    with Path.of().up(name="leaving") as lab:
        lab.server.start(["sleep", marker])
        assert any("/leaving/" in address for address in laboratories())
    assert not any("/leaving/" in address for address in laboratories())
    assert marker not in every_command_line()


def every_command_line() -> str:
    lines = []
    for file in FilePath("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_text(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return "\n".join(lines)


def test_a_laboratory_dies_with_its_python_process() -> None:
    marker = f"{time.time_ns()}.75"
    code = (
        "import time, wavebed\n"
        "lab = wavebed.Path.of(delay='1ms').up(name='orphan')\n"
        f"lab.server.start(['sleep', '{marker}'])\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=variables) as python:
        assert python.stdout is not None
        assert python.stdout.readline() == "up\n"
        assert marker in every_command_line()
        python.kill()
    wait_until_gone("orphan")
    end = time.monotonic() + 60
    while marker in every_command_line():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_name_is_taken_once() -> None:
    with Path.of().up(name="taken"), pytest.raises(UserError, match="taken"), Path.of().up(name="taken"):
        pass


def test_shell_knows_names_and_addresses() -> None:
    script = (
        "echo $WAVEBED_SERVER {server}; getent hosts server >/dev/null && getent hosts client >/dev/null && echo ok"
    )
    done = wavebed("shell", "--", "sh", "-c", script)
    address = done.stdout.split()[0]
    assert address.startswith(("198.18.", "198.19."))
    assert done.stdout == f"{address} {address}\nok\n"


def test_control_groups_are_those_of_the_machine() -> None:
    done = wavebed("shell", "--", "ls", "/sys/fs/cgroup")
    assert done.stdout.split() == sorted(os.listdir("/sys/fs/cgroup"))  # noqa: PTH208 - names are wanted


def test_a_name_resolves_to_ipv4_first() -> None:
    script = "import socket; print([each[4][0] for each in socket.getaddrinfo('server', 80, type=socket.SOCK_DGRAM)])"
    done = wavebed("shell", "--", sys.executable, "-c", script)
    first, second = ast.literal_eval(done.stdout)
    assert first.startswith(("198.18.", "198.19."))
    assert ":" in second


def test_a_server_runs_beside_the_command() -> None:
    done = wavebed(
        "shell", "--server", f"{sys.executable} -m http.server 80 2>/dev/null",
        "--", sys.executable, "-c",
        "import time, urllib.request\n"
        "for _ in range(600):\n"
        "    try: print(urllib.request.urlopen('http://server/').status); break\n"
        "    except OSError: time.sleep(0.05)\n",
    )  # fmt: skip
    assert done.stdout == "200\n", done.stderr


def test_the_last_bytes_of_a_command_in_the_shell_arrive(tmp_path: FilePath) -> None:
    server = (
        "import socket; here = socket.create_server(('', 80)); there, _ = here.accept();"
        f" open({str(tmp_path / 'read')!r}, 'w').write(str(sum(map(len, iter(lambda: there.recv(65536), b'')))))"
    )
    client = (
        "import socket, time\n"
        "for _ in range(600):\n"
        "    try: there = socket.create_connection(('server', 80)); break\n"
        "    except OSError: time.sleep(0.05)\n"
        "there.sendall(bytes(200_000))\n"
    )
    path = ("--rate", "2mbit", "--delay", "20ms", "--drain", "60s", "--grace", "60s")
    line = f"exec {shlex.join([sys.executable, '-c', server])}"
    done = wavebed("shell", *path, "--server", line, "--", sys.executable, "-c", client)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "read").read_text() == "200000"


def test_data_that_is_left_at_the_limit_is_named() -> None:
    client = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(1000), ('server', 9))"
    done = wavebed("shell", "--delay", "20s", "--drain", "100ms", "--", sys.executable, "-c", client)
    assert "segments in the links, " in done.stderr
    assert "after 0.1 s: the laboratory ends all the same (--drain)" in done.stderr


def test_an_unknown_command_is_refused() -> None:
    done = wavebed("shell", "--", "no-such-program")
    assert done.returncode in (2, 127)
    assert "no-such-program" in done.stderr


def test_ctl_lists_shows_and_sets(capsys: pytest.CaptureFixture[str]) -> None:
    with Path.of(rate="10mbit", delay="1ms").up(name="steered") as lab:
        assert main(["ctl"]) == 0
        assert "steered" in capsys.readouterr().out
        assert main(["ctl", "steered", "set", "rate=20mbit", "radio.down.delay=2ms"]) == 0
        lab.client.run(["ping", "-c", "1", "server"], capture_output=True, check=True)
        assert main(["ctl", "steered", "show"]) == 0
        shown = capsys.readouterr().out
        assert shown.splitlines()[0].split() == [
            "link", "offered", "duplicated", "delivered", "dropped", "marked", "queued",
        ]  # fmt: skip
        assert shown.splitlines()[1].split()[0] == "radio.down"
        assert main(["ctl", "steered", "show", "--json"]) == 0
        assert '"radio.down"' in capsys.readouterr().out
        assert main(["ctl", "steered", "set", "loss=1%"]) == 2


CTL = (sys.executable, "-m", "wavebed", "ctl")


@pytest.mark.parametrize("host", ["client", "edge", "server"])
def test_a_program_inside_controls_its_laboratory(host: str) -> None:
    with Path.load(ROOT / "scenarios/three-hosts.toml").up() as lab:
        inside = lab.host(host)
        listed = inside.run([*CTL], capture_output=True).stdout
        assert lab.name in (listed or "")
        inside.run([*CTL, "set", "internet.down.delay=9ms"], check=True)
        inside.run([*CTL, lab.name, "set", "internet.up.delay=8ms"], check=True)
        shown = json.loads(inside.run([*CTL, "show", "--json"], capture_output=True, check=True).stdout or "")
    delays = {link["name"]: link["delay_ns"] for link in shown["links"]}
    assert (delays["internet.down"], delays["internet.up"]) == (9_000_000, 8_000_000)


def test_a_confined_program_controls_no_laboratory() -> None:
    with Path.of(delay="1ms").up() as lab:
        read = Confined(read=(str(ROOT / "python"), sys.prefix))
        done = lab.client.run([*CTL, "show"], capture_output=True, confined=read)
    assert done.returncode != 0
    assert lab.name in (done.stderr or "")


def test_a_signal_to_what_ends_at_that_moment_is_no_error() -> None:
    with Path.of().up() as lab:
        for _ in range(30):
            process = lab.client.start(["true"])
            assert process.terminate() in (0, -signal.SIGTERM)


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


NOWHERE = ("192.0.2.1", "10.0.0.1", "169.254.169.254", "198.18.0.3", "198.19.7.7", "2001:db8::1", "fd77:6176:6562::3")
"""Addresses that no host has: of other networks, beside the hosts', and of those that may be added to the server."""
RTT_S = 0.05

_CONNECT = """
import errno, socket, sys, time
where = sys.argv[1]
family = socket.AF_INET6 if ":" in where else socket.AF_INET
here = socket.socket(family, socket.SOCK_DGRAM)
here.connect((where, 9))
begun = time.monotonic()
try:
    socket.create_connection((where, 80))
except OSError as error:
    print(here.getsockname()[0], errno.errorcode[error.errno], time.monotonic() - begun)
"""
_SEND = """
import socket, sys
for where in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (where, 9))
"""
_MULTICAST = """
import socket, struct
four, six, lan = (socket.socket(each, socket.SOCK_DGRAM) for each in (socket.AF_INET, socket.AF_INET6, socket.AF_INET))
four.bind(("", 5353))
four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + bytes(4))
four.sendto(b"mdns", ("224.0.0.251", 5353))
six.bind(("::", 1900))
group = socket.inet_pton(socket.AF_INET6, "ff05::c") + bytes(4)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
six.sendto(b"ssdp", ("ff05::c", 1900))
for each in (four, six):
    each.settimeout(60)
lan.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
lan.sendto(b"lan", ("255.255.255.255", 5353))
print(four.recv(9), six.recv(9), four.recv(9))
"""


def offered(lab: Laboratory) -> dict[str, int]:
    """Return the segments that entered each link of a laboratory that has ended."""
    assert lab.summary is not None
    links: list[dict[str, int | str]] = lab.summary["links"]  # type: ignore[assignment]
    return {str(link["name"]): int(link["offered_segments"]) for link in links}


@pytest.mark.parametrize("confined", [False, True])
@pytest.mark.parametrize("host", ["client", "server"])
def test_a_connection_to_nowhere_fails_after_a_round_trip(host: str, confined: bool) -> None:
    with Path.of(delay=f"{RTT_S * 500:.0f}ms").up() as lab:
        number = 1 if host == "server" else 2
        own = {False: f"198.18.0.{number}", True: f"fd77:6176:6562::{number}"}
        for where in NOWHERE:
            argv = [sys.executable, "-c", _CONNECT, where]
            done = lab.host(host).run(argv, capture_output=True, check=True, confined=Confined() if confined else None)
            address, error, took_s = (done.stdout or "").split()
            assert address == own[":" in where]
            assert error == "ENETUNREACH", where
            assert float(took_s) > RTT_S - 0.001, where


@pytest.mark.parametrize("names", [("client", "server"), ("client", "edge", "server")])
def test_a_packet_to_nowhere_crosses_each_link_once(names: tuple[str, ...]) -> None:
    count = len(NOWHERE)
    for host in names:
        path = Path.of() if "edge" not in names else Path.load(ROOT / "scenarios/three-hosts.toml")
        with path.up() as lab:
            lab.host(host).run([sys.executable, "-c", _SEND, *NOWHERE], check=True)
            end = time.monotonic() + 60
            while lab.undelivered().queued_segments:
                assert time.monotonic() < end
                time.sleep(0.01)
        # An error is lost where the kernel limits them; no packet returns to the host that sent it.
        assert all(packets <= count for packets in offered(lab).values()), (host, offered(lab))
        assert max(offered(lab).values()) == count, host


def test_multicast_and_broadcast_stay_on_their_host() -> None:
    with Path.of().up() as lab:
        for host in (lab.client, lab.server):
            done = host.run([sys.executable, "-c", _MULTICAST], capture_output=True, check=True)
            assert done.stdout == "b'mdns' b'ssdp' b'lan'\n"
    assert set(offered(lab).values()) == {0}


def test_an_unknown_name_is_asked_for_nowhere() -> None:
    script = "import socket; socket.getaddrinfo('www.example.org', 80)"
    with Path.of().up() as lab:
        done = lab.client.run([sys.executable, "-c", script], capture_output=True)
    assert "gaierror" in (done.stderr or "")
    assert set(offered(lab).values()) == {0}


_CONTAINER = """
ip link add outer type veth peer name inner
ip address add 10.99.0.1/24 dev outer
ip link set outer up
mkfifo {folder}/ready
unshare --net sh -c 'echo >{folder}/ready; exec sleep 1000' & inside=$!
read _ <{folder}/ready
ip link set inner netns $inside
nsenter --net=/proc/$inside/ns/net sh -ec 'ip address add 10.99.0.2/24 dev inner; ip link set inner up
    ip link set lo up; ip route add default via 10.99.0.1'
sysctl -qw net.ipv4.ip_forward=1
nsenter --net=/proc/$inside/ns/net {python} -c "$CONNECT" 192.0.2.1
nsenter --net=/proc/$inside/ns/net ping -c 1 -W 60 server
kill $inside
"""
"""A container engine in small: a network of its own behind a host, by a route."""


@pytest.mark.parametrize("host", ["client", "server"])
def test_a_network_behind_a_host_reaches_the_other_one_and_is_answered(tmp_path: FilePath, host: str) -> None:
    with Path.of(delay=f"{RTT_S * 500:.0f}ms").up() as lab:
        other = "server" if host == "client" else "client"
        script = _CONTAINER.format(folder=tmp_path, python=sys.executable).replace("60 server", f"60 {other}")
        variables = dict(os.environ) | {"CONNECT": _CONNECT}
        done = lab.host(host).run(["sh", "-ec", script], capture_output=True, check=True, env=variables)
    answer, *pinged = (done.stdout or "").splitlines()
    address, error, took_s = answer.split()
    assert (address, error) == ("10.99.0.2", "ENETUNREACH")
    assert float(took_s) > RTT_S - 0.001
    assert any("1 received" in line for line in pinged)


def test_the_hosts_file_has_ipv4_first() -> None:
    # Go, musl and Node read it without /etc/gai.conf.
    lines = [line.split() for line in wavebed("shell", "--", "cat", "/etc/hosts").stdout.splitlines()]
    for name in ("server", "client"):
        first, second = (words[0] for words in lines if words[1:] == [name])
        assert ":" in second
        assert ":" not in first
