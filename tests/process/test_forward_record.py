"""The folder of a forwarding test: whole, readable without wavebed, and read back as it was."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.unit.test_forward_record import folder  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path


def test_the_sample_has_frames_of_every_size_and_of_what_was_refused(folder: Path) -> None:
    done = subprocess.run(
        ["tshark", "-r", str(folder / "raw" / "sample.pcapng"), "-T", "fields", "-e", "frame.len"],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lengths = done.stdout.split()
    assert len(lengths) == 2 * (7 + 1 + 1), "two frames of each size, of the mix, and of the refused trial"
    assert {"60", "124", "1514"} <= set(lengths)
