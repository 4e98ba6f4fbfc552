"""The scenarios of the network simulator of the QUIC interop runner, by its names and with its options.

Names, options and their meaning are those of github.com/quic-interop/quic-network-simulator. One link with a rate, a
delay and a droptail queue in each direction; losses are at its far end, as there.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NoReturn

from wavebed.config.problems import unknown_key
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["NAMES", "REFUSED", "hop", "is_scenario", "title"]

_LINK = ("delay", "bandwidth", "queue")
_NEEDED: dict[str, tuple[str, ...]] = {
    "simple-p2p": _LINK,
    "drop-rate": (*_LINK, "rate_to_client", "rate_to_server"),
    "droplist": _LINK,
    "blackhole": (*_LINK, "on", "off"),
    "asymmetric-p2p": ("delay", "forward-data-rate", "forward-queue", "return-data-rate", "return-queue"),
}
_FURTHER: dict[str, tuple[str, ...]] = {
    "simple-p2p": (),
    "drop-rate": ("burst_to_client", "burst_to_server"),
    "droplist": ("drops_to_client", "drops_to_server"),
    "blackhole": ("repeat", "direction"),
    "asymmetric-p2p": ("drop-rate-to-client", "drop-rate-to-server"),
}
NAMES = tuple(_NEEDED)
_TITLES = {
    "simple-p2p": "a link with a rate, a delay and a queue",
    "drop-rate": "random losses, at most so many in a row",
    "droplist": "losses of the packets that are listed",
    "blackhole": "a link that drops everything for a while",
    "asymmetric-p2p": "a rate and a queue for each direction",
}
REFUSED = {
    "corrupt-rate": "the simulator repairs the UDP checksum of what it corrupts, and the engine does not, so that the"
    " kernel would drop it: use drop-rate, or --corrupt for packets that are dropped",
    "rebind": "the path has no NAT: interrupt the link with blackhole",
    "nat": "the path has no NAT: use simple-p2p",
    "tcp-cross-traffic": "a path has no traffic of its own: use simple-p2p, and send a download beside the command",
    "udp-cross-traffic": "a path has no traffic of its own: use simple-p2p, and send a download beside the command",
}
"""Scenarios that the engine cannot do, with the reason and the remedy."""

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKMG]?)(?:bps|b/s)", re.ASCII)
_TIME = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s)", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_LISTED = 1000
_MOST_REPEATS = 1000


def is_scenario(name: str) -> bool:
    """Whether the first word is the name of a scenario of the simulator."""
    return name.strip().partition(" ")[0] in (*_NEEDED, *REFUSED)


def title(name: str) -> str:
    """Return the scenario for people."""
    return f"QUIC network simulator: {_TITLES[name.strip().partition(' ')[0]]}"


def hop(name: str) -> Mapping[str, object]:
    """Return the keys of a hop that does what the scenario does.

    Parameters
    ----------
    name : str
        Its name and its options, as for the simulator: ``simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25``.

    Raises
    ------
    UserError
        If the engine cannot do it, or an option is unknown, missing or wrong.
    """
    scenario, *words = _words(name)
    if scenario in REFUSED:
        raise UserError(f"{scenario}: {REFUSED[scenario]}")
    options = _options(scenario, words)
    if scenario == "asymmetric-p2p":
        return _asymmetric(options)
    keys: dict[str, object] = {
        "rate": _rate(scenario, "bandwidth", options),
        "delay": _time(scenario, "delay", options),
        "queue": f"droptail:{_count(scenario, 'queue', options)}p",
    }
    return keys | _LOSSES[scenario](options)


def _words(name: str) -> list[str]:
    try:
        return shlex.split(name)
    except ValueError:
        raise UserError(f"{name}: a quotation mark is missing: add it") from None


def _options(scenario: str, words: list[str]) -> dict[str, str]:
    known = (*_NEEDED[scenario], *_FURTHER[scenario])
    found: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not key.startswith("--") or not sign:
            raise UserError(f"{scenario}: {word!r} is no option: write --NAME=VALUE")
        if key[2:] not in known:
            raise UserError(f"{scenario}: --{unknown_key(key[2:], known)}")
        found[key[2:]] = value
    missing = [f"--{key}=" for key in _NEEDED[scenario] if key not in found]
    if missing:
        raise UserError(f"{scenario}: options are missing: add {' '.join(missing)}")
    return found


def _wrong(scenario: str, key: str, value: str, right: str) -> NoReturn:
    raise UserError(f"{scenario}: --{key}={value}: write {right}")


def _rate(scenario: str, key: str, options: Mapping[str, str]) -> str:
    match = _RATE.fullmatch(options[key])
    if match is None:
        _wrong(scenario, key, options[key], "a rate such as 10Mbps")
    return f"{match[1]}{match[2].lower()}bit"


def _time(scenario: str, key: str, options: Mapping[str, str]) -> str:
    if _TIME.fullmatch(options[key]) is None:
        _wrong(scenario, key, options[key], "a time such as 15ms")
    return options[key]


def _count(scenario: str, key: str, options: Mapping[str, str], most: int = 10**9) -> int:
    if _COUNT.fullmatch(options[key]) is None or not 1 <= int(options[key]) <= most:
        _wrong(scenario, key, options[key], f"a whole number from 1 to {most}")
    return int(options[key])


def _share(scenario: str, key: str, options: Mapping[str, str]) -> str:
    value = options[key]
    if _COUNT.fullmatch(value) is None or int(value) > 100:
        _wrong(scenario, key, value, "a whole number from 0 to 100, in per cent")
    return f"{value}%"


def _asymmetric(options: Mapping[str, str]) -> dict[str, object]:
    of = "asymmetric-p2p"
    found: dict[str, object] = {"delay": _time(of, "delay", options)}
    for direction, name, end in (("down", "forward", "client"), ("up", "return", "server")):
        found[f"{direction}-rate"] = _rate(of, f"{name}-data-rate", options)
        found[f"{direction}-queue"] = f"droptail:{_count(of, f'{name}-queue', options)}p"
        key = f"drop-rate-to-{end}"
        if key in options:
            found[f"{direction}-loss"] = _share(of, key, options)
    return found


def _drop_rate(options: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for direction, end in (("down", "client"), ("up", "server")):
        share = _share("drop-rate", f"rate_to_{end}", options)
        burst = f"burst_to_{end}"
        if burst in options:
            most = _count("drop-rate", burst, options, 1000)
            found[f"{direction}-loss"] = {"probability": share, "most-in-a-row": most}
        else:
            found[f"{direction}-loss"] = share
    return found


def _droplist(options: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for direction, end in (("down", "client"), ("up", "server")):
        key = f"drops_to_{end}"
        if key not in options:
            continue
        listed = options[key].split(",")
        if len(listed) > _MOST_LISTED or not all(_COUNT.fullmatch(each) and int(each) for each in listed):
            _wrong("droplist", key, options[key], f"at most {_MOST_LISTED} numbers of packets from 1, as in 1,3,15")
        found[f"{direction}-loss"] = {"packets": sorted({int(each) for each in listed})}
    return found


def _blackhole(options: Mapping[str, str]) -> dict[str, object]:
    from wavebed.config.units import format_time, parse_time

    on_ns, off_ns = (parse_time(_time("blackhole", key, options)) for key in ("on", "off"))
    if not off_ns:
        _wrong("blackhole", "off", options["off"], "a time above 0")
    repeats = _count("blackhole", "repeat", options, _MOST_REPEATS) if "repeat" in options else 1
    begins = [on_ns + number * (on_ns + off_ns) for number in range(repeats)]
    loss = {"during": [[format_time(begin_ns), format_time(begin_ns + off_ns)] for begin_ns in begins]}
    direction = options.get("direction", "both")
    keys = {"both": ("loss",), "toclient": ("down-loss",), "toserver": ("up-loss",)}
    if direction not in keys:
        _wrong("blackhole", "direction", direction, f"one of {', '.join(keys)}")
    return dict.fromkeys(keys[direction], loss)


_LOSSES: dict[str, Callable[[Mapping[str, str]], dict[str, object]]] = {
    "simple-p2p": lambda _: {},
    "drop-rate": _drop_rate,
    "droplist": _droplist,
    "blackhole": _blackhole,
}
