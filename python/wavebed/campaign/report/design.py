"""The design of a campaign, and how to repeat it."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.results import metric_title
from wavebed.report.names import breakable
from wavebed.result.names import CAMPAIGN_FILE
from wavebed.secret import redacted_toml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen

MOST_LEVELS = 40


def design_section(chosen: Chosen, prefix: str) -> str:
    """Return the section; `prefix` leads from the page to the folder of results."""
    results = chosen.results
    record, campaign = results.run, results.campaign
    product = 1
    for levels in campaign.factors.values():
        product *= len(levels)
    cells = f"{len(results.cells)} of {product} combinations" + (
        f"; {product - len(results.cells)} excluded" if len(results.cells) < product else ""
    )
    last = record.seed + max(len(results.ended), 1) - 1
    margins = "; ".join(
        f"{metric_title(each.workload, each.metric)}, margin {each.margin_text}" for each in campaign.primaries
    )
    facts = [
        ("cells", cells),
        ("compared", f"{campaign.factor}, with {campaign.baseline}" if campaign.factor else "nothing"),
        ("primary metrics", margins or "none"),
        (
            "blocks",
            f"{record.blocks} planned, {len(results.ended)} ended; each has one trial of every cell, in random order",
        ),
        (
            "seeds",
            f"{record.seed} to {last}, one for each block; the order of the cells is drawn from seed {record.seed}",
        ),
        (
            "stop rule",
            "after all blocks"
            if campaign.stop == "blocks"
            else f"when every primary metric is decided, not before {campaign.least_blocks} blocks",
        ),
        ("attempts", f"at most {campaign.attempts} at a trial that is invalid or fails"),
        ("kept", {"all": "metrics, series, raw outputs", "series": "metrics and series"}.get(campaign.keep, "metrics")),
        ("started", record.started),
        ("ended", record.ended or "not yet, or interrupted"),
        *record.versions.items(),
        *((f"machine: {name}", value) for name, value in record.machine.items()),
    ]
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td class=text>{breakable(str(value))}</td></tr>"
        for name, value in facts
    )
    factors = "".join(
        f"<tr><th scope=row>{breakable(name)}</th><td class=text>{_levels(levels)}</td></tr>"
        for name, levels in campaign.factors.items()
    )
    table = (
        f'<div class="scroll"><table class="facts"><thead><tr><th scope=col>factor</th>'
        f"<th scope=col class=text>levels</th></tr></thead>{factors}</table></div>"
        if factors
        else ""
    )
    inputs = "".join(
        f"<li><code>{digest[:16]}…</code> {breakable(name)}</li>" for name, digest in campaign.inputs.items()
    )
    command = shlex.join(record.command_line)
    return (
        f'<section id="design"><h2>Design, and how to repeat it</h2>{table}'
        f'<div class="scroll"><table class="facts">{rows}</table></div>'
        + (f"<pre>{escape(command)}</pre>" if command else "")
        + '<p class="soft">A seed reproduces every random process of the emulated path and so the channel. Kernel'
        f' timing is not reproducible. <a href="{escape(prefix + CAMPAIGN_FILE)}">The campaign file</a> is in the'
        " folder.</p>"
        f"<details><summary>Campaign file {escape(campaign.file)}</summary><pre>"
        f"{escape(redacted_toml(campaign.text))}</pre></details>"
        f"<details><summary>SHA-256 of {len(campaign.inputs)} inputs</summary><ul class=plain>{inputs}</ul></details>"
        "</section>"
    )


def _levels(levels: Sequence[str]) -> str:
    more = f" and {len(levels) - MOST_LEVELS} more" if len(levels) > MOST_LEVELS else ""
    return breakable(", ".join(levels[:MOST_LEVELS])) + more
