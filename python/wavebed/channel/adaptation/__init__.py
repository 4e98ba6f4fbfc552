"""Link adaptation: from an SINR to a modulation and coding scheme, a rate and a block error rate."""

from wavebed.channel.adaptation.adapt import Adapted, LoopSettings, adapt
from wavebed.channel.adaptation.bler import block_error_rate, need_db, slope_per_db
from wavebed.channel.adaptation.peak import peak_rate_bps
from wavebed.channel.adaptation.tbs import lte_transport_block_bits, nr_transport_block_bits
from wavebed.channel.adaptation.wifi import wifi_efficiency, wifi_overhead_ns
from wavebed.radio.carriers import resource_blocks

__all__ = [
    "Adapted",
    "LoopSettings",
    "adapt",
    "block_error_rate",
    "lte_transport_block_bits",
    "need_db",
    "nr_transport_block_bits",
    "peak_rate_bps",
    "resource_blocks",
    "slope_per_db",
    "wifi_efficiency",
    "wifi_overhead_ns",
]
