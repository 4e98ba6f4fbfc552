"""Reading results: ``wavebed.load(DIR)``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.result.names import DEVICES_FOLDER
from wavebed.store.records import kind_of

if TYPE_CHECKING:
    from wavebed.forward.read import ForwardRun
    from wavebed.store.load import Run

__all__ = ["load"]


def load(folder: str | Path) -> Run | ForwardRun:
    """Open the results of a run, or of a forwarding test.

    Parameters
    ----------
    folder : str or pathlib.Path
        What ``wavebed run -o`` or ``wavebed forward -o`` named.

    Raises
    ------
    UserError
        If it has no such results, or those of another schema.
    MachineError
        If pandas or PyArrow is not installed.
    """
    require("report", "a folder of results", TABLES)
    path = Path(folder)
    kind = kind_of(path)
    if kind == "forward":
        from wavebed.forward.read import read_forward

        return read_forward(path)
    if kind == "reproduction":
        raise UserError(f"{path}: holds several forwarding tests: name one of the folders in {path / DEVICES_FOLDER}")
    from wavebed.store.load import load_run

    return load_run(path)
