"""The page that plays the video: `page` puts it together with dash.js."""

from __future__ import annotations

from importlib import resources

__all__ = ["page"]


def page(player: str) -> str:
    """Return the page, with the text of dash.js in it: it asks the network for nothing."""
    files = resources.files(__name__)
    watch = files.joinpath("watch.js").read_text(encoding="utf-8")
    frame = files.joinpath("watch.html").read_text(encoding="utf-8")
    # Inside a string of the script, "<\\/script" is the same and does not end the element.
    scripts = ["<script>" + text.replace("</script", r"<\/script") + "</script>" for text in (player, watch)]
    return frame.replace("<!-- scripts -->", "\n".join(scripts))
