"""The scenarios of the network simulator of the QUIC interop runner, by its names and with its options.

Names, options and their meaning come from github.com/quic-interop/quic-network-simulator. One link with a rate, a
delay and a droptail queue in each direction; losses are at its far end, as there.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from msgspec import Struct

from wavebed.conditions.condition import (
    LOW_ORBIT,
    condition,
    condition_names,
    low_orbit,
    radio_scene,
    variant_names,
)
from wavebed.config.problems import Problem, unknown_key
from wavebed.errors import UserError
from wavebed.foreign import is_there, read_toml
from wavebed.scene.model import shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.conditions.condition import Variant
    from wavebed.scene.model import SceneModel


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
SIMULATOR_NAMES = tuple(_NEEDED)
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


def quic_title(name: str) -> str:
    """Return the scenario for people."""
    return f"QUIC network simulator: {_TITLES[name.strip().partition(' ')[0]]}"


def quic_hop(name: str) -> Mapping[str, object]:
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


SOURCE = "3GPP TS 23.501, Table 5.7.4-1"
STATEMENT = "A budget, not a measured network: every packet takes the whole packet delay budget, one way."


class Profile(Struct, frozen=True):
    """A standardised 5QI.

    Parameters
    ----------
    number : int
        The 5QI.
    resource : str
        ``GBR``, ``non-GBR`` or ``delay-critical GBR``.
    delay_ms : int
        Packet delay budget, from the UE to the N6 interface of the core.
    error : str
        Packet error rate, as a percentage.
    service : str
        An example of a service.
    """

    number: int
    resource: str
    delay_ms: int
    error: str
    service: str

    def hop(self) -> Mapping[str, object]:
        """Return the keys of a hop."""
        return {"delay": f"{self.delay_ms}ms", "loss": self.error}


def _profiles() -> dict[str, Profile]:
    gbr, non_gbr, critical = "GBR", "non-GBR", "delay-critical GBR"
    uplink = "live uplink streaming"
    rows = (
        (1, gbr, 100, "1%", "conversational voice"),
        (2, gbr, 150, "0.1%", "conversational video"),
        (3, gbr, 50, "0.1%", "real-time gaming, monitoring of processes"),
        (4, gbr, 300, "0.0001%", "buffered video"),
        (65, gbr, 75, "1%", "mission-critical push to talk"),
        (66, gbr, 100, "1%", "push to talk"),
        (67, gbr, 100, "0.1%", "mission-critical video"),
        (71, gbr, 150, "0.0001%", uplink),
        (72, gbr, 300, "0.01%", uplink),
        (73, gbr, 300, "0.000001%", uplink),
        (74, gbr, 500, "0.000001%", uplink),
        (76, gbr, 500, "0.01%", uplink),
        (5, non_gbr, 100, "0.0001%", "signalling of calls (IMS)"),
        (6, non_gbr, 300, "0.0001%", "buffered video, web, e-mail and files over TCP"),
        (7, non_gbr, 100, "0.1%", "voice, live video, interactive gaming"),
        (8, non_gbr, 300, "0.0001%", "as 5qi-6, of lower priority"),
        (9, non_gbr, 300, "0.0001%", "as 5qi-6, of the lowest priority: the default bearer"),
        (69, non_gbr, 60, "0.0001%", "mission-critical signalling"),
        (70, non_gbr, 200, "0.0001%", "mission-critical data"),
        (79, non_gbr, 50, "1%", "messages of vehicles"),
        (80, non_gbr, 10, "0.0001%", "low-latency broadband, augmented reality"),
        (82, critical, 10, "0.01%", "discrete automation, bursts of 255 bytes"),
        (83, critical, 10, "0.01%", "discrete automation, bursts of 1354 bytes"),
        (84, critical, 30, "0.001%", "intelligent transport systems"),
        (85, critical, 5, "0.001%", "electricity distribution, high voltage"),
        (86, critical, 5, "0.01%", "messages of vehicles, driving together"),
        (87, critical, 5, "0.1%", "interactive services: tracking of motions, bursts of 500 bytes"),
        (88, critical, 10, "0.1%", "interactive services: tracking of motions, bursts of 1125 bytes"),
        (89, critical, 15, "0.01%", "interactive services: pictures that are rendered in the cloud"),
    )
    return {f"5qi-{row[0]}": Profile(*row) for row in sorted(rows)}


PROFILES = _profiles()
"""By name, as ``5qi-9``."""


Kind: TypeAlias = Literal["condition", "5qi", "quic", "scene"]


class Found(Struct, frozen=True):
    """What a name stands for.

    Parameters
    ----------
    name : str
        The whole name: a condition with its variant, as ``motorway-handover/lte``.
    kind : str
        ``condition``, ``5qi``, ``quic`` (a scenario of the QUIC network simulator) or ``scene`` (a radio scene).
    title : str
        For people.
    hop : mapping
        The keys of a hop, as a scenario has them below ``[path]``; ``scene`` among them where there is a radio.
    """

    name: str
    kind: Kind
    title: str
    hop: Mapping[str, object]

    @property
    def options(self) -> dict[str, object]:
        """The keys as `wavebed.Path.of` takes them."""
        return {key.replace("-", "_"): value for key, value in self.hop.items()}


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """Return the names that `find` takes: conditions with each of their variants, 5QI profiles, QUIC scenarios, scenes.

    Parameters
    ----------
    kind : str, optional
        Only names of this kind.
    """
    every: dict[Kind, tuple[str, ...]] = {
        "condition": variant_names(),
        "5qi": tuple(PROFILES),
        "quic": SIMULATOR_NAMES,
        "scene": shipped(),
    }
    return every[kind] if kind is not None else tuple(name for some in every.values() for name in some)


def find(name: str) -> Found:
    """Return what a name stands for.

    Parameters
    ----------
    name : str
        ``CONDITION`` or ``CONDITION/VARIANT``, ``5qi-N``, a scenario of the QUIC network simulator with its options, or
        a radio scene: a file, a shipped one, or a map of ``wavebed fit``.

    Raises
    ------
    UserError
        If there is nothing of this name: one line with the nearest names; or if its options are wrong.
    """
    if _is_scene(name):
        return Found(name, "scene", _title(name), {"scene": name})
    variant = find_variant(name)
    if variant is not None:
        title = condition(variant.name.partition("/")[0]).title
        return Found(variant.name, "condition", title, {**variant.path, "scene": variant.name})
    profile = PROFILES.get(name)
    if profile is not None:
        return Found(name, "5qi", profile.service, profile.hop())
    if is_scenario(name):
        hop = quic_hop(name)
        return Found(name, "quic", quic_title(name), hop)
    raise unknown(name)


def _title(name: str) -> str:
    from wavebed.channel.placemap import is_map, load_map

    if is_map(name):
        return load_map(name).title
    access = find_low_orbit(name)
    return load_scene(name).title if access is None else access.title


def _is_scene(name: str) -> bool:
    """Whether it is a radio scene: a file that is there, a name of a file, or a scene that is shipped."""
    from wavebed.scene.model import find as find_scene

    if is_there(name):
        return True
    if name.endswith((".toml", ".json")):
        return True
    try:
        return is_there(find_scene(name))
    except UserError:
        return False


def find_variant(name: str) -> Variant | None:
    """Return the variant of this name, or the first one of a condition; ``None``: there is no such condition.

    Raises
    ------
    UserError
        If the condition has no such variant.
    """
    of, _, technology = name.partition("/")
    if of not in condition_names():
        return None
    variants = condition(of).variants
    if not technology:
        return variants[0]
    for variant in variants:
        if variant.technology == technology:
            return variant
    from wavebed.config.suggest import nearest  # few names are mistyped

    near = nearest(technology, [variant.technology for variant in variants])
    if near is not None:
        raise UserError(f"{name}: the condition {of!r} has no such variant: did you mean '{of}/{near}'?")
    known = " or ".join(variant.name for variant in variants)
    raise UserError(f"{name}: the condition {of!r} has no such variant: write {known}")


def unknown(name: str) -> UserError:
    """Say that there is nothing of this name, with those that are near it."""
    import difflib  # 2 ms of the start-up of `shell`

    known = [*condition_names(), *names()]
    near = list(dict.fromkeys(difflib.get_close_matches(name.partition(" ")[0], known, 3, 0.6)))
    hint = f"did you mean {' or '.join(near)}?" if near else "wavebed scenes lists the names"
    return UserError(f"{name}: no such file, scene or condition: {hint}")


def find_low_orbit(name: str) -> LowOrbit | None:
    """Return the low-orbit access of a name: of a condition, or of a file; ``None``: the name is of something else.

    Raises
    ------
    UserError
        If the access is wrong.
    """
    if not _is_scene(name):
        variant = find_variant(name)
        return None if variant is None or variant.technology != LOW_ORBIT else low_orbit(variant.name)
    from wavebed.channel.low_orbit import is_low_orbit, load_low_orbit
    from wavebed.scene.model import find as find_scene

    file = find_scene(name)
    if not is_there(file) or not is_low_orbit(read_toml(file, "name a scene file")):
        return None
    return load_low_orbit(file)


def load_scene(name: str) -> SceneModel:
    """Return the radio scene of a name: of a condition, or a scene as `wavebed.scene.load` finds it.

    Raises
    ------
    UserError
        If there is none, or it is wrong.
    """
    from wavebed.scene import load

    if _is_scene(name):
        return load(name)
    variant = find_variant(name)
    if variant is not None and variant.technology == LOW_ORBIT:
        raise Problem(f"{variant.name!r} is a low-orbit access and no radio scene: write the name of a radio scene")
    if variant is not None:
        return radio_scene(variant.name)
    if name in PROFILES or is_scenario(name):
        raise Problem(f"{name.partition(' ')[0]!r} has no radio: write the name of a condition or a radio scene")
    raise unknown(name)


def with_condition(given: Mapping[str, object], base: Path | None) -> tuple[Mapping[str, object], bool]:
    """Return the keys of a hop and of the condition that its ``scene`` names, and whether it replaces all below.

    A key that stands beside ``scene`` is above the same one of the condition. A condition without a radio gives no
    scene: it is the whole hop.

    Parameters
    ----------
    given : mapping
        The keys of a hop, as typed.
    base : pathlib.Path or None
        The folder that names of files are relative to.

    Raises
    ------
    UserError
        If the condition has no such variant, or an option of a QUIC scenario is wrong.
    """
    name = given.get("scene")
    if not isinstance(name, str) or (base is not None and is_there(base / name)) or _is_scene(name):
        return given, False
    if find_variant(name) is None and name not in PROFILES and not is_scenario(name):
        return given, False  # the reader of scenes says what is wrong
    found = find(name)
    beside = {key: value for key, value in given.items() if key != "scene"}
    return {**found.hop, **beside}, "scene" not in found.hop
