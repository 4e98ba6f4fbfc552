"""The SINR of the radio links of a trial over its time, from the patterns that are stored beside it."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.pattern import read_trace
from wavebed.result.names import INCOMPLETE, SPEC_FILE
from wavebed.spec.network import links
from wavebed.spec.patterns import StoredPatterns, nearest_folder
from wavebed.spec.trial import load_spec
from wavebed.spec.types import PatternRate, RadioStage

if TYPE_CHECKING:
    from wavebed.export.trial import Trial
    from wavebed.pattern.model import Pattern

__all__ = ["sinr_of_links"]


def sinr_of_links(trial: Trial) -> dict[str, list[tuple[int, float]]]:
    """Return the steps of each radio link: time since time zero (ns; the first may be before) and SINR (dB).

    A link without SINR in its pattern has none, and so has a trial without its specification or patterns, as in a copy
    of its folder alone.
    """
    file = trial.path / SPEC_FILE
    found: dict[str, list[tuple[int, float]]] = {}
    with suppress(UserError):
        network = load_spec(file, INCOMPLETE).network
        rates = {
            link: stage.rate for link, stages in links(network) for stage in stages if isinstance(stage, RadioStage)
        }
        rated = {link: rate for link, rate in rates.items() if isinstance(rate, PatternRate)}
        with closing(StoredPatterns({rate.file for rate in rated.values()}, nearest_folder(file))) as stored:
            for link, rate in rated.items():
                pattern = read_trace(Path(stored.files[rate.file]), "native")
                found[link] = _steps(pattern, rate, trial.end_ns)
    return {link: steps for link, steps in found.items() if steps}


def _steps(pattern: Pattern, rate: PatternRate, end_ns: int) -> list[tuple[int, float]]:
    if pattern.sinr_mdb is None:
        return []
    laps = -(-(end_ns + rate.start_ns) // pattern.period) if rate.end == "repeat" else 1
    rows = list(zip(pattern.index.tolist(), pattern.sinr_mdb.tolist(), strict=True))
    return [
        (lap * pattern.period + at_ns - rate.start_ns, sinr_mdb / 1000)
        for lap in range(laps)
        for at_ns, sinr_mdb in rows
    ]
