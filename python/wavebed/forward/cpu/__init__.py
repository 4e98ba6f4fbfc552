"""The device's processor during a trial."""

from wavebed.forward.cpu.model import CpuMeter, CpuUse
from wavebed.forward.cpu.offload import flag_offload
from wavebed.forward.cpu.source import CpuSource, open_meter, parse_source

__all__ = ["CpuMeter", "CpuSource", "CpuUse", "flag_offload", "open_meter", "parse_source"]
