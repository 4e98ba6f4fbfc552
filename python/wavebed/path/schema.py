"""Every key of ``[path]``: its name, what to write, its default, its meaning, and the function that reads it.

The scenario reader, the options of ``wavebed shell`` and the reference page all come from these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from wavebed.config import values
from wavebed.config.problems import Problem, at, described
from wavebed.config.queue import queue as read_queue
from wavebed.path import values as link_values
from wavebed.radio.presets import PRESETS
from wavebed.radio.read import device_settings, preset
from wavebed.spec.link import MOST_OVERHEAD_BYTES
from wavebed.spec.network import MOST_SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.radio.model import DeviceSettings

__all__ = [
    "AIR_KEYS",
    "DEFAULT_MTU",
    "DEFAULT_SEED",
    "DEFAULT_SYSCTLS",
    "HOST_KEYS",
    "LINK_KEYS",
    "PATH_KEYS",
    "SEGMENT_KEYS",
    "SEGMENT_KINDS",
    "Key",
    "RadioChoice",
]

DEFAULT_JOIN = "125us"
DEFAULT_SEED = 1
DEFAULT_MTU = 1500
SEGMENT_KINDS = ("wired", "radio")

DEFAULT_SYSCTLS = {
    "net.ipv4.tcp_rmem": "4096 131072 536870912",
    "net.ipv4.tcp_wmem": "4096 16384 536870912",
    "net.ipv4.tcp_no_metrics_save": "1",
}
"""What every host starts with: buffers that do not limit a flow, and no memory of earlier connections."""


class Key(Struct, frozen=True):
    """One key.

    Parameters
    ----------
    name : str
        The key in a scenario; the option is ``--name``.
    read : callable
        Reads the value, or raises `wavebed.config.problems.Problem`.
    write : str
        What to write, for people.
    default : str
        What holds without it, for people.
    meaning : str
        What it does.
    needs : str
        What the key has no meaning without: ``rate``, ``trace``, ``pattern`` (a trace or a scene), ``loss`` or nothing.
    option : bool
        Whether ``wavebed shell`` has it.
    """

    name: str
    read: Callable[[object], object]
    write: str
    default: str
    meaning: str
    needs: str = ""
    option: bool = True


class RadioChoice(Struct, frozen=True):
    """What a key ``radio`` says: off, or a preset (``None``: that which is below) and a table that changes it."""

    off: bool = False
    preset: str | None = None
    table: Mapping[str, object] = field(default_factory=dict)


def _radio(value: object) -> RadioChoice:
    value = values.table_of(value)
    if value == "off":
        return RadioChoice(off=True)
    if isinstance(value, dict):
        table = {key: raw for key, raw in value.items() if key != "preset"}
        return RadioChoice(
            preset=at("preset", preset, value["preset"]).preset if "preset" in value else None, table=table
        )
    if isinstance(value, str) and value in PRESETS:
        return RadioChoice(preset=value)
    raise Problem(f"{described(value)} is not a choice: write one of {', '.join(PRESETS)}, off, or a table")


def _device(value: object) -> DeviceSettings | None:
    value = values.table_of(value)
    if value == "off":
        return None
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{packets-per-second = …}}, or off")
    return device_settings(value)


LINK_KEYS = {
    key.name: key
    for key in (
        Key("rate", link_values.rate, "RATE", "no limit", "constant rate, in bits of IP packets per second"),
        Key(
            "trace",
            values.file_path,
            "FILE",
            "none",
            "a pattern or trace whose rate drives the link; its columns"
            " `delay_s` and `loss`, where it has them, drive delay and loss unless those are given",
        ),
        Key(
            "trace-format",
            values.text,
            "NAME",
            "found from the content",
            "format of the trace, where two fit",
            needs="trace",
        ),
        Key(
            "trace-end",
            values.word(*link_values.TRACE_ENDS),
            "repeat|hold|stop",
            "repeat",
            "what follows the end of the trace or scene: it starts again, its last value holds, or nothing passes any"
            " more",
            needs="pattern",
        ),
        Key(
            "start-at",
            values.time_ns,
            "TIME",
            "0s",
            "where in the trace or scene the laboratory's time begins",
            needs="pattern",
        ),
        Key(
            "rate-mode",
            values.word("live", "sampled"),
            "live|sampled",
            "live",
            "`live` serves at the rate of the moment; `sampled` reads the rate when a packet is queued and never"
            " revises it, as netem does",
            needs="rate",
        ),
        Key(
            "overhead",
            values.number(0, MOST_OVERHEAD_BYTES),
            "BYTES",
            "0, or that of the radio",
            "bytes that a lower layer adds to every segment",
            needs="rate",
        ),
        Key(
            "outage",
            values.word("hold", "drop"),
            "hold|drop",
            "hold",
            "what a rate of zero does to packets: they wait in the queue, or they are dropped",
            needs="rate",
        ),
        Key(
            "queue",
            read_queue,
            "KIND[:LIMIT]",
            "droptail, with the limit below",
            "what waits for the bottleneck, or with a radio the buffer of this user: droptail, drophead, codel,"
            " fq_codel, infinite; the limit is in bytes, packets or time",
            needs="rate",
        ),
        Key(
            "queue-unit",
            values.word(*link_values.UNITS),
            "packet|superpacket",
            "packet",
            "what a limit in packets counts: wire segments, or what an offloading host hands over at once",
            needs="rate",
        ),
        Key("delay", link_values.delay, "TIME", "none", "one-way delay, after the bottleneck"),
        Key("loss", link_values.loss, "SHARE", "none", "independent loss"),
        Key(
            "loss-unit",
            values.word(*link_values.UNITS),
            "packet|superpacket",
            "packet",
            "what is lost at once: a wire segment, or what an offloading host hands over at once",
            needs="loss",
        ),
        Key(
            "loss-at",
            values.word("exit", "entry"),
            "exit|entry",
            "exit",
            "whether what is lost has used the bottleneck (`exit`, as on a radio) or never reaches it (`entry`)",
            needs="loss",
        ),
        Key("duplicate", values.share, "SHARE", "none", "share of the segments that arrive twice"),
        Key(
            "reorder",
            link_values.reorder,
            "{share = SHARE, delay = TIME}",
            "none",
            "share of the segments that are held back, and for how long",
        ),
        Key("corrupt", values.share, "SHARE", "none", "share of the segments in which one bit is flipped"),
    )
}
"""Keys of a link. Each also exists as ``down-KEY`` and ``up-KEY``, for one direction."""

AIR_KEYS = {
    key.name: key
    for key in (
        Key(
            "scene",
            values.text,
            "SCENE",
            "none",
            "a scene, a file or one that is shipped; realised with the path's seed, it gives both links their rate,"
            " the radio and the device, where these are not given",
        ),
        Key(
            "mode",
            values.word("3gpp", "reference"),
            "3gpp|reference",
            "3gpp",
            "how the scene becomes a channel: by the standard's models, or as the study did that it is from",
        ),
        Key(
            "radio",
            _radio,
            "PRESET|{…}|off",
            "that of the scene or of the trace's header, else off",
            "slots, HARQ, RLC and what else a radio does between the queue and the air",
        ),
        Key(
            "device",
            _device,
            "{packets-per-second = N}|off",
            "that of the scene, else off",
            "what the device itself can handle, behind a shallow queue of its own",
        ),
    )
}
"""Keys of a segment that act on both its links at once."""

PATH_KEYS = {
    key.name: key
    for key in (
        Key(
            "join",
            link_values.join,
            "off|slot|TIME",
            DEFAULT_JOIN,
            "which departures are joined into super-packets: none, those of one instant, those within a time",
        ),
        Key(
            "seed",
            values.number(0, MOST_SEED),
            "N",
            str(DEFAULT_SEED),
            "what all luck is keyed by: same seed, same luck, whatever the traffic",
        ),
        Key("mtu", values.number(1280, 9000), "N", str(DEFAULT_MTU), "bytes of the largest IP packet"),
        Key("nat", values.boolean, "true|false", "false", "the far end is this machine and its network (root only)"),
        Key(
            "packet-memory",
            link_values.packet_memory,
            "SIZE",
            "a quarter of the machine's memory, or of the memory limit of this process if that is less",
            "memory for packets in flight; a packet that finds no room is dropped as `packet_memory`",
        ),
        Key(
            "congestion-control",
            values.text,
            "NAME",
            "that of the machine",
            "TCP congestion control of all hosts, such as cubic or bbr",
        ),
    )
}
"""Keys of the whole path."""

SEGMENT_KEYS = {
    key.name: key
    for key in (
        Key("name", values.name, "NAME", "required", "name of the segment; its links are NAME.down and NAME.up"),
        Key(
            "kind",
            values.word(*SEGMENT_KINDS),
            "wired|radio",
            "required",
            "what the segment stands for; options of `wavebed shell` go to the radio segment",
        ),
    )
}
"""Keys of a ``[[path.segment]]`` beside those of its links."""

HOST_KEYS = {
    key.name: key
    for key in (
        Key("congestion-control", values.text, "NAME", "that of the path", "TCP congestion control of this host"),
        Key(
            "sysctl",
            lambda value: value,
            "{NAME = VALUE}",
            "the table below",
            "kernel settings of this host's network namespace",
        ),
    )
}
"""Keys of ``[path.server]``, ``[path.edge]`` and ``[path.client]``; the edge also has ``after``."""
