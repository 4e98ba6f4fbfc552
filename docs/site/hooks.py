"""Hooks of MkDocs: pages outside `docs`, notebooks, and links that work on a forge and in the site."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import markdown_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ROOT_PAGES = {
    "CHANGELOG.md": "reference/changelog.md",
    "SECURITY.md": "reference/security-policy.md",
}
"""Pages outside `docs`, and their places in the site."""
FRONT_PAGES = {"README.md": "index.md"}
"""Pages that the site does not show, and the page that stands for each."""
REPOSITORY_ONLY = ("docs/development/", "CONTRIBUTING.md", "forward/README.md", "edge/README.md")
"""Pages for those who change the code. The site links to them if it knows the repository's address."""
FOLDERS = {
    "docs/guides": "guides/laboratory.md",
    "docs/workloads": "workloads/bulk.md",
    "docs/models": "models/index.md",
    "docs/validation": "validation/index.md",
    "docs/reference": "reference/command-line.md",
}
"""Folders that a forge lists, and the page with which their section begins."""
FILES = "files"
"""Folder of the site for files of the repository that a page links to."""

_CODE = re.compile(r"(^ *(`{3,})[^\n]*\n.*?^ *\2 *$|(?<!`)`[^`\n]+`(?!`))", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\(|<img[^>]* src=\"|<a href=\")([^)\s\"#]+)(#[^)\s\"]*)?(?=[)\s\"])")
_WHOLE_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_ABSOLUTE = re.compile(r"[a-z][a-z+.-]*:|/|#")
_CHINESE = "zh/"
_CHINESE_LINES = re.compile(r"([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n *(?=[\u4e00-\u9fff\uff08\u201c])")
"""An end of a line between Chinese characters, which a browser would show as a space."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, the notebooks, and the files that pages link to."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=_linked(_text(ROOT / name), name, uri, _repository(config))))
    for notebook in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        uri = f"notebooks/{notebook.stem}.md"
        text, pictures = markdown_of(notebook)
        files.append(
            File.generated(
                config, uri, content=_linked(text, f"docs/notebooks/{notebook.name}", uri, _repository(config))
            )
        )
        for picture, data in pictures.items():
            files.append(File.generated(config, f"notebooks/{picture}", content=data))
    for file in sorted(set(_outside_files())):
        files.append(File.generated(config, f"{FILES}/{file}", abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let links that leave `docs` lead to their places in the site."""
    if page.file.generated_by is not None:
        return markdown
    if page.file.src_uri.startswith(_CHINESE):
        markdown = _CHINESE_LINES.sub(r"\1", markdown)
    return _linked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri, _repository(config))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Name the language of a Chinese page."""
    if page.file.src_uri.startswith(_CHINESE):
        return output.replace('<html lang="en"', '<html lang="zh-CN"', 1)
    return output


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _sources() -> Iterator[Path]:
    """Yield every page of the repository that the site shows."""
    yield from (ROOT / name for name in ROOT_PAGES)
    yield from sorted(
        each for each in (ROOT / "docs").rglob("*.md") if not _only_in_repository(each.relative_to(ROOT).as_posix())
    )


def _outside_files() -> Iterator[str]:
    """Yield the files that pages link to and that are no pages: programs, scenarios, licences."""
    for source in _sources():
        name = source.relative_to(ROOT).as_posix()
        for part in _CODE.split(_text(source))[::3]:
            for _, link, _ in _LINK.findall(part):
                target = _target(link, name)
                if _ABSOLUTE.match(link) or _only_in_repository(target):
                    continue
                if _place(target).startswith(f"{FILES}/"):
                    yield target


def _repository(config: MkDocsConfig) -> str:
    return str(config.extra.get("repository", ""))


def _only_in_repository(target: str) -> bool:
    return target.startswith(REPOSITORY_ONLY)


def _place(target: str) -> str:
    """Return the place in the site of a file of the repository."""
    if place := (ROOT_PAGES | FOLDERS | FRONT_PAGES).get(target):
        return place
    if target.startswith("docs/notebooks/") and target.endswith(".ipynb"):
        return target.removeprefix("docs/").removesuffix(".ipynb") + ".md"
    if target.startswith("docs/") and not target.endswith(".py"):
        return target.removeprefix("docs/")
    return f"{FILES}/{target}"


def _linked(text: str, source: str, uri: str, repository: str) -> str:
    """Return the text with its links for the place `uri`, where the repository has it at `source`."""

    def moved(match: re.Match[str]) -> str:
        before, link, anchor = match.groups()
        if _ABSOLUTE.match(link):
            return match[0]
        target = _target(link, source)
        if _only_in_repository(target):
            return f"{before}{repository}/blob/HEAD/{target}{anchor or ''}"
        return f"{before}{posixpath.relpath(_place(target), posixpath.dirname(uri) or '.')}{anchor or ''}"

    if not repository:
        text = _without_links_to_the_repository(text, source)
    parts = _CODE.split(text)  # text, code, its fence, text, …
    for index in range(0, len(parts), 3):
        parts[index] = _LINK.sub(moved, parts[index])
        if index + 2 < len(parts):
            parts[index + 2] = ""
    return "".join(part for part in parts)


def _without_links_to_the_repository(text: str, source: str) -> str:
    """Return the text with plain words for links to pages that only the repository has."""

    def plain(match: re.Match[str]) -> str:
        words, link = match.groups()
        return words if _only_in_repository(_target(link, source)) else match[0]

    return _WHOLE_LINK.sub(plain, text)


def _target(link: str, source: str) -> str:
    """Return the file of the repository that a link of the file `source` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
