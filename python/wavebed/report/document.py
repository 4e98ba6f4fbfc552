"""A page as one file: its style, script and data inside, and nothing asked of a network."""

from __future__ import annotations

import os
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["asset", "document", "write_whole"]


def asset(name: str, package: str = "wavebed.report") -> str:
    """Return the text of a file in a package's ``assets``."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def document(title: str, body: str, script: str, style: str = "") -> str:
    """Return the page; its results have the id ``results``.

    Parameters
    ----------
    style : str
        What it has beyond the style of all reports.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{asset("report.css")}{style}</style>
</head>
<body>
<a class="skip" href="#results">Skip to the results</a>
<main>
{body}
</main>
<script>
{script}</script>
</body>
</html>
"""


def write_whole(target: Path, text: str, option: str = "-o") -> None:
    """Write a file so that it appears whole or not at all; `option` is what names it.

    Raises
    ------
    UserError
        If it cannot be written.
    """
    temporary = target.with_name(f".{target.name}.partial")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, target)  # noqa: PTH105 - both are the same here
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{target}: {(error.strerror or 'cannot be written').lower()}: name another file with {option}"
        ) from None
