"""The modem of the client host, sampled each second of a trial."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.hosts.modem import SCRIPT, read_states
from wavebed.stranger import lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.hosts.host import AgentHost
    from wavebed.hosts.process import AgentProcess

__all__ = ["NONE", "ModemSamples"]

NONE = "none"
_ENDED_S = 5.0


class ModemSamples:
    """What a tool on the client host says of its modem, from now on.

    Parameters
    ----------
    client : AgentHost
        The host.
    tool : str
        ``mmcli``, ``qmicli``, ``adb``; ``auto``: the first that finds a modem.
    file : pathlib.Path
        What the tool prints goes there; removed if it prints nothing.

    Raises
    ------
    WavebedError
        If the host does not answer.
    """

    def __init__(self, client: AgentHost, tool: str, file: Path) -> None:
        self._client = client
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            # As the user of ssh: the modem belongs to the system, and a phone to a user.
            argv = ["sh", "-c", SCRIPT, "sh", tool]
            self._process: AgentProcess = client.start(argv, stdout=stream, stderr=subprocess.DEVNULL)

    def end(self) -> Json:
        """End the sampling and return the samples, or nothing without a modem.

        Raises
        ------
        StrangerError
            If the tool printed no text.
        """
        with suppress(WavebedError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(_ENDED_S)
        states = read_states(lines_of(self._file))
        if not states:
            self._file.unlink(missing_ok=True)
            return None
        samples: list[Json] = []
        for state in states:
            time_s = self._client.clock.of_unix_s(state.unix_ns / 1e9)
            offset = self._client.clock_offset(time_s)
            samples.append(
                {
                    "time_s": round(time_s - (0.0 if offset is None else offset.ahead_s), 3),
                    "technology": state.technology,
                    "rsrp_dbm": state.rsrp_dbm,
                    "sinr_db": state.sinr_db,
                    "cell": state.cell,
                    "band": state.band,
                }
            )
        return {"tool": states[0].tool, "samples": samples}
