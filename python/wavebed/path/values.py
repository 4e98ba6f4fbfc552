"""Read one value of a link or a path; see `wavebed.config.values`."""

from __future__ import annotations

from wavebed.config.problems import Problem, at, described
from wavebed.config.units import parse_time
from wavebed.config.values import (
    boolean,
    field,
    file_path,
    rate_bps,
    share,
    size_bytes,
    table,
    table_of,
    text,
    time_ns,
    word,
)
from wavebed.path.model import DistributedDelay, Join, PatternFile, Rate, TraceEnd
from wavebed.spec.link import Constant, ConstantDelay, FourState, GilbertElliott, Independent, Reorder, TokenBucket
from wavebed.spec.network import LEAST_PACKET_MEMORY_BYTES, MOST_JOIN_NS

__all__ = ["SHAPES", "TRACE_ENDS", "UNITS", "delay", "join", "loss", "packet_memory", "pattern", "rate", "reorder"]

SHAPES = ("uniform", "normal", "pareto", "paretonormal")
TRACE_ENDS: tuple[TraceEnd, ...] = ("repeat", "hold", "stop")
UNITS = ("packet", "superpacket")


def packet_memory(value: object) -> int:
    """Read a memory size that some packets fit in."""
    size = size_bytes(value)
    if size < LEAST_PACKET_MEMORY_BYTES:
        raise Problem(f"{described(value)} is too little: write at least {LEAST_PACKET_MEMORY_BYTES >> 20}mib")
    return size


def pattern(value: object) -> PatternFile:
    """Read ``{pattern = FILE, format, end, start-at}``."""
    given = table(value, ("pattern",), ("format", "end", "start-at"))
    end = field(given, "end", word(*TRACE_ENDS), "repeat")
    return PatternFile(
        file=at("pattern", file_path, given["pattern"]),
        format=at("format", text, given["format"]) if "format" in given else None,
        end=next(known for known in TRACE_ENDS if known == end),
        start_ns=field(given, "start-at", time_ns, 0),
    )


def rate(value: object) -> Rate:
    """Read a rate: ``"10gbit"`` or ``{token-bucket = "100mbit", burst = "64kb"}``."""
    value = table_of(value)
    if isinstance(value, dict):
        given = table(value, ("token-bucket", "burst"))
        burst_bytes = at("burst", size_bytes, given["burst"])
        if burst_bytes < 1:
            raise Problem("a bucket of nothing passes nothing: write at least one packet, such as 1500b", "burst")
        return TokenBucket(at("token-bucket", rate_bps, given["token-bucket"]), burst_bytes)
    return Constant(rate_bps(value))


def delay(value: object) -> ConstantDelay | DistributedDelay | PatternFile:
    """Read a one-way delay: a time, a distribution or a pattern."""
    value = table_of(value)
    if not isinstance(value, dict):
        return ConstantDelay(time_ns(value))
    if "pattern" in value:
        return pattern(value)
    given = table(value, ("distribution", "mean", "spread"), ("correlation", "reorder"))
    return DistributedDelay(
        shape=at("distribution", word(*SHAPES), given["distribution"]),
        mean_ns=at("mean", time_ns, given["mean"]),
        spread_ns=at("spread", time_ns, given["spread"]),
        correlation=field(given, "correlation", share, 0.0),
        reorder=field(given, "reorder", boolean, False),
    )


def loss(value: object) -> Independent | GilbertElliott | FourState | PatternFile:
    """Read a loss: a share, a model or a pattern."""
    value = table_of(value)
    if not isinstance(value, dict):
        return Independent(share(value))
    if "pattern" in value:
        return pattern(value)
    if "model" not in value:
        raise Problem('is missing: write model = "gilbert-elliott" or "four-state", or pattern = FILE', "model")
    if at("model", word("gilbert-elliott", "four-state"), value["model"]) == "four-state":
        given = table(value, ("model", "p13", "p31", "p23", "p32", "p14"))
        found = {key: at(key, share, given[key]) for key in ("p13", "p31", "p23", "p32", "p14")}
        for left, right in (("p13", "p14"), ("p31", "p32")):
            if found[left] + found[right] > 1:
                raise Problem(f"{left} and {right} are together more than 100%: they leave the same state", left)
        return FourState(**found)
    given = table(value, ("model", "p", "r"), ("good-loss", "bad-loss"))
    return GilbertElliott(
        p=at("p", share, given["p"]),
        r=at("r", share, given["r"]),
        good_loss=field(given, "good-loss", share, 0.0),
        bad_loss=field(given, "bad-loss", share, 1.0),
    )


def reorder(value: object) -> Reorder:
    """Read ``{share = "1%", delay = "1ms"}``."""
    given = table(table_of(value), ("share", "delay"))
    return Reorder(at("share", share, given["share"]), at("delay", time_ns, given["delay"]))


def join(value: object) -> Join:
    """Read ``off``, ``slot`` or a time."""
    if value in ("off", "slot"):
        return Join(str(value))
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a way to join: write off, slot or a time such as 125us")
    window_ns = parse_time(value)
    if not 1 <= window_ns <= MOST_JOIN_NS:
        raise Problem(f"{value!r} is out of range: join within 1ns to 10ms, or write off")
    return Join("time", window_ns)
