"""Write the Chinese pages of the studies from the English ones.

    python docs/zh/study_pages.py            # write the pages
    python docs/zh/study_pages.py --check    # is each page what would be written?

`wavebed reproduce` writes the English pages; `study_pages.toml` has the Chinese of each heading, sentence, caption and
cell of theirs. A text without a translation is told with its line, and an entry that no page uses; then nothing is
written, and the status is 1.
"""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

ROOT = Path(__file__).parents[2]
PROGRAM = "docs/zh/study_pages.py"
CATALOGUE = "docs/zh/study_pages.toml"
PAGES = ("kau-e5g", "bbr-5g", "cas-mmwave")
COMMON = "every page"
"""The table of the catalogue that all pages use."""
NOTE = (
    "本页由 `{program}` 按 `{catalogue}` 中的译文，从英文页[{title}](../validation/{name}.md)写成："
    "要改动，请改译文，再运行这个程序。"
    "图中的文字是英文：菱形是发表值（published），灰色是它的容差，圆点是我们的中位数（ours）。"
)

_ALIKE = re.compile(r"[^A-Za-z]*|\d{4}-\d\d-\d\dT[\d:.+]+|(?=[a-f]*\d)[0-9a-f]{7,8}|`[^`]+`")
"""What is the same in both languages: numbers, times, commits, code."""
_PLACE = re.compile(r"\{([#=]?)(\w+)\}")
_ANY = {"#": r"\d+(?:\.\d+)?", "=": ".+?", "": ".+?"}
"""What stands for each kind of placeholder: a number, what stays as it is, and what is translated by itself."""
_MARK = re.compile(r"(#+|-) ")
_PICTURE = re.compile(r"!\[(.*)\]\((.*)\)")


class Translations:
    """The translations that a page uses.

    Parameters
    ----------
    entries : collections.abc.Mapping[str, str]
        English texts, and the Chinese of each; of several with placeholders that fit, the first counts.
    names : collections.abc.Set[str]
        Texts that stay as they are.
    """

    def __init__(self, entries: Mapping[str, str], names: AbstractSet[str]) -> None:
        self._entries = entries
        self._names = names
        self._patterns = [(key, *_pattern(key)) for key in entries if _PLACE.search(key)]
        self._found: dict[str, str | None] = {}
        self.used: set[str] = set()

    def chinese(self, text: str) -> str | None:
        """Return the Chinese of a text, or None if it has none."""
        if text not in self._found:
            self._found[text] = self._translated(text)
        return self._found[text]

    def _translated(self, text: str) -> str | None:
        if text in self._entries:
            self.used.add(text)
            return self._entries[text]
        if text in self._names or _ALIKE.fullmatch(text):
            self.used.add(text)
            return text
        for key, pattern, inner in self._patterns:
            if match := pattern.fullmatch(text):
                found = match.groupdict()
                parts = {name: self.chinese(part) if name in inner else part for name, part in found.items()}
                if None not in parts.values():
                    self.used.add(key)
                    return self._entries[key].format_map(parts)
        return None


def _pattern(key: str) -> tuple[re.Pattern[str], set[str]]:
    """Return the pattern of an entry, and which of its placeholders are translated by themselves."""
    text, *places = _PLACE.split(key)
    pattern = re.escape(text)
    inner: set[str] = set()
    for kind, name, after in zip(places[::3], places[1::3], places[2::3], strict=True):
        pattern += f"(?P<{name}>{_ANY[kind]}){re.escape(after)}"
        if not kind:
            inner.add(name)
    return re.compile(pattern), inner


def chinese_page(name: str, translations: Translations) -> tuple[str, dict[str, int]]:
    """Return the Chinese page of a study, and each text without a translation with its first line."""
    missing: dict[str, int] = {}
    lines: list[str] = []
    english = (ROOT / f"docs/validation/{name}.md").read_text(encoding="utf-8").splitlines()

    def chinese(text: str) -> str:
        if (found := translations.chinese(text)) is None:
            missing.setdefault(text, len(lines) + 1)
        return found or text

    for line in english:
        if line.startswith("| "):
            cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            lines.append(f"| {' | '.join(map(chinese, cells))} |")
        elif picture := _PICTURE.fullmatch(line):
            lines.append(f"![{chinese(picture[1])}](../validation/{picture[2]})")
        else:
            text = line[mark.end() :] if (mark := _MARK.match(line)) else line
            lines.append(f"{line.removesuffix(text)}{chinese(text)}")
    note = NOTE.format(program=PROGRAM, catalogue=CATALOGUE, title=english[0].removeprefix("# "), name=name)
    lines[1:1] = ["", f"<!-- in English: docs/validation/{name}.md -->", "", note]
    return "\n".join(lines) + "\n", missing


def main(arguments: list[str]) -> int:
    """Write or check the pages, and return the status."""
    catalogue = tomllib.loads((ROOT / CATALOGUE).read_text(encoding="utf-8"))
    names = frozenset(catalogue.pop("names"))
    pages: dict[str, str] = {}
    told: list[str] = []
    used: set[str] = set()
    for name in PAGES:
        own = catalogue.get(name, {})
        translations = Translations(own | catalogue[COMMON] | own, names)  # its own come first, and in place of others
        pages[f"docs/zh/{name}.md"], missing = chinese_page(name, translations)
        told += [f"docs/validation/{name}.md:{line}: no translation: {text}" for text, line in missing.items()]
        used |= translations.used
    unused = sorted(text for text in chain(names, *catalogue.values()) if text not in used)
    told += [f"{CATALOGUE}: no page has: {text}" for text in unused]
    if not told and "--check" in arguments:
        differ = [page for page, text in pages.items() if (ROOT / page).read_text(encoding="utf-8") != text]
        told = [f"{page}: not what {PROGRAM} writes" for page in differ]
    elif not told:
        for page, text in pages.items():
            (ROOT / page).write_text(text, encoding="utf-8")
    if told:
        print("\n".join(told), file=sys.stderr)
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
