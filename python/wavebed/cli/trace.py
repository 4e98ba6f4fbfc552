"""``wavebed trace``: look at traces and patterns, convert, plot, cut and scale them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.units import argument, format_rate, parse_rate, parse_time
from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.printable import message_text
from wavebed.shipped import TRACES, find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from fractions import Fraction

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
        help="read, convert, plot, cut and scale traces and patterns",
        description="Read, convert, plot, cut and scale traces and patterns. The format is found from the content.",
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
    if args.window == 0:
        raise UserError("--window 0s: a window lasts longer than that, as --window 100ms")
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "info": _info,
        "plot": _plot,
        "convert": lambda args: _rewrite(args, lambda pattern: pattern),
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
