"""A catalogue of public traces: where each set is, how it is fetched and checked, and how it becomes patterns.

``sets.toml`` has the sets. Their data stay with their owners: a user fetches them, and converts them here.
"""

from wavebed.catalogue.conversion import Conversion, ConvertedTrace, convert
from wavebed.catalogue.model import NOT_RECORDED, TraceSet, set_named, trace_sets
from wavebed.catalogue.sources import AS_RECORDED, Member, compared, fetch, members_of

__all__ = [
    "AS_RECORDED", "NOT_RECORDED", "Conversion", "ConvertedTrace", "Member", "TraceSet", "compared", "convert", "fetch",
    "members_of", "set_named", "trace_sets",
]  # fmt: skip
