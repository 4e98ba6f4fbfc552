"""All metrics of a run in one tidy table, ``metrics.parquet``: one row for each metric of each attempt at a trial.

The metrics of each block are a file of their own until the run ends, so that storing a block costs the same however
long the run is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.beneath import make_folder, remove_tree
from wavebed.result.model import COUNTED
from wavebed.result.names import METRICS_FILE, METRICS_FOLDER, TRIALS_FOLDER
from wavebed.result.parquet import read_parquet
from wavebed.store.records import metrics_of, read_trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.result.model import RunRecord, TrialLine

_HEAD = ("block", "group", "machine", "cell")
_TAIL = ("folder", "attempt", "seed", "verdict", "counted")
_METRIC = ("workload", "metric", "value", "unit", "better", "definition")
COLUMNS = (*_HEAD, *_TAIL, *_METRIC)
"""The columns; `cell` is the treatment, and the columns of a campaign's factors follow it."""


def factors_of(record: RunRecord) -> dict[str, Mapping[str, str]]:
    """Return the levels of a campaign's factors by treatment; none for a run of a scenario."""
    return {
        str(treatment["name"]): cast("Mapping[str, str]", treatment["levels"])
        for treatment in record.treatments
        if "levels" in treatment
    }


def block_file(folder: Path, block: int) -> Path:
    """Return the file with the metrics of a block, before the end of the run."""
    return folder / METRICS_FOLDER / f"block-{block:05d}.parquet"


def keep_metrics(folder: Path, block: int, lines: Sequence[TrialLine], group: int, where: str) -> None:
    """Store the metrics of a block that has ended.

    Parameters
    ----------
    lines : sequence of TrialLine
        Its attempts at trials.
    group : int
        Blocks of one group have the same inputs.
    where : str
        The machine on which it ran.

    Raises
    ------
    OSError
        If the file cannot be written.
    UserError
        If a trial cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wavebed.output import replacing

    rows: list[tuple[object, ...]] = []
    for line in lines:
        record = read_trial(folder / TRIALS_FOLDER / line.folder)
        counted = line.verdict in COUNTED
        head = (block, group, where, line.treatment, line.folder, line.attempt, line.seed, line.verdict, counted)
        rows += [
            (*head, workload, metric.name, metric.value, metric.unit, metric.better, metric.definition)
            for workload, metrics in metrics_of(record)
            for metric in metrics
        ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    schema = _schema(())
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    make_folder(folder / METRICS_FOLDER)
    with replacing(block_file(folder, block)) as stream:
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), stream, compression="zstd")


def merge_metrics(folder: Path, blocks: Sequence[int], factors: Mapping[str, Mapping[str, str]]) -> None:
    """Write ``metrics.parquet`` from the files of the blocks, and remove these.

    Parameters
    ----------
    factors : mapping
        Level of each factor by treatment; empty for a run of a scenario.

    Raises
    ------
    OSError
        If the file cannot be written.
    UserError
        If a file of a block is damaged.
    """
    import pyarrow.parquet as pq

    from wavebed.output import replacing

    names = list(next(iter(factors.values()), {}))
    schema = _schema(names)
    before = read_parquet(folder / METRICS_FILE) if (folder / METRICS_FILE).exists() else None
    with replacing(folder / METRICS_FILE) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for block in blocks:
            part = block_file(folder, block)
            if part.exists() or before is None:
                table = _with_factors(read_parquet(part), names, factors)
            else:
                table = _of_block(before, block)
            writer.write_table(table.cast(schema))
    remove_tree(folder / METRICS_FOLDER)


def blocks_with_metrics(folder: Path) -> set[int]:
    """Return the blocks whose metrics are stored.

    Raises
    ------
    UserError
        If ``metrics.parquet`` is damaged.
    """
    blocks = set(_parts(folder))
    if (folder / METRICS_FILE).exists():
        blocks.update(read_parquet(folder / METRICS_FILE, ["block"]).column("block").unique().to_pylist())
    return blocks


def _parts(folder: Path) -> dict[int, Path]:
    return {int(file.stem.partition("-")[2]): file for file in (folder / METRICS_FOLDER).glob("block-*[0-9].parquet")}


def _of_block(table: pa.Table, block: int) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.field("block") == block)


def read_metrics(
    folder: Path, factors: Mapping[str, Mapping[str, str]], columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the metrics of all blocks that have ended.

    Raises
    ------
    UserError
        If a file is damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = list(next(iter(factors.values()), {}))
    parts = _parts(folder)
    tables = []
    if (folder / METRICS_FILE).exists():
        if not parts:
            return read_parquet(folder / METRICS_FILE, columns)
        tables.append(read_parquet(folder / METRICS_FILE).filter(~pc.field("block").isin(list(parts))))
    tables += [_with_factors(read_parquet(parts[block]), names, factors) for block in sorted(parts)]
    whole = pa.concat_tables(tables) if tables else _schema(names).empty_table()
    return whole if columns is None else whole.select(list(columns))


def _with_factors(table: pa.Table, names: Sequence[str], factors: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Add a column for each factor after `cell`."""
    import pyarrow as pa

    treatments = table.column("cell").combine_chunks()
    if not isinstance(treatments, pa.DictionaryArray):
        treatments = treatments.dictionary_encode()
    known = treatments.dictionary.to_pylist()
    for place, name in enumerate(names):
        levels = pa.array([factors[treatment][name] for treatment in known], pa.string())
        column = pa.DictionaryArray.from_arrays(treatments.indices, levels)
        column = column.cast(pa.string()).dictionary_encode()
        table = table.add_column(len(_HEAD) + place, pa.field(name, column.type), column)
    return table


def _schema(factors: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    types = {
        "block": pa.int32(),
        "group": pa.int32(),
        "attempt": pa.int32(),
        "seed": pa.int64(),
        "counted": pa.bool_(),
        "value": pa.float64(),
    }
    names = (*_HEAD, *factors, *_TAIL, *_METRIC)
    return pa.schema([(name, types.get(name, word)) for name in names])
