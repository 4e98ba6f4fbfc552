"""Python and Rust accept the same networks: random specifications, right and wrong, are thrown at both."""

from __future__ import annotations

import json
import random
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from wavebed._core import find_core
from wavebed.path.laboratory import LabPlan, laboratory_file
from wavebed.spec.network import MOST_SEED, CoalesceOff, Network

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 10_000
STEPS = (
    "# wavebed pattern 1\n# kind = steps\n# duration_s = 3\n# light_bytes = 9\n# light_idle_s = 1\n"
    "time_s,rate_bps,delay_s,loss,bler,sinr_db,need_db,fallback_rate_bps,light_rate_bps\n"
    "0,5000000,0.01,0,0.1,-2.5,-2.8,1000000,7\n"
)
MOMENTS = "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 3\ntime_s,bytes\n0,1500\n1,3000\n"
WRONG = 0.01
"""Probability that a number is drawn from outside of its bounds."""

Json = dict[str, Any]


class Author:
    """Writes networks at random.

    Numbers are often at a bound or just beyond one, which is where two readers differ.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.steps, self.moments = folder / "steps.csv", folder / "moments.csv"
        self.steps.write_text(STEPS)
        self.moments.write_text(MOMENTS)

    def integer(self, least: int, most: int) -> int:
        draw = self.random.random()
        if draw < WRONG:
            return self.random.choice([least - 1, most + 1])
        if draw < 0.1:
            return self.random.choice([least, most])
        return self.random.randint(least, min(most, least + 10 ** self.random.randint(0, 18)))

    def probability(self) -> float:
        if self.random.random() < WRONG:
            return self.random.choice([-0.01, 1.01])
        return self.random.choice([0.0, 1.0, 0.5, round(self.random.random(), 3)])

    def maybe(self, make: Callable[[], Any]) -> Any:
        return make() if self.random.random() < 0.5 else None

    def optional(self, key: str, make: Callable[[], Any]) -> Json:
        """A key that may be left out, but is not null."""
        return {} if self.random.random() < 0.2 else {key: make()}

    def one(self, *makers: Callable[[], Any]) -> Any:
        return self.random.choice(makers)()

    def word(self, *words: str) -> str:
        return "sideways" if self.random.random() < WRONG / 4 else self.random.choice(words)

    def time(self) -> int:
        return self.integer(0, 10**18)

    def positive_time(self) -> int:
        return self.integer(1, 10**18)

    def pattern(self) -> Json:
        return {"file": str(self.steps), "end": self.word("repeat", "hold", "stop"), "start_ns": self.start()}

    def start(self) -> int:
        return self.random.choice([0, 0, 1_000_000_000, 2_999_999_999])

    def rate_bps(self) -> int:
        return self.integer(1, 10**12)

    def limit(self) -> Json:
        each = {"bytes": self.integer(1, 10**12), "packets": self.integer(1, 10**9), "time_ns": self.positive_time()}
        names = self.random.sample(sorted(each), 1 if self.random.random() > WRONG else 2)
        return {name: each[name] for name in names}

    def codel(self) -> Json:
        target = self.integer(1, 10**9)
        interval = target * 20 if self.random.random() > 0.05 else self.positive_time()
        ecn = self.random.random() < 0.5
        return {
            "limit": self.limit(),
            "target_ns": target,
            "interval_ns": interval,
            "ecn": ecn,
            "ce_threshold_ns": self.time() if self.random.random() < (0.5 if ecn else WRONG) else None,
        }

    def queue(self) -> Json:
        return self.one(
            lambda: {"kind": "droptail", "limit": self.limit()},
            lambda: {"kind": "drophead", "limit": self.limit()},
            lambda: {"kind": "infinite"},
            lambda: {"kind": "codel", **self.codel()},
            lambda: {
                "kind": "fq_codel",
                **self.codel(),
                "flows": self.integer(1, 65_536),
                "quantum_bytes": self.integer(1, 2**32 - 1),
            },
            lambda: {
                "kind": "dualpi2",
                "limit": self.limit(),
                **self.optional("target_ns", self.positive_time),
                **self.optional("rtt_max_ns", self.positive_time),
                **self.optional("coupling", lambda: self.integer(1, 16)),
                **self.optional("threshold_ns", self.time),
                **self.optional("range_ns", self.time),
                "predict_ns": self.maybe(self.positive_time),
            },
        )

    def rate(self) -> Json:
        return self.one(
            lambda: {"kind": "constant", "rate_bps": self.rate_bps()},
            lambda: {"kind": "pattern", **self.pattern()},
            lambda: {
                "kind": "opportunities",
                "file": str(self.moments),
                "end": self.word("repeat", "stop", "stop", "hold"),
                "start_ns": self.start(),
            },
            lambda: {"kind": "token_bucket", "rate_bps": self.rate_bps(), "burst_bytes": self.integer(1400, 10**9)},
            lambda: {"kind": "packets", "packets_per_s": self.integer(1, 10**9)},
            lambda: {"kind": "sampled", "rate_bps": self.rate_bps()},
            lambda: {"kind": "sampled", **self.pattern()},
        )

    def bottleneck(self) -> Json:
        return {
            "stage": "bottleneck",
            "rate": self.rate(),
            "queue": self.queue(),
            "overhead_bytes": self.integer(0, 1000),
            "unit": self.word("packet", "superpacket"),
            "outage": self.word("hold", "hold", "hold", "drop"),
        }

    def delay(self) -> Json:
        source = self.one(
            lambda: {"kind": "constant", "delay_ns": self.time()},
            lambda: {"kind": "pattern", **self.pattern()},
            lambda: {
                "kind": "distribution",
                "shape": self.word("uniform", "normal", "pareto", "paretonormal"),
                "mean_ns": self.time(),
                "spread_ns": self.time(),
                "correlation": self.probability(),
            },
        )
        return {"stage": "delay", "delay": source, "reorder": self.random.random() < 0.5}

    def loss(self) -> Json:
        model = self.one(
            lambda: {"kind": "independent", "probability": self.probability()},
            lambda: {"kind": "pattern", **self.pattern()},
            lambda: {
                "kind": "gilbert_elliott",
                **{name: self.probability() for name in ("p", "r", "good_loss", "bad_loss")},
            },
            lambda: {
                "kind": "four_state",
                **{name: round(self.probability() / 2, 3) for name in ("p13", "p31", "p23", "p32", "p14")},
            },
        )
        return {"stage": "loss", "model": model, "unit": self.word("packet", "superpacket")}

    def slots(self) -> Json:
        return {
            "slot_ns": self.integer(1000, 10**9),
            "frame": self.random.choice(["", "DDDSU", "DU", "S", "DSU", "DS", "DDDD", "U"]),
            "special_symbols": self.random.choice([[10, 2, 2], [14, 0, 0], [0, 0, 14], [10, 2, 3]]),
            "prepare_ns": self.time(),
            "decode_ns": self.time(),
            **self.optional("code", lambda: self.word("ldpc", "turbo")),
            "harq": self.maybe(
                lambda: {
                    "processes": self.integer(1, 32),
                    "feedback_slots": self.integer(0, 10**6),
                    "schedule_slots": self.integer(1, 10**6),
                    "limit": self.integer(1, 64),
                    "combining_gain_db": self.integer(0, 100),
                    "slope_per_db": self.integer(0, 100),
                    **self.optional("ack_loss", self.probability),
                    **self.optional("nack_loss", self.probability),
                }
            ),
        }

    def air_rate(self) -> Json:
        return self.one(
            lambda: {"kind": "constant", "rate_bps": self.rate_bps()}, lambda: {"kind": "pattern", **self.pattern()}
        )

    def connection(self) -> Json:
        return {
            "drx": self.maybe(
                lambda: {
                    "inactivity_ns": self.time(),
                    "short_cycle_ns": self.maybe(self.positive_time),
                    "short_cycles": self.integer(0, 100),
                    "long_cycle_ns": self.positive_time(),
                    "on_ns": self.integer(0, 1000),
                }
            ),
            "rrc": self.maybe(
                lambda: {name: self.time() for name in ("inactivity_ns", "promotion_ns", "paging_ns")},
            ),
        }

    def rlc(self) -> Json:
        return self.one(
            lambda: {"mode": "um"},
            lambda: {
                "mode": "am",
                **{name: self.time() for name in ("reassembly_ns", "poll_ns", "status_ns")},
                "retransmissions": self.integer(0, 255),
                **self.optional("reestablish_ns", self.positive_time),
                **self.optional("status_loss", self.probability),
                "sn_bits": self.maybe(lambda: self.random.choice([12, 18] * 20 + [11])),
            },
        )

    def grants(self) -> Json:
        return {
            "request_slots": self.integer(1, 10**6),
            "schedule_slots": self.integer(0, 10**6),
            "prepare_slots": self.integer(1, 10**6),
            "first_bytes": self.integer(1, 10**6),
            "configured": self.maybe(lambda: {"slots": self.integer(1, 10**6), "bytes": self.integer(1, 10**6)}),
            "losses": self.maybe(
                lambda: {
                    "request": self.probability(),
                    "report": self.probability(),
                    "prohibit_ns": self.time(),
                    "most_requests": self.integer(1, 64),
                    "access_ns": self.time(),
                    "retry_ns": self.positive_time(),
                }
            ),
        }

    def split(self) -> Json:
        return {
            "target_ns": self.positive_time(),
            "threshold_bytes": self.maybe(lambda: self.integer(0, 10**12)),
            "rlc": self.rlc(),
            "grants": self.maybe(self.grants),
        }

    def radio(self, direction: str, connection: Json | None) -> Json:
        radio: Json = {
            "stage": "radio",
            "direction": direction,
            "rate": self.air_rate(),
            "bler": self.maybe(self.probability),
            "slots": self.slots(),
            "fallback": self.maybe(self.slots),
            "queue": self.queue(),
            "discard_ns": self.maybe(self.positive_time),
            "overhead_bytes": self.integer(0, 1000),
            "rlc": self.rlc(),
            "reordering": self.maybe(lambda: {"timer_ns": self.maybe(self.time)}),
            "grants": self.maybe(self.grants),
            "connection": connection if self.random.random() > 0.05 else self.connection(),
            "handover": self.word("forward", "lose"),
            "load": self.maybe(
                lambda: {
                    "mean": self.random.choice([0.01, 0.5, 0.99] * 20 + [0.0, 1.0]),
                    "burst_ns": self.integer(100_000, 10**18),
                }
            ),
        }
        fits = direction == "down" and radio["grants"] is None
        radio["aggregation"] = self.maybe(self.aggregation) if fits or self.random.random() < 0.02 else None
        return radio

    def aggregation(self) -> Json:
        return {
            "carriers": self.integer(2, 32),
            "activation_ns": self.time(),
            "deactivation_ns": self.positive_time(),
        }

    def split_radio(self, direction: str, connection: Json | None) -> Json:
        """A split bearer, mostly with the carriers that it needs."""
        radio = {**self.radio(direction, connection), "split": self.split()}
        if self.random.random() < 0.9:
            radio["fallback"] = self.slots()
            radio["rate"] = {"kind": "pattern", **self.pattern()}
        return radio

    def wifi(self) -> Json:
        rate = self.air_rate()
        # Whether a pattern is too fast for the overhead depends on what is in its file, which only the engine reads.
        longest_ns = 1000 if rate["kind"] == "pattern" else self.random.choice([1000, 10**9])
        return {
            "stage": "wifi",
            "rate": rate,
            "bler": self.maybe(self.probability),
            "queue": self.queue(),
            "aggregate_bytes": self.integer(1400, (1 << 22) - 1),
            "aggregate_frames": self.integer(1, 1024),
            "overhead_ns": self.integer(0, longest_ns),
            "retries": self.integer(0, 255),
            "overhead_bytes": self.integer(0, 1000),
        }

    def link(self, direction: str, connection: Json | None) -> list[Json]:
        makers: list[Callable[[], Json]] = [
            self.bottleneck,
            self.delay,
            self.loss,
            lambda: {"stage": "duplicate", "probability": self.probability()},
            lambda: {"stage": "reorder", "probability": self.probability(), "delay_ns": self.time()},
            lambda: {"stage": "corrupt", "probability": self.probability()},
            lambda: self.radio(direction, connection),
            lambda: self.split_radio(direction, connection),
            self.wifi,
        ]
        return [self.one(*makers) for _ in range(self.random.randint(0, 2))]

    def segment(self, name: str) -> Json:
        connection = self.maybe(self.connection)
        return {
            "name": name,
            "kind": self.word("wired", "radio"),
            "down": self.link("down", connection),
            "up": self.link("up", connection),
        }

    def network(self) -> Json:
        names = ["server", "client"] if self.random.random() < 0.5 else ["server", "edge", "client"]
        hops = [
            {"from": start, "to": end, "hops": [self.segment(f"s{place}") for _ in range(1)]}
            for place, (start, end) in enumerate(pairwise(names))
        ]
        if self.random.random() < 0.3:
            hops.append({**hops[-1], "hops": [self.segment("second")]})
        if self.random.random() < WRONG:
            hops[-1]["hops"].append(self.segment("s0"))
        return {
            "mtu": self.random.choice([1280, 1500, 9000])
            if self.random.random() > 0.05
            else self.integer(1280, 65_535),
            "nat": False,
            "coalesce": self.one(
                lambda: {"kind": "off"},
                lambda: {"kind": "slot"},
                lambda: {"kind": "time", "time_ns": self.integer(1, 10_000_000)},
            ),
            "names": self.word("path", "beside"),
            "rebind_at_ns": self.rebindings(),
            "packet_memory_bytes": self.maybe(lambda: self.integer(16 << 20, 1 << 40)),
            "hosts": [
                {"name": name, "congestion_control": None, "sysctls": self.maybe(lambda: {self.setting(): "1"}) or {}}
                for name in names
            ],
            "legs": hops,
        }

    def rebindings(self) -> list[int]:
        times = sorted(self.random.randint(0, 10**9) for _ in range(self.random.randint(0, 2)))
        return times[::-1] if self.random.random() < WRONG else times

    def setting(self) -> str:
        if self.random.random() < WRONG:
            return self.random.choice(["kernel.panic", "net", "net.ipv4/../x", "net..ipv4"])
        return "net.ipv4.tcp_syn_retries"


def refused_here(network: Json) -> str | None:
    try:
        msgspec.convert(network, Network)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def refused_there(networks: list[Json]) -> list[str | None]:
    """Ask `wavebed-core`; the frame around a network is right."""
    blank = Network(1500, False, CoalesceOff(), None, (), ())
    frame = laboratory_file(blank, LabPlan("x", MOST_SEED))
    lines = []
    for network in networks:
        hops = [{"hops": hop["hops"]} for hop in network["legs"]]
        row = len(network["hosts"]) - 1
        further = {"second_leg": hops[row]} if hops[row:] else {}
        lines.append(json.dumps({**frame, **network, "legs": hops[:row], **further}))
    done = subprocess.run([find_core(), "check"], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [json.loads(line)["problem"] for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    author = Author(1, tmp_path_factory.mktemp("patterns"))
    return [author.network() for _ in range(COUNT)]


def test_none_of_ten_thousand_specifications_is_refused_by_one_side_alone(networks: list[Json]) -> None:
    there = refused_there(networks)
    here = [refused_here(network) for network in networks]
    assert len(there) == len(here) == COUNT
    apart = [
        (one, other, network)
        for one, other, network in zip(here, there, networks, strict=True)
        if (one is None) != (other is None)
    ]
    assert not apart, f"{len(apart)} of {COUNT}; the first: Python: {apart[0][0]}; Rust: {apart[0][1]}; {apart[0][2]}"
    # Neither side refuses everything, nor nothing.
    accepted = sum(problem is None for problem in here)
    assert 0.3 * COUNT < accepted < 0.95 * COUNT
