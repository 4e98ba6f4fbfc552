"""``wavebed trace``: look at traces and patterns, convert, plot, cut and scale them, and get public ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.units import argument, format_rate, parse_rate, parse_size, parse_time
from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.printable import message_text
from wavebed.shipped import TRACES, find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from fractions import Fraction

    from wavebed.catalogue import Conversion, TraceSet
    from wavebed.pattern import Pattern
    from wavebed.pattern.curves import PatternSummary

PICTURES = ("png", "svg", "html")
FORMATS = (
    "native", "mahimahi", "seconds-mbit", "kaunet", "ns3-mmwave", "lumos5g", "cellreplay-heavy", "cellreplay-light",
    "cellreplay-offset", "theaterq", "theaterq-extended", "netem-trace", "ntrace", "ntrace-up", "iperf3", "table",
)  # fmt: skip


def register_trace(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser(
        "trace",
        help="read, convert, plot, cut and scale traces, and get public ones",
        description="Read, convert, plot, cut and scale traces and patterns. The format is found from the content. "
        "list and get are of the catalogue of public traces.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser(
        "info", help="duration, rates, outages", description="Print the duration, rates and outages of a trace."
    )
    _add_input(info)
    _add_outage(info)
    info.add_argument(
        "--json",
        action="store_true",
        help="one JSON object, the unit in each key; of several files their list under traces",
    )
    convert = actions.add_parser(
        "convert",
        help="write a trace in another format",
        description="Write a trace in another format. A note on standard error names the data that it cannot hold.",
    )
    _add_input(convert)
    _add_within(convert)
    _add_output(convert)
    plot = actions.add_parser(
        "plot",
        help="draw traces as PNG, SVG or HTML",
        description="Draw capacity, delay and loss over time, with outages shaded.",
    )
    _add_input(plot)
    _add_outage(plot)
    plot.add_argument("-o", "--output", metavar="OUT", required=True, help="a name that ends in .png, .svg or .html")
    plot.add_argument("--stack", action="store_true", help="one above the other (default: over each other)")
    cut = actions.add_parser("cut", help="keep a part of a trace", description="Keep a part; its time begins at 0.")
    _add_input(cut)
    cut.add_argument(
        "--from", dest="start", metavar="T", default="0s", help="where it begins, as 10s or 1000p (default: 0s)"
    )
    cut.add_argument("--to", dest="end", metavar="T", help="where it ends (default: the end of the trace)")
    _add_output(cut, to_flag="--to-format")
    scale = actions.add_parser(
        "scale", help="change the rate or the time of a trace", description="Multiply the rate or the time."
    )
    _add_input(scale)
    rate = scale.add_mutually_exclusive_group()
    rate.add_argument("--rate", metavar="F", type=argument(_factor), help="multiply the rate, as 0.5")
    rate.add_argument("--mean", metavar="R", type=argument(parse_rate), help="make the mean rate so, as 100mbit")
    scale.add_argument("--time", metavar="F", type=argument(_factor), help="multiply the time, as 2 for half as fast")
    _add_output(scale)
    listed = actions.add_parser(
        "list",
        help="public traces that get knows",
        description="List the catalogue of public traces, or one set of it.",
    )
    listed.add_argument("name", metavar="NAME", nargs="?", help="the set whose details to print")
    listed.add_argument("--json", action="store_true", help="one JSON object, the unit in each key")
    get = actions.add_parser(
        "get",
        help="fetch public traces, and convert them",
        description="Fetch a set of public traces from its source, check its hash, and convert it to patterns. The "
        "header of each pattern says where it comes from and what was done. The data stay under their licence: wavebed "
        "ships none of them.",
    )
    get.add_argument("name", metavar="NAME", help="a set that wavebed trace list names")
    get.add_argument("folder", metavar="FOLDER", nargs="?", help="files that you downloaded: a folder, or an archive")
    get.add_argument("-o", "--output", metavar="DIR", help="a new folder for the patterns (default: NAME)")
    get.add_argument("--only", metavar="PATTERN", help="only files of these names, as '*walking*'")
    get.add_argument(
        "--limit", metavar="SIZE", type=argument(parse_size), default=10**9, help="most to fetch at once (default: 1gb)"
    )
    get.add_argument(
        "--accept-licence", action="store_true", help="you read the source's terms, where none are recorded"
    )
    get.add_argument("--json", action="store_true", help="one JSON object, the unit in each key")


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="trace files")
    group = parser.add_argument_group("reading")
    group.add_argument("--format", metavar="NAME", help="the format, where the content fits two: " + ", ".join(FORMATS))
    group.add_argument(
        "--columns",
        metavar="NAME=COLUMN:UNIT",
        nargs="+",
        action="extend",
        default=[],
        help="read a table: time=COLUMN:s, time=COLUMN:clock or every=1s, and rate=COLUMN:mbit, delay=COLUMN:ms or "
        "loss=COLUMN:%%; columns without a header are 1, 2, …; put it after the files",
    )
    group.add_argument("--duration", metavar="T", type=argument(parse_time), help="for files that do not say it")
    group.add_argument("--run", metavar="N", type=int, help="the run, for files that hold several")
    group.add_argument(
        "--window", metavar="T", type=argument(parse_time), help="over which blocks and opportunities become a rate"
    )


def _add_output(parser: argparse.ArgumentParser, to_flag: str = "--to") -> None:
    group = parser.add_argument_group("writing")
    group.add_argument(
        "-o", "--output", metavar="OUT", help="a file, or a folder for several (default: standard output)"
    )
    group.add_argument(
        to_flag, dest="to", metavar="NAME", help="the format to write (default: as OUT's name ends, else native)"
    )


def _add_within(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("within a second")
    group.add_argument(
        "--within",
        metavar="FILE",
        nargs="+",
        default=[],
        help="recordings with steps of 100 ms: draw the rate within each second as in them; a second keeps its mean",
    )
    group.add_argument("--seed", metavar="N", default="1", help="with --within: the seed of the draw (default: 1)")


def _add_outage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--outage",
        metavar="R",
        type=argument(parse_rate),
        default=0,
        help="a rate of this much or less is an outage (default: 0bit, no rate at all)",
    )


def _factor(text: str) -> Fraction:
    """Read a positive decimal factor exactly."""
    from fractions import Fraction

    if not text.replace(".", "", 1).isdigit() or not text.isascii() or len(text) > 40 or not Fraction(text):
        raise UserError(f"{text!r} is not a factor: write a decimal number above 0, as 0.5 or 2")
    return Fraction(text)


def run_trace(args: argparse.Namespace) -> int:
    """Run the action.

    Raises
    ------
    UserError
        If an argument or a file is wrong.
    """
    if getattr(args, "window", None) == 0:
        raise UserError("--window 0s: a window lasts longer than that, as --window 100ms")
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "info": _info,
        "plot": _plot,
        "list": _list,
        "get": _get,
        "convert": lambda args: _rewrite(args, _refinement(args)),
        "cut": lambda args: _rewrite(args, lambda pattern: _cut(args, pattern)),
        "scale": lambda args: _rewrite(args, lambda pattern: _scale(args, pattern)),
    }
    actions[args.action](args)
    return 0


def _say(notes: list[str]) -> None:
    for note in dict.fromkeys(notes):
        print(f"wavebed: note: {message_text(note)}", file=sys.stderr)


def _read(args: argparse.Namespace, file: str) -> Pattern:
    from wavebed.pattern import ReadOptions, read_trace

    options = ReadOptions(columns=tuple(args.columns), duration_ns=args.duration, run=args.run)
    if args.window is not None:
        from dataclasses import replace

        options = replace(options, window_ns=args.window)
    notes: list[str] = []
    pattern = read_trace(find(file, "trace", TRACES), args.format, options, notes)
    _say(notes)
    return pattern


def _blame(file: str, error: UserError) -> UserError:
    return error if str(error).startswith(file) else UserError(f"{file}: {error}")


def _info(args: argparse.Namespace) -> None:
    from wavebed.pattern.curves import summarise

    summaries: list[tuple[str, PatternSummary]] = []
    for file in args.files:
        pattern = _read(args, file)
        try:
            summaries.append((file, summarise(pattern, args.outage, args.window)))
        except UserError as error:
            raise _blame(file, error) from None
    if args.json:
        traces = [_as_json(file, summary) for file, summary in summaries]
        if len(traces) == 1:
            print_json("trace-info", traces[0], indent=2)
        else:
            print_json("trace-info-list", {"traces": traces}, indent=2)
        return
    print("\n\n".join(_as_text(file, summary) for file, summary in summaries))


def _as_json(file: str, summary: PatternSummary) -> dict[str, object]:
    result: dict[str, object] = {"file": file, "kind": summary.kind, "rows": summary.rows}
    if summary.kind == "packets":
        result["packets"] = summary.period
    else:
        result["duration_s"] = summary.period / 1e9
    if summary.rate_percentiles_bps is not None and summary.outages is not None:
        result["mean_bps"] = summary.mean_bps
        result["percentiles_bps"] = {f"p{key}": value for key, value in summary.rate_percentiles_bps.items()}
        result["peak_bps"] = summary.peak_bps
        if summary.rate_window_ns is not None:
            result["window_s"] = summary.rate_window_ns / 1e9
        result["outages"] = {
            "threshold_bps": summary.outages.threshold_bps,
            "count": len(summary.outages.spans_ns),
            "total_s": summary.outages.total_ns / 1e9,
            "longest_s": summary.outages.longest_ns / 1e9,
        }
    if summary.light_percentiles_bps is not None and summary.light_idle_ns is not None:
        result["light"] = {
            "mean_bps": summary.mean_light_bps,
            "percentiles_bps": {f"p{key}": value for key, value in summary.light_percentiles_bps.items()},
            "bytes": summary.light_bytes,
            "idle_s": summary.light_idle_ns / 1e9,
        }
    if summary.delay_percentiles_ns is not None and summary.mean_delay_ns is not None:
        result["mean_delay_s"] = summary.mean_delay_ns / 1e9
        result["percentiles_delay_s"] = {f"p{key}": value / 1e9 for key, value in summary.delay_percentiles_ns.items()}
    if summary.loss_percentiles is not None:
        result["mean_loss_share"] = summary.mean_loss
        result["percentiles_loss_share"] = {f"p{key}": value for key, value in summary.loss_percentiles.items()}
    if summary.bler_percentiles is not None:
        result["mean_bler_share"] = summary.mean_bler
        result["percentiles_bler_share"] = {f"p{key}": value for key, value in summary.bler_percentiles.items()}
    for name, mean_db, percentiles_db in _decibels(summary):
        result[f"mean_{name}_db"] = mean_db
        result[f"percentiles_{name}_db"] = {f"p{key}": value for key, value in percentiles_db.items()}
    if summary.state_fractions is not None:
        result["states_share"] = summary.state_fractions
    return result


def _as_text(file: str, summary: PatternSummary) -> str:
    from wavebed.pattern.curves import say_rate, say_time
    from wavebed.pattern.source import plural

    lines = [file]

    def line(name: str, value: str) -> None:
        lines.append(f"  {name:<12}{value}")

    length = f"{summary.period} packets" if summary.kind == "packets" else say_time(summary.period)
    line("duration", f"{length}, {plural(summary.rows, 'row')} of {summary.kind}")
    if summary.rate_percentiles_bps is not None and summary.mean_bps is not None and summary.peak_bps is not None:
        window = "" if summary.rate_window_ns is None else f", in windows of {summary.rate_window_ns / 1e6:g} ms"
        line("mean rate", say_rate(summary.mean_bps))
        percentiles = "  ".join(f"p{key} {say_rate(value)}" for key, value in summary.rate_percentiles_bps.items())
        line("percentiles", percentiles + window)
        line("peak", say_rate(summary.peak_bps) + window)
    if summary.light_percentiles_bps is not None and summary.mean_light_bps is not None:
        percentiles = "  ".join(f"p{key} {say_rate(value)}" for key, value in summary.light_percentiles_bps.items())
        after = "" if summary.light_idle_ns is None else f" after {say_time(summary.light_idle_ns)} without packets"
        line("after idle", f"mean {say_rate(summary.mean_light_bps)}  {percentiles}")
        line("", f"the first {plural(summary.light_bytes or 0, 'byte')}{after}")
    if summary.outages is not None:
        found = summary.outages
        rule = f"a rate of {format_rate(found.threshold_bps)} or less" if found.threshold_bps else "a rate of 0"
        longest = f", the longest {say_time(found.longest_ns)}" if len(found.spans_ns) else ""
        line("outages", f"{len(found.spans_ns)}, together {say_time(found.total_ns)}{longest} ({rule})")
    if summary.delay_percentiles_ns is not None and summary.mean_delay_ns is not None:
        percentiles = "  ".join(f"p{key} {value / 1e6:g} ms" for key, value in summary.delay_percentiles_ns.items())
        line("delay", f"mean {summary.mean_delay_ns / 1e6:.4g} ms  {percentiles}")
    if summary.loss_percentiles is not None and summary.mean_loss is not None:
        percentiles = "  ".join(f"p{key} {value * 100:.4g}%" for key, value in summary.loss_percentiles.items())
        line("loss", f"mean {summary.mean_loss * 100:.4g}%  {percentiles}")
    if summary.bler_percentiles is not None and summary.mean_bler is not None:
        percentiles = "  ".join(f"p{key} {value * 100:.4g}%" for key, value in summary.bler_percentiles.items())
        line("BLER", f"mean {summary.mean_bler * 100:.4g}%  {percentiles}")
    for name, mean_db, percentiles_db in _decibels(summary):
        percentiles = "  ".join(f"p{key} {value:.4g} dB" for key, value in percentiles_db.items())
        line({"sinr": "SINR", "need": "SINR needed"}[name], f"mean {mean_db:.4g} dB  {percentiles}")
    if summary.state_fractions is not None:
        states = (f"{state} {fraction * 100:.4g}%" for state, fraction in summary.state_fractions.items())
        line("states", "  ".join(states))
    return "\n".join(lines)


def _decibels(summary: PatternSummary) -> list[tuple[str, float, dict[int, float]]]:
    """Return name, mean and percentiles of the SINR and of what the MCS needs, where there are any."""
    columns = (
        ("sinr", summary.mean_sinr_db, summary.sinr_percentiles_db),
        ("need", summary.mean_need_db, summary.need_percentiles_db),
    )
    return [
        (name, mean_db, percentiles_db)
        for name, mean_db, percentiles_db in columns
        if mean_db is not None and percentiles_db is not None
    ]


def _rewrite(args: argparse.Namespace, change: Callable[[Pattern], Pattern]) -> None:
    from wavebed.output import write_output
    from wavebed.pattern import WriteOptions, render
    from wavebed.pattern.formats import format_for_output

    folder = Path(args.output) if args.output is not None and Path(args.output).is_dir() else None
    if len(args.files) > 1 and folder is None:
        raise UserError(f"{len(args.files)} files need a folder to be written to; give one that exists with -o")
    if folder is not None or args.output is None:
        name = format_for_output("", args.to or "native")
    else:
        name = format_for_output(args.output, args.to)
    for file in args.files:
        pattern = _read(args, file)
        options = WriteOptions(window_ns=args.window)
        try:
            text = render(_with_source(change(pattern), file, name), name, options)
        except UserError as error:
            raise _blame(file, error) from None
        _say([f"{file}: {note}" for note in options.notes])
        if folder is not None:
            write_output(folder / _new_name(file, name), text)
        elif args.output is not None:
            write_output(args.output, text)
        else:
            sys.stdout.write(text)


def _refinement(args: argparse.Namespace) -> Callable[[Pattern], Pattern]:
    if not args.within:
        return lambda pattern: pattern
    from wavebed.channel.within import read_within, refined
    from wavebed.config.problems import at
    from wavebed.config.values import number
    from wavebed.spec.network import MOST_SEED

    seed = at("--seed", number(0, MOST_SEED), args.seed)
    within = read_within([Path(file) for file in args.within])
    return lambda pattern: refined(pattern, within, seed)


def _with_source(pattern: Pattern, file: str, name: str) -> Pattern:
    """Note in a native pattern where it came from, unless it says so already."""
    from dataclasses import replace

    plain = " ".join(Path(file).name.split())
    if name != "native" or "source" in dict(pattern.header) or not plain:
        return pattern
    return replace(pattern, header=(*pattern.header, ("source", plain)))


def _new_name(file: str, name: str) -> str:
    from wavebed.pattern.formats import FORMATS

    suffixes = [suffix for suffix in FORMATS[name].suffixes if suffix.startswith(".")]
    return Path(file).stem + (suffixes[0] if suffixes else f".{name}")


def _place(pattern: Pattern, text: str) -> int:
    if pattern.kind != "packets":
        return parse_time(text)
    if text == "0s":
        return 0
    from wavebed.config.units import parse_limit

    count = parse_limit(text).packets
    if count is None:
        raise UserError(f"{text!r} is no place in a pattern over packets: write it as 1000p")
    return count


def _cut(args: argparse.Namespace, pattern: Pattern) -> Pattern:
    from wavebed.pattern.model import cut

    return cut(pattern, _place(pattern, args.start), None if args.end is None else _place(pattern, args.end))


def _scale(args: argparse.Namespace, pattern: Pattern) -> Pattern:
    from wavebed.pattern.model import scale_rate, scale_time, scale_to_mean

    if args.rate is None and args.mean is None and args.time is None:
        raise UserError("scale needs --rate, --mean or --time")
    if args.time is not None:
        pattern = scale_time(pattern, args.time)
    if args.rate is not None:
        return scale_rate(pattern, args.rate)
    return pattern if args.mean is None else scale_to_mean(pattern, args.mean)


def _plot(args: argparse.Namespace) -> None:
    from wavebed.output import write_output
    from wavebed.pattern.curves import draw

    kind = Path(args.output).suffix.lower().removeprefix(".")
    if kind not in PICTURES:
        raise UserError(f"-o {args.output}: the name must end in .png, .svg or .html")
    require("report", f"a plot as {kind.upper()}", ("jinja2" if kind == "html" else "matplotlib",))
    drawings = []
    for file in args.files:
        pattern = _read(args, file)
        try:
            drawings.append(draw(pattern, file, args.outage, args.window))
        except UserError as error:
            raise _blame(file, error) from None
    if len({drawing.over_packets for drawing in drawings}) > 1:
        raise UserError("some patterns go over time and some over packets; plot them apart")
    if kind == "html":
        from wavebed.pattern.plot import render_page

        data = render_page(drawings, stacked=args.stack)
    else:
        from wavebed.pattern.plot import render_picture

        data = render_picture(drawings, kind, stacked=args.stack)
    write_output(args.output, data)


def _list(args: argparse.Namespace) -> None:
    from wavebed.catalogue import set_named, trace_sets

    chosen = list(trace_sets().values()) if args.name is None else [set_named(args.name)]
    if args.json:
        print_json("trace-list", {"sets": [_set_as_json(each) for each in chosen]}, indent=2)
    elif args.name is None:
        from wavebed.catalogue import NOT_RECORDED
        from wavebed.terminal import table_text

        rows = [("name", "licence", "size", "what")]
        for each in chosen:
            licence = (each.licence or NOT_RECORDED).split(",")[0].split(";")[0]
            rows.append((each.name, licence, _size(each), each.what))
        print(table_text(rows, left=True))
        print("\nwavebed trace list NAME prints one set; wavebed trace get NAME fetches it and converts it.")
    else:
        print(_set_as_text(chosen[0]))


def _size(chosen: TraceSet) -> str:
    from wavebed.catalogue import NOT_RECORDED

    return NOT_RECORDED if chosen.bytes is None else f"{chosen.bytes / 1e6:.3g} MB"


def _set_as_json(chosen: TraceSet) -> dict[str, object]:
    return {
        "name": chosen.name,
        "what": chosen.what,
        "page": chosen.page,
        "paper": chosen.paper,
        "licence": chosen.licence,
        "repository": chosen.repository,
        "commit": chosen.commit,
        "git_hashes": chosen.trees | chosen.blobs,
        "bytes": chosen.bytes,
        "how": chosen.how or None,
        "converters": [
            {"files": list(each.files), "options": str(each), "not_held": each.left or None} for each in chosen.convert
        ],
    }


def _set_as_text(chosen: TraceSet) -> str:
    from wavebed.catalogue import NOT_RECORDED

    hashes = [f"{name}: git {value}" for name, value in (chosen.trees | chosen.blobs).items()] or [NOT_RECORDED]
    lines = [("what", chosen.what), ("page", chosen.page), ("paper", chosen.paper)]
    lines += [("licence", chosen.licence or NOT_RECORDED), ("version", chosen.version), ("size", _size(chosen))]
    lines += [("hash", each) for each in hashes]
    for each in chosen.convert:
        lines.append(("reads", f"{' '.join(each.files)}: {each}"))
        lines += [("", f"without {each.left}")] if each.left else []
    lines += [("skips", chosen.skipped)] if chosen.skipped else []
    lines += [("fetching", chosen.how or "wavebed fetches it")]
    return "\n".join([chosen.name, *(f"  {name:<10}{text}" for name, text in lines)])


def _get(args: argparse.Namespace) -> None:
    from wavebed.catalogue import AS_RECORDED, compared, convert, fetch, members_of, set_named

    chosen = set_named(args.name)
    folder = Path(args.output or chosen.name)
    if args.folder is not None:
        given = Path(args.folder)
        if not given.exists():
            raise UserError(f"{given}: does not exist: name the folder that you downloaded")
        checked = compared(given, chosen)
        members = members_of(given)
    else:
        if chosen.repository is not None and chosen.licence is None and not args.accept_licence:
            raise UserError(
                f"{chosen.name}: no licence is recorded: read the terms on {chosen.page}, then add --accept-licence"
            )
        checked = AS_RECORDED
        members = fetch(chosen, args.limit, lambda text: print(f"wavebed: {text}", file=sys.stderr))
    done = convert(chosen, members, folder, checked, args.only)
    _say(_alike([(str(each.file), each.notes) for each in done.made]))
    _say([f"not converted: {line}" for line in done.refused])
    if args.json:
        print_json("trace-get", _got_as_json(chosen, folder, checked, done), indent=2)
    else:
        print(_got_as_text(chosen, folder, checked, done))


def _alike(made: list[tuple[str, list[str]]]) -> list[str]:
    """Return one note of each kind, with the number of traces that have it."""
    import re

    from wavebed.pattern.source import plural

    kinds: dict[str, list[str]] = {}
    for name, notes in made:
        for note in notes:
            kind = re.sub(r"[0-9][0-9.:,_-]*|(?<=gap)s|(?<=row)s|(?<=value)s", "", note)
            kinds.setdefault(kind, []).append(f"{name}: {note}")
    return [
        f"{texts[0]}" + (f" (and {plural(len(texts) - 1, 'note')} alike)" if len(texts) > 1 else "")
        for texts in kinds.values()
    ]


def _hash_of_all(done: Conversion) -> str:
    """Return the hash of the inputs, as sha256sum prints them, sorted by name."""
    import hashlib

    inputs = sorted({each.input: each.sha256 for each in done.made}.items())
    text = "".join(f"{digest}  {name}\n" for name, digest in inputs)
    return inputs[0][1] if len(inputs) == 1 else hashlib.sha256(text.encode()).hexdigest()


def _mean(pattern: Pattern) -> tuple[float | None, float | None]:
    """Return the mean rate, bit/s, and the mean delay, seconds, of those that the pattern has."""
    rate = (
        pattern.bit_ns() / pattern.period if pattern.rate_bps is not None or pattern.kind == "opportunities" else None
    )
    if pattern.delay_ns is None:
        return rate, None
    return rate, float((pattern.delay_ns * (pattern.lengths() / pattern.period)).sum()) / 1e9


def _got_as_json(chosen: TraceSet, folder: Path, checked: str, done: Conversion) -> dict[str, object]:
    traces: list[dict[str, object]] = []
    for each in done.made:
        rate, delay = _mean(each.pattern)
        traces.append(
            {
                "file": str(folder / each.file),
                "input": each.input,
                "input_sha256": each.sha256,
                "rows": len(each.pattern),
                "duration_s": each.pattern.period / 1e9,
                "mean_bps": rate,
                "mean_delay_s": delay,
                "notes": each.notes,
            }
        )
    return {
        "name": chosen.name,
        "page": chosen.page,
        "version": chosen.version,
        "licence": chosen.licence,
        "input_check": checked,
        "inputs_sha256": _hash_of_all(done),
        "traces": traces,
        "refused": done.refused,
        "without_converter": done.left,
    }


def _got_as_text(chosen: TraceSet, folder: Path, checked: str, done: Conversion) -> str:
    from wavebed.pattern.curves import say_rate, say_time
    from wavebed.pattern.source import plural
    from wavebed.terminal import table_text

    rows = [("trace", "rows", "duration", "mean")]
    for each in done.made:
        rate, delay = _mean(each.pattern)
        mean = say_rate(rate) if rate is not None else "" if delay is None else f"{delay * 1e3:.4g} ms"
        rows.append((str(folder / each.file), str(len(each.pattern)), say_time(each.pattern.period), mean))
    inputs = len({each.input for each in done.made})
    lost = sorted({each.left for each in chosen.convert if each.left})
    lines = [table_text(rows), ""]
    lines.append(f"{plural(len(done.made), 'trace')} from {plural(inputs, 'file')}: header lines say how each was made")
    if done.left:
        lines.append(f"{plural(len(done.left), 'file')} left out" + (f": {chosen.skipped}" if chosen.skipped else ""))
    lines += [f"not held: {text}" for text in lost]
    lines.append(f"source    {chosen.page}, {chosen.version}: {checked}")
    lines.append(f"sha256    {_hash_of_all(done)}" + ("" if inputs == 1 else ", of the list of the files' hashes"))
    terms = "not recorded: ask the authors before you pass these patterns on"
    lines.append(f"licence   {f'{chosen.licence}: it binds these patterns too' if chosen.licence else terms}")
    return "\n".join(lines)
