"""A program that tells what it can do; it runs inside a laboratory."""

import json
import os
from pathlib import Path


def attempt(path: str) -> str:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        return type(error).__name__


def write(folder: str) -> bool:
    try:
        (Path(folder) / "left-by-a-confined-program").write_text("x")
    except OSError:
        return False
    return True


KEY = "{key}"  # the test puts the path of the operator's file here
folders = [
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/run/lock",
    "/etc",
    "/usr",
    "/var",
    "/home",
    "/root",
    str(Path.cwd()),
]
temporary = sorted(path.name for path in Path("/dev/shm").iterdir())
status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
print(
    json.dumps(
        {
            "ids": [*os.getresuid(), *os.getresgid()],
            "groups": os.getgroups(),
            "status": {key: value.strip() for key, value in status.items()},
            "variables": dict(os.environ),
            "key": attempt(KEY),
            "shadow": attempt("/etc/shadow"),
            "init": attempt("/proc/1/environ"),
            "wrote": [folder for folder in folders if write(folder)],
            "temporary": [name for name in temporary if "confined" in name],
        }
    )
)
