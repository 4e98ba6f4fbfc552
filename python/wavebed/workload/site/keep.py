"""Keep the site of a trial beside its specification, so that the trial can be repeated elsewhere."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from wavebed.beneath import make_folders
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_bytes
from wavebed.output import replace_file
from wavebed.spec.patterns import SITES
from wavebed.workload.site.har import read_har
from wavebed.workload.site.har_entries import stripped
from wavebed.workload.site.load import find_site, is_page, is_shipped
from wavebed.workload.site.saved import find_page

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["keep_site", "kept_site"]

_NAME = re.compile(rf"{SITES}/[0-9a-f]{{64}}/(?!\.{{1,2}}$)[^/\0]+")


def keep_site(given: str, folder: Path) -> str:
    """Copy what describes a site into `folder`, under the SHA-256 of its content.

    A recording is kept without headers, cookies and requests that the site does not serve.

    Parameters
    ----------
    given : str
        As `load_site` takes it.

    Returns
    -------
    str
        ``sites/SHA256/NAME``; the name of a shipped site as it is.

    Raises
    ------
    UserError
        If it cannot be read.
    OSError
        If it cannot be written.
    """
    if is_shipped(given):
        return given
    file = find_site(given)
    if is_page(file):
        page = find_page(file)
        inner = file.resolve().name if file.is_dir() else file.name
        name = f"{SITES}/{page.digest()}/{inner}"
        place = folder / name if file.is_dir() else (folder / name).parent
        _write(place, page.files())
        return name
    if file.suffix.lower() == ".har":
        try:
            data = stripped(read_har(file))
        except Problem as problem:
            raise UserError(f"{file}: {problem}") from None
    else:
        data = read_bytes(file, "name a site's file", most=MAX_TEXT_BYTES)
    name = f"{SITES}/{hashlib.sha256(data).hexdigest()}/{file.name}"
    _write((folder / name).parent, [(file.name, data)])
    return name


def kept_site(given: str, folder: Path) -> str:
    """Return the file of a site that was kept in `folder`, or `given` if it is the name of no such site."""
    return str(folder / given) if _NAME.fullmatch(given) else given


def _write(place: Path, files: Iterable[tuple[str, bytes]]) -> None:
    for name, data in files:
        file = place / name
        if not file.exists():
            make_folders(file.parent)
            replace_file(file, data)
