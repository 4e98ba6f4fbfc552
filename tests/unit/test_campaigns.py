"""Campaign files: shipped ones, blocks, ledgers, resumes, and cells."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wavebed.campaign.plan import plan_campaign, plan_text
from wavebed.campaign.read import Factor, campaign_file, cells_of, compared, read_campaign
from wavebed.campaign.report.pictures import kept_series
from wavebed.config.problems import Problem
from wavebed.experiment.estimate import in_blocks
from wavebed.result.model import COUNTED, TrialLine, Verdict, comparisons
from wavebed.run.design import Slot, next_trial
from wavebed.store.disk import attempt_name
from wavebed.store.folder import Ledger, PlannedTrial, StoredAttempt, read_ledger
from wavebed.store.journal import BlockEnded, Event, Journal, RunEnded, RunResumed, TrialStored, read_journal
from wavebed.store.metrics import block_file, blocks_with_metrics, merge_metrics, read_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.run.scenario import TreatmentPlan


VERDICTS: tuple[Verdict, ...] = ("valid", "suspect", "invalid", "failed")
verdicts = st.sampled_from(VERDICTS)
words = st.text("abcdefgh0123456789", min_size=1, max_size=4)


@dataclass(frozen=True)
class Named:
    """A treatment of which only the name matters."""

    name: str


def block_of(size: int, block: int = 1) -> list[Slot]:
    treatments = cast("Sequence[TreatmentPlan]", [Named(f"cell-{place}") for place in range(size)])
    return [Slot((block - 1) * size + place, block, 7, each) for place, each in enumerate(treatments, 1)]


def not_counted(ledger: Ledger, slots: Sequence[Slot]) -> dict[int, list[bool]]:
    attempts = ledger.attempts(slots[0].block)
    return {
        number: [line is None or line.verdict not in COUNTED for line in lines] for number, lines in attempts.items()
    }


def played(slots: Sequence[Slot], drawn: Sequence[Sequence[Verdict]], attempts: int, resumed: set[int]) -> list[Slot]:
    """Return the attempts of a block whose verdicts are drawn; some are made after a resume, from the journal alone."""
    ledger, made = Ledger(), []
    while (slot := next_trial(slots, not_counted(ledger, slots), attempts)) is not None:
        made.append(slot)
        verdict = drawn[slot.number - slots[0].number][slot.attempt - 1]
        line = TrialLine(slot.folder, slot.block, slot.treatment.name, slot.seed, verdict, attempt=slot.attempt)
        ledger.add(StoredAttempt(line, slot.number, 1.0))
        if len(made) in resumed:
            known = list(ledger.stored())
            ledger = Ledger()
            for one in reversed(known):
                ledger.add(one)
    return made


@settings(deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_a_block_tries_every_trial_then_again_those_that_do_not_count(
    data: st.DataObject, size: int, attempts: int
) -> None:
    drawn = data.draw(st.lists(st.lists(verdicts, min_size=5, max_size=5), min_size=size, max_size=size))
    slots = block_of(size, data.draw(st.integers(1, 3)))
    made = played(slots, drawn, attempts, set())
    assert [slot.number for slot in made[:size]] == [slot.number for slot in slots]
    assert len({slot.folder for slot in made}) == len(made)
    for slot, own in zip(slots, drawn, strict=True):
        mine = [each.attempt for each in made if each.number == slot.number]
        counted = next((place for place, verdict in enumerate(own[:attempts], 1) if verdict in COUNTED), attempts)
        assert mine == list(range(1, counted + 1))
    assert [slot.attempt for slot in made] == sorted(slot.attempt for slot in made)


@settings(deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_a_resume_at_any_trial_goes_on_with_the_same_trials(data: st.DataObject, size: int, attempts: int) -> None:
    drawn = data.draw(st.lists(st.lists(verdicts, min_size=5, max_size=5), min_size=size, max_size=size))
    resumed = data.draw(st.sets(st.integers(1, 30)))
    slots = block_of(size)
    assert played(slots, drawn, attempts, resumed) == played(slots, drawn, attempts, set())


PLANNED = {slot.trial: slot for block in (1, 2, 3) for slot in block_of(3, block)}
TRIALS = {
    name: PlannedTrial(slot.number, slot.block, slot.treatment.name, slot.seed, 1.0) for name, slot in PLANNED.items()
}
stored_events = st.builds(
    lambda slot, attempt, verdict, reason: TrialStored(
        trial=attempt_name(slot.trial, attempt),
        number=slot.number,
        verdict=verdict,
        wall_s=0.5,
        reasons=(reason,),
        attempt=attempt,
    ),
    st.sampled_from(list(PLANNED.values())),
    st.integers(1, 3),
    verdicts,
    st.text(max_size=20),
)
events = st.one_of(
    stored_events,
    stored_events,
    st.builds(lambda block, machine: BlockEnded(block=block, machine=machine), st.integers(1, 3), st.text(max_size=5)),
    st.builds(lambda changed: RunResumed(changed=tuple(changed)), st.lists(st.text(max_size=9), max_size=2)),
    st.builds(lambda why: RunEnded(trials=1, stopped=why), st.text(max_size=9)),
)


def bare(event: Event) -> Event:
    return msgspec.structs.replace(event, time=None, since_s=0.0)


def written(folder: Path, journal_of: Sequence[Event], name: str) -> Path:
    run = folder / name
    run.mkdir(exist_ok=True)
    (run / "journal.jsonl").unlink(missing_ok=True)
    with Journal() as journal:
        journal.open(run)
        for event in journal_of:
            journal.emit(event)
    return run


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(events, min_size=1, max_size=8), st.floats(0, 1))
def test_a_journal_that_was_cut_at_any_byte_has_the_events_before_it_and_goes_on(
    tmp_path: Path, given_events: list[Event], share: float
) -> None:
    run = written(tmp_path, given_events, "run")
    whole = (run / "journal.jsonl").read_bytes()
    cut = round(share * len(whole))
    (run / "journal.jsonl").write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert [bare(event) for event in read_journal(run)] == given_events[:kept]
    with Journal() as journal:
        journal.reopen(run)
        for event in given_events[kept:]:
            journal.emit(event)
    assert [bare(event) for event in read_journal(run)] == given_events
    assert read_ledger(run, TRIALS) == read_ledger(written(tmp_path, given_events, "again"), TRIALS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(events, max_size=15))
def test_a_ledger_has_every_trial_of_the_journal_once_or_set_aside(tmp_path: Path, given_events: list[Event]) -> None:
    ledger = read_ledger(written(tmp_path, given_events, "run"), TRIALS)
    found = [one.line.folder for one in ledger.stored()]
    aside = [one.line.folder for each in ledger.aside for one in each]
    listed = {event.trial for event in given_events if isinstance(event, TrialStored)}
    assert len(found) == len(set(found))
    assert {*found, *aside} == listed
    assert len(ledger.aside) == len(ledger.changes)
    assert all(1 <= group <= ledger.group for group in ledger.ended.values())


factors = st.dictionaries(words, st.lists(words, min_size=1, max_size=4, unique=True), min_size=1, max_size=3).map(
    lambda named: [Factor(name, {level: {f"path.{name}": level} for level in levels}) for name, levels in named.items()]
)


@settings(deadline=None, max_examples=40)
@given(factors, st.data())
def test_cells_are_all_combinations_without_the_exclusions_once_each(made: list[Factor], data: st.DataObject) -> None:
    chosen = st.fixed_dictionaries({}, optional={each.name: st.sampled_from(list(each.levels)) for each in made})
    exclusions = data.draw(st.lists(chosen.filter(bool), max_size=3))
    everything = [
        dict(zip([each.name for each in made], levels, strict=True))
        for levels in itertools.product(*(each.levels for each in made))
    ]
    expected = [levels for levels in everything if not any(out.items() <= levels.items() for out in exclusions)]
    try:
        cells = cells_of(made, exclusions, "as-described")
    except Problem:
        assert not expected
        return
    assert [cell.levels for cell in cells] == expected
    assert len({cell.name for cell in cells}) == len(cells)
    assert all(cell.changes == {f"path.{name}": level for name, level in cell.levels.items()} for cell in cells)


@settings(deadline=None, max_examples=40)
@given(factors, st.data())
def test_the_cells_of_a_comparison_differ_in_the_compared_factor_alone(made: list[Factor], data: st.DataObject) -> None:
    factor = data.draw(st.sampled_from(made))
    baseline = data.draw(st.sampled_from(list(factor.levels)))
    levels = {cell.name: cell.levels for cell in cells_of(made, [], "as-described")}
    name, first = compared(made, factor.name, baseline)
    pairs = comparisons(levels, name, first)
    assert len(pairs) == len(levels) // len(factor.levels) * (len(factor.levels) - 1)
    assert len({pair.cell for pair in pairs}) == len(pairs)
    for pair in pairs:
        one, other = levels[pair.baseline], levels[pair.cell]
        assert {key for key in one if one[key] != other[key]} == {factor.name}
        assert one[factor.name] == baseline


@given(st.integers(1, 20), st.integers(1, 10), st.integers(0, 2**40))
def test_the_order_of_a_block_does_not_depend_on_the_number_of_blocks(cells: int, blocks: int, seed: int) -> None:
    few, many = (in_blocks(list(range(cells)), count, seed) for count in (blocks, blocks + 3))
    assert many[:blocks] == few
    assert all(sorted(block) == list(range(cells)) for block in many)


def part(block: int, values: Sequence[float | None]) -> pa.Table:
    word = pa.dictionary(pa.int32(), pa.string())
    count = len(values)
    cells = [f"cell-{place % 3}" for place in range(count)]
    columns: dict[str, tuple[pa.DataType, Sequence[object]]] = {
        "block": (pa.int32(), [block] * count),
        "group": (pa.int32(), [1] * count),
        "machine": (word, [""] * count),
        "cell": (word, cells),
        "folder": (word, [f"{block}-{place}" for place in range(count)]),
        "attempt": (pa.int32(), [1] * count),
        "seed": (pa.int64(), [block] * count),
        "verdict": (word, ["valid"] * count),
        "counted": (pa.bool_(), [True] * count),
        "workload": (word, ["page"] * count),
        "metric": (word, ["time"] * count),
        "value": (pa.float64(), values),
        "unit": (word, ["ms"] * count),
        "better": (word, ["lower"] * count),
        "definition": (word, [""] * count),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    return pa.Table.from_arrays([pa.array(column, kind) for kind, column in columns.values()], schema=schema)


FACTORS = {f"cell-{place}": {"size": f"{place}kb", "treatment": "one"} for place in range(3)}
values = st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=12)
@given(st.dictionaries(st.integers(1, 40), values, min_size=1, max_size=5), st.data())
def test_metrics_are_those_of_their_blocks_however_often_they_are_merged(
    tmp_path_factory: pytest.TempPathFactory, blocks: dict[int, list[float | None]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("metrics")
    first = data.draw(st.sets(st.sampled_from(sorted(blocks)), min_size=1))
    expected = [(block, value) for block in sorted(blocks) for value in blocks[block]]
    for wanted in (first, set(blocks)):
        (folder / "metrics").mkdir(exist_ok=True)
        for block in wanted - blocks_with_metrics(folder):
            pq.write_table(part(block, blocks[block]), block_file(folder, block))
        before = read_metrics(folder, FACTORS)
        merge_metrics(folder, sorted(wanted), FACTORS)
        after = read_metrics(folder, FACTORS)
        rows = sorted(before.to_pylist(), key=lambda row: (row["block"], row["folder"]))
        assert rows == sorted(after.to_pylist(), key=lambda row: (row["block"], row["folder"]))
        assert not (folder / "metrics").exists()
    assert [(row["block"], row["value"]) for row in after.to_pylist()] == expected
    assert all(row["size"] == FACTORS[row["cell"]]["size"] for row in after.to_pylist())


def test_the_link_with_the_longest_queues_is_drawn() -> None:
    time_s = np.arange(3.0)
    trial = {
        ("Throughput of wire", "Mbit/s", "sum"): (time_s, np.array([9.0, 9.0, 9.0])),
        ("Queue at wire", "kB", "max"): (time_s, np.array([1.0, 1.0, np.nan])),
        ("Throughput of radio", "Mbit/s", "sum"): (time_s, np.array([8.0, 8.0, 8.0])),
        ("Queue at radio", "kB", "max"): (time_s, np.array([0.0, 50.0, 0.0])),
        ("latency: rtt", "ms", "mean"): (time_s, time_s),
    }
    assert [title for title, _, _ in kept_series([trial, trial], list(trial))] == [
        "Throughput of radio",
        "Queue at radio",
        "latency: rtt",
    ]


GUIDE = Path(__file__).parents[2] / "docs/guides/campaigns.md"


def test_the_demo_can_decide_and_covers_realisations_of_a_scene() -> None:
    campaign = read_campaign(campaign_file("demo"))
    assert campaign.plan.trials >= 6
    assert campaign.replicate == "channel"
    assert len(campaign.primaries) == 1


@pytest.mark.parametrize(
    ("start", "replicate", "said"),
    [
        ("0s..59s", "start", "blocks differ in where in the pattern they begin"),
        ("20s", "host", "blocks differ in the seed alone: the pattern is the same"),
    ],
)
def test_a_plan_says_whether_blocks_begin_elsewhere_in_a_pattern(
    tmp_path: Path, start: str, replicate: str, said: str
) -> None:
    pattern = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60.0\ntime_s,rate_bps\n0.0,40000000\n"
    (tmp_path / "minute.csv").write_text(pattern, encoding="utf-8")
    path = f'title = "t"\n[path]\ntrace = "minute.csv"\nstart-at = "{start}"\n'
    workload = '[[workload]]\nkind = "bulk"\nduration = "2s"\n'
    (tmp_path / "of.toml").write_text(path + workload, encoding="utf-8")
    levels = '[[factor]]\nname = "queue"\n[[factor.level]]\nname = "one"\n[[factor.level]]\nname = "two"\n'
    changes = 'set = { "workload.bulk.duration" = "3s" }\n'
    head = 'title = "t"\nscenario = "of.toml"\n[campaign]\nblocks = 3\n'
    (tmp_path / "campaign.toml").write_text(head + levels + changes, encoding="utf-8")
    campaign = read_campaign(tmp_path / "campaign.toml")
    assert campaign.replicate == replicate
    assert said in plan_text(plan_campaign(campaign, None))
    assert plan_campaign(campaign, None).total_s < 170


def test_the_campaign_of_the_guide_has_the_cells_that_its_exclusion_leaves(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    whole, exclude = blocks[0], next(block for block in blocks if block.startswith("[[exclude]]"))
    file = tmp_path / "buffers.toml"
    file.write_text(whole + exclude, encoding="utf-8")
    campaign = read_campaign(file)
    assert [cell.name for cell in campaign.cells] == ["cubic-256kib", "cubic-20mib", "bbr-20mib"]
    assert [(pair.baseline, pair.cell) for pair in campaign.comparisons] == [("cubic-20mib", "bbr-20mib")]
