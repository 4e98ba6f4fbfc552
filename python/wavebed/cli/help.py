"""The help of the program and of each command: examples first, then options; the options of a path on request.

Only ``--help`` and messages about a missing argument import this module.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PATH_GROUP = "path options"
"""The title of the group that `wavebed.path.tables.add_path_options` adds."""

_TITLES = {"positional arguments": "arguments"}
_OWN_COMMAND = "CMD"
_SCREEN_LINES = 36
"""Help that is longer has no blank lines between its sections."""
_USUAL = "--rate --delay --loss --queue --trace --scene --scenario --seed"

EXAMPLES: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "demo": (("demo", "five minutes, ends in report.html"), ("demo --virtual-time -o runs/first", "")),
    "doctor": (("doctor", "what this machine can run"), ("doctor --json", "")),
    "scenarios": (("scenarios", "list them"), ("scenarios kau-e5g-page", "explain one")),
    "scenes": (("scenes", "list them"), ("scenes lift/lte", "explain one")),
    "kernel": (("kernel status", "is it installed?"), ("kernel build --jobs 2", "build and install it")),
    "kernel build": (("kernel build", ""), ("kernel build --jobs 2", "with two processors")),
    "kernel install": (
        ("kernel install wavebed-guest", "a kernel built elsewhere"),
        ("kernel install FILE --json", ""),
    ),
    "kernel status": (("kernel status", ""), ("kernel status --json", "")),
    "shell": (
        ("shell --rate 20mbit --delay 30ms -- ping -c 3 server", ""),
        ("shell --scene lift/lte --server 'iperf3 -s' -- iperf3 -c server", ""),
    ),
    "bridge": (
        ("bridge --a eth1 --b eth2 --rate 50mbit --delay 10ms", ""),
        ("bridge --a eth1 --b eth2 --scene street-canyon-bus", ""),
    ),
    "attach": (
        ("attach --container web --rate 20mbit --delay 30ms", "until Ctrl-C"),
        ("attach --netns blue --scene lift/lte", ""),
    ),
    "gateway": (("gateway --scene lift/lte", ""), ("gateway --rate 20mbit --delay 30ms --loss 1%", "")),
    "ctl": (("ctl", "list the laboratories"), ("ctl LAB set radio.down.rate=20mbit", "")),
    "ui": (("ui", "ask which laboratory, and show it"), ("ui LAB --listen 127.0.0.1:8080", "")),
    "run": (
        ("run kau-e5g-download", "a shipped scenario"),
        ("run kau-e5g-page --set path.hop.internet.delay=40ms --trials 5", ""),
    ),
    "check": (
        ("check --rate 20mbit --require 'wall time p90 < 5 s' -- ./test.sh", ""),
        ("check --scenario kau-e5g-page --seeds 20 --junit check.xml", ""),
    ),
    "campaign": (("campaign plan demo", "cells and time, runs nothing"), ("campaign run demo -o runs/demo", "")),
    "campaign plan": (("campaign plan demo", ""), ("campaign plan demo --json", "")),
    "campaign run": (("campaign run demo -o runs/demo", ""), ("campaign run runs/demo --resume", "after a kill")),
    "campaign status": (("campaign status runs/demo", ""), ("campaign status runs/demo --watch", "")),
    "rerun": (
        ("rerun runs/demo/trials/0001-cubic", "one trial again"),
        ("rerun runs/demo/trials/0001-cubic --until-late", "stop at the first lost packet"),
    ),
    "resolve": (("resolve kau-e5g-download", ""), ("resolve demo --treatment bbr -o spec.json", "")),
    "compare": (
        ("compare runs/before runs/after", ""),
        ("compare runs/new --baseline runs/main --margin 'download.goodput=5%'", ""),
    ),
    "report": (("report runs/demo", "writes runs/demo/report.html"), ("report runs/demo -o page.html", "")),
    "explain": (("explain runs/demo", ""), ("explain runs/demo --trial 0001-cubic --worst 10", "")),
    "export": (
        ("export runs/demo --trial 0001-cubic -o cubic.flent.gz", ""),
        ("export runs/demo --format csv --table metrics", ""),
    ),
    "trace": (("trace info kau-e5g-1", "a shipped trace"), ("trace get ucc-5g", "public traces, converted")),
    "trace info": (("trace info kau-e5g-1", ""), ("trace info walk.csv --json", "")),
    "trace convert": (
        ("trace convert uplink.mahi -o uplink.csv", ""),
        ("trace convert log.csv --columns time=t:s rate=mbps:mbit -o walk.csv", ""),
    ),
    "trace plot": (("trace plot kau-e5g-1 -o rate.svg", ""), ("trace plot a.csv b.csv --stack -o both.png", "")),
    "trace cut": (
        ("trace cut walk.csv --from 10s --to 40s -o part.csv", ""),
        ("trace cut kau-e5g-1 --to 5s -o start.csv", ""),
    ),
    "trace scale": (
        ("trace scale walk.csv --rate 0.5 -o half.csv", ""),
        ("trace scale walk.csv --mean 100mbit -o mean.csv", ""),
    ),
    "trace list": (("trace list", ""), ("trace list ucc-5g", "licence, hash, converters")),
    "trace get": (
        ("trace get ucc-5g", "fetches it, and makes the folder ucc-5g"),
        ("trace get lumos5g Lumos5G-v1.0 -o walks", "of files that you downloaded"),
    ),
    "channel": (("channel kau-e5g-1", "a table of states"), ("channel lift/lte --plot lift.svg", "")),
    "fit": (
        ("fit walks/ --held-out 0.2 -o place.json", ""),
        ("fit walk-1.csv walk-2.csv --report fit.html", ""),
    ),
    "record": (
        ("record access.toml -o runs/access", "record a real access"),
        ("record access.toml --replay runs/access", "and replay it"),
    ),
    "site": (
        ("site info amazon", "a shipped web site"),
        ("site profile page.har -o page.json", "a page without its content"),
    ),
    "site info": (("site info amazon", ""), ("site info page.toml --json", "")),
    "site profile": (("site profile page.har -o page.json", ""), ("site profile Page.html --summary", "")),
    "forward": (
        ("forward --quick", "an emulated router"),
        ("forward --tx eth1 --rx eth2 --gateway 192.0.2.1", "a real one"),
    ),
    "serve": (("serve forward", ""), ("serve forward --listen 0.0.0.0:5300", "")),
    "serve forward": (("serve forward", ""), ("serve forward --listen 0.0.0.0:5300", "")),
    "reproduce": (("reproduce bbr-5g --quick", ""), ("reproduce kau-e5g -o runs/kau-e5g --resume", "")),
    "league": (
        ("league --plan", "which emulators this machine has, and how long it takes"),
        ("league --recordings 100mbit --emulators mahimahi wavebed", ""),
    ),
    "schema": (("schema", "list the formats"), ("schema scenario", "")),
    "mcp": (("mcp runs", "results go below runs"), ("mcp runs --most-trials 20", "")),
}
"""Two commands that each command's help begins with, and what they do where it is not plain; tests parse them."""


