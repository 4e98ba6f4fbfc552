"""The programs that the demonstration needs, and a web server that keeps to itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from wavebed.errors import MachineError

__all__ = ["PACKAGES", "available_congestion_controls", "find_tools", "nginx_configuration", "sparse_file", "version"]

PACKAGES = {"curl": "curl", "nginx": "nginx-light", "iperf3": "iperf3", "ping": "iputils-ping"}
"""The Debian package of each program."""

_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def find_tools() -> dict[str, str]:
    """Return the paths of the programs, by name.

    Raises
    ------
    MachineError
        If some are missing; the message is the command that installs them.
    """
    found = {name: _find(name) for name in PACKAGES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        raise MachineError(f"{', '.join(missing)}: not found: run `apt-get install {packages}`")
    return {name: path for name, path in found.items() if path is not None}


def _find(name: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        path = next((found for folder in _SYSTEM_FOLDERS if (found := shutil.which(name, path=folder))), None)
    return path


def available_congestion_controls() -> list[str]:
    """Return the congestion controls that this kernel has loaded."""
    text = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii")
    return text.split()


def version(argv: list[str]) -> str:
    """Return the first line that a program prints about its version."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def nginx_configuration(folder: Path) -> Path:
    """Write the configuration of an nginx that serves `folder`/www, in one process and without users; return it.

    Everything it writes stays in `folder`. Without `user root` it would give its folders to a user that a laboratory
    without root does not have.
    """
    (folder / "www").mkdir(exist_ok=True)
    places = "\n".join(
        f'    {kind}_temp_path "{folder}/{kind}";' for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"""user root;
daemon off;
master_process off;
pid "{folder}/nginx.pid";
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
{places}
    server {{
        listen 80;
        listen [::]:80;
        root "{folder}/www";
    }}
}}
""",
        encoding="utf-8",
    )
    return configuration


def sparse_file(path: Path, size_bytes: int) -> None:
    """Make a file of `size_bytes` zeros that takes no space on the disk."""
    with path.open("wb") as file:
        file.truncate(size_bytes)
