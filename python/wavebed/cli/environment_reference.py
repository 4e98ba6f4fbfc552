"""Write the reference page of environment variables: ``python -m wavebed.cli.environment_reference FILE``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from wavebed.output import write_output

__all__ = ["VARIABLES", "Variable", "environment_page"]

_TEMPLATE = Path(__file__).with_suffix(".md.in")


class Variable(Struct, frozen=True):
    """An environment variable that a program of wavebed reads or sets.

    Parameters
    ----------
    name : str
        Its name.
    place : str
        ``user``: a user may set it; ``inside``: programs in a laboratory have it; ``internal``: between programs.
    meaning : str
        Its meaning, without backticks: the man page has it too.
    """

    name: str
    place: Literal["user", "inside", "internal"]
    meaning: str


VARIABLES = (
    Variable("WAVEBED_CORE", "user", "The program wavebed-core to use, instead of the one beside the interpreter."),
    Variable("WAVEBED_EDGE", "user", "The same for wavebed-edge, the remedies."),
    Variable("WAVEBED_AGENT", "user", "The same for wavebed-agent, for real hosts."),
    Variable(
        "WAVEBED_CACHE",
        "user",
        "Folder for patterns, sites and media that are kept. Default: wavebed in the user's cache.",
    ),
    Variable(
        "WAVEBED_GUEST_READS",
        "user",
        "Files and folders, between colons, that programs in virtual time may read besides the system's and those that"
        " the specification names. In a home nothing else is readable.",
    ),
    Variable(
        "WAVEBED_LOCK",
        "user",
        "File that is locked during a measurement. Containers that share processors should name one file.",
    ),
    Variable(
        "WAVEBED_TIME",
        "user",
        "The time of trials where neither an option nor the scenario says: auto, real or virtual. Default: that of the"
        " command.",
    ),
    Variable("WAVEBED_SSH", "user", "The ssh program for real hosts, with options: ssh -F FILE. Default: ssh."),
    Variable(
        "WAVEBED_TOKEN",
        "user",
        "The token of wavebed forward and wavebed serve forward. Other users cannot read it, unlike an option.",
    ),
    Variable(
        "WAVEBED_SECRET",
        "user",
        "Begins the names of variables such as WAVEBED_SECRET_WORKLOAD_FETCH_RUN_3. They give wavebed rerun and run the"
        " secrets that a folder of results does not have. The message of the command names each.",
    ),
    Variable("NO_COLOR", "user", "If set, nothing is coloured."),
    Variable("SHELL", "user", "The program that wavebed shell runs without CMD. Default: /bin/sh."),
    Variable("XDG_CACHE_HOME", "user", "The user's cache, for WAVEBED_CACHE. Default: .cache in the home."),
    Variable("XDG_RUNTIME_DIR", "user", "Folder of the lock of measurements where /run/lock cannot be written."),
    Variable("WAVEBED_SERVER", "inside", "IPv4 address of the server."),
    Variable("WAVEBED_SERVER6", "inside", "IPv6 address of the server."),
    Variable("WAVEBED_HOST", "inside", "Name of the program's host: server, edge or client."),
    Variable("WAVEBED_LAB", "inside", "Name of the laboratory, as wavebed ctl lists it."),
    Variable("WAVEBED_PIN", "internal", "Descriptor on which a sandbox asks its outside to place kernel threads."),
    Variable("WAVEBED_BROWSER", "internal", "Path of the socket to which the stand-in of a far browser connects."),
)
"""All of them; a test compares them with the sources."""


def environment_page() -> str:
    """Return the page: the text beside this module, with the tables of the variables."""
    page = _TEMPLATE.read_text(encoding="utf-8")
    for place in ("user", "inside", "internal"):
        rows = [f"| `{each.name}` | {each.meaning} |" for each in VARIABLES if each.place == place]
        page = page.replace(f"@{place.upper()}@", "\n".join(["| variable | meaning |", "|---|---|", *rows]))
    return page


if __name__ == "__main__":
    write_output(sys.argv[1], environment_page(), "FILE")
