"""Pages and pictures, whatever they show: templates, tables, charts inside pages, charts as files."""

from importlib import resources

__all__ = ["asset"]


def asset(name: str, package: str = "wavebed.page") -> str:
    """Return the text of a file in a package's ``assets``."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")
