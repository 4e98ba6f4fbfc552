"""Hysteria 2, a proxy over QUIC, between two hosts of the path, for comparison; sing-box runs it at both ends."""

from __future__ import annotations

import json
import secrets
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem
from wavebed.config.reader import Reader
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.limits import LIMITS
from wavebed.lab.tools import find
from wavebed.remedy.detour import Detour, End, ends_of, number_to
from wavebed.remedy.model import HOSTS, Remedy
from wavebed.remedy.program import RunningProgram
from wavebed.remedy.two_ended import TwoEnded, file_of, wait_for_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab

__all__ = ["Hysteria", "HysteriaOptions", "client_configuration", "server_configuration"]

_DEVICE = "hysteria"
_ADDRESSES: list[Json] = ["172.19.78.1/30", "fd77:6176:6562:ff00::1/126"]
"""Of its device: link-local ones it refuses."""
_CARRIED = ("ipproto tcp", "ipproto udp")
"""It would answer pings itself."""
_NAME = "wavebed.invalid"
_NOT_KEPT = "(not kept)"


def _read_rate(value: object) -> int:
    rate_bps = values.rate_bps(value)
    if rate_bps % 1_000_000 or not rate_bps:
        raise Problem(f"{value!r} is not in whole Mbit/s, as Hysteria takes rates: write 1mbit or more")
    return rate_bps


_rate = Reader(_read_rate, "RATE", values.RATE_SCHEMA, values.rate_bps.raw)


class HysteriaOptions(Struct, frozen=True, kw_only=True):
    """Its keys."""

    peer: Annotated[
        Literal["server", "edge", "client"], Key(values.word(*HOSTS), "the host at the other end", write="HOST")
    ]
    down_bps: Annotated[
        int | None,
        Key(
            _rate,
            "rate towards the client, which its congestion control Brutal keeps whatever is lost",
            name="down",
            absent="none: BBR, in both directions",
        ),
    ] = None
    up_bps: Annotated[
        int | None,
        Key(_rate, "rate towards the server", name="up", absent="none: BBR, in both directions"),
    ] = None


class Hysteria(Remedy[HysteriaOptions]):
    """TCP and UDP of the far host through QUIC, by its own congestion control."""

    kind = "hysteria"
    summary = (
        "Carries TCP and UDP that begin at the end nearer to the client through QUIC, by Hysteria 2: for"
        " comparison. Servers see the address of the other end; ping is not carried."
    )
    options_type = HysteriaOptions
    programs = ("sing-box", "openssl", "ip")

    @property
    def peer(self) -> str:
        """The host of its other end."""
        return self.options.peer

    def start(self, lab: Lab, host: str, log: Path) -> TwoEnded:
        """Start both ends, and route what leaves the far one for the near one into it."""
        near, far = ends_of(lab, host, self.options.peer)
        port, password = number_to(near.host.name), secrets.token_hex(16)
        running = TwoEnded()
        with running.guarded() as undo:
            with _certificate(log) as (certificate, key):
                to = (self.options, near.address, port, password)
                configurations = {
                    file_of(log, near.host.name, ".json"): server_configuration(*to, certificate, key),
                    file_of(log, far.host.name, ".json"): client_configuration(*to, far.mtu),
                }
                with _files(configurations, password) as files:
                    for end, file in zip((near, far), files, strict=True):
                        running.programs.append(_program(end, file, log))
                    for program in running.programs:
                        program.wait_for_line(lambda line: "sing-box started" in line)
            wait_for_device(running.programs[1], _DEVICE)
            own = f"to {near.address} ipproto udp dport {port}"
            running.divert(Detour(far, near.host.name, own, _CARRIED), _DEVICE)
            undo.pop_all()
        return running


def server_configuration(
    options: HysteriaOptions, address: str, port: int, password: str, certificate: Path, key: Path
) -> Json:
    """Return the configuration of the end nearer to the server."""
    rates = _rates({"up_mbps": options.down_bps, "down_mbps": options.up_bps})
    tls: Json = {"enabled": True, "server_name": _NAME, "certificate_path": str(certificate), "key_path": str(key)}
    inbound: dict[str, Json] = {
        "type": "hysteria2",
        "listen": address,
        "listen_port": port,
        "users": [{"password": password}],
        "tls": tls,
        **(rates or {"ignore_client_bandwidth": True}),
    }
    return {"log": {"level": "info", "timestamp": False}, "inbounds": [inbound], "outbounds": [{"type": "direct"}]}


def client_configuration(options: HysteriaOptions, address: str, port: int, password: str, mtu: int) -> Json:
    """Return the configuration of the end nearer to the client; a certificate that was just made is not checked."""
    device: Json = {
        "type": "tun",
        "interface_name": _DEVICE,
        "address": _ADDRESSES,
        "mtu": mtu,
        "auto_route": False,
        "stack": "system",
    }
    outbound: dict[str, Json] = {
        "type": "hysteria2",
        "server": address,
        "server_port": port,
        "password": password,
        "tls": {"enabled": True, "server_name": _NAME, "insecure": True},
        **_rates({"up_mbps": options.up_bps, "down_mbps": options.down_bps}),
    }
    return {"log": {"level": "info", "timestamp": False}, "inbounds": [device], "outbounds": [outbound]}


def _rates(given: dict[str, int | None]) -> dict[str, Json]:
    return {name: bps // 1_000_000 for name, bps in given.items() if bps is not None}


@contextmanager
def _certificate(log: Path) -> Iterator[tuple[Path, Path]]:
    """Make a certificate and its key for the trial; the files are gone afterwards."""
    certificate, key = log.with_name(f"{log.stem}.pem"), log.with_name(f"{log.stem}.key")
    argv = [find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "2", "-subj", f"/CN={_NAME}", "-out", str(certificate), "-keyout", str(key)]
    try:
        _make(argv)
        yield certificate, key
    finally:
        certificate.unlink(missing_ok=True)
        key.unlink(missing_ok=True)


def _make(argv: Sequence[str]) -> None:
    limit_s = LIMITS.answer_s
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        raise WavebedError(f"hysteria: openssl did not end within {limit_s:g} s") from None
    if done.returncode != 0:
        raise WavebedError(f"hysteria: openssl: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")


@contextmanager
def _files(configurations: dict[Path, Json], password: str) -> Iterator[list[Path]]:
    """Write configurations; the password is not in what is kept."""
    texts = {file: json.dumps(configuration, indent=1) for file, configuration in configurations.items()}
    try:
        for file, text in texts.items():
            file.touch(mode=0o600)
            file.write_text(text)
        yield list(texts)
    finally:
        for file, text in texts.items():
            file.write_text(text.replace(password, _NOT_KEPT))


def _program(end: End, config: Path, log: Path) -> RunningProgram:
    argv = [find("sing-box"), "run", "--disable-color", "--config", str(config)]
    return RunningProgram("hysteria", end.host, argv, file_of(log, end.host.name, ".log"))
