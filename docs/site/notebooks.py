"""A notebook as a page: its text, its code and its outputs, as they are stored."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["markdown_of"]


def markdown_of(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by their names.

    Parameters
    ----------
    notebook : pathlib.Path
        A file of nbformat 4 with its outputs.
    """
    document = json.loads(notebook.read_text(encoding="utf-8"))
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(_fenced(source, "python"))
            parts += [_output(output, notebook.stem, pictures) for output in cell["outputs"]]
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    if output["output_type"] == "stream":
        return _fenced("".join(output["text"]), "text")
    data = output.get("data", {})
    if "image/png" in data:
        picture = f"{name}-{len(pictures) + 1}.png"
        pictures[picture] = base64.b64decode("".join(data["image/png"]))
        return f"![Output of the cell above]({picture})"
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    return _fenced("".join(data.get("text/plain", "")), "text")


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```" if text.strip() else ""
