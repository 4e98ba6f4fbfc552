"""``wavebed site``: the objects of a web site, and the structure of a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.extras import require
from wavebed.output import write_output
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse

    from wavebed.workload.site import BuiltSite

_DESCRIPTION = "Show the objects and bytes of a web site, by kind and by origin."
_PROFILE = (
    "Write the structure of a page: for each object its type, its size, its size as gzip, and where and how another"
    " object refers to it. The structure has no content, no names and no addresses; hosts are numbers. It is a site:"
    " `wavebed site info` and the workload `web` read it."
)


def register_site(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed site`` to the program's parser."""
    about = "show a web site, or profile the structure of a page"
    parser = subparsers.add_parser("site", help=about, description=f"{about.capitalize()}.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    info = verbs.add_parser("info", help=_DESCRIPTION, description=_DESCRIPTION)
    info.add_argument(
        "site",
        metavar="SITE",
        help="a specification (.toml), a structure (.json), a recording (.har), a saved page (.html) or folder, or a"
        " shipped site, as cnn",
    )
    info.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")
    about = "write the structure of a page, without its content and names"
    profile = verbs.add_parser("profile", help=about, description=_PROFILE)
    profile.add_argument("page", metavar="HAR|FOLDER", type=Path, help="a recording (.har), or a saved page")
    profile.add_argument("--summary", action="store_true", help="sum objects up in groups: less detail to share")
    profile.add_argument("-o", "--output", metavar="FILE", help="the file (default: standard output)")


def run_site(args: argparse.Namespace) -> int:
    """Show a site, or write the structure of a page.

    Raises
    ------
    UserError
        If there is no such site or page, or it is wrong.
    """
    return _run_profile(args) if args.verb == "profile" else _run_info(args)


def _run_profile(args: argparse.Namespace) -> int:
    require("web", "a web site", ("PIL", "fontTools", "matplotlib"))
    from wavebed.workload.site.profile import profile, summary
    from wavebed.workload.site.structure import plain_structure

    structure = profile(args.page)
    told = dict(summary(structure) if args.summary else plain_structure(structure))
    rows = {key: value for key, value in told.items() if isinstance(value, list)}
    top = {key: value for key, value in told.items() if key not in rows}
    (key, listed), *_ = rows.items()
    lines = ",\n".join(json.dumps(row) for row in listed)
    text = f'{json.dumps(top)[:-1]}, "{key}": [\n{lines}\n]}}\n'
    if args.output is None:
        print(text, end="")
    else:
        write_output(args.output, text, "-o")
    return 0


def _run_info(args: argparse.Namespace) -> int:
    """Build the site if it has not been built, and show it.

    Raises
    ------
    UserError
        If there is no such site, or it is wrong.
    """
    require("web", "a web site", ("PIL", "fontTools", "matplotlib"))
    from wavebed.lab.tools import cache_folder
    from wavebed.workload.site import load_site

    built = load_site(args.site, cache_folder())
    if args.json:
        print_json("site-info", _plain(built), indent=2)
    else:
        print(printable(_table(built), keep="\n"))
    return 0


def _counted(built: BuiltSite) -> dict[str, dict[str, tuple[int, int]]]:
    """Return objects and bytes by kind and by origin."""
    by: dict[str, dict[str, tuple[int, int]]] = {"kind": {}, "origin": {}}
    for entry in built.site.objects:
        for what, name in (("kind", entry.kind), ("origin", entry.origin)):
            count, size = by[what].get(name, (0, 0))
            by[what][name] = (count + 1, size + entry.bytes)
    return by


def _plain(built: BuiltSite) -> dict[str, object]:
    site = built.site
    by = _counted(built)
    return {
        "name": site.name,
        "title": site.title,
        "source": site.source,
        "first": f"//{site.origins[0].name}{site.first}",
        "scheme": site.scheme,
        "folder": str(built.folder),
        "objects": len(site.objects),
        "bytes": site.bytes,
        **{
            f"by_{what}": [{what: name, "objects": count, "bytes": size} for name, (count, size) in rows.items()]
            for what, rows in by.items()
        },
        "notes": list(site.notes),
    }


def _table(built: BuiltSite) -> str:
    site = built.site
    lines = [
        printable(site.title),
        f"source: {printable(site.source)}",
        f"first:  //{site.origins[0].name}{site.first}",
    ]
    by = _counted(built)
    width = max(len(name) for rows in by.values() for name in (*rows, "together"))
    for what, rows in by.items():
        lines += ["", f"{what:<{width}}  objects        bytes"]
        lines += [f"{name:<{width}}  {count:>7}  {size:>11}" for name, (count, size) in rows.items()]
        lines.append(f"{'together':<{width}}  {len(site.objects):>7}  {site.bytes:>11}")
    if site.notes:
        lines += ["", *(f"note: {printable(note)}" for note in site.notes)]
    return "\n".join([*lines, "", f"files: {built.folder}"])
