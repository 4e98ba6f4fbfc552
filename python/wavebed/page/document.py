"""Pages from templates of Jinja2, which stand beside the packages that fill them; a page needs no network.

A template has macros, and a macro is a part of a page: `filled` calls it. Whatever is not `Markup` is escaped.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from markupsafe import Markup

from wavebed.errors import UserError
from wavebed.output import replace_file
from wavebed.page import asset
from wavebed.page.text import MISSING, figure, signed, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jinja2 import Environment
    from jinja2.bccache import Bucket

TableRow: TypeAlias = "Sequence[str | TableCell]"
_PARTS = "page/document.html.j2"
_OPTIONS = 1
"""One more whenever the options of the environment change: compiled templates depend on them."""


class TableCell(NamedTuple):
    """A cell of a table, where it is more than its text.

    Parameters
    ----------
    text, below : str or Markup
        The text, and a remark in small letters below it.
    kind, title : str
        Its class, and the text that is shown under the pointer.
    span : int
        Columns that it takes.
    """

    text: str
    below: str = ""
    kind: str = ""
    title: str = ""
    span: int = 1


@cache
def _templates() -> Environment:
    from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined, __version__

    class BesideModules(BytecodeCache):
        """Compiled templates, kept as Python keeps compiled modules: compiling a page's templates takes 0.2 s."""

        def load_bytecode(self, bucket: Bucket) -> None:
            try:
                with compiled(bucket.key).open("rb") as file:
                    bucket.load_bytecode(file)
            except Exception:  # noqa: BLE001 - missing, or damaged in any way: it is compiled again
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            if not sys.dont_write_bytecode:
                with suppress(OSError, UserError):
                    replace_file(compiled(bucket.key), bucket.bytecode_to_string())

    def compiled(key: str) -> Path:
        name = f"{key}-{__version__}-{_OPTIONS}.py"
        return Path(cache_from_source(str(Path(__file__).with_name(name)))).with_suffix(".jinja")

    made = Environment(
        bytecode_cache=BesideModules(),
        loader=FileSystemLoader(Path(__file__).parents[1]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"figure": figure, "signed": signed, "breakable": breakable, "island": island}
    made.globals |= {"MISSING": MISSING}
    return made


def filled(template: str, part: str, *values: object, **named: object) -> Markup:
    """Return a part of a page: a macro of a template, filled.

    Parameters
    ----------
    template : str
        Its file in the package `wavebed`: ``report/run.html.j2``.
    """
    macro = getattr(_templates().get_template(template).module, part)
    return Markup(macro(*values, **named))  # noqa: S704 - a template escapes what it is given


def joined(parts: Iterable[Markup | str]) -> Markup:
    """Return parts of a page one after the other."""
    return Markup().join(parts)


def soft(text: str) -> Markup:
    """Return a paragraph in small letters."""
    return filled(_PARTS, "soft", text)


def section(name: str, title: str, *parts: Markup | str) -> Markup:
    """Return a section; empty if it would hold nothing."""
    body = joined(parts)
    return filled(_PARTS, "section_of", name, title, body) if body else Markup()


def titled(title: str, *parts: Markup | str) -> Markup:
    """Return parts below a title within a section."""
    return filled(_PARTS, "titled", title, joined(parts))


def folded(title: str, body: Markup, *, is_open: bool = False) -> Markup:
    """Return what a reader unfolds by its title."""
    return filled(_PARTS, "folded", title, body, is_open)


def table(
    caption: str, head: Sequence[str], rows: Iterable[TableRow], kind: str = "", texts: Sequence[int] = (),
    *, total: Sequence[str] = (),
) -> Markup:  # fmt: skip
    """Return a table that scrolls by itself.

    Parameters
    ----------
    rows : iterable of sequence
        Texts, or what `TableCell` has; the first of a row names it.
    texts : sequence of int
        Places of the columns that hold text, not numbers.
    total : sequence of str, optional
        The last row, of sums.
    """
    return filled(_PARTS, "table", caption, head, rows, kind, texts, total)


def breakable(name: str) -> Markup:
    """Return a name that may break after each hyphen, underscore, slash, colon or comma, not inside its words."""
    return Markup("<wbr>").join(words(name))


def island(value: object) -> Markup:
    """Return data as JSON for a script element, from which nothing can break out."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no element can begin without this sign


def document(title: str, body: Markup, script: str = "", style: str = "") -> str:
    """Return a whole page in the style of all reports; its results have the id ``results``.

    Parameters
    ----------
    script, style : str
        Of this page, beside the style of all reports.
    """
    style = asset("report.css") + style
    return str(filled("page/document.html.j2", "document", title, body, Markup(script), Markup(style)))  # noqa: S704


def curves_page(
    title: str, table: Markup, foot: Markup, data: object, *, top: Markup | str = "", map_width: str = "none"
) -> bytes:
    """Return a whole page of curves, which its script draws from data.

    Parameters
    ----------
    top : Markup
        What stands above the table: a map as wide as `map_width`.
    """
    script = Markup(asset("curves.js"))  # noqa: S704 - a file of the package
    return filled("page/curves.html.j2", "curves", title, top, map_width, table, foot, data, script).encode()
