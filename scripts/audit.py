"""Check the supply chain: licences, origins and bans of crates (deny.toml), known faults of crates and Python packages.

``audit.py BIN``: BIN is the folder of cargo-deny and pip-audit. The databases of faults are on the network. Where one
cannot be reached a line says that it was not checked; with WAVEBED_ADVISORIES=required that is an error, as in public
CI.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_LOCK = "requirements-tools.txt"
_TIMEOUT_S = 600
_UNREACHED = ("failed to fetch advisory database", "ConnectionError", "Could not resolve host", "ServiceError")


class NotReachedError(Exception):
    """A database of faults cannot be reached."""


def main(folder: Path) -> int:
    """Run every check; return the exit status."""
    status = check_crates(folder)
    for name, check in (("crates", advise_crates), ("Python packages", advise_packages)):
        try:
            status |= check(folder)
        except NotReachedError as error:
            print(f"audit: known faults of {name}: not checked: {error}")
            status |= os.environ.get("WAVEBED_ADVISORIES") == "required"
    return int(status)


def check_crates(folder: Path) -> int:
    """Check licences, origins and bans, without the network."""
    done = _run(folder / "cargo-deny", "--locked", "--offline", "check", "bans", "licenses", "sources")
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
    print(f"audit: licences, origins and bans of crates: {'wrong' if done.returncode else 'ok'}")
    return int(done.returncode != 0)


def advise_crates(folder: Path) -> int:
    """Look the crates of Cargo.lock up in the RustSec database."""
    done = _run(folder / "cargo-deny", "--locked", "check", "advisories")
    said = done.stdout + done.stderr
    if done.returncode and any(sign in said for sign in _UNREACHED):
        raise NotReachedError("the RustSec database cannot be reached")
    if done.returncode:
        print(said, file=sys.stderr)
    print(f"audit: known faults of crates: {'found' if done.returncode else 'none'}")
    return int(done.returncode != 0)


def advise_packages(folder: Path) -> int:
    """Look the packages of the lock file up in the database of the package index; first one of them alone."""
    lock = Path(_LOCK).read_text(encoding="utf-8")
    first = re.search(r"^[A-Za-z0-9._-]+==[^\s;\\]+", lock, re.MULTILINE)
    if first is None:
        raise SystemExit(f"{_LOCK}: names no package")
    with tempfile.TemporaryDirectory() as scratch:
        one = Path(scratch) / "one.txt"
        one.write_text(f"{first[0]}\n", encoding="utf-8")
        _ask(folder, one)
    faults = _ask(folder, Path(_LOCK))
    for package in faults:
        told = ", ".join(
            f"{fault['id']} (corrected in {', '.join(fault['fix_versions']) or 'none'})" for fault in package["vulns"]
        )
        print(f"{package['name']} {package['version']}: {told}", file=sys.stderr)
    print(f"audit: known faults of Python packages: {'found' if faults else 'none'}")
    return int(bool(faults))


def _ask(folder: Path, requirements: Path) -> list[dict[str, list[dict[str, list[str]]]]]:
    """Return the packages with faults."""
    options = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--requirement")
    done = _run(folder / "pip-audit", *options, str(requirements))
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        if any(sign in done.stderr for sign in _UNREACHED):
            raise NotReachedError("the database of the package index cannot be reached") from None
        raise SystemExit(f"pip-audit: {done.stderr.strip()}") from None
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown:
        raise NotReachedError(f"the database of the package index does not know {', '.join(unknown[:3])}")
    return [package for package in packages if package["vulns"]]


def _run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
