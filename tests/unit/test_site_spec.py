"""What a specification may say, and the one line that answers each mistake."""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError
from wavebed.workload.site import load_site
from wavebed.workload.site.reference import reference_page

if TYPE_CHECKING:
    from pathlib import Path

TOP = (
    'title = "a shop"\nsource = "illustrative"\norigins = ["www.shop.example", "cdn.shop.example"]\ndocument = "20kb"\n'
)


def group(**keys: object) -> str:
    given = {"name": "things", "kind": "image", "bytes": "50kb", **keys}
    lines = [f"{key.replace('_', '-')} = {value}" for key, value in given.items() if value is not None]
    return "\n[[objects]]\n" + "\n".join(
        line if line.split(" = ")[1] in ("true", "false") or line.split(" = ")[1].isdigit() else _text(line)
        for line in lines
    )


def _text(line: str) -> str:
    key, _, value = line.partition(" = ")
    return f'{key} = "{value}"'


STYLE = group(name="style", kind="css", bytes="9kb")
MISTAKES = {
    "": r"title: is missing: write title = TEXT",
    "title = [": r"is not TOML: .*",
    TOP + "sorce = 1\n": r"sorce: unknown key: did you mean 'source'\?",
    TOP.replace('"20kb"', "20"): r'document: 20 has no unit: write text such as "64kb"',
    TOP.replace('"20kb"', '"10b"'): r"document: has 10 bytes: write at least 600b",
    TOP.replace(
        '"www.shop.example"', '"WWW shop"'
    ): r"origins\.0: 'WWW shop' is not a host name: write one in small .*",
    TOP.replace('"cdn.shop.example"', '"www.shop.example"'): r"origins\.1: .* is there twice: leave one out",
    TOP.replace('["www.shop.example", "cdn.shop.example"]', '"x"'): r"origins: 'x' is not an array of names: write .*",
    TOP + 'colour = "red"\n': r"colour: 'red' is not a colour: write one such as .*",
    TOP + 'layout = "gird"\n': r"layout: 'gird' is not a choice: did you mean 'grid'\?",
    TOP + "seed = -1\n": r"seed: -1 is out of range: write a whole number from 0 to \d+",
    TOP + "objects = 3\n": r"objects: 3 is not an array of tables: write \[\[objects\]\] above each one",
    TOP + group(name=None): r"objects\.0\.name: is missing: write name = NAME",
    TOP + group(kind="picture"): r"objects\.0\.kind: 'picture' is not a choice: write one of .*",
    TOP + group(size="1kb"): r"objects\.0\.size: unknown key: .*",
    TOP + group(bytes=None): r"objects\.0\.bytes: is missing: write bytes = \"SIZE\" for all together, .*",
    TOP + group(each="5kb"): r"objects\.0\.each: excludes bytes: leave one of them out",
    TOP + group(count=0): r"objects\.0\.count: 0 is out of range: .*",
    TOP + group(count=100): r"objects\.0\.bytes: has 50000 bytes for 100: jpeg image has at least 2000b: write 200000b",
    TOP + group(bytes=None, each="1kb"): r"objects\.0\.each: has 1000 bytes: jpeg image has at least 2000b",
    TOP + group(origin="img.shop.example"): r"objects\.0\.origin: 'img\.shop\.example' is not in origins: write it .*",
    TOP + group(needs="app"): r"objects\.0\.needs: 'app' is not above: write one of document",
    TOP + group(kind="font"): r"objects\.0\.needs: 'document' \(html\) cannot refer to font: write a group of css",
    TOP
    + STYLE
    + group(kind="json", needs="style"): r"objects\.1\.needs: 'style' \(css\) cannot refer to json: .* of js",
    TOP + group() + group(): r"objects\.1\.name: 'things' is the name of another one: write a name of its own",
    TOP + group(chain="true"): r"objects\.0\.chain: does not belong to image: leave it out",
    TOP + STYLE + group(kind="js", shape="card"): r"objects\.1\.shape: does not belong to js: leave it out",
    TOP + group(load="defer"): r"objects\.0\.load: 'defer' is not for image: write one of eager, lazy",
    TOP + group(spread="0.5"): r"objects\.0\.spread: .*",
    TOP
    + group(name="style", kind="css", bytes="200b"): r"objects 'style': 200 bytes do not hold what belongs there: .*",
    TOP + group(count=9, above_fold="true", shape="hero"): r"objects: pictures above the fold begin at \d+ px, .*",
    TOP
    + group(name="app", kind="js", bytes="9kb")
    + group(
        kind="js", needs="app", load="blocking"
    ): r"objects\.1\.load: a script that a script inserts does not block: .*",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_answered_by_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_site(str(file), tmp_path / "cache")
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert message.isprintable()
    assert re.fullmatch(MISTAKES[text], message.removeprefix(f"{file}: ")), message
    assert not list((tmp_path / "cache").rglob("*.html")), "nothing is left behind"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nowhere",
            r"nowhere: no such file or site: write a file, or one of amazon, cnn, google, huffpost, tripadvisor",
        ),
        ("nowhere/x.toml", r"nowhere/x\.toml: no such file or directory: name a site's file"),
        ("nowhere.har", r"nowhere\.har: no such file or directory: name a recording"),
        ("nowhere.html", r"nowhere\.html: no such file: name a saved page"),
        ("a\0b", r".*is not a file: write its name"),
    ],
)
def test_a_site_that_does_not_exist_is_said_so(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load_site(name, tmp_path)


def test_sizes_sum_exactly_and_spread_as_asked(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        TOP + group(count=20, bytes="999999b") + group(name="b", bytes=None, each="7kb", count=2)
    )
    built = load_site(str(tmp_path / "a.toml"), tmp_path / "cache")
    sizes = [entry.bytes for entry in built.site.objects if entry.path.startswith("/things/")]
    assert sum(sizes) == 999_999
    assert max(sizes) > 3 * min(sizes)
    assert [entry.bytes for entry in built.site.objects if entry.path.startswith("/b/")] == [7000, 7000]


def test_what_finds_an_object_follows_from_the_groups(tmp_path: Path) -> None:
    text = (
        TOP
        + group(name="app", kind="js", bytes="9kb", count=2)
        + group(name="tags", kind="js", bytes="9kb", count=3, needs="app", chain="true", load="async")
        + group(needs="tags", count=4, bytes="30kb")
    )
    (tmp_path / "a.toml").write_text(text)
    found_in = {
        entry.path: entry.found_in for entry in load_site(str(tmp_path / "a.toml"), tmp_path / "c").site.objects
    }
    assert found_in["/"] == ""
    assert found_in["/app/2.js"] == "/"
    assert [found_in[f"/tags/{n}.js"] for n in (1, 2, 3)] == ["/app/1.js", "/tags/1.js", "/tags/2.js"]
    assert [found_in[f"/things/{n}.jpg"] for n in (1, 2, 3, 4)] == [f"/tags/{n}.js" for n in (1, 2, 3, 1)]


def test_a_site_of_another_seed_has_other_bytes_of_the_same_sizes_together(tmp_path: Path) -> None:
    sites = []
    for seed in (1, 2):
        (tmp_path / "a.toml").write_text(TOP + f"seed = {seed}\n" + group(count=3))
        sites.append(load_site(str(tmp_path / "a.toml"), tmp_path / "cache"))
    assert sites[0].folder != sites[1].folder
    assert sites[0].site.bytes == sites[1].site.bytes
    first = [built.path_of(built.site.objects[1]).read_bytes() for built in sites]
    assert first[0] != first[1]


def test_the_reference_page_of_sites_is_up_to_date() -> None:
    stored = (FilePath(__file__).parents[2] / "docs/reference/site.md").read_text(encoding="utf-8")
    assert stored == reference_page(), "run: python -m wavebed.workload.site.reference docs/reference/site.md"
