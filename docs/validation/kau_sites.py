"""Write the summaries of kau-e5g's pages, ``scenarios/sites/kau-*.json``, from the structures of four of them.

Amazon and HuffPost are summed up. Google, TripAdvisor and CNN have the published numbers of objects and bytes, and for
the rest what a page of their kind has: a search page (Bing), a shop (eBay), a page of news (HuffPost).

Run: ``python docs/validation/kau_sites.py FOLDER``; the folder has ``amazon.json`` and others (perhurt/e5g, CC-BY-4.0).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wavebed.workload.site.profile import profile, summary
from wavebed.workload.site.structure import SCRIPT_MS_PER_KB

SUMMED = {"amazon": "Amazon", "huffpost": "HuffPost"}
ALIKE = {  # name: title, page of its kind, published objects and bytes
    "google": ("Google", "bing", 10, 1_100_000),
    "tripadvisor": ("TripAdvisor", "ebay", 48, 6_500_000),
    "cnn": ("CNN", "huffpost", 148, 10_000_000),
}
OUT = Path(__file__).parents[2] / "python/wavebed/scenarios/sites"
DATA = "perhurt/e5g, experiments/datasets/web, CC-BY-4.0, summed up"


def scaled(groups: list[dict[str, object]], objects: int, size: int) -> list[dict[str, object]]:
    """Return groups scaled to a number of objects and bytes, with one document."""
    counts = [int(group["count"]) for group in groups]  # type: ignore[call-overload]
    sizes = [int(group["bytes"]) for group in groups]  # type: ignore[call-overload]
    exact = [count * (objects - 1) / (sum(counts) - 1) for count in counts]
    whole = [1, *(int(each) for each in exact[1:])]
    by_rest = sorted(range(1, len(exact)), key=lambda index: (int(exact[index]) - exact[index], index))
    for index in by_rest[: objects - sum(whole)]:
        whole[index] += 1
    kept = [index for index, count in enumerate(whole) if count]
    factor = size / sum(sizes[index] for index in kept)
    return [
        {
            **groups[index],
            "count": whole[index],
            "bytes": round(sizes[index] * factor),
            "gzip_bytes": round(int(groups[index]["gzip_bytes"]) * factor),  # type: ignore[call-overload]
        }
        for index in kept
        if groups[index].get("in") in (None, "document")
        or any(groups[other]["type"] == "document" and groups[other].get("in") == "document" for other in kept)
    ]


def write(name: str, page: str, source: str, groups: list[dict[str, object]]) -> None:
    """Write the file of a summary."""
    top = {
        "page": page,
        "source": source,
        "compressed": False,
        "viewport": "desktop",
        "script_ms_per_kb": SCRIPT_MS_PER_KB,
    }
    lines = ",\n".join(json.dumps(group) for group in groups)
    (OUT / f"kau-{name}.json").write_text(f'{json.dumps(top)[:-1]}, "groups": [\n{lines}\n]}}\n')


def main(folder: Path) -> None:
    """Write all five."""
    for name, page in SUMMED.items():
        groups = summary(profile(folder / f"{name}.json"))["groups"]
        write(name, f"{page}: summary of a saved page of 2018", DATA, groups)  # type: ignore[arg-type]
    for name, (page, kind, objects, size) in ALIKE.items():
        groups = scaled(summary(profile(folder / f"{kind}.json"))["groups"], objects, size)  # type: ignore[arg-type]
        source = f"{objects} objects and {size / 1e6:g} MB: kau-e5g; kinds and places: {kind} of {DATA}"
        write(name, f"{page}: published size, structure of a page of its kind", source, groups)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
