"""Reading results: ``wavebed.load(DIR)``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.extras import TABLES, require
from wavebed.kinds import kind_at

if TYPE_CHECKING:
    from wavebed.forward.folder import ForwardRun
    from wavebed.store.load import Run


def load(folder: str | Path) -> Run | ForwardRun:
    """Open the results of a run, or of a forwarding test.

    Parameters
    ----------
    folder : str or pathlib.Path
        What ``wavebed run -o`` or ``wavebed forward -o`` named.

    Raises
    ------
    UserError
        If it has no such results, or results of another schema.
    MachineError
        If pandas or PyArrow is not installed.
    """
    require("report", "a folder of results", TABLES)
    path = Path(folder)
    return cast("Run | ForwardRun", kind_at(path).load(path))