def help_text(parser: argparse.ArgumentParser, groups: Mapping[str, Mapping[str, str]], columns: int) -> str:
    """Return the help of a parser; `groups` are the commands of the program."""
    name = parser.prog.partition(" ")[2]
    if not name:
        return _program_text(parser, groups)
    first, _, rest = (parser.description or "").partition(". ")
    first = f"{first}." if rest else first
    parts = [_filled(first, columns), _example_text(name, columns), _filled(rest, columns), *_body(parser, columns)]
    return "\n\n".join(part for part in parts if part) + "\n"


def path_text(parser: argparse.ArgumentParser) -> str:
    """Return the help of the options of a path."""
    formatter = parser._get_formatter()  # noqa: SLF001 - as argparse's own format_help
    for group in parser._action_groups:  # noqa: SLF001
        if group.title == PATH_GROUP:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)  # noqa: SLF001
            formatter.end_section()
    return formatter.format_help()


def example(name: str) -> str:
    """Return the first example of a command, or an empty text."""
    return f"wavebed {EXAMPLES[name][0][0]}" if name in EXAMPLES else ""


def _program_text(parser: argparse.ArgumentParser, groups: Mapping[str, Mapping[str, str]]) -> str:
    width = max(len(name) for commands in groups.values() for name in commands)
    lines = [parser.description or "", "", "usage: wavebed COMMAND [OPTION]…"]
    for title, commands in groups.items():
        lines.append(f"{title}:")
        lines += [f"  {name:{width}}  {summary}" for name, summary in commands.items()]
    return "\n".join([*lines, parser.epilog or "", ""])


def _filled(text: str, columns: int) -> str:
    return textwrap.fill(" ".join(text.split()), columns)


def _example_text(name: str, columns: int) -> str:
    if name not in EXAMPLES:
        return ""
    width = max(len(command) for command, note in EXAMPLES[name] if note or command)
    lines = []
    for command, note in EXAMPLES[name]:
        line = f"  wavebed {command:{width}}   {note}".rstrip()
        lines.append(line if len(line) <= columns else f"  wavebed {command}")
    return "\n".join(lines)


def _body(parser: argparse.ArgumentParser, columns: int) -> Iterator[str]:
    """Yield usage and options, and the note below them."""
    formatter = parser._get_formatter()  # noqa: SLF001
    formatter.add_usage(parser.usage or _usage(parser), parser._actions, ())  # noqa: SLF001
    sections = [formatter.format_help().rstrip()]
    path = 0
    for group in parser._action_groups:  # noqa: SLF001
        actions = [each for each in group._group_actions if not _is_help(each)]  # noqa: SLF001
        if group.title == PATH_GROUP:
            path = len(actions)
        elif actions and not (len(actions) == 1 and actions[0].metavar == _OWN_COMMAND):
            formatter = parser._get_formatter()  # noqa: SLF001
            formatter.start_section(_TITLES.get(group.title or "", group.title))
            formatter.add_text(group.description)
            formatter.add_arguments(actions)
            formatter.end_section()
            sections.append(formatter.format_help().strip())
    if path:
        sections.append(f"{PATH_GROUP}: {_USUAL}\n  --help-path explains all {path}")
    note = _filled(parser.epilog or "", columns)
    lines = sum(part.count("\n") + 2 for part in (*sections, note))
    yield ("\n" if lines > _SCREEN_LINES else "\n\n").join(sections)
    yield note


_NUMBERS = {"?": "[{0}]", "*": "[{0}…]", "+": "{0}…"}


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the program, what must be given, the arguments, and that there are options."""
    actions = [each for each in parser._actions if not _is_help(each)]  # noqa: SLF001
    required = [
        f"{each.option_strings[-1]} {each.metavar}" for each in actions if each.option_strings and each.required
    ]
    words = [
        _NUMBERS.get(str(each.nargs), "{0}").format(each.metavar or each.dest.upper())
        for each in actions
        if not each.option_strings
    ]
    optional = any(each.option_strings and not each.required for each in actions)
    own = " …" if any(isinstance(each, argparse._SubParsersAction) for each in actions) else ""  # noqa: SLF001
    return " ".join([parser.prog, *required, *words, *(["[OPTION]…"] if optional else [])]).replace("%", "%%") + own


def _is_help(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction) or "--help-path" in action.option_strings  # noqa: SLF001
