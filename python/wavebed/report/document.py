"""A page as one file with its style, script and data, which needs no network."""

from __future__ import annotations

from html import escape
from importlib import resources

__all__ = ["asset", "document"]


def asset(name: str, package: str = "wavebed.report") -> str:
    """Return the text of a file in a package's ``assets``."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def document(title: str, body: str, script: str, style: str = "") -> str:
    """Return the page; its results have the id ``results``.

    Parameters
    ----------
    style : str
        Style in addition to that of all reports.
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
