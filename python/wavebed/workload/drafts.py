"""Files of the cache: whole, or not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["drafted"]


@contextmanager
def drafted(file: Path) -> Iterator[Path]:
    """Give an empty file to be written, which takes the place of `file` at the end of the block.

    If the block fails, nothing of it is left.

    Raises
    ------
    MachineError
        If the system refuses, for want of space for instance.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
        os.close(descriptor)
        draft = Path(name)
        try:
            yield draft
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(f"{file}: cannot be made: {(error.strerror or str(error)).lower()}") from None
