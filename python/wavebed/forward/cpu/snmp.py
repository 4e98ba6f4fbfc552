"""The processors of a router that answers SNMP: the raw counters of UCD-SNMP-MIB, by the program ``snmpget``.

``snmpget`` of Net-SNMP is what administrators have, and it is tested against more agents than a library of ours would
be; it runs as a program.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.cpu.model import LIMIT_S, CpuMeter, CpuUse, Reading, Ticks
from wavebed.secret import HIDDEN

if TYPE_CHECKING:
    from wavebed.secret import Secret

__all__ = ["SnmpMeter"]

_STATS = ".1.3.6.1.4.1.2021.11."
"""systemStats of UCD-SNMP-MIB."""
_USER, _NICE, _SYSTEM, _IDLE, _WAIT, _KERNEL, _INTERRUPT, _SOFTIRQ, _STEAL = 50, 51, 52, 53, 54, 55, 56, 61, 64
_CORES = 67
_NEEDED = (_USER, _NICE, _SYSTEM, _IDLE)
_UPTIME = ".1.3.6.1.2.1.1.3.0"
"""sysUpTime, hundredths of a second; the agent's."""
_MOST_SAID = 300
_LINE = re.compile(r"(\.[0-9.]+) (\d+)\s*")


class SnmpMeter(CpuMeter):
    """Asks an agent by SNMPv2c.

    Parameters
    ----------
    community : Secret
        It is handed over in a file that only we can read and that lasts for one request, not on the command line, and
        stands in no result.
    host : str
    port : int, optional
    """

    def __init__(self, community: Secret, host: str, port: int | None = None) -> None:
        self._at = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
        super().__init__(f"snmp://{self._at}")
        self._community = community
        protocol = "udp6" if ":" in host else "udp"
        self._agent = f"{protocol}:{self._at}"

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If there is no ``snmpget``.
        WavebedError
            If the agent does not answer, or has no counters of the processor.
        """
        asked = (_USER, _NICE, _SYSTEM, _IDLE, _WAIT, _KERNEL, _INTERRUPT, _SOFTIRQ, _STEAL, _CORES)
        names = [_UPTIME, *(f"{_STATS}{number}.0" for number in asked)]
        answers = self._get(names)
        uptime = answers.get(_UPTIME)
        raw = {number: answers[f"{_STATS}{number}.0"] for number in asked if f"{_STATS}{number}.0" in answers}
        if uptime is None or any(number not in raw for number in _NEEDED):
            raise WavebedError(
                f"--cpu {self.source}: the agent has no ssCpuRaw counters (UCD-SNMP-MIB): let it show {_STATS[:-1]}"
            )
        spent = sum(raw.get(number, 0) for number in (_USER, _NICE, _INTERRUPT, _SOFTIRQ, _STEAL))
        # Net-SNMP on Linux counts in ssCpuRawSystem alone and leaves ssCpuRawKernel at 0; where both count, the former
        # repeats the latter and the time of waiting (UCD-SNMP-MIB).
        spent += raw.get(_KERNEL, 0) or raw[_SYSTEM]
        total = spent + raw[_IDLE] + raw.get(_WAIT, 0)
        ticks = Ticks(spent, raw.get(_SOFTIRQ, 0), total, raw.get(_STEAL, 0))
        return Reading(uptime / 100, {-1: ticks}, core_count=raw.get(_CORES))

    def stop(self) -> CpuUse:
        """Read them again, and tell the difference."""
        use = super().stop()
        if use.seconds < _SURE_S:
            doubt = f"Net-SNMP renews its counters every 5 s only: a load to quote needs {_SURE_S:.0f} s"
            use = replace(use, doubts=(*use.doubts, doubt))
        return use

    def _get(self, names: list[str]) -> dict[str, int]:
        command = ["snmpget", "-t", "2", "-r", "1", "-On", "-Oq", "-Ot", self._agent, *names]
        with tempfile.TemporaryDirectory(prefix="wavebed-snmp-") as folder:
            settings = f"defVersion 2c\ndefCommunity {self._community.reveal()}\nmibs :\n"
            Path(folder, "snmp.conf").write_text(settings, encoding="utf-8")
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=LIMIT_S,
                    check=False,
                    env={**os.environ, "SNMPCONFPATH": folder, "MIBS": ""},
                )
            except OSError:
                raise MachineError(
                    f"--cpu {self.source}: there is no program snmpget: install the package snmp"
                ) from None
            except subprocess.TimeoutExpired:
                raise WavebedError(f"--cpu {self.source}: no answer within {LIMIT_S:.0f} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            said = lines[-1].replace(self._community.reveal(), HIDDEN)[:_MOST_SAID]
            raise WavebedError(
                f"--cpu {self.source}: snmpget: {said} (are host and community right, and SNMPv2c allowed?)"
            )
        answers = {}
        for line in done.stdout.splitlines():
            if match := _LINE.fullmatch(line):
                answers[match.group(1)] = int(match.group(2))
        return answers


_SURE_S = 60.0
"""Readings that may each be 5 s old: over 60 s a change of load at one end shifts the load by a twelfth at most."""
