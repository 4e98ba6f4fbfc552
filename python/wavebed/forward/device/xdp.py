"""A BPF program in the driver."""

from __future__ import annotations

from wavebed.forward.device.program import ProgramDevice

__all__ = ["Xdp"]


class Xdp(ProgramDevice):
    """Forwards before the kernel makes a packet of a frame."""

    name = "xdp"
    summary = "a BPF program in the driver forwards (XDP)"
