"""Mode ``reference``: the channel of the study kau-e5g, rebuilt from described facts."""

from wavebed.channel.reference.chain import realise_reference
from wavebed.channel.reference.study import study_pattern

__all__ = ["realise_reference", "study_pattern"]
