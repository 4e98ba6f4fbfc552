"""A page with a style sheet, and a picture from another origin."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

from wavebed.workload.site.model import BuiltSite, Site, SiteObject, SiteOrigin

if TYPE_CHECKING:
    from pathlib import Path

MAIN, OTHER = "www.small.example", "images.small.example"
PAGE = """<!doctype html><html><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<link rel=stylesheet href=style.css><title>Small</title></head><body><h1>A small page</h1>
<p>Some text, and a picture:</p><img src="//images.small.example/picture.png" width=300 height=300>{more}</body></html>
"""


def small_site(folder: Path, more: str = "") -> BuiltSite:
    """Return a page with a style sheet, and a picture of 270 kB from another origin."""
    for name in (MAIN, OTHER):
        (folder / name).mkdir(parents=True)
    (folder / MAIN / "index.html").write_text(PAGE.format(more=more))
    (folder / MAIN / "style.css").write_text("body{margin:20px;background:#dde;color:#124}h1{font-size:40px}")
    image = Image.effect_noise((300, 900), 90)
    file = io.BytesIO()
    image.save(file, "png")
    (folder / OTHER / "picture.png").write_bytes(file.getvalue())
    objects = tuple(
        SiteObject(origin, f"/{name}", name, (folder / origin / name).stat().st_size, kind, content_type)  # type: ignore[arg-type]
        for origin, name, kind, content_type in (
            (MAIN, "index.html", "html", "text/html"),
            (MAIN, "style.css", "css", "text/css"),
            (OTHER, "picture.png", "image", "image/png"),
        )
    )
    origins = (SiteOrigin(MAIN, MAIN), SiteOrigin(OTHER, OTHER))
    return BuiltSite(Site("small", "Small", "made for this test", "/index.html", origins, objects), folder)
