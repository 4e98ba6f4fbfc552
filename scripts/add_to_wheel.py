"""Add files to a wheel: ``add_to_wheel.py WHEEL FOLDER PLACE=FILE…``; the new wheel is written into FOLDER.

PLACE is below the wheel's folder of data (``scripts/…``, ``data/…``), or ``licenses/…``. Programs need no Python to be
added: this writes the record of the wheel anew, as PEP 427 asks.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path


def main(wheel: Path, folder: Path, additions: list[str]) -> None:
    """Write the wheel with the additions."""
    name = "-".join(wheel.name.split("-")[:2])
    record = f"{name}.dist-info/RECORD"
    with zipfile.ZipFile(wheel) as source:
        content = {entry.filename: (source.read(entry), entry.external_attr >> 16) for entry in source.infolist()}
    del content[record]
    for addition in additions:
        place, _, file = addition.partition("=")
        inside = f"{name}.dist-info/{place}" if place.startswith("licenses/") else f"{name}.data/{place}"
        if inside in content:
            raise SystemExit(f"{wheel}: has {inside} already")
        mode = 0o100755 if place.startswith("scripts/") else 0o100644
        content[inside] = (Path(file).read_bytes(), mode)
    lines = [f"{inside},sha256={_digest(data)},{len(data)}" for inside, (data, _) in content.items()]
    content[record] = ("\n".join([*lines, f"{record},,"]).encode() + b"\n", 0o100644)
    moment = max(
        int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315_532_800
    )  # the oldest that a zip file can have
    with zipfile.ZipFile(folder / wheel.name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for inside, (data, mode) in content.items():
            entry = zipfile.ZipInfo(inside, time.gmtime(moment)[:6])
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, data)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
