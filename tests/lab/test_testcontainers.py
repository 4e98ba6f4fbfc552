"""The module for testcontainers: its requests, on a real laboratory; the gateway in a container, where podman is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from tests.docs.blocks import blocks
from tests.reached import content
from tests.ui_client import Client, page_server

from testcontainers_wavebed import RefusedError, WavebedContainer, container
from wavebed.path.api import Path as NetworkPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.path.lab import Laboratory

PATIENCE_S = 120


class LocalContainer(WavebedContainer):
    """The module without a container: the programs that it runs in one run here."""

    def __init__(self, header: Path, port: int, lab: str) -> None:
        self.header, self.port, self.lab = header, port, lab

    def exec(self, command: Any) -> Any:
        *argv, address = [f"@{self.header}" if word == f"@{container._HEADER}" else word for word in command]
        address = address.replace(f":{container.PORT}/", f":{self.port}/").replace(f"/{container.NAME}", f"/{self.lab}")
        done = subprocess.run([*argv, address], capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def lab() -> Iterator[Laboratory]:
    with NetworkPath.of(rate="20mbit", delay="5ms").up() as found:
        yield found


@pytest.fixture
def client() -> Iterator[Client]:
    with page_server() as found:
        yield found


@pytest.fixture
def module(lab: Laboratory, client: Client, tmp_path: Path) -> LocalContainer:
    header = tmp_path / "header"
    header.write_text(f"Authorization: Bearer {client.token}")
    return LocalContainer(header, client.server.port, lab.name)


def rates(shown: dict[str, Any]) -> dict[str, int]:
    return {link["name"]: link["rate_bps"] for link in shown["links"]}


def test_a_change_concerns_all_links_or_one(module: LocalContainer) -> None:
    assert rates(module.show()) == {"radio.down": 20_000_000, "radio.up": 20_000_000}
    module.set(rate="5mbit")
    module.set("radio.up", rate="1mbit", delay="20ms")
    assert rates(module.show()) == {"radio.down": 5_000_000, "radio.up": 1_000_000}


def test_a_wrong_change_is_refused_with_the_line_of_the_api(module: LocalContainer) -> None:
    with pytest.raises(RefusedError, match="rate: 'fast' is not a rate"):
        module.set(rate="fast")
    with pytest.raises(RefusedError, match="timeline"):
        module.timeline("pause")


def test_a_gateway_that_does_not_answer_is_told(module: LocalContainer) -> None:
    module.port = 1
    with pytest.raises(RefusedError, match="curl"):
        module.show()


RUNS = {"js": ["node", "path.mjs"], "java": ["java", "Path.java"]}
"""By the language of the block in the guide. Go compiles its library for a minute at first: its block is not run."""


@pytest.mark.parametrize("language", RUNS)
def test_the_example_of_a_language_changes_the_path(
    language: str, lab: Laboratory, client: Client, tmp_path: Path
) -> None:
    program, file = RUNS[language]
    (block,) = (block for block in blocks("docs/guides/containers.md") if block.language == language)
    (tmp_path / file).write_text(block.text)
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    access = {"WAVEBED_API": f"http://{client.host}", "WAVEBED_TOKEN": client.token, "WAVEBED_LAB": lab.name}
    done = subprocess.run(
        [program, str(tmp_path / file)],
        capture_output=True,
        text=True,
        env=os.environ | access,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "radio.down" in done.stdout
    assert rates(lab.show()) == {"radio.down": 5_000_000, "radio.up": 5_000_000}


ROOT = "localhost/wavebed-test-root"
"""An image without files: the tests give it this machine's programs."""
CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""


FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the API of Docker by podman, with storage of its own."""
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    conf = tmp_path / "containers.conf"
    conf.write_text(CONF)
    monkeypatch.setenv("CONTAINERS_CONF", str(conf))
    forwarding = FORWARDING.read_text()  # the engine lets this machine forward
    short = Path(tempfile.mkdtemp(dir="/tmp"))  # podman takes 50 characters at most
    podman = ["podman", "--root", str(short / "store"), "--runroot", str(short / "run")]
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as root:
        for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            root.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            root.addfile(link)
    subprocess.run([*podman, "import", "-q", str(archive), ROOT], check=True, capture_output=True)
    socket = short / "podman.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    monkeypatch.setattr("testcontainers.core.config.testcontainers_config.ryuk_disabled", True)
    service = subprocess.Popen(
        [*podman, "system", "service", "--time=0", f"unix://{socket}"], stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + PATIENCE_S
        while not socket.exists():
            assert time.monotonic() < end, "podman does not serve"
            time.sleep(0.05)
        yield
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(PATIENCE_S)
        subprocess.run([*podman, "rm", "--all", "--force", "--time", "0"], check=False, capture_output=True)
        subprocess.run([*podman, "rmi", "--all", "--force"], check=False, capture_output=True)
        for process in _naming(str(short)):  # a monitor of an ended `exec` stays for five minutes
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        FORWARDING.write_text(forwarding)
        shutil.rmtree(short, ignore_errors=True)


def _naming(text: str) -> list[int]:
    """Return the processes whose command line has a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in file.read_bytes() and int(file.parent.name) != os.getpid():
                found.append(int(file.parent.name))
    return found


WAVEBED = Path(__file__).parents[2]
HERE = dict.fromkeys(("/usr", sys.base_prefix, sys.prefix, str(WAVEBED)))
THIS_MACHINE = {
    "image": ROOT,
    "volumes": [(folder, folder, "ro") for folder in HERE],
    "env": {"PATH": f"{sys.prefix}/bin:{sys.base_prefix}/bin:/usr/bin:/usr/sbin"},
}


def test_a_container_behind_the_gateway_takes_the_path(engine: None, tmp_path: Path) -> None:
    size = 500_000
    (tmp_path / "file").write_bytes(bytes(size))
    with WavebedContainer("--rate", "20mbit", "--delay", "50ms", **THIS_MACHINE).with_exposed_ports(8000) as gateway:
        server = DockerContainer(
            command=["python3", "-m", "http.server", "8000", "--directory", "/srv"], **THIS_MACHINE
        )
        server.with_volume_mapping(tmp_path, "/srv")
        with gateway.behind(server):
            address = f"http://127.0.0.1:{gateway.get_exposed_port(8000)}/file"
            assert len(content(address, PATIENCE_S)) == size
            before = gateway.show()
            assert {link["name"]: link["delivered_bytes"] > size for link in before["links"]}["radio.up"]
            gateway.set(rate="0bit")  # the request itself does not take the path
            gateway.set(rate="50mbit")
            assert rates(gateway.show()) == {"radio.down": 50_000_000, "radio.up": 50_000_000}
    with pytest.raises(ContainerStartException, match="moon"):
        WavebedContainer("--scene", "moon", **THIS_MACHINE).start()
