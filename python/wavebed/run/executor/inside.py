"""What runs in a guest of virtual time: one block, from the folder `INPUT` into the folder `OUTPUT`."""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.errors import WavebedError
from wavebed.run.executor.block import TASK_FILE, BlockTask, perform_trials
from wavebed.run.trial import run_trial
from wavebed.virtual.guest import INPUT, OUTPUT, wait_for_begin

if TYPE_CHECKING:
    from wavebed.run.executor.pack import Packed

__all__ = ["ERROR_FILE", "PACKED_FILE", "main"]

PACKED_FILE = "packed.json"
ERROR_FILE = "error"
_WORK = Path("/run/wavebed/work")


def main(given: Path = Path(INPUT), output: Path = Path(OUTPUT), work: Path = _WORK) -> int:
    """Run the block, and leave its packed trials, or the error, in `output`."""
    try:
        packed = _perform(given, output, work)
    except (WavebedError, OSError) as error:
        (output / ERROR_FILE).write_text(str(error))
        return 1
    (output / PACKED_FILE).write_bytes(msgspec.json.encode(packed))
    return 0


def _perform(given: Path, output: Path, work: Path) -> list[Packed]:
    work.mkdir()
    for each in sorted(given.iterdir()):
        (work / each.name).symlink_to(each)
    task = msgspec.json.decode(gzip.decompress((given / TASK_FILE).read_bytes()), type=BlockTask)
    wait_for_begin()
    done = []
    for packed, file in perform_trials(task, work, lambda: False, run_trial):
        shutil.copyfile(file, output / file.name)
        file.unlink()
        done.append(packed)
    return done


if __name__ == "__main__":
    sys.exit(main())
