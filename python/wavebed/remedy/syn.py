"""Early repetition of connection requests: ``wavebed-edge syn`` on a host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.errors import MachineError
from wavebed.remedy.model import Remedy
from wavebed.remedy.program import edge_program

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.remedy.program import RunningProgram

__all__ = ["Syn", "SynOptions"]


class SynOptions(Struct, frozen=True, kw_only=True):
    """Its keys; ``wavebed-edge syn`` checks how they go together."""

    interval_s: Annotated[float, Key(values.seconds(0.02, 1.0), "time between two SYNs of a connection, at first")] = (
        0.1
    )
    dense_s: Annotated[float, Key(values.seconds(0.02, 10.0), "for how long; then the time between two doubles")] = 1.0
    answers: Annotated[bool, Key(values.boolean, "also repeat answers to connection requests (SYN-ACK) early")] = False
    method: Annotated[
        Literal["bpf", "sysctl"],
        Key(
            values.word("bpf", "sysctl"),
            "bpf: a program in the kernel, without which the trial is invalid; sysctl: kernel settings alone, which"
            " repeat a SYN each second for half a minute",
        ),
    ] = "bpf"


class Syn(Remedy[SynOptions]):
    """SYNs each 100 ms in the first second."""

    kind = "syn"
    summary = "Repeats connection requests (SYN) of this host early, so that an outage costs its own length."
    options_type = SynOptions

    def start(self, lab: Lab, host: str, log: Path) -> RunningProgram:
        """Start it; with ``bpf`` only if the kernel takes the program."""
        program = edge_program(lab.host(host), self.arguments(), log)
        event = json.loads(program.wait_for_line(_is_started))
        if event["method"] != self.options.method:
            program.stop()
            raise MachineError(f"syn on {host}: the kernel refuses the program: {event['refused']}")
        return program

    def arguments(self) -> list[str]:
        """Return the arguments of ``wavebed-edge``."""
        interval, dense = (f"{round(each * 1e6)}us" for each in (self.options.interval_s, self.options.dense_s))
        further = ["--answers"] * self.options.answers + ["--no-bpf"] * (self.options.method == "sysctl")
        return ["syn", "--json", "--interval", interval, "--dense", dense, *further]


def _is_started(line: str) -> bool:
    return line.startswith('{"event":"started"')
